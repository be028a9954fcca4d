"""Engines: subscriptions in, events in, the matches out, exactly as the language defines."""

from __future__ import annotations

import importlib

from tocsin import plugins
from tocsin.errors import NotSupported, did_you_mean, nearest
from tocsin.matching.engine import Capabilities, Engine, SubscriptionId, Work

# Name -> where the class is; imported when asked for, since it compiles kernels.
_ENGINES = {
    "columnar": "tocsin.matching.matcher:Matcher",
    "naive": "tocsin.matching.engine:NaiveMatcher",
}
# The papers' algorithms, to be compared: other engines may be added by the entry points tocsin.engines.
_IN_THE_LAB = (
    "counting",
    "counting-table",
    "counting-bits",
    "counting-bytes",
    "equality-preferred",
    "quarantining",
    "hanson",
    "propagation",
    "schema-clustering",
    "matching-tree",
    "gough",
    "neon",
)


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines that are installed."""
    return (*_ENGINES, *(name for name in plugins.installed(plugins.ENGINES) if name not in _ENGINES))


def engine_of(name: str) -> type[Engine]:
    """Return the class of the engine of that name; raises NotSupported, NotInstalled."""
    engine: type[Engine] | None
    if name in _ENGINES:
        module, _, attribute = _ENGINES[name].partition(":")
        engine = getattr(importlib.import_module(module), attribute)
    else:
        engine = plugins.load(plugins.ENGINES, name, f"the engine {name!r}", dict.fromkeys(_IN_THE_LAB, "tocsin-lab"))
    if engine is None:
        names = engine_names()
        raise NotSupported(
            f"there is no engine {name!r}{did_you_mean(nearest(name, names))}; there are: {', '.join(names)}"
        )
    return engine


__all__ = ["Capabilities", "Engine", "SubscriptionId", "Work", "engine_names", "engine_of"]
