"""The documentation's links lead somewhere."""

from pathlib import Path

from tests.project.files import ROOT
from tools.check_links import broken_links


def test_every_relative_link_leads_somewhere() -> None:
    assert broken_links() == []


def test_missing_file_and_missing_heading_are_reported(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "# One `two`, three\n"
        "[here](#one-two-three) [gone](docs/gone.md) [lost](#lost) [out](https://example.org/x)\n"
        "`[code](nowhere.md)`\n```\n[fenced](nowhere.md)\n```\n"
    )
    assert broken_links(tmp_path) == [
        "README.md: docs/gone.md: no such file",
        "README.md: #lost: no such heading",
    ]


def test_every_decision_has_a_number_of_its_own() -> None:
    numbers = sorted(path.name[:4] for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert numbers == sorted(set(numbers))
