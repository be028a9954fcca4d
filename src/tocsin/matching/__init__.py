"""Engines: subscriptions in, events in, the matches out, exactly as the language defines."""

from __future__ import annotations

import importlib

from tocsin.errors import NotSupported, did_you_mean, nearest
from tocsin.matching.engine import Capabilities, Engine, SubscriptionId, Work

# Name -> where the class is; imported when asked for, since some of them compile kernels.
_ENGINES = {
    "columnar": "tocsin.matching.matcher:Matcher",
    "naive": "tocsin.matching.naive:NaiveMatcher",
    # The papers' algorithms, to be compared: see `tocsin lab`.
    "counting": "tocsin.matching.classic.counting:CountingMatcher",
    "counting-table": "tocsin.matching.classic.counting:TableListMatcher",
    "counting-bits": "tocsin.matching.classic.counting:BitMatrixMatcher",
    "counting-bytes": "tocsin.matching.classic.counting:ByteMatrixMatcher",
    "equality-preferred": "tocsin.matching.classic.equality_preferred:EqualityPreferredMatcher",
    "quarantining": "tocsin.matching.classic.quarantining:QuarantiningMatcher",
    "hanson": "tocsin.matching.classic.hanson:HansonMatcher",
    "propagation": "tocsin.matching.classic.propagation:PropagationMatcher",
    "schema-clustering": "tocsin.matching.classic.schema_clustering:SchemaClusteringMatcher",
    "matching-tree": "tocsin.matching.classic.matching_tree:MatchingTreeMatcher",
    "gough": "tocsin.matching.classic.gough:GoughMatcher",
    "neon": "tocsin.matching.classic.neon:NeonMatcher",
}
ENGINES = tuple(_ENGINES)


def engine_of(name: str) -> type[Engine]:
    """Return the class of the engine of that name."""
    if name not in _ENGINES:
        raise NotSupported(
            f"there is no engine {name!r}{did_you_mean(nearest(name, ENGINES))}; there are: {', '.join(ENGINES)}"
        )
    module, _, attribute = _ENGINES[name].partition(":")
    engine: type[Engine] = getattr(importlib.import_module(module), attribute)
    return engine


__all__ = ["ENGINES", "Capabilities", "Engine", "SubscriptionId", "Work", "engine_of"]
