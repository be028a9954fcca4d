"""Every snippet of the documentation is run, or says why it is not (snippets.py)."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.files import ROOT
from tests.project.snippets import Snippet, pages, program_of, snippets
from tests.service.live import serving
from tocsin.language import parse
from tocsin.schema.examples import load_example

# Pages that a test of their own runs, because it asks more of them.
ELSEWHERE = {
    "README.md": {"python"},  # tests/project/test_readme.py
    "docs/language.md": {
        "example",
        "loose",
        "refused",
        "json-form",
        "python-form",
        "text-form",
        "bulk-form",
        "toml",
    },  # tests/language/test_language_doc.py
    "docs/tutorial.md": {"python"},  # tests/service/test_docs.py
    "docs/xml.md": {"python", "xml"},  # tests/xml/test_xml_doc.py
    "docs/spark.md": {"python"},  # tests/pipeline/test_tutorial.py
}
NEEDS_SERVICE = {"docs/howto/client.md"}
SLOW = {"docs/cookbook/spark.md"}
PYTHON = [
    page for page in pages()
    if any(one.language == "python" and not one.not_run for one in snippets(page)) and "python" not in ELSEWHERE.get(page, ())
]  # fmt: skip
SHELL = [
    page for page in pages() if any(one.language in ("sh", "console") and not one.not_run for one in snippets(page))
]
PASSWORD = "correct horse battery"  # noqa: S105 - of an account that lives for a test
# What somebody at a terminal does beside typing: leave the service running, type the password, stop listening.
TYPED = f"""
set -e
tocsin() {{
    case "$1" in
        serve) command tocsin "$@" > "$HOME/serve.out" 2> "$HOME/serve.log" & echo $! > "$HOME/serve.pid"
            for _ in $(seq 600); do curl -sf "$TOCSIN_URL/readyz" > /dev/null && return; sleep 0.1; done; return 1;;
        login) echo {shlex.quote(PASSWORD)} | command tocsin "$@" --password-stdin;;
        listen) command tocsin "$@" --count 1;;
        *) command tocsin "$@";;
    esac
}}
"""


def test_every_snippet_is_run_or_says_why_not() -> None:
    left = []
    for page in pages():
        for one in snippets(page):
            run = one.language in ("before", "python", "sh", "console", "tocsin", "text") or one.printed or one.file
            if not (run or one.not_run or one.language in ELSEWHERE.get(page, ())):
                left.append(f"{one.place}: a block of {one.language or 'no language'}")
    assert left == [], "give it one of the languages of snippets.py, or a comment before it: <!-- not run: why -->"


def test_pictures_are_no_commands() -> None:
    commands = re.compile(r"^\$ |^(tocsin|pip|make|docker|python) ", re.MULTILINE)
    assert [one.place for page in pages() for one in snippets(page) if one.language == "text" and commands.search(one.content)] == []  # fmt: skip


def test_what_is_not_run_is_said_in_a_comment_right_before_it() -> None:
    text = "<!-- not run: no network -->\n\n```\npip install x\n```\n\n```\npip install y\n```\n"
    assert [one.not_run for one in snippets("a page", text)] == ["no network", ""]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] if page in SLOW else []) for page in PYTHON]
)
def test_the_programs_of_a_page_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    if page in SLOW and not os.environ.get("TOCSIN_SLOW"):
        pytest.skip("slow: set TOCSIN_SLOW=1 to run it")
    code, printed = program_of(page)
    with contextlib.ExitStack() as stack:
        if page in NEEDS_SERVICE:
            live = stack.enter_context(serving(tmp_path, schema=load_example("auction")))
            code = f"URL = {live.url!r}\n{code}"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=200
        )
        assert (done.returncode, done.stdout) == (0, printed), done.stderr[-3000:]


@pytest.mark.parametrize("page", SHELL)
def test_the_commands_of_a_page_end_well_and_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    script, expected = script_of(page, tmp_path)
    with own_service(page, tmp_path) as environment:
        done = subprocess.run(
            ["bash", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
            timeout=280,
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    for name, printed in expected.items():
        assert (tmp_path / name).read_text(encoding="utf-8") == printed


def script_of(page: str, folder: Path) -> tuple[str, dict[str, str]]:
    """Write the files of a page; return its commands as one script, and what is to be in which file in the end."""
    parts = [TYPED]
    expected: dict[str, str] = {}
    for one in snippets(page):
        if one.not_run:
            continue
        if one.file:
            (folder / one.file).write_text(one.file_content, encoding="utf-8")
        elif one.language in ("sh", "before"):
            parts.append(one.content)
        elif one.language == "console":
            for command, printed in _exchanges(one):
                name = f"printed-{len(expected)}"
                parts.append(f"{{ {command}\n}} > {name} 2>&1")
                expected[name] = printed
    return "\n".join(parts), expected


def _exchanges(one: Snippet) -> Iterator[tuple[str, str]]:
    """Yield each command and what it prints."""
    for said in re.split(r"^\$ ", one.content, flags=re.MULTILINE)[1:]:
        command, _, printed = said.partition("\n")
        yield command, printed


@contextlib.contextmanager
def own_service(page: str, folder: Path) -> Iterator[dict[str, str]]:
    """Give the environment of a reader's terminal, with a service where the page does not start one itself."""
    starts = any(
        "tocsin serve" in one.content for one in snippets(page) if one.language in ("sh", "before") and not one.not_run
    )
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / ".config"), "TOCSIN_ENGINE": "definition", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    if starts:
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        environment |= {"TOCSIN_PORT": str(port), "TOCSIN_URL": f"http://127.0.0.1:{port}"}
        try:
            yield environment
        finally:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                os.kill(int((folder / "serve.pid").read_text()), signal.SIGTERM)
        return
    (folder / "service").mkdir()
    with serving(folder / "service", schema=load_example("auction")) as live:
        yield {**environment, "TOCSIN_URL": live.url}


@pytest.mark.parametrize("page", [page for page in pages() if any(one.language == "tocsin" for one in snippets(page))])
def test_subscriptions_of_a_page_can_be_parsed(page: str) -> None:
    for one in snippets(page):
        if one.language == "tocsin":
            for text in re.split(r"\n(?! )", one.content.strip()):
                parse(text)
