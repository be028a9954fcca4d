"""Random markets: a schema with a union, subscribers, offers with rules and computed attributes, and programs."""

from __future__ import annotations

import random as stdlib_random
from typing import Any

from tests.language.formulas import FLOATS, FOLDED, INTS, KIND, POINTS, SIZE, TEXTS, TIMES
from tocsin.errors import FormulaFailed
from tocsin.language.formula import BOOLEAN, FLOAT, INT, TEXT
from tocsin.language.literals import render_literal
from tocsin.offers import Program, Programs
from tocsin.schema import (
    BooleanDomain,
    EventType,
    NumericDomain,
    PointDomain,
    Schema,
    TextDomain,
    TimeDomain,
    TypeAttribute,
    Union,
)

Random = stdlib_random.Random

DOMAINS = [
    NumericDomain(name="int", type="int"),
    NumericDomain(name="float"),
    NumericDomain(name="money", type="decimal", minimum=0),
    NumericDomain(name="price", minimum=-1000, maximum=10**6),
    NumericDomain(name="whole", type="int", minimum=-50),
    TextDomain(name="text"),
    BooleanDomain(name="boolean"),
    TimeDomain(name="time"),
    PointDomain(name="point"),
    *(SIZE, KIND, FOLDED),
]
EVENT = {
    **{"price": "price", "count": "whole", "fee": "money", "title": "text", "label": "folded", "size": "size"},
    **{"kind": "kind", "open": "boolean", "ends": "time", "place": "point", "tags": "text", "name": "text"},
}
PERSON = {
    "age": "int",
    "years": "int",
    "budget": "float",
    "city": "text",
    "shirt": "size",
    "name": "text",
    "born": "time",
}
CLUB = {"age": "int", "years": "int", "rank": "size"}
MARKET = Schema(
    {domain.name: domain for domain in DOMAINS},
    EVENT | PERSON | CLUB,
    {
        "offer": EventType(
            "offer", tuple(TypeAttribute(name, mandatory=False, multiple=name == "tags") for name in EVENT)
        ),
        "person": EventType("person", tuple(TypeAttribute(name, mandatory=False) for name in PERSON)),
        "member": EventType("member", tuple(TypeAttribute(name, mandatory=False) for name in CLUB)),
        "notice": EventType(
            "notice", (TypeAttribute("title", multiple=True, mandatory=False), TypeAttribute("price", mandatory=False))
        ),
    },
    unions={"market": Union("market", "offer", "person"), "club": Union("club", "offer", "member")},
)
SMALL = [0, 1, 2, 3, 7, 40, -1]
_VALUES: dict[str, list[Any]] = {
    **{"price": [0, 1, 2.5, 40, 900, 700], "count": SMALL, "fee": [0, 1, 40], "title": TEXTS, "label": TEXTS},
    **{"size": list(SIZE.values), "kind": ["x", "y", "z", "w"], "open": [True, False], "ends": TIMES, "place": POINTS},
    **{"name": TEXTS, "tags": TEXTS, "age": [*SMALL, *INTS], "years": SMALL, "budget": FLOATS, "city": TEXTS},
    **{"shirt": list(SIZE.values), "born": TIMES, "rank": list(SIZE.values)},
}
_NUMERIC = {"price", "count", "fee", "age", "years", "budget"}


def programs(version: int = 1) -> Programs:
    """Return programs of every sort: an expression, pure and impure callables that fail now and then."""

    def risky(age: int) -> float:
        if age == 7:
            raise ValueError("seven")
        if age == 3:
            raise FormulaFailed("three")
        return age * version / 2

    return Programs(
        [
            Program("tariff", version, {"age": INT, "years": INT}, FLOAT, expression=f"age * {version} / years"),
            Program("risky", version, {"age": INT}, FLOAT, callable=risky),
            Program("drawn", version, {"age": INT}, INT, callable=lambda age: None if age < 0 else age, pure=False),
            Program("grown", version, {"years": INT}, BOOLEAN, callable=lambda years: years >= 3),
            Program("wrong", version, {"city": TEXT}, FLOAT, callable=lambda city: city or 1),
        ]
    )


def _value(random: Random, name: str) -> str:
    return render_literal(random.choice(_VALUES[name]))


def _predicate(random: Random, name: str) -> str:
    if random.random() < 0.1:
        return f"{name} is {random.choice(['present', 'absent'])}"
    if name in _NUMERIC or name in ("ends", "born"):
        if random.random() < 0.2:
            return f"{name} between {_value(random, name)} and {_value(random, name)}"
        return f"{name} {random.choice(['=', '!=', '<', '<=', '>', '>='])} {_value(random, name)}"
    if name == "tags":
        return f"tags contains any ({_word(random)}, {_word(random)})"
    if name == "place":
        return f"place within 5 km of {_value(random, name)}"
    if name == "kind":
        return f"kind {random.choice(['=', 'kind of'])} {_value(random, name)}"
    if name in ("title", "label", "city", "name") and random.random() < 0.4:
        return f"{name} starts with {_value(random, name)}"
    if name in ("title", "label") and random.random() < 0.3:
        return f"{name} {random.choice(['contains', 'like'])} {_word(random)}"
    if name in ("size", "shirt", "rank") and random.random() < 0.5:
        return f"{name} >= {_value(random, name)}"
    return _equality(random, name)


