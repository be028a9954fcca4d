"""Tocsin: who wants to know about this event?

Content-based publish/subscribe: subscriptions are boolean expressions over a schema; an event is matched, exactly and
fast, against all of them. `docs/ARCHITECTURE.md` shows the layers, `docs/language.md` the language.

Names are imported when they are first used, so that `import tocsin` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tocsin.broker import AsyncBroker, Broker
    from tocsin.client import AsyncClient, Client
    from tocsin.errors import TocsinError
    from tocsin.language import attributes, bind, evaluate, explain, parse, render, subscription
    from tocsin.matching import Engine, engine_of
    from tocsin.matching.engine import NaiveMatcher
    from tocsin.matching.matcher import Matcher
    from tocsin.schema import Event, Schema

_HOMES = {
    "AsyncBroker": "tocsin.broker",
    "AsyncClient": "tocsin.client",
    "Broker": "tocsin.broker",
    "Client": "tocsin.client",
    "Matcher": "tocsin.matching.matcher",
    "Event": "tocsin.schema",
    "Engine": "tocsin.matching",
    "NaiveMatcher": "tocsin.matching.engine",
    "Schema": "tocsin.schema",
    "TocsinError": "tocsin.errors",
    "attributes": "tocsin.language",
    "bind": "tocsin.language",
    "engine_of": "tocsin.matching",
    "evaluate": "tocsin.language",
    "explain": "tocsin.language",
    "parse": "tocsin.language",
    "render": "tocsin.language",
    "subscription": "tocsin.language",
}

__all__ = [
    "AsyncBroker",
    "AsyncClient",
    "Broker",
    "Client",
    "Engine",
    "Event",
    "Matcher",
    "NaiveMatcher",
    "Schema",
    "TocsinError",
    "__version__",
    "attributes",
    "bind",
    "engine_of",
    "evaluate",
    "explain",
    "parse",
    "render",
    "subscription",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        try:
            return getattr(importlib.import_module(_HOMES[name]), name)
        except ModuleNotFoundError as error:
            from tocsin import plugins

            found = plugins.missing(error)
            if found is None:
                raise
            raise found from None
    raise AttributeError(f"module 'tocsin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
