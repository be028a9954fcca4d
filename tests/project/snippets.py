"""Snippets of pages: what is fenced on them, how it is run, and what is not run for what reason.

    ```python     a program, all of a page together; a block without a language behind it is what it prints
    ```sh         commands, which end well; one shell a page, in a folder of its own
    ```console    commands behind `$ `, and what they print
    ```tocsin     subscriptions, a line each, indented lines go on; they are parsed
    ```text       pictures, and what something looks like: nothing that could be run
    ```toml       a file, where it begins with `# its name`

A comment in HTML before a block, which readers do not see, says otherwise: `<!-- not run: the reason -->`. A comment that
begins with `before` has commands that prepare what the page's commands find: files, mostly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.project.files import ROOT

_PART = re.compile(
    r"^```(?P<language>[\w-]*)\n(?P<content>.*?)^```$|^<!-- not run: (?P<reason>.+?) -->$|^<!-- before\n(?P<before>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A fenced block of a page, or what a comment has to prepare (`before`)."""

    page: str
    line: int
    language: str
    content: str
    not_run: str = ""
    printed: bool = False  # it is what the Python before it prints

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name of the file that it is."""
        named = re.match(r"# (\S+\.\w+)\n", self.content)
        return named[1] if named and self.language in ("toml", "csv", "jsonl") else None

    @property
    def file_content(self) -> str:
        """What is in the file; where its format has no comments, without its name."""
        return self.content if self.language == "toml" else self.content.partition("\n")[2]


def pages() -> list[str]:
    """Return the pages that readers have: not the decisions, nor what the lab wrote."""
    docs = ROOT / "docs"
    found = [*docs.glob("*.md"), *(docs / "howto").glob("*.md"), *(docs / "cookbook").glob("*.md"), *(docs / "reference").glob("*.md")]  # fmt: skip
    return ["README.md", "CONTRIBUTING.md", "SECURITY.md", *sorted(str(path.relative_to(ROOT)) for path in found)]


def snippets(page: str, text: str | None = None) -> list[Snippet]:
    """Return the snippets of a page, in their order."""
    text = Path(ROOT / page).read_text(encoding="utf-8") if text is None else text
    found: list[Snippet] = []
    reason, reason_end, last = "", 0, ""
    for part in _PART.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        if part["reason"]:
            reason, reason_end = part["reason"], part.end()
            continue
        if part["before"] is not None:
            found.append(Snippet(page, line, "before", part["before"]))
            continue
        alone = not text[reason_end : part.start()].strip()
        printed = not part["language"] and last == "python"
        found.append(Snippet(page, line, part["language"], part["content"], reason if alone else "", printed))
        last = part["language"]
    return found


def program_of(page: str) -> tuple[str, str]:
    """Return the Python of a page as one program, and what the page says that it prints."""
    found = [one for one in snippets(page) if not one.not_run]
    code = "\n".join(one.content for one in found if one.language == "python")
    return code, "".join(one.content for one in found if one.printed)
