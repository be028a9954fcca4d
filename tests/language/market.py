"""A small schema with every kind of domain, which the tests of the language share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tocsin.language.formula import FLOAT, Substitution
from tocsin.language.sides import variables_of
from tocsin.language.syntax import OperatorCall
from tocsin.schema import (
    BooleanDomain,
    Domain,
    EnumeratedDomain,
    Event,
    EventType,
    HierarchicalDomain,
    NumericDomain,
    PointDomain,
    Schema,
    TextDomain,
    TimeDomain,
    TypeAttribute,
    ViewAttribute,
)

DOMAINS = [
    NumericDomain(name="number"),
    NumericDomain(name="money", type="decimal"),
    TextDomain(name="text"),
    TextDomain(name="folded", case="folded"),
    TextDomain(name="code", max_length=5, operators=frozenset({"=", "<", "like"})),
    EnumeratedDomain(name="colour", values=("red", "green", "blue", "brown")),
    EnumeratedDomain(name="size", values=("S", "M", "L"), order="total"),
    EnumeratedDomain(
        name="rank", values=("novice", "judge", "dealer", "expert"), order="partial",
        less=(("novice", "judge"), ("novice", "dealer"), ("judge", "expert"), ("dealer", "expert")),
    ),
    HierarchicalDomain(
        name="category", tree={"furniture": {"table": {"dining table": {}}, "chair": {}}, "vehicle": {"car": {}}}
    ),
    BooleanDomain(name="boolean"),
    TimeDomain(name="time"),
    PointDomain(name="point"),
]  # fmt: skip

ATTRIBUTES = {
    "price": "number",
    "amount": "money",
    "title": "text",
    "brand": "folded",
    "code": "code",
    "colour": "colour",
    "tags": "colour",
    "size": "size",
    "rank": "rank",
    "category": "category",
    "sold": "boolean",
    "closes": "time",
    "place": "point",
    "seller.name": "text",
    "pages": "number",
    "grades": "number",
    "unused": "number",
}

MARKET = Schema(
    {domain.name: domain for domain in DOMAINS},
    ATTRIBUTES,
    {
        "car": EventType(
            "car",
            tuple(
                TypeAttribute(name, mandatory=False, multiple=name in ("tags", "grades"))
                for name in ATTRIBUTES
                if name not in ("pages", "unused")
            ),
        ),
        "book": EventType("book", (TypeAttribute("title"), TypeAttribute("pages", mandatory=False))),
    },
)


class AnyOperators:
    """Operators of any name, with any arguments, whose variables are numbers; none finds anything."""

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        del attributes
        return call

    def variable_domains(self, call: OperatorCall) -> Mapping[str, Domain]:
        return dict.fromkeys(variables_of(call), FLOAT)

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Substitution]:
        del call, event
        return []
