"""Prepare .venv exactly as requirements.lock says, and do nothing if that is already so.

    python tools/venv.py [FOLDER LOCK]      another environment, from another lock

Run by the Makefile with any Python, also one that is too old: then it says so. Hence no syntax newer than 3.6.
Two keys are kept in the environment: the lock's (with the Python), whose change builds it anew, and that of the
pyproject.toml files, whose change only reinstalls Tocsin's own distributions.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / (sys.argv[1] if len(sys.argv) > 2 else ".venv")
LOCK = ROOT / (sys.argv[2] if len(sys.argv) > 2 else "requirements.lock")
DISTRIBUTIONS = (ROOT, ROOT / "lab", ROOT / "examples")

TOO_OLD = """\
Tocsin needs Python {oldest} or newer; {python} is {version}.
{hint}
"""
GET_PYTHON = """\
  Debian, Ubuntu:  sudo apt install python3 python3-venv
  Fedora:          sudo dnf install python3
  macOS:           brew install python
then:  make PYTHON=/path/to/python3.x ..."""
NO_VENV = """\
This Python cannot make virtual environments (module venv or ensurepip is missing).
  Debian, Ubuntu:  sudo apt install python3-venv
"""
NO_INSTALL = """\
Installing the pinned packages failed; pip's own message is above.
  No network or a proxy?   set PIP_INDEX_URL or HTTPS_PROXY as your site needs, then run make again.
  A hash that differs?     someone changed a package or the lock: do not work around it, find out why.
  No wheel for this Python {version} on this platform?   try another one: make PYTHON=python3.12 ...
"""


def main() -> None:
    """Bring .venv in line with the lock, one process at a time."""
    refuse_old_python()
    VENV.parent.mkdir(exist_ok=True)
    with VENV.with_name(f"{VENV.name}.lock").open("w") as lock:
        hold(lock)
        refresh()


def refuse_old_python() -> None:
    """Stop with a hint if this Python is older than Tocsin supports."""
    if sys.version_info[:2] >= OLDEST:
        return
    names = [f"python3.{minor}" for minor in range(20, OLDEST[1] - 1, -1)]
    found = [name for name in names if runs(name)]
    hint = f"But {found[0]} is here. Use it:  make PYTHON={found[0]} ..." if found else GET_PYTHON
    sys.exit(
        TOO_OLD.format(
            oldest=".".join(map(str, OLDEST)),
            python=sys.executable,
            version=".".join(map(str, sys.version_info[:3])),
            hint=hint,
        )
    )


def runs(name: str) -> bool:
    """Whether a Python of this name is here and starts; a version manager's stand-in may not."""
    return bool(shutil.which(name)) and not subprocess.call([name, "-c", ""], stderr=subprocess.DEVNULL)


def hold(lock: IO[str]) -> None:
    """Wait until no other make is preparing the same environment."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(lock, fcntl.LOCK_EX)


def refresh() -> None:
    """Build or update .venv where a key differs."""
    lock = f"{sys.version} {sys.base_prefix}".encode() + LOCK.read_bytes()
    if not fresh("lock", lock):
        build()
        keep("lock", lock)
    if not fresh("project", projects()):
        for folder in DISTRIBUTIONS:
            pip("install", "--quiet", "--no-build-isolation", "--no-deps", "--editable", str(folder))
        keep("project", projects())
    key = kernels()
    if not fresh("kernels", key):
        print("Compiling the engine's kernels (once after they change; takes a minute) ...", flush=True)
        subprocess.run([str(VENV / "bin" / "python"), "-m", "tocsin.matching.warm"], check=True)
        keep("kernels", key)


def projects() -> bytes:
    """The files that say what Tocsin's distributions are: their entry points, among others."""
    return b"".join((folder / "pyproject.toml").read_bytes() for folder in DISTRIBUTIONS)


def kernels() -> bytes:
    """The key of the compiled kernels: what they are cached by."""
    command = [str(VENV / "bin" / "python"), "-m", "tocsin.index.kernel_cache"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def build() -> None:
    """Make .venv anew and install every pinned package, each checked by its hash."""
    print(f"Setting up {VENV.name} from {LOCK.name} (once; takes a minute or two) ...", flush=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    except subprocess.CalledProcessError:
        sys.exit(NO_VENV)
    pip("install", "--quiet", "--require-hashes", "--requirement", str(LOCK))


def pip(*arguments: str) -> None:
    """Run the environment's pip, or stop with what may be wrong."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    environment = dict(os.environ, PIP_REQUIRE_VIRTUALENV="1")
    if subprocess.run(command + list(arguments), env=environment).returncode:  # noqa: PLW1510
        sys.exit(NO_INSTALL.format(version=".".join(map(str, sys.version_info[:2]))))


def fresh(name: str, content: bytes) -> bool:
    """Whether .venv was made from this content."""
    stamp = VENV / f".stamp-{name}"
    return stamp.exists() and stamp.read_text() == hashlib.sha256(content).hexdigest()


def keep(name: str, content: bytes) -> None:
    """Remember that .venv is made from this content."""
    (VENV / f".stamp-{name}").write_text(hashlib.sha256(content).hexdigest())


if __name__ == "__main__":
    main()
