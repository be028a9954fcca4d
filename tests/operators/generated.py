"""Random operators, subscriptions and events, for comparing with the definition."""

from __future__ import annotations

import random
from typing import Any

from tocsin.errors import BindError
from tocsin.language import And, BoundSubscription, Node, Not, Op, Or, Predicate, Subscription
from tocsin.language.syntax import Arithmetic, Comparison, Constant, OperatorCall, Variable
from tocsin.operators.operator import OPEN, Open, Operator, operator
from tocsin.operators.registry import Registry
from tocsin.schema import Event, Schema
from tocsin.schema.examples import load_example

REGIONS = ("north", "south", "east")


def random_operators(calls: list[tuple[str, tuple[object, ...], int]]) -> list[Operator]:
    """Return operators whose answers depend on the event's price, in a fixed way; each call is noted down."""

    def seeded(name: str, event: Event, *inputs: object) -> random.Random:
        calls.append((name, inputs, id(event)))
        price = event.values.get("price", (0,))
        return random.Random(f"{name} {inputs} {price}")

    @operator
    def yes(event: Event, which: int) -> bool:
        return seeded("yes", event, which).random() < 0.6

    @operator
    def shaky(event: Event, which: int) -> bool:
        found = seeded("shaky", event, which).random()
        if found < 0.4:
            raise RuntimeError("the operator is not well")
        return found < 0.7

    @operator(outputs={"number": int})
    def count(event: Event, which: int) -> list[int]:
        rng = seeded("count", event, which)
        return [rng.randrange(4) for _ in range(rng.randrange(4))]

    @operator(outputs={"low": int, "high": int})
    def pair(event: Event) -> list[tuple[int, int]]:
        rng = seeded("pair", event)
        return [(rng.randrange(3), rng.randrange(3)) for _ in range(rng.randrange(4))]

    @operator
    def inside(event: Event, region: str | Open) -> Any:
        rng = seeded("inside", event, region)
        rng.seed(str(event.values.get("price")))  # the same regions whatever is asked
        found = [name for name in REGIONS if rng.random() < 0.5]
        return found if region is OPEN else region in found

    @operator(outputs={"name": str})
    def named(event: Event) -> list[str]:
        rng = seeded("named", event)
        return [name for name in REGIONS if rng.random() < 0.5]

    return [yes, shaky, count, pair, inside, named]


class World:
    """A seeded source of subscriptions and events over the example schema."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.schema: Schema = load_example("auction")
        self.calls: list[tuple[str, tuple[object, ...], int]] = []
        self.registry = Registry(random_operators(self.calls))

    def subscription(self) -> BoundSubscription:
        """Return a random subscription; variables that have no value are drawn again."""
        while True:
            try:
                return self.registry.bind(Subscription((), self._node(3)), self.schema)
            except BindError:
                continue

    def _node(self, depth: int) -> Node:
        kind = self.random.choice("&&|!ooovvccp") if depth else self.random.choice("oovvccp")
        match kind:
            case "&" | "|":
                parts = tuple(self._node(depth - 1) for _ in range(self.random.choice((2, 2, 3))))
                return And(parts) if kind == "&" else Or(parts)
            case "!":
                return Not(self._node(depth - 1))
            case "o":
                name = self.random.choice(("yes", "yes", "shaky", "inside"))
                given = self.random.choice(REGIONS) if name == "inside" else self.random.randrange(4)
                return OperatorCall(name, (Constant(given),))
            case "v":
                return self._finding()
            case "c":
                left, right = self._number(), self._number()
                return Comparison(left, self.random.choice((Op.LT, Op.EQ, Op.NE, Op.GE)), right)
            case _:
                return Predicate("price", self.random.choice((Op.LT, Op.GE)), self.random.randrange(10))

    def _finding(self) -> OperatorCall:
        x, y = (Variable(self.random.choice("xyz")) for _ in range(2))
        who = Variable(self.random.choice(("who", "whom")))
        return self.random.choice(
            [
                OperatorCall("count", (Constant(self.random.randrange(3)), x)),
                OperatorCall("count", (Constant(self.random.randrange(3)), Constant(self.random.randrange(3)))),
                OperatorCall("pair", (x, y)),
                OperatorCall("pair", (x, Constant(1))),
                OperatorCall("inside", (who,)),
                OperatorCall("named", (who,)),
            ]
        )

    def _number(self) -> Any:
        x = Variable(self.random.choice("xyz"))
        return self.random.choice(
            [x, x, Constant(self.random.randrange(4)), Arithmetic("*", Constant(2), x), Arithmetic("/", Constant(2), x)]
        )

    def event(self) -> Event:
        """Return a random event; some have no price."""
        price: dict[str, tuple[int, ...]] = {"price": (self.random.randrange(10),)}
        return Event({"event_type": ("item",), **(price if self.random.random() < 0.9 else {})})
