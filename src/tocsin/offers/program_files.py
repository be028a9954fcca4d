"""Programs as documents: one form, in the operator's TOML or JSON file and in requests.

    [programs.auto_price]
    version = 1
    parameters = { age = "int", years_ncd = "int" }
    returns = "float"
    expression = "case when years_ncd > 7 then 900 else 1200 end"

In place of `expression` a file may have `callable = "package.module:function"`, with `pure` and `time_limit_seconds`, or
`url = "https://pricing.example/auto"`: a pricing engine elsewhere, which is asked about many subscribers at once.

    POST    {"program": "auto_price", "version": 1, "rows": [{"age": 42, "years_ncd": 8}, …]}
    200     {"results": [900, null, {"error": "no tariff for this age"}, …]}

Domains are int, float, decimal, text, boolean and time, and those of the schema where there is one.
"""

from __future__ import annotations

import importlib
import logging
import threading
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tocsin import plugins
from tocsin.errors import FileError, FormulaFailed, TocsinError
from tocsin.language.formula import BOOLEAN, DECIMAL, FLOAT, INT, TEXT, TIME
from tocsin.offers.programs import Program, Programs
from tocsin.schema import Domain, Schema

log = logging.getLogger("tocsin.programs")
DOMAINS: dict[str, Domain] = {one.name: one for one in (INT, FLOAT, DECIMAL, TEXT, BOOLEAN, TIME)}


