"""An event's way from HTTP to a reader is short: few enough modules to read in an afternoon."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_an_event_over_http_passes_at_most_35_modules() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tools.walks", "--only", "event", "--files"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = re.search(r"^event +(\d+) modules", ran.stdout, re.MULTILINE)
    assert found is not None, ran.stdout
    assert 10 < int(found[1]) <= 35, ran.stdout
    assert "service/routes/events.py" in ran.stdout
    assert "store/events.py" in ran.stdout
