"""The kernels mean the same compiled and as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib

from tests.matching.columnar.interpreted import run_kernels


def test_kernels_answer_as_the_same_code_does_uncompiled() -> None:
    """Numba's arithmetic is not quite Python's: unsigned and signed mix otherwise, and no index is checked."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore:overflow encountered:RuntimeWarning", "-m", "tests.matching.columnar.interpreted"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == zlib.crc32(repr(run_kernels()).encode())
