"""A schema that grows: values, aliases, deprecation; nothing valid becomes invalid, and answers stay."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.growth import STEPS, grown
from tests.strategies.worlds import random_event, random_schema, random_subscription
from tocsin.errors import BadDefinition, DuplicateName, SchemaError, UnknownDomain
from tocsin.language import bind, evaluate
from tocsin.schema import EnumeratedDomain, EventType, HierarchicalDomain, NumericDomain, Schema, TypeAttribute
from tocsin.schema.files import FORMATS, dumps, loads
from tocsin.schema.growth import check_extends, moved

COLOURS = EnumeratedDomain(name="shade", values=("red", "grey", "gray"))
SCHEMA = Schema(
    {
        "shade": COLOURS,
        "hue": EnumeratedDomain(name="hue", values=("red", "grey")),
        "level": EnumeratedDomain(name="level", values=("low", "high"), order="total"),
        "kind": HierarchicalDomain(name="kind", tree={"car": {"van": {}, "lorry": {}}, "boat": {}}),
        "money": NumericDomain(name="money"),
    },
    {"colour": "shade", "color": "hue", "level": "level", "kind": "kind", "price": "money", "cost": "money"},
    {
        "car": EventType("car", tuple(TypeAttribute(n, False) for n in ("colour", "level", "kind", "price"))),
        "bike": EventType("bike", tuple(TypeAttribute(n, False) for n in ("color", "cost"))),
    },
)


seeds = st.integers(0, 2**32).map(Random)


def matches(schema: Schema, expression: str, **event: object) -> bool:
    return evaluate(bind(expression, schema), schema.admit(event))


def test_a_domain_gets_values_and_subscriptions_hear_of_them() -> None:
    schema = (
        SCHEMA.add_values("shade", ["blue"]).add_values("kind", ["pick-up"], below="van").add_values("level", ["top"])
    )
    assert matches(schema, "colour = 'blue'", event_type="car", colour="blue")
    assert matches(schema, "kind kind of 'car'", event_type="car", kind="pick-up")
    assert matches(schema, "level > 'low'", event_type="car", level="top")
    check_extends(SCHEMA, schema)


def test_an_alias_of_an_attribute_is_seen_by_subscriptions_to_either() -> None:
    schema = SCHEMA.add_alias("color", "colour").add_alias("farbe", "color")
    check_extends(SCHEMA, schema)
    for asked in ("colour", "color", "farbe"):
        for given_as in ("colour", "color", "farbe"):
            for event_type in ("car", "bike"):
                assert matches(schema, f"{asked} = 'red'", event_type=event_type, **{given_as: "red"})
    both = schema.admit({"event_type": ["car", "bike"], "colour": "red", "color": "grey"})
    assert set(both.values["colour"]) == {"red", "grey"}


def test_an_alias_of_a_value_is_that_value() -> None:
    schema = SCHEMA.add_value_alias("shade", "gray", "grey").add_value_alias("kind", "truck", "lorry")
    check_extends(SCHEMA, schema)
    assert schema.admit({"event_type": "car", "colour": "gray"}).values["colour"] == ("grey",)
    assert matches(schema, "colour = 'gray'", event_type="car", colour="grey")
    assert matches(schema, "kind kind of 'car' and kind = 'truck'", event_type="car", kind="lorry")


def test_what_is_deprecated_stays_valid_and_says_what_to_use() -> None:
    schema = SCHEMA.deprecate("color", "say colour").deprecate("shade.gray", "grey").deprecate("bike", "two-wheeler")
    assert schema.admit({"event_type": "bike", "color": "red"}).values["color"] == ("red",)
    assert schema.deprecated == {"color": "say colour", "shade.gray": "grey", "bike": "two-wheeler"}
    assert schema.deprecate("color", "").deprecated.keys() == {"shade.gray", "bike"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda schema: schema.add_values("shade", ["red"]), BadDefinition),
        (lambda schema: schema.add_values("nothing", ["red"]), UnknownDomain),
        (lambda schema: schema.add_values("money", ["1"]), BadDefinition),
        (lambda schema: schema.add_values("shade", ["x"], below="red"), BadDefinition),
        (lambda schema: schema.add_values("kind", ["x"], below="plane"), BadDefinition),
        (lambda schema: schema.add_values("kind", ["van"], below="boat"), BadDefinition),
        (lambda schema: schema.add_value_alias("level", "low", "high"), BadDefinition),
        (lambda schema: schema.add_value_alias("kind", "van", "boat"), BadDefinition),
        (lambda schema: schema.add_value_alias("shade", "rot", "crimson"), BadDefinition),
        (lambda schema: schema.add_alias("price", "colour"), BadDefinition),
        (lambda schema: schema.add_alias("colour", "color"), BadDefinition),  # there is no gray over there
        (lambda schema: schema.add_alias("event_type", "colour"), DuplicateName),
        (lambda schema: schema.deprecate("nothing", "x"), BadDefinition),
    ],
)
def test_growth_that_would_change_an_answer_is_refused(change: object, error: type[SchemaError]) -> None:
    with pytest.raises(error):
        change(SCHEMA)  # type: ignore[operator]


def test_only_what_is_asked_in_another_way_is_indexed_anew() -> None:
    more = moved(SCHEMA, SCHEMA.add_values("shade", ["blue"]))
    assert not more.concerns(b'{"event_types":["car"],"where":["colour","=","red"]}')
    assert not more.concerns(b'{"where":["price","<",3]}')
    assert more.concerns(b'{"where":["colour","!=","red"]}')
    assert more.concerns(b'{"where":{"or":[["colour","=","red"],["colour","=","grey"]]}}')
    assert not moved(SCHEMA, SCHEMA.add_alias("farbe", "colour"))
    assert moved(SCHEMA, SCHEMA.add_values("kind", ["x"])).anyhow == {"kind"}
    assert moved(SCHEMA, SCHEMA.add_alias("color", "colour")).anyhow == {"color", "colour"}


@given(seeds, st.integers(1, 4))
def test_growth_is_written_and_read_in_every_format(random: Random, steps: int) -> None:
    schema = random_schema(random)
    for _ in range(steps):
        schema = grown(random, schema)[1]
    for format in FORMATS:
        assert loads(dumps(schema, format), format) == schema


@given(seeds, st.integers(1, 6))
def test_old_subscriptions_and_events_keep_their_answers(random: Random, steps: int) -> None:
    old = random_schema(random)
    events = [random_event(random, old) for _ in range(5)]
    asked = [random_subscription(random, old) for _ in range(8)]
    new = old
    apart = tuple(step for step in STEPS if "merge" not in step)
    for _ in range(steps):
        new = grown(random, new, apart)[1]
        check_extends(old, new)
    for subscription in asked:
        for event in events:
            before = evaluate(bind(subscription, old), old.admit(event))
            assert evaluate(bind(subscription, new), new.admit(event)) == before


@given(seeds, st.integers(1, 4))
def test_what_becomes_one_is_heard_of_by_all_who_heard_before(random: Random, steps: int) -> None:
    old = random_schema(random)
    new = old
    for _ in range(steps):
        new = grown(random, new, ("merge", "value merge", "alias", "value alias"))[1]
        check_extends(old, new)
    for _ in range(10):
        event = random_event(random, old)
        name = random.choice([each for each in event if each != "event_type"] or ["event_type"])
        for value in event[name]:
            if "=" in old.domain_of(name).offered:
                admitted = old.domain_of(name).admit(value)
                tree = f'"{name}" = {_written(admitted)}'
                if _written(admitted) is not None:
                    assert evaluate(bind(tree, new), new.admit(event))


def _written(value: object) -> str | None:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'" if value.isprintable() else None
    return str(value).lower() if isinstance(value, bool | int) else None
