"""requirements.lock pins everything by hash and names no place to get it from."""

import re

import pytest

from tests.project.files import ROOT, declared_dependencies, normalise

LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==\S+", re.MULTILINE)


def pins() -> list[str]:
    """Return each pinned package with everything that belongs to it, line continuations joined."""
    joined = LOCK.replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


@pytest.mark.parametrize(
    "address", ["://", "--index", "--extra-index", "--find-links", "--trusted-host", " @ ", "file:"]
)
def test_lock_holds_no_address(address: str) -> None:
    assert address not in LOCK


def test_every_line_pins_one_version_with_hashes() -> None:
    assert pins()
    for line in pins():
        assert PIN.match(line), line
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line


@pytest.mark.parametrize("name", declared_dependencies())
def test_declared_dependency_is_pinned(name: str) -> None:
    assert name in {normalise(found) for found in PIN.findall(LOCK)}, "run: make lock"
