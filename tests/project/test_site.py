"""The documentation as a site: it builds without a warning, its pages' snippets do what the pages say, its lists are whole."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tocsin
from tests.project.files import ROOT
from tests.service.live import serving
from tocsin.schema.examples import load_example
from tools import cli_reference

DOCS = ROOT / "docs"
NEEDS_SERVICE = {"howto/client.md"}
SLOW = {"cookbook/spark.md"}
PAGES = [
    "index.md",
    *sorted(str(path.relative_to(DOCS)) for room in ("howto", "cookbook") for path in (DOCS / room).glob("*.md")),
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def program_of(text: str) -> tuple[str, str]:
    """Return the Python of a page as one program, and what the page says that it prints.

    A block without a language right behind one of Python is what has been printed since the last such block.
    """
    code, printed, last = [], [], ""
    for language, content in BLOCK.findall(text):
        if language == "python":
            code.append(content)
        elif not language and last == "python":
            printed.append(content)
        last = language
    return "\n".join(code), "".join(printed)


def run(code: str, folder: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=200,
    )
    return done.returncode, done.stdout, done.stderr[-3000:]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in PAGES]
)
def test_the_snippets_of_a_page_print_what_the_page_says(name: str, tmp_path: Path) -> None:
    if name in SLOW and not os.environ.get("TOCSIN_SLOW"):
        pytest.skip("slow: set TOCSIN_SLOW=1 to run it")
    code, printed = program_of((DOCS / name).read_text(encoding="utf-8"))
    with contextlib.ExitStack() as stack:
        if name in NEEDS_SERVICE:
            live = stack.enter_context(serving(tmp_path, schema=load_example("auction")))
            code = f"URL = {live.url!r}\n{code}"
        done, output, errors = run(code, tmp_path)
        assert (done, output) == (0, printed), errors


def test_the_commands_of_pages_print_what_the_pages_say(tmp_path: Path) -> None:
    ran = 0
    for name in PAGES:
        for language, content in BLOCK.findall((DOCS / name).read_text(encoding="utf-8")):
            if language == "toml" and (file := re.match(r"# (\S+\.toml)\n", content)):
                (tmp_path / file[1]).write_text(content)
            if language == "console":
                command, printed = content.removeprefix("$ tocsin ").split("\n", 1)
                done = subprocess.run(
                    [sys.executable, "-m", "tocsin", *command.split()],
                    capture_output=True, text=True, check=False, cwd=tmp_path,
                )  # fmt: skip
                assert (done.returncode, done.stdout) == (0, printed), done.stderr
                ran += 1
    assert ran


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