def _word(random: Random) -> str:
    return render_literal(random.choice(["a", "mini", "x"]))


def _equality(random: Random, name: str) -> str:
    if random.random() < 0.3:
        return f"{name} in ({_value(random, name)}, {_value(random, name)})"
    return f"{name} {random.choice(['=', '!='])} {_value(random, name)}"


def _number(random: Random, names: list[str]) -> str:
    shape = random.random()
    if shape < 0.4:
        return random.choice(names)
    if shape < 0.6:
        return str(random.choice([1, 2, 40, 0.5]))
    return f"({_number(random, names)} {random.choice('+-*/')} {random.choice(names)})"


def _condition(random: Random, names: list[str], depth: int) -> str:
    shape = random.random()
    if depth and shape < 0.35:
        parts = [_condition(random, names, depth - 1) for _ in range(random.randint(2, 3))]
        return "(" + f" {random.choice(['and', 'or'])} ".join(parts) + ")"
    if depth and shape < 0.42:
        return f"not ({_condition(random, names, depth - 1)})"
    if shape < 0.62:
        numbers = [name for name in names if name in _NUMERIC]
        op = random.choice(["=", "<", "<=", ">", "!="])
        return f"{_number(random, numbers)} {op} {random.choice(numbers)} + 0"
    return _predicate(random, random.choice(names))


def random_subscription(random: Random) -> str:
    """Return a subscription with properties; its conditions are predicates on the offer."""
    parts = [_predicates(random, list(EVENT), 2) for _ in range(random.randint(0, 3))]
    who = {**PERSON, "rank": "size"}
    properties = ", ".join(f"{name} = {_value(random, name)}" for name in who if random.random() < 0.8)
    text = random.choice(["offer", "offer", "offer", "offer, notice", "notice"])
    text += f" where {' and '.join(parts)}" if parts else ""
    return f"{text} with {properties}" if properties and "notice" not in text else text


def _predicates(random: Random, names: list[str], depth: int) -> str:
    shape = random.random()
    if depth and shape < 0.35:
        parts = [_predicates(random, names, depth - 1) for _ in range(random.randint(2, 3))]
        return "(" + f" {random.choice(['and', 'or'])} ".join(parts) + ")"
    if depth and shape < 0.45:
        return f"not ({_predicates(random, names, depth - 1)})"
    return _predicate(random, random.choice(names))


_COMPUTED = {
    "price": [
        "case when years > 3 then 900 else 700 end",
        "age / years",
        "program('tariff', age, years)",
        "program('risky', years)",
        "program('wrong', city)",
        "budget * 2 - age",
        "case when city = 'a' then years end",
        "case when years > 2 then N + budget else count * N end",
        "N / years - count",
    ],
    "count": [
        "program('drawn', years)",
        "years * 2",
        "years / 2",
        "age",
        "case when price > 3 then 1 else years end",
        "years * N + age",
    ],
    "title": ["city", "case when age > 3 then 'a' else city end"],
    "fee": ["budget", "years * 0.1"],
    "size": ["shirt", "case when years > 2 then 'L' else 'S' end"],
    "ends": ["born"],
    "label": ["case when price > 40 then city else title end", "title"],
}


def random_offer(random: Random) -> dict[str, Any]:
    """Return an offer with rules about both sides and some computed attributes."""
    chosen = {name: random.choice(texts) for name, texts in _COMPUTED.items() if random.random() < 0.25}
    dynamic = {name: text.replace("N", str(random.choice([1, 2, 40, 0.5]))) for name, text in chosen.items()}
    event: dict[str, Any] = {}
    for name in EVENT:
        if name not in dynamic and random.random() < 0.8:
            event[name] = random.choice(_VALUES[name])
    if "tags" in event:
        event["tags"] = random.sample(TEXTS, 2)
    if random.random() < 0.1 and "price" not in dynamic:
        event["price"] = 0.1
    names = [*PERSON, *PERSON, "rank", "price", "count", "title"]
    rules = [_condition(random, names, 2) for _ in range(random.randint(0, 2))]
    if random.random() < 0.2:
        rules.append("program('grown', years)")
    if random.random() < 0.4:
        rules.append(_predicate(random, random.choice(["age", "years", "city", "shirt", "rank"])))
    event["event_type"] = random.choice(["offer", "offer", ["offer", "notice"]])
    return {"event": event, "rules": rules, "dynamic": dynamic}
