"""The mixed world: everything that may stand in a condition, an event or an offer, in one random world.

A schema with unions; operators that are pure functions of the event, some with several solutions, some that fail now and
then; subscriptions that mix predicates, comparisons of formulas (over the event, one's own properties and variables), calls
and value constraints under and, or, not; events of several types; offers with rules and computed attributes. All of it
comes from one `random.Random`: the fuzzer's by a seed, Hypothesis's by `st.randoms()`.

    world = MixedWorld(Random(7))
    world.subscription(), world.event(), world.offer()
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from tests.strategies.schemas import TEXTS
from tests.strategies.worlds import (
    LOOSE_TEXTS,
    random_event,
    random_literal,
    random_predicate,
    random_schema,
    raw_pool,
    raw_values,
)
from tocsin.errors import BindError, EventRejected, FormulaFailed, ParseError, TooLarge
from tocsin.language import BoundSubscription, bind, render
from tocsin.language.formula import Substitution
from tocsin.language.offer import Offer, bind_offer
from tocsin.language.sides import Sides, sides_of
from tocsin.language.syntax import (
    And,
    Arithmetic,
    AttributeValue,
    Call,
    Case,
    Comparison,
    Constant,
    Expression,
    Negative,
    Node,
    Not,
    Op,
    OperatorCall,
    Or,
    Quantifier,
    ScopeCondition,
    Subscription,
    Variable,
)
from tocsin.operators.operator import OPEN, Open, Operator, operator
from tocsin.operators.registry import Registry
from tocsin.schema import (
    EVENT_TYPE,
    Domain,
    Event,
    EventType,
    ObjectDomain,
    Schema,
    TypeAttribute,
    Union,
    Value,
    ViewAttribute,
)
from tocsin.schema.readings import DOMAINS, DYNAMIC

OFFERS = True  # whether the matcher matches offers

REGIONS = ("north", "south", "été", "red")
COMPARISONS = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)
NUMBERS: list[Any] = [
    0,
    1,
    2,
    3,
    7,
    -1,
    0.5,
    2.5,
    100,
    2**53 + 1,
    2**63,
    10**30,
    1e300,
    Decimal("0.1"),
    Decimal("2.50"),
]
NUMERIC_VARIABLES, TEXT_VARIABLES = "xyz", ("who", "whom")


# --- schemas ----------------------------------------------------------------------------------------------------------

_OWN = {"age": "int", "years": "int", "budget": "float", "fee": "decimal", "city": "text", "nick": "folded",
        "shirt": "ordered", "level": "partial", "taste": "hierarchical", "member": "boolean", "born": "time",
        "home": "point"}  # fmt: skip


LOOSE = ("loose", "odd name")  # attributes that no schema declares
LOOSE_READINGS = (
    "any attribute",
    *(f"{name} as {kind}" for name in LOOSE for kind in ("number", "text", "time", "boolean")),
)


def mixed_schema(random: Random) -> Schema:
    """Return a schema with every kind of domain, and with two unions; both sides share some attributes."""
    plain = random_schema(random)
    plain = with_arrays(random, plain)
    if random.random() < 0.4:  # events keep what no one has declared
        kept = {name: replace(each, unknown="kept") for name, each in plain.event_types.items()}
        plain = replace(plain, event_types=kept)
    shared = [name for name in plain.attributes if name.partition(".")[0] not in _ELEMENTS]
    subscribers = {name: _subscriber(random, name, shared) for name in ("driver", "dealer")}
    return Schema(
        plain.domains,
        {**plain.attributes, **_OWN},
        {**plain.event_types, **subscribers},
        unions={"cars": Union("cars", "car", "driver"), "old": Union("old", "antique", "dealer")},
    )


def with_arrays(random: Random, schema: Schema) -> Schema:
    """Return the schema with arrays of objects, one in the other."""
    inner = {f"{array}.{name}": domain for array, names in _ELEMENTS.items() for name, domain in names.items()}
    if loose := random.random() < 0.3:
        inner["items.loose"] = "dynamic"
    arrays = {**dict.fromkeys(_ELEMENTS, "object"), **inner}
    entries = tuple(TypeAttribute(name, mandatory=False, multiple=True) for name in arrays)
    types = {
        name: replace(each, attributes=(*each.attributes, *entries)) if random.random() < 0.7 else each
        for name, each in schema.event_types.items()
    }
    domains = {**schema.domains, "object": ObjectDomain(name="object"), **({"dynamic": DYNAMIC} if loose else {})}
    return Schema(domains, {**schema.attributes, **arrays}, types)


_ELEMENTS = {
    "items": {"n": "int", "x": "float", "name": "text", "tag": "folded", "size": "ordered", "cat": "hierarchical",
              "ok": "boolean", "when": "time", "place": "point"},
    "items.parts": {"n": "int", "name": "text"},
}  # fmt: skip


def _subscriber(random: Random, name: str, shared: list[str]) -> EventType:
    chosen = [*random.sample(list(_OWN), random.randint(6, len(_OWN))), *random.sample(shared, 2)]
    return EventType(name, tuple(TypeAttribute(each, random.random() < 0.1, False) for each in sorted(chosen)))


# --- operators --------------------------------------------------------------------------------------------------------


def mixed_operators(random: Random, schema: Schema) -> list[Operator]:
    """Return operators whose answers follow from a seed and from a few of the event's values."""
    seed = random.randrange(2**32)
    reads = random.sample(list(schema.attributes), 6)

    def drawn(name: str, event: Event, *inputs: object) -> Random:
        parts = [seed, name, *inputs, *(_stable(event.values.get(each)) for each in reads)]
        return Random(zlib.crc32(repr(parts).encode()))

    @operator(cost=0.01)
    def yes(event: Event, which: int) -> bool:
        return drawn("yes", event, which).random() < 0.6

    @operator
    def shaky(event: Event, which: int) -> bool:
        found = drawn("shaky", event, which).random()
        if found < 0.3:
            raise RuntimeError(f"not well: {which}")
        return found < 0.8

    def many(events: list[Event], which: int) -> list[bool]:
        return [drawn("many", event, which).random() < 0.5 for event in events]

    @operator(name="many", evaluate_batch=many)
    def one(event: Event, which: int) -> bool:
        return drawn("many", event, which).random() < 0.5

    @operator(outputs={"number": int}, cost=0.0001)
    def count(event: Event, which: int) -> list[int]:
        found = drawn("count", event, which)
        return [found.randrange(4) for _ in range(found.randrange(4))]

    @operator(outputs={"number": int})
    def fragile(event: Event) -> list[int]:
        found = drawn("fragile", event)
        if found.random() < 0.3:
            raise FormulaFailed("fragile has no answer")
        return [found.randrange(4), 2**63] if found.random() < 0.8 else []

    @operator(outputs={"low": int, "high": float})
    def pair(event: Event) -> list[tuple[int, float]]:
        found = drawn("pair", event)
        return [(found.randrange(3), found.choice([0.0, 1.0, 0.5, 2.5])) for _ in range(found.randrange(4))]

    @operator
    def inside(event: Event, region: str | Open) -> Any:
        found = drawn("inside", event)  # the same regions whatever is asked
        regions = [name for name in REGIONS if found.random() < 0.5]
        return regions if region is OPEN else region in regions

    @operator(outputs={"name": str})
    def named(event: Event) -> Any:
        found = drawn("named", event)
        return [3] if found.random() < 0.1 else [name for name in REGIONS if found.random() < 0.5]  # 3 is no name

    return [yes, shaky, one, count, fragile, pair, inside, named]


