"""RoutingEngine: several engines as one, each with the subscriptions that are for it.

The main engine has what no route takes, which is nearly everything: its folder on disk and its bulk path are untouched.
Subscriptions of a route are held by an engine of their own, in memory, made when the first of them comes. What they are
is told by the bytes of the stored tree; which they were, the saved index knows, so that a start reads only those again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin.broker.expressions import Prepared
from tocsin.broker.live_index import Engine
from tocsin.broker.live_leases import LiveLeases, Longs
from tocsin.broker.offers import OfferEvent
from tocsin.schema import Event, Schema

if TYPE_CHECKING:
    from tocsin.symmetric import Matched


@dataclass(frozen=True, slots=True)
class Route:
    """Subscriptions that have an engine of their own."""

    name: str  # of the engine's figures
    takes: Callable[[bytes], bool]  # whether a stored tree is one of these; asked of every tree, so it must be quick
    make: Callable[[Schema], Engine]
    follow: Callable[[Schema], bool] | None = None  # told of each schema; says whether other trees are taken now


class RoutingEngine(Engine):
    """The main engine, and one for each route that has subscriptions."""

    def __init__(self, main: Engine, routes: Sequence[Route], schema: Schema | None = None) -> None:
        self.main = main
        self._routes, self._schema = routes, schema
        self._engines: dict[str, Engine] = {}  # by route
        self._at: dict[int, str] = {}  # the route of each subscription that is not the main engine's
        if schema is not None:
            self._follow(schema)

    def _follow(self, schema: Schema) -> bool:
        """Let the routes know the schema; return whether some subscriptions belong elsewhere now."""
        answers = [route.follow(schema) for route in self._routes if route.follow is not None]
        return any(answers)

    def _route(self, tree: bytes) -> Route | None:
        return next((route for route in self._routes if route.takes(tree)), None)

    def add(self, subscriptions: Sequence[tuple[int, Prepared]]) -> None:
        main: list[tuple[int, Prepared]] = []
        aside: list[tuple[int, Prepared]] = []
        for id, prepared in subscriptions:
            routed = self._route(prepared.tree) is not None
            (aside if routed else main).append((id, prepared))
        if main:
            self.main.add(main)
        self._add_aside(aside)

    def _add_aside(self, subscriptions: Sequence[tuple[int, Prepared]]) -> None:
        """Hold subscriptions that routes take."""
        for route in self._routes:
            taken = [each for each in subscriptions if self._route(each[1].tree) is route]
            if taken:
                self._at |= dict.fromkeys((id for id, _ in taken), route.name)
                self._engine(route).add(taken)

    def _engine(self, route: Route) -> Engine:
        if route.name not in self._engines:
            if self._schema is None:
                raise RuntimeError("the schema must be set first")
            self._engines[route.name] = route.make(self._schema)
        return self._engines[route.name]

    def load(self, stored: Iterable[tuple[int, bytes]], schema: Schema) -> None:
        aside: dict[str, list[tuple[int, bytes]]] = {}
        self.main.load(self._for_main(stored, aside), schema)
        self._load_aside(aside, schema)

    def _for_main(
        self, stored: Iterable[tuple[int, bytes]], aside: dict[str, list[tuple[int, bytes]]]
    ) -> Iterator[tuple[int, bytes]]:
        for id, tree in stored:
            route = self._route(tree)
            if route is None:
                yield id, tree
            else:
                aside.setdefault(route.name, []).append((id, tree))

    def load_aside(self, stored: Iterable[tuple[int, bytes]], schema: Schema) -> None:
        """Hold stored subscriptions that routes take; the main engine, loaded from its folder, is without them."""
        aside: dict[str, list[tuple[int, bytes]]] = {}
        for _ in self._for_main(stored, aside):
            pass  # what no route takes is not for this
        self._load_aside(aside, schema)

    def _load_aside(self, aside: dict[str, list[tuple[int, bytes]]], schema: Schema) -> None:
        for route in self._routes:
            if taken := aside.get(route.name):
                self._at |= dict.fromkeys((id for id, _ in taken), route.name)
                self._engine(route).load(taken, schema)

    @property
    def aside(self) -> list[int]:
        """The subscriptions that the main engine does not hold."""
        return list(self._at)

    def remove(self, ids: Sequence[int]) -> None:
        main = []
        for id in ids:
            name = self._at.pop(id, None)
            if name is None:
                main.append(id)
            else:
                self._engines[name].remove([id])
        self.main.remove(main)

    def clear(self) -> None:
        for engine in (self.main, *self._engines.values()):
            engine.clear()
        self._at = {}

    def find(self, events: Sequence[Event]) -> tuple[Longs, Longs]:
        if not self._at:
            return _without_withheld(events, self.main.find(events))
        found = [_without_withheld(events, self.main.find(events))]
        found += [engine.find(events) for engine in self._engines.values()]
        return np.concatenate([at for at, _ in found]), np.concatenate([ids for _, ids in found])

    def met(self, event: Event) -> Matched | None:
        found = (engine.met(event) for engine in self._engines.values())
        return next((matched for matched in found if matched is not None), None)

    @property
    def takes_long(self) -> bool:
        return bool(self._at) and any(engine.takes_long for engine in list(self._engines.values()))

    @contextmanager
    def foreseen(self, events: Sequence[Event]) -> Iterator[None]:
        with ExitStack() as stack:
            for engine in list(self._engines.values()) if self._at else ():
                stack.enter_context(engine.foreseen(events))
            yield

    def set_schema(self, schema: Schema) -> bool:
        moved = self._follow(schema) and self._schema is not None
        self._schema = schema
        answers = [engine.set_schema(schema) for engine in (self.main, *self._engines.values())]
        return any(answers) or moved

    def stats(self) -> dict[str, Any]:
        return {**self.main.stats(), **{name: engine.stats() for name, engine in self._engines.items()}}

    def merge(self) -> None:
        for engine in (self.main, *self._engines.values()):
            engine.merge()

    def save(self, seq: int, leases: LiveLeases, elsewhere: Sequence[int] = ()) -> None:
        self.main.save(seq, leases, [*self._at, *elsewhere])

    def close(self) -> None:
        for engine in (self.main, *self._engines.values()):
            engine.close()


def _without_withheld(events: Sequence[Event], found: tuple[Longs, Longs]) -> tuple[Longs, Longs]:
    """Return what was found without offers that have rules: who has no properties, as all here, satisfies none."""
    withheld = [isinstance(event, OfferEvent) and bool(event.offer.rules) for event in events]
    if not any(withheld):
        return found
    at, ids = found
    keep = ~np.array(withheld)[at]
    return at[keep], ids[keep]
