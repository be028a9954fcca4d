"""The workload of benchmarks/offers.py: subscribers with five properties, offers with two rules and a computed price."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from tocsin.language.formula import FLOAT, INT
from tocsin.offers import Program, Programs
from tocsin.schema import EnumeratedDomain, EventType, NumericDomain, Schema, TextDomain, TypeAttribute, Union

COVERS = ("Third party", "Basic", "Part", "Full")
PRICE = "case when years_ncd > 7 then 300 + (90 - age) * 4 else 500 + (90 - age) * 6 end"
_ENTRIES = {
    "insurance": ("name", "cover", "deductible", "price"),
    "driver": ("age", "years_ncd", "region", "income", "km"),
}
SCHEMA = Schema(
    {
        "text": TextDomain(name="text"),
        "cover": EnumeratedDomain(name="cover", values=COVERS),
        "int": NumericDomain(name="int", type="int"),
        "float": NumericDomain(name="float"),
    },
    {
        **{"name": "text", "cover": "cover", "deductible": "int", "price": "float"},
        **{"age": "int", "years_ncd": "int", "region": "text", "income": "float", "km": "int"},
    },
    {name: EventType(name, tuple(map(TypeAttribute, entries))) for name, entries in _ENTRIES.items()},
    unions={"auto": Union("auto", "insurance", "driver")},
)


def subscribers(size: int, seed: int = 1) -> Iterable[dict[str, Any]]:
    """Yield subscribers: three predicates on the offer, one of them on the computed price; five properties."""
    draw = random.Random(seed)
    for id in range(size):
        age = draw.randint(18, 89)
        yield {
            "id": id,
            "event_types": ["insurance"],
            "predicates": [
                ["cover", "=", draw.choice(COVERS)],
                ["deductible", "<=", draw.randrange(0, 2000, 50)],
                ["price", "<=", draw.randrange(300, 1200, 10)],
            ],
            "with": {
                "age": age,
                "years_ncd": draw.randint(0, min(40, age - 18)),
                "region": f"r{draw.randrange(200)}",
                "income": draw.randrange(10_000, 150_000) + 0.5,
                "km": draw.randrange(40_000),
            },
        }


def offers(count: int, seed: int = 2) -> list[dict[str, Any]]:
    """Return offers with two rules, on two of the five properties; each alone leaves about 1 in 200 to 1 in 4."""
    draw = random.Random(seed)

    def rule(name: str) -> str:
        match name:
            case "age":
                return f"age between {(low := draw.randint(18, 80))} and {low + draw.randint(0, 15)}"
            case "years_ncd":
                return f"years_ncd >= {draw.randint(12, 35)}"
            case "region":
                return f"region = 'r{draw.randrange(200)}'"
            case "income":
                return f"income >= {draw.randrange(110_000, 149_000)}"
            case _:
                return f"km < {draw.randrange(200, 10_000)}"

    names = ("age", "years_ncd", "region", "income", "km")
    return [
        {
            "event": {"name": "A", "cover": draw.choice(COVERS), "deductible": draw.randrange(0, 2000, 50)},
            "rules": [rule(name) for name in draw.sample(names, 2)],
            "dynamic": {"price": "program('auto_price', age, years_ncd)"},
        }
        for _ in range(count)
    ]


def programs(**options: Any) -> Programs:
    return Programs([Program("auto_price", 1, {"age": INT, "years_ncd": INT}, FLOAT, expression=PRICE)], **options)
