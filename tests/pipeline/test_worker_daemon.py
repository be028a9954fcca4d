"""The daemon that workers are forked from: it has the engine loaded, and neither threads nor Arrow."""

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

CODE = """
import os, sys
from tocsin.pipeline.worker_daemon import load_kernels
assert load_kernels() == 3
assert "pyarrow" not in sys.modules
assert len(os.listdir("/proc/self/task")) == 1, "a thread does not survive a fork"
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
def test_the_daemon_can_be_forked() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