class _Entry(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    version: int
    parameters: dict[str, str]
    returns: str
    expression: str | None = None
    callable: str | None = None
    url: str | None = None
    pure: bool = True
    time_limit_seconds: float = 1.0


class _File(msgspec.Struct, forbid_unknown_fields=True):
    programs: dict[str, _Entry]


def programs_from(document: object, schema: Schema | None = None) -> list[Program]:
    """Return the programs of a document, `{"programs": {name: {…}}}`; raises TocsinError, saying what is wrong."""
    try:
        entries = msgspec.convert(document, _File).programs
    except msgspec.ValidationError as error:
        raise TocsinError(f"not programs: {error}") from None
    domains = DOMAINS | (dict(schema.domains) if schema is not None else {})
    return [_program(name, entry, domains) for name, entry in entries.items()]


def open_programs(given: Programs | str | Path | None, schema: Schema | None = None) -> Programs:
    """Return the programs that are given or that a file has (.toml, .json); none is none. Raises FileError."""
    if given is None:
        return Programs()
    if isinstance(given, Programs):
        return given
    try:
        text = Path(given).read_text(encoding="utf-8")
        document = msgspec.json.decode(text) if Path(given).suffix == ".json" else tomllib.loads(text)
        return Programs(programs_from(document, schema))
    except OSError as error:
        raise FileError(str(given), str(error.strerror or error)) from None
    except (tomllib.TOMLDecodeError, msgspec.DecodeError, UnicodeDecodeError, TocsinError) as error:
        raise FileError(str(given), str(error)) from None


class ProgramsFile:
    """The programs of a file that may be written anew while they are used, by brokers and by the pipeline's workers.

    What the file says counts: another version of a program takes the old one's place, and the cache lets go of the old
    one's results; one that is not there any more is removed. A file that cannot be read, because it is half written,
    leaves things as they were. Python reads a module once, so a callable's new version is a function of another name.
    """

    def __init__(self, path: str | Path | None, schema: Schema | None = None) -> None:
        """Read the file; None has no programs, for ever. Raises FileError."""
        self._lock = threading.Lock()
        self._schema = schema
        self._path = None if path is None else Path(path)
        self._stamp = self._stamp_now()
        self.programs = open_programs(path, schema)

    def follow(self) -> None:
        """Look at the file, and take up what is new. Safe to ask from any thread."""
        with self._lock:
            stamp = self._stamp_now()
            if stamp is not None and stamp != self._stamp:
                self._stamp = stamp
                self._take_up()

    def _take_up(self) -> None:
        try:
            found = {program.name: program for program in open_programs(self._path, self._schema)}
        except FileError as error:
            log.warning("the programs stay as they were: %s", error)
            return
        for known in list(self.programs):
            new = found.pop(known.name, None)
            if new is None:
                self.programs.remove(known.name)
            elif new.version != known.version:
                self.programs.replace(new)
            elif new.signature != known.signature:
                log.warning("program %s has changed, but not its version %d: the old one stays", new.name, new.version)
        for new in found.values():
            self.programs.register(new)

    def _stamp_now(self) -> tuple[int, int, int] | None:
        """Return what changes when the file does; None where there is none to look at."""
        if self._path is None:
            return None
        try:
            facts = self._path.stat()
        except OSError:
            return None
        return facts.st_mtime_ns, facts.st_size, facts.st_ino


def _program(name: str, entry: _Entry, domains: Mapping[str, Domain]) -> Program:
    for each in (*entry.parameters.values(), entry.returns):
        if each not in domains:
            raise TocsinError(f"program {name!r}: there is no domain {each!r}; there are {', '.join(domains)}")
    parameters = {parameter: domains[domain] for parameter, domain in entry.parameters.items()}
    if entry.callable is not None and entry.url is not None:
        raise TocsinError(f"program {name!r} has a callable or a url, and not both")
    found = None if entry.callable is None else _callable(name, entry.callable)
    if entry.url is not None:
        found = remote_program(name, entry.version, entry.url, tuple(parameters))
    return Program(
        name, entry.version, parameters, domains[entry.returns], entry.expression, found,
        entry.pure, entry.time_limit_seconds, ROWS_AT_ONCE if entry.url is not None else 0,
    )  # fmt: skip


# --- elsewhere --------------------------------------------------------------------------------------------------------

ROWS_AT_ONCE = 500  # in a request
MOST_BYTES = 1 << 20  # of an answer


class _Answer(msgspec.Struct):
    results: list[Any]


@cache
def remote_program(name: str, version: int, url: str, parameters: tuple[str, ...]) -> Callable[..., Any]:
    """Return the coroutine function that asks a pricing engine by HTTP; raises TocsinError. Redirects are not followed."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise TocsinError(f"program {name!r}: the url begins with http:// or https:// and a host, not {url!r}")
    plugins.require("client")
    import httpx

    async def ask(rows: list[tuple[Any, ...]]) -> list[Any]:
        asked = [dict(zip(parameters, row, strict=True)) for row in rows]
        body = msgspec.json.encode({"program": name, "version": version, "rows": asked})
        try:
            async with (
                httpx.AsyncClient(trust_env=False, timeout=None) as client,  # noqa: S113 - the call has a deadline
                client.stream("POST", url, content=body, headers={"Content-Type": "application/json"}) as answer,
            ):
                if answer.status_code != 200:
                    raise ConnectionError(f"it answered {answer.status_code}")
                told = bytearray()
                async for piece in answer.aiter_bytes():
                    told += piece
                    if len(told) > MOST_BYTES:
                        raise ValueError(f"its answer has more than {MOST_BYTES:,} bytes")
        except httpx.HTTPError as error:
            raise ConnectionError(str(error) or type(error).__name__) from None
        results = msgspec.json.decode(told, type=_Answer).results
        return [
            FormulaFailed(f"{name}: {one['error']}") if isinstance(one, dict) and "error" in one else one
            for one in results
        ]

    return ask


def _callable(program: str, reference: str) -> Callable[..., Any]:
    module, colon, name = reference.partition(":")
    try:
        if not colon:
            raise ValueError("write package.module:function")
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise TocsinError(f"program {program!r}: {reference!r} does not lead to a function: {error}") from None
    if not callable(found):
        raise TocsinError(f"program {program!r}: {reference!r} cannot be called")
    return found  # type: ignore[no-any-return]


def program_view(program: Program) -> Mapping[str, Any]:
    """Return what everybody may know of a program."""
    return {
        "name": program.name,
        "version": program.version,
        "parameters": {name: domain.name for name, domain in program.parameters.items()},
        "returns": program.returns.name,
        "expression": program.expression,
        "pure": program.pure,
        "time_limit_seconds": program.time_limit_seconds,
    }
