"""The service's page names every setting, and the tutorial does what it says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.project.files import ROOT
from tocsin.service.settings import ServiceSettings

SERVE = "from tocsin.cli import main; main()"


def test_every_setting_is_on_the_page() -> None:
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `TOCSIN_([A-Z_]+)` \|", page, re.MULTILINE))
    assert named == {name.upper() for name in ServiceSettings.__struct_fields__}


def test_the_tutorial_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    command = [sys.executable, "-c", SERVE, "serve", "--store", str(tmp_path / "auction.db"), "--port", "0"]
    environment = {**os.environ, "TOCSIN_ENGINE": "definition"}  # compiling the other would be most of the test
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        try:
            assert server.stdout is not None
            token = server.stdout.readline().removeprefix("admin token: ").strip()
            url = server.stdout.readline().removeprefix("Tocsin serves ").strip()
            head = f"URL, ADMIN_TOKEN = {url!r}, {token!r}\n"
            done = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert "did you mean price" in done.stdout
            assert done.stdout.splitlines()[-1] == "lamp-3"
        finally:
            server.terminate()
            assert server.wait(30) in (0, -signal.SIGTERM)  # an orderly end, and then the signal's own
