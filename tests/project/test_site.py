"""The documentation as a site: it builds without a warning, and its lists are whole."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import tocsin
from tests.project.files import ROOT
from tools import cli_reference

DOCS = ROOT / "docs"


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    reference = (tmp_path / "site" / "reference" / "python" / "index.html").read_text(encoding="utf-8")
    assert "match_frame" in reference
    assert "publish_many" in reference


def test_the_page_of_commands_is_current() -> None:
    assert cli_reference.PAGE.read_text(encoding="utf-8") == cli_reference.page(), "python -m tools.cli_reference"


def test_the_page_of_installing_names_every_extra() -> None:
    from tocsin.plugins import EXTRAS

    named = set(re.findall(r"^\| `(\w+)` \|", (DOCS / "install.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert named == set(EXTRAS)


def test_everything_at_the_top_can_be_imported_and_is_documented() -> None:
    for name in tocsin.__all__:
        found = getattr(tocsin, name)
        assert name == "__version__" or found.__doc__, name
    assert importlib.import_module("tocsin").__all__ == dir(tocsin)
