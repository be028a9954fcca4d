"""Every file that a docstring, a comment or a page names is there."""

from __future__ import annotations

from pathlib import Path

from tests.project.files import ROOT
from tests.project.named_files import missing, words_of


def test_every_file_that_is_named_exists() -> None:
    assert missing(ROOT) == []


def test_docstrings_and_comments_are_read_and_other_texts_are_not(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Of one.py."""\n\nx = "two.py"  # three.py\n\n\ndef f(y: str = "four.py") -> None:\n    """five.py."""\n'
    )
    assert " ".join(words_of(module)) == '"""Of one.py.""" # three.py """five.py."""'