def _stable(values: tuple[Value, ...] | None) -> object:
    """Return something that is equal for equal values, in every process."""
    return values and [
        zlib.crc32(str(value).encode()) if isinstance(value, str | datetime) else hash(value) for value in values
    ]


class Remembered:
    """Operators that are asked once for each call and event: pure ones say the same again."""

    def __init__(self, operators: Registry) -> None:
        self._operators = operators
        self._known: dict[tuple[OperatorCall, int], tuple[Event, list[Substitution] | FormulaFailed]] = {}

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        return self._operators.bind_call(call, attributes)

    def variable_domains(self, call: OperatorCall) -> Mapping[str, Domain]:
        return self._operators.variable_domains(call)

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Substitution]:
        known = self._known.get((call, id(event)))
        if known is None:
            try:
                known = event, list(self._operators.solutions(call, event))
            except FormulaFailed as error:
                known = event, error
            self._known[call, id(event)] = known  # with the event, so that its id stays its own
        if isinstance(known[1], FormulaFailed):
            raise known[1]
        return known[1]


# --- conditions -------------------------------------------------------------------------------------------------------


class _Conditions:
    """Conditions about an event and a subscriber, whose attributes go by these names."""

    def __init__(self, random: Random, event: list[ViewAttribute], own: list[ViewAttribute], within: str = "") -> None:
        self.random, self.event, self.own, self.within = random, event, own, within
        single = [entry for entry in (*event, *event, *own, *own) if not entry.multiple or within]
        single = [entry for entry in single if entry.domain.kind != "object"]
        self.single: dict[str, list[str]] = {}
        for entry in single:
            self.single.setdefault(entry.domain.kind, []).append(entry.name)
        self.alike: dict[str, list[str]] = {}  # domain -> names
        for entry in single:
            self.alike.setdefault(entry.domain.name, []).append(entry.name)

    def node(self, depth: int, given: tuple[str, ...] = ()) -> Node:
        """Return a condition; `given` are numeric variables that have a value here."""
        shape = self.random.random() if depth else 0.0
        if depth == 3:
            shape = 0.25 + 0.75 * shape
        if shape < 0.4:
            return self._leaf(given)
        if shape < 0.5:
            return Not(self.node(depth - 1, given))
        if shape < 0.65:
            return self._join(depth - 1, given)
        parts = tuple(self.node(depth - 1, given) for _ in range(self.random.choice([0, 1, 2, 2, 2, 3])))
        return And(parts) if shape < 0.85 else Or(parts)

    def _join(self, depth: int, given: tuple[str, ...]) -> And:
        """Return a conjunction whose variables are bound in it, and asked about."""
        variables = tuple(self.random.sample(NUMERIC_VARIABLES, self.random.choice([1, 1, 2])))
        parts: list[Node] = [self._finding(variables) for _ in range(self.random.choice([1, 1, 2]))]
        bound = {each.name for part in parts for each in part.arguments if isinstance(each, Variable)}  # type: ignore[union-attr]
        known = (*given, *sorted(bound & set(NUMERIC_VARIABLES)))
        parts += [self.node(max(depth, 0), known) for _ in range(self.random.choice([0, 1, 1, 2]))]
        if known and self.random.random() < 0.7:
            parts.append(self._comparison(known))
        if self.random.random() < 0.2:
            parts.append(Not(self._finding(variables)))
        self.random.shuffle(parts)
        return And(tuple(parts))

    def _scope(self, array: str, given: tuple[str, ...], depth: int) -> Node:
        """Return a scope, in whose condition names are often those of elements, and written in either way."""
        below = [entry for entry in self.event if entry.name.startswith(f"{array}.")]
        below = [each for entry in below for each in (_readings(entry) if entry.domain == DYNAMIC else [entry])]
        short = [_named(entry, entry.name.removeprefix(f"{array}.")) for entry in below]
        inner = _Conditions(self.random, [*short, *short, *below, *self.event[:3]], self.own[:2], within=array)
        parts = [inner.element_node(given, depth) for _ in range(self.random.choice([1, 1, 2, 2, 3]))]
        part = parts[0] if len(parts) == 1 else self.random.choice((And, And, Or))(tuple(parts))
        name = array.removeprefix(f"{self.within}.") if self.random.random() < 0.5 else array
        return ScopeCondition(self.random.choice(list(Quantifier)), name, part)

    def element_node(self, given: tuple[str, ...], depth: int) -> Node:
        """Return a condition within a scope."""
        shape = self.random.random()
        if shape < 0.1 and depth:
            return Not(self.element_node(given, depth - 1))
        if shape < 0.2 and depth:
            return Or((self.element_node(given, depth - 1), self.element_node(given, depth - 1)))
        if shape < 0.4 and self.within == "items" and depth:
            return self._scope("items.parts", given, depth - 1)
        if shape < 0.6:
            return self._comparison(given)
        return random_predicate(self.random, self.event)

    def _leaf(self, given: tuple[str, ...]) -> Node:
        shape = self.random.random()
        arrays = [entry.name for entry in self.event if entry.domain.kind == "object"]
        if arrays and not self.within and self.random.random() < 0.25:
            return self._scope(self.random.choice(arrays), given, 2)
        if shape < 0.45:
            return random_predicate(self.random, self.event)
        if shape < 0.55 and self.own:
            return random_predicate(self.random, self.own)
        if shape < 0.8:
            return self._comparison(given)
        return self._call()

    def _call(self) -> OperatorCall:
        which = Constant(self.random.randrange(3))
        if self.random.random() < 0.2:
            return OperatorCall("inside", (Constant(self.random.choice(REGIONS)),))
        if self.random.random() < 0.2:
            return OperatorCall("count", (which, Constant(self.random.randrange(3))))
        return OperatorCall(self.random.choice(("yes", "shaky", "many")), (which,))

    def _finding(self, variables: tuple[str, ...]) -> OperatorCall:
        x, y = Variable(variables[0]), Variable(variables[-1])
        who = Variable(self.random.choice(TEXT_VARIABLES))
        return self.random.choice(
            [
                OperatorCall("count", (Constant(self.random.randrange(3)), x)),
                OperatorCall("count", (Constant(self.random.randrange(3)), y)),
                OperatorCall("fragile", (y,)),
                OperatorCall("pair", (x, y)),
                OperatorCall("pair", (x, Constant(1))),
                OperatorCall("inside", (who,)),
                OperatorCall("named", (who,)),
            ]
        )

    def _comparison(self, given: tuple[str, ...]) -> Comparison:
        if self.random.random() < 0.12:
            return self._timed()
        if self.random.random() < 0.7 or not self.alike:
            return Comparison(self.number(2, given), self.random.choice(COMPARISONS), self.number(1, given))
        names = self.alike[self.random.choice(list(self.alike))]
        kinds = [entry.domain for entry in (*self.event, *self.own) if entry.name == names[0]]
        left, right = self.random.choice(names), self.random.choice(names)
        op = self.random.choice(COMPARISONS)
        if self.random.random() < 0.2:
            return Comparison(AttributeValue(left), op, Constant(_constant(self.random, kinds[0])))
        return Comparison(AttributeValue(left), op, AttributeValue(right))

    def _timed(self) -> Comparison:
        """Return a comparison about times, some of them with the event's arrival."""
        op = self.random.choice(COMPARISONS)
        if self.random.random() < 0.3:
            part = Call(self.random.choice(("hour", "weekday")), (self._time(), Constant("Europe/Berlin")))
            return Comparison(part, op, Constant(self.random.randrange(13)))
        return Comparison(self._time(), op, self._time())

    def _time(self) -> Expression:
        names = self.single.get("time", [])
        now = self.random.choice((Call("now", ()), Call("today", ()), Call("today", (Constant("Asia/Tokyo"),))))
        found = AttributeValue(self.random.choice(names)) if names and self.random.random() < 0.5 else now
        if self.random.random() < 0.5:
            return found
        shift = timedelta(hours=self.random.choice([-30_000, -24, -1, 2, 24, 30_000]))
        return Arithmetic(self.random.choice("+-"), found, Constant(shift))

    # --- formulas -----------------------------------------------------------------------------------------------------

    def number(self, depth: int, given: tuple[str, ...] = ()) -> Expression:
        """Return a formula that gives a number."""
        names = self.single.get("numeric", [])
        shape = self.random.choice(
            ["name", "name", "name", "constant", *(["arithmetic"] * 3 + ["-", "case"]) * (depth > 0)]
        )
        if given and self.random.random() < 0.35:
            return Variable(self.random.choice(given))
        match shape:
            case "name" if names:
                return AttributeValue(self.random.choice(names))
            case "-":
                return Negative(self.number(depth - 1, given))
            case "arithmetic":
                left, right = self.number(depth - 1, given), self.number(depth - 1, given)
                op = self.random.choice("++--**/%")
                if op in "/%" and isinstance(right, Constant) and not right.value:
                    op = "+"
                return Arithmetic(op, left, right)
            case "case":
                branches = [
                    (self._when(given), self.number(depth - 1, given)) for _ in range(self.random.choice([1, 1, 2]))
                ]
                return Case(tuple(branches), self.number(depth - 1, given) if self.random.random() < 0.7 else None)
            case _:
                return Constant(self.random.choice(NUMBERS))

    def _when(self, given: tuple[str, ...]) -> Node:
        shape = self.random.random()
        if shape < 0.5:
            return random_predicate(self.random, [*self.event, *self.own])
        if shape < 0.8:
            return Comparison(self.number(0, given), self.random.choice(COMPARISONS), self.number(0, given))
        if shape < 0.9:
            return Not(self._when(given))
        return self.random.choice((And, Or))((self._when(given), self._when(given)))

    def value(self, domain: Domain) -> Expression:
        """Return a formula that may give a value of the domain: often one that lies outside of it."""
        if domain.kind == "numeric":
            return self.number(2)
        names = self.alike.get(domain.name, []) + (self.single.get("text", []) if domain.kind == "text" else [])
        simple: Expression = Constant(_constant(self.random, domain))
        if names and self.random.random() < 0.7:
            simple = AttributeValue(self.random.choice(names))
        if self.random.random() < 0.4:
            otherwise = Constant(_constant(self.random, domain)) if self.random.random() < 0.6 else None
            return Case(((self._when(()), simple),), otherwise)
        return simple


