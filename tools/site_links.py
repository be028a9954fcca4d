"""A hook of MkDocs: links from docs/ to other files of the repository, which are no pages, become their names."""

import re
from typing import Any

OUTSIDE = re.compile(
    r"\[(?P<words>[^\]]*)\]\((?:\.\./)+(?P<path>(?:src|benchmarks|lab|examples|tests|tools|README|[A-Z]+\.md)[^)]*)\)"
)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the page with links out of docs/ written out; from docs/decisions a `../` stays within docs/."""
    if page.file.src_uri.count("/"):
        return markdown
    return OUTSIDE.sub(lambda found: f"{found['words']} (`{found['path']}` in the repository)", markdown)
