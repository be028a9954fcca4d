"""RoutingEngine: several engines as one, each with the subscriptions that are for it.

The main engine has what no route takes, which is nearly everything: its folder on disk and its bulk path are untouched.
Subscriptions of a route are held by an engine of their own, in memory, made when the first of them comes. What they are
is told by the bytes of the stored tree; which they were, the saved index knows, so that a start reads only those again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.broker.expressions import Prepared, prepare_stored
from tocsin.broker.live_index import Engine
from tocsin.broker.live_leases import LiveLeases, Longs
from tocsin.schema import Event, Schema


@dataclass(frozen=True, slots=True)
class Route:
    """Subscriptions that have an engine of their own."""

    name: str  # of the engine's figures
    takes: Callable[[bytes], bool]  # whether a stored tree is one of these; asked of every tree, so it must be quick
    make: Callable[[Schema], Engine]


class RoutingEngine(Engine):
    """The main engine, and one for each route that has subscriptions."""

    def __init__(self, main: Engine, routes: Sequence[Route], schema: Schema | None = None) -> None:
        self.main = main
        self._routes, self._schema = routes, schema
        self._engines: dict[str, Engine] = {}  # by route
        self._at: dict[int, str] = {}  # the route of each subscription that is not the main engine's

    def _route(self, tree: bytes) -> Route | None:
        return next((route for route in self._routes if route.takes(tree)), None)

    def add(self, subscriptions: Sequence[tuple[int, Prepared]]) -> None:
        main: list[tuple[int, Prepared]] = []
        aside: list[tuple[int, Prepared]] = []
        for id, prepared in subscriptions:
            routed = not prepared.plain and self._route(prepared.tree) is not None
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
        aside: list[tuple[int, bytes]] = []
        self.main.load(self._for_main(stored, aside), schema)
        self.load_aside(aside, schema)

    def _for_main(
        self, stored: Iterable[tuple[int, bytes]], aside: list[tuple[int, bytes]]
    ) -> Iterator[tuple[int, bytes]]:
        for id, tree in stored:
            if self._route(tree) is None:
                yield id, tree
            else:
                aside.append((id, tree))

    def load_aside(self, stored: Iterable[tuple[int, bytes]], schema: Schema) -> None:
        """Hold stored subscriptions that routes take; the main engine, loaded from its folder, is without them."""
        self._add_aside([(id, prepare_stored(tree, schema)) for id, tree in stored])

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
            return self.main.find(events)
        found = [engine.find(events) for engine in (self.main, *self._engines.values())]
        return np.concatenate([at for at, _ in found]), np.concatenate([ids for _, ids in found])

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
        self._schema = schema
        answers = [engine.set_schema(schema) for engine in (self.main, *self._engines.values())]
        return any(answers)

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