def _constant(random: Random, domain: Domain) -> Any:
    return random.choice(TEXTS) if domain.kind == "text" else random_literal(random, domain)


# --- worlds -----------------------------------------------------------------------------------------------------------


class MixedWorld:
    """A schema and operators, and subscriptions, events and offers over them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.schema = mixed_schema(random)
        self.registry = Registry(mixed_operators(random, self.schema))
        self.remembered = Remembered(self.registry)  # for the definition

    def subscription(self, depth: int = 3) -> BoundSubscription:
        """Return a subscription; what does not bind is drawn again."""
        found: BoundSubscription = _until(lambda: bind(self._subscription(depth), self.schema, operators=self.registry))
        return found

    def _subscription(self, depth: int) -> Subscription:
        some = list(self.schema.event_types)
        types = tuple(self.random.sample(some, self.random.choice([0, 1, 1, 1, 2])))
        sides = sides_of(self.schema, types)
        own = [_named(sides.properties[full], _short(full, sides)) for full in sides.properties]
        about = list(sides.view.attributes.values())
        if sides.view.unknown == "kept":
            about += [sides.view[name] for name in LOOSE_READINGS]
        where = _Conditions(self.random, about, own).node(depth)
        return Subscription(types, where, self._properties(sides) if self.random.random() < 0.7 else ())

    def _properties(self, sides: Sides) -> tuple[tuple[str, Any], ...]:
        """Return what somebody says of itself: a whole record of one union, some of the others."""
        given: dict[str, Any] = {}
        for union in sides.unions:
            for entry in self.schema.event_type(union.subscriber).attributes:
                domain = self.schema.domain_of(entry.attribute)
                if entry.mandatory or self.random.random() < 0.75:
                    full = f"{union.subscriber}.{entry.attribute}"
                    name = entry.attribute if self.random.random() < 0.8 else full
                    given[name] = domain.admit(self.random.choice(raw_pool(domain)))
        return tuple(given.items())

    def event(self) -> Event:
        """Return an event."""
        raw = random_event(self.random, self.schema)
        for name in LOOSE:  # of types that refuse them, too: then there is none
            if self.random.random() < 0.5 and self.schema.view(raw[EVENT_TYPE]).unknown == "kept":
                raw[name] = self.random.sample(LOOSE_TEXTS, self.random.choice([1, 1, 2]))
        return self.schema.admit(raw)

    def offer(self) -> Offer:
        """Return an offer; what does not bind is drawn again."""
        found: Offer = _until(lambda: bind_offer(self.offer_document(), self.schema, operators=self.registry))
        return found

    def offer_document(self) -> dict[str, Any]:
        """Return an offer as its publisher writes it; not all of them are right."""
        union = self.random.choice(list(self.schema.unions.values()))
        more = [name for name in self.schema.event_types if name != union.event]
        types = [union.event, *([self.random.choice(more)] if self.random.random() < 0.3 else [])]
        sides = sides_of(self.schema, tuple(types))
        raw: dict[str, Any] = {EVENT_TYPE: types}
        for name, entry in sides.view.attributes.items():
            if name != EVENT_TYPE and (entry.mandatory or self.random.random() < 0.7):
                values = raw_values(self.random, sides.view, name)
                raw.update({} if values is None else {name: values})
        written = {name: _named(entry, self._in_rules(name, sides)) for name, entry in sides.view.attributes.items()}
        own = [_named(sides.properties[full[0]], name) for name, full in sides.property_names.items()]
        about = _Conditions(self.random, list(written.values()), own)
        computed = self._computed(written, own, sides)
        return {
            "event": {name: value for name, value in raw.items() if name not in computed},
            "rules": [render(about.node(2)) for _ in range(self.random.choice([0, 0, 1, 1, 2]))],
            "dynamic": computed,
        }

    def _computed(self, written: dict[str, ViewAttribute], own: list[ViewAttribute], sides: Sides) -> dict[str, str]:
        """Return formulas for some attributes; each may mention those before it."""
        single = [name for name, entry in sides.view.attributes.items() if not entry.multiple and name != EVENT_TYPE]
        chosen = self.random.sample(single, min(len(single), self.random.choice([0, 0, 1, 2, 3])))
        formulas: dict[str, str] = {}
        for at, name in enumerate(chosen):
            known = [entry for other, entry in written.items() if other not in chosen[at:]]
            formulas[name] = render(_Conditions(self.random, known, own).value(sides.view[name].domain))
        return dict(self.random.sample(list(formulas.items()), len(formulas)))

    @staticmethod
    def _in_rules(name: str, sides: Sides) -> str:
        if name not in sides.property_names:
            return name
        return next((f"{union.event}.{name}" for union in sides.unions), name)


def _readings(entry: ViewAttribute) -> list[ViewAttribute]:
    return [replace(entry, name=f"{entry.name} as {kind}", domain=domain) for kind, domain in DOMAINS.items()]


def _named(entry: ViewAttribute, name: str) -> ViewAttribute:
    return replace(entry, name=name)


def _short(full: str, sides: Sides) -> str:
    """Return a property's name as a subscription has it: without its type, where no attribute of the event has that name."""
    name = full.partition(".")[2]
    known = sides.property_names.get(name, [])
    return name if name not in sides.view.attributes and known[:1] == [full] else full


def _until(make: Callable[[], Any]) -> Any:
    for _ in range(200):
        try:
            return make()
        except (BindError, ParseError, TooLarge, EventRejected):
            continue
    raise AssertionError("nothing that binds was drawn in 200 tries")
