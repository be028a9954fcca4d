"""Builds the programs in Java, Rust and Go with the languages' ordinary clients, in .build/, and only when needed.

The sources are copied first, so that what the clients write (locks, classes) stays out of them. Versions are pinned in
java/pom.xml, a_tree/Cargo.toml and quamina/go.mod.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.files import Skipped

HERE = Path(__file__).parent
BUILT = HERE / ".build"
STAMP = "sources.sha256"


class BuildFailed(Exception):
    """A toolchain is there, but could not build a program; the message has the end of what it said."""


def java(main: str) -> list[str]:
    """Return the command of a program in java/."""
    steps = [["mvn", "-B", "-q", "compile", "dependency:copy-dependencies"]]
    folder = _built("java", ("java", "mvn"), steps)
    classes = f"{folder / 'target' / 'classes'}:{folder / 'target' / 'dependency' / '*'}"
    return ["java", "-Xmx8g", "-XX:+UseSerialGC", "-cp", classes, f"peers.{main}"]


def rust(name: str) -> list[str]:
    """Return the command of the program in a folder with a Cargo.toml."""
    folder = _built(name, ("cargo",), [["cargo", "build", "--release", "--quiet"]])
    return [str(folder / "target" / "release" / f"{name}_peer")]


def go(name: str) -> list[str]:
    """Return the command of the program in a folder with a go.mod."""
    folder = _built(name, ("go",), [["go", "build", "-o", "peer", "."]])
    return [str(folder / "peer")]


def _built(name: str, tools: Sequence[str], steps: Sequence[Sequence[str]]) -> Path:
    """Return the folder in which a program is built; raises Skipped without its tools, BuildFailed."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise Skipped(f"there is no {' and no '.join(missing)} on the path")
    source, folder = HERE / name, BUILT / name
    digest = _digest(source)
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text() == digest:
        return folder
    stamp.unlink(missing_ok=True)
    shutil.copytree(source, folder, dirs_exist_ok=True)
    for step in steps:
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildFailed(f"{' '.join(step)}: {(done.stdout + done.stderr).strip()[-600:]}")
    stamp.write_text(digest)
    return folder


def _digest(source: Path) -> str:
    """Return what changes with a program's sources."""
    total = hashlib.sha256()
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(source)}\0".encode() + path.read_bytes())
    return total.hexdigest()
