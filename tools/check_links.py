"""Check the relative links of README.md and docs/: the file exists, and so does the heading.

Run by `make docs` and by tests/project/test_docs_links.py. Links to other sites are not followed.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+).+?\1", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def pages(root: Path) -> list[Path]:
    """Return the Markdown pages of the project, sorted."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def links(text: str) -> Iterator[str]:
    """Yield the targets of all links outside code."""
    for match in LINK.finditer(CODE.sub("", FENCE.sub("", text))):
        yield match[1] or match[2]


def anchors(text: str) -> set[str]:
    """Return the names by which the page's headings can be linked to, as GitHub makes them."""
    names: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        name, repeated = slug, 0
        while name in names:
            repeated += 1
            name = f"{slug}-{repeated}"
        names.add(name)
    return names


def broken_links(root: Path = ROOT) -> list[str]:
    """Return one line for each relative link that leads nowhere."""
    found = []
    for page in pages(root):
        for target in links(page.read_text(encoding="utf-8")):
            if ELSEWHERE.match(target):
                continue
            path, _, anchor = unquote(target).partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.is_relative_to(root) or not file.exists():
                found.append(f"{page.relative_to(root)}: {target}: no such file")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
                found.append(f"{page.relative_to(root)}: {target}: no such heading")
    return found


def main() -> None:
    """Print the broken links and fail if there are any."""
    broken = broken_links()
    if broken:
        sys.exit("\n".join(broken))
    print(f"All relative links of {len(pages(ROOT))} pages lead somewhere.")
    print(f"Start at {ROOT / 'README.md'}; everything else is in {ROOT / 'docs'}.")


if __name__ == "__main__":
    main()
