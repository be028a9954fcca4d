"""Lookups: an operator that asks a database, or a web service, about the event.

blacklisted = table_operator("blacklisted", "cars.db", "select reason from cars where plate = :plate",
reads=["plate"], outputs={"reason": str})
weather = http_operator("weather", "https://weather.example/at?city={city}", hosts=["weather.example"],
inputs=["city"], outputs={"sky": str})
"""

from __future__ import annotations

import json
import sqlite3
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tocsin.errors import BadDefinition
from tocsin.language.formula import TEXT
from tocsin.operators.operator import Operator, Parameter, operator
from tocsin.schema import Event

MAX_ANSWER = 1_000_000  # bytes


def table_operator(
    name: str,
    database: str | Callable[[], Any],
    query: str,
    *,
    reads: Sequence[str] = (),
    inputs: Sequence[str] = (),
    outputs: Mapping[str, Any] | None = None,
    cost: float = 0.001,
    timeout: float = 5.0,
) -> Operator:
    """Return the operator that a query is, its parameters bound by name: attributes of the event, and inputs (texts).

    `database` is a SQLite file, opened for reading only, or a function that returns a connection (DB-API 2). Without
    outputs the operator holds where the query has a row; with outputs, they are its columns. An attribute that the
    event does not bind is null; one with several values gives the first.
    """
    connections = threading.local()

    def connection() -> Any:
        if not hasattr(connections, "own"):
            connections.own = _read_only(database) if isinstance(database, str) else database()
        return connections.own

    def look_up(event: Event, *given: object) -> object:
        bound = {attribute: next(iter(event.values.get(attribute, ())), None) for attribute in reads}
        cursor = connection().execute(query, {**bound, **dict(zip(inputs, given, strict=True))})
        try:
            rows = cursor.fetchmany(1_001)
        finally:
            cursor.close()
        if not outputs:
            return bool(rows)
        return [tuple(row) for row in rows if None not in tuple(row)]

    look_up.__doc__ = f"What the database says: {query}"
    return _with_text_inputs(name, look_up, inputs, reads, outputs, cost=cost, timeout=timeout, pure=True)


def _read_only(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=ro", uri=True)


def http_operator(
    name: str,
    url: str,
    *,
    hosts: Sequence[str],
    reads: Sequence[str] = (),
    inputs: Sequence[str] = (),
    outputs: Mapping[str, Any] | None = None,
    cost: float = 0.1,
    timeout: float = 5.0,
) -> Operator:
    """Return the operator that asks a web service, by GET, only at the allowed hosts; redirects are not followed.

    `{name}` in the URL stands for an attribute of the event or an input (a text). The service answers with JSON: true
    or false without outputs, otherwise an object, or a list of objects, with the outputs as fields. It is not pure:
    what it says may change, so it does not run on Spark.
    """
    _check_url(name, url, hosts)

    def ask(event: Event, *given: object) -> object:
        known = {attribute: next(iter(event.values.get(attribute, ())), "") for attribute in reads}
        values = {**known, **dict(zip(inputs, given, strict=True))}
        filled = url.format_map({key: urllib.parse.quote(str(value), safe="") for key, value in values.items()})
        answer = _get_json(filled, timeout)
        if not outputs:
            return answer
        listed = answer if isinstance(answer, list) else [] if answer is None else [answer]
        return [tuple(each[output] for output in outputs) for each in listed]

    ask.__doc__ = f"What the service at {urllib.parse.urlsplit(url).netloc} says."
    return _with_text_inputs(name, ask, inputs, reads, outputs, cost=cost, timeout=timeout, pure=False)


def _check_url(name: str, url: str, hosts: Sequence[str]) -> None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or "{" in parts.netloc:
        raise BadDefinition(f"operator {name}: the URL begins with http:// or https:// and a fixed host, not {url!r}")
    if parts.hostname not in hosts:
        raise BadDefinition(
            f"operator {name}: the host {parts.hostname!r} is not among the allowed: {', '.join(hosts)}"
        )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow nothing: a redirect could lead to a host that is not allowed."""


def _get_json(url: str, timeout: float) -> Any:
    opener = urllib.request.build_opener(_NoRedirects(), urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout) as response:  # the scheme was checked when the operator was made
            body = response.read(MAX_ANSWER + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise OSError(f"the service answered {error.code}") from None
    if len(body) > MAX_ANSWER:
        raise ValueError(f"the answer has more than {MAX_ANSWER:,} bytes")
    return json.loads(body)


def _with_text_inputs(
    name: str,
    function: Callable[..., object],
    inputs: Sequence[str],
    reads: Sequence[str],
    outputs: Mapping[str, Any] | None,
    *,
    cost: float,
    timeout: float,
    pure: bool,
) -> Operator:
    """Return the operator of a function whose inputs are texts with these names."""

    def without_inputs(event: Event) -> object:
        return function(event)

    without_inputs.__doc__ = function.__doc__
    made = operator(name=name, cost=cost, timeout=timeout, pure=pure, reads=reads, outputs=outputs)(without_inputs)
    given = tuple(Parameter(entry, TEXT, "input") for entry in inputs)
    return replace(made, function=function, parameters=(*given, *made.parameters))
