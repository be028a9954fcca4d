"""docs/xml.md: its programs run, and every request, code, role and bound is in it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from lxml import etree

from tests.xml.thesis import reply_of
from tocsin.xml.daemon import DaemonLimits
from tocsin.xml.replies import _KINDS, RIGHTS_OF, XmlReply
from tocsin.xml.requests import DTD_FILES

DOC = (Path(__file__).parents[2] / "docs" / "xml.md").read_text(encoding="utf-8")


def _blocks(tag: str) -> list[str]:
    return re.findall(rf"^```{tag}\n(.*?)^```$", DOC, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("at", "printed"), [(0, "mini 900"), (1, "<IESCHEMA>")])
def test_a_program_runs(tmp_path: Path, at: int, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _blocks("python")[at]], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout


def test_the_replies_that_are_shown_are_replies() -> None:
    shown = _blocks("xml")
    assert len(shown) == 2
    for text in shown:
        root = etree.fromstring(text.encode())
        reply_of(XmlReply(200 if root.get("status") == "ok" else 422, text.encode()))


def test_nothing_goes_unmentioned() -> None:
    words = {*DTD_FILES, *DTD_FILES.values(), *RIGHTS_OF, *(code for _, _, code in _KINDS)}
    words |= {field.name for field in fields(DaemonLimits)}
    assert [word for word in sorted(words) if f"`{word}`" not in DOC] == []
