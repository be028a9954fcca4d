"""Sites: what accounts publish as, and the versions of the mappings that translate their documents."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from tocsin.documents import Instant, RequestDocument, ResponseDocument

SiteName = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f/]+$")]
Contact = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
HomePage = Annotated[str, Meta(max_length=1000, pattern=r"^(https?://[^\s\x00-\x1f\x7f]+)?$")]
Words = Annotated[str, Meta(max_length=500)]


class SiteRequest(RequestDocument, frozen=True):
    """Make a site."""

    name: SiteName
    contact: Contact = ""
    home_page: HomePage = ""


class SiteChange(RequestDocument, frozen=True):
    """What its owner changes of a site."""

    contact: Contact | None = None
    home_page: HomePage | None = None


class SiteView(ResponseDocument, frozen=True):
    """A site; `mapping` is the newest version of its mapping, None where it has none."""

    name: str
    owner: str
    contact: str
    home_page: str
    created: Instant
    mapping: int | None = None


class SitePage(ResponseDocument, frozen=True):
    """Some sites by name; `cursor` leads to the next, None at the end."""

    items: list[SiteView]
    cursor: str | None


class NewMapping(RequestDocument, frozen=True):
    """A mapping to store as the next version of a site's; its own site and version are set."""

    mapping: dict[str, Any]
    words: Words = ""  # why


class MappingView(ResponseDocument, frozen=True):
    """One version of a site's mapping; who stored it, when and why."""

    site: str
    version: int
    who: str
    words: str
    at: Instant
    mapping: dict[str, Any]


class MappingList(ResponseDocument, frozen=True):
    """All versions of a site's mapping, oldest first."""

    items: list[MappingView]
