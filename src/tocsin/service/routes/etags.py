"""Entity tags: "7" stands for generation or version 7 of a thing."""

from __future__ import annotations

from tocsin.service.refusals import BadRequest


def etag(number: int) -> str:
    """Return the tag of a version."""
    return f'"{number}"'


def expected(if_match: str | None) -> int | None:
    """Return the version that If-Match asks for; None where any will do. Raises BadRequest."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest('If-Match: send the ETag as it came, such as "3"')
    return int(text)
