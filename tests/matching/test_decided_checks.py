"""Checks that are decided for many pairs at once (circles, networks, lists of texts, hierarchies) against the definition."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from tocsin.language import bind, evaluate
from tocsin.language.text_patterns import network_prefixes
from tocsin.language.units import distance_metres
from tocsin.matching import deciders
from tocsin.matching.matcher import Matcher
from tocsin.schema import Schema
from tocsin.schema.files import loads

SCHEMA: Schema = loads(
    """
    [domains]
    number = { kind = "numeric" }
    text = { kind = "text" }
    place = { kind = "point" }
    [domains.category]
    kind = "hierarchical"
    tree = { furniture = { "dining room" = ["dining table", "sideboard"], bedroom = ["bed"] }, toys = [] }
    [attributes]
    kind = "number"
    price = "number"
    at = "place"
    stops = "place"
    tags = "text"
    ip = "text"
    title = "text"
    category = "category"
    [event_types.trip]
    kind = "optional"
    price = "optional"
    at = "optional"
    stops = "optional multiple"
    tags = "optional multiple"
    ip = "optional"
    title = "optional"
    category = "optional"
    """,
    "toml",
)


def agree(texts: list[str], raws: list[dict[str, object]], batch: pa.RecordBatch | None = None) -> int:
    """Compare what is found in batches, in Arrow columns and singly with the definition; return the number of matches."""
    matcher = Matcher(SCHEMA)
    bound = [bind(text, SCHEMA) for text in texts]
    for id, each in enumerate(bound):
        matcher.add(id, each)
    events = [SCHEMA.admit(raw) for raw in raws]
    right = [[id for id, each in enumerate(bound) if evaluate(each, event)] for event in events]
    assert [sorted(ids) for ids in matcher.match_batch(events)] == right
    assert [sorted(matcher.match(raw)) for raw in raws] == right
    if batch is not None:
        assert [sorted(ids) for part in matcher.match_arrow(batch) for ids in part.lists()] == right
    return sum(map(len, right))


@pytest.mark.parametrize("seed", range(3))
def test_circles_are_decided_as_the_definition_does_also_on_their_edge(seed: int) -> None:
    random = Random(seed)
    points = [(random.uniform(-90, 90), random.uniform(-180, 180)) for _ in range(6)]
    points += [(90.0, 0.0), (-90.0, 10.0), (0.0, 180.0), (0.0, -180.0), (0.0, 0.0)]
    texts = []
    for center in points:
        for other in points:
            metres = distance_metres(other, center)
            for amount in (metres, metres * (1 - 1e-12), metres + random.uniform(-20, 20), random.uniform(0, 3e7)):
                place = random.choice(["at", "stops"])
                circle = f"{place} within {max(0.0, amount):.9f} m of ({center[0]!r}, {center[1]!r})"
                texts.append(f"not ({circle})" if random.random() < 0.3 else circle)
    raws: list[dict[str, object]] = [{"at": list(point), "stops": [list(point), [1.0, 1.0]]} for point in points]
    raws += [{"kind": 1}, {"stops": [[5.0, 5.0]]}]
    arrow = pa.RecordBatch.from_pydict(
        {
            "at": [{"lat": raw["at"][0], "lon": raw["at"][1]} if "at" in raw else None for raw in raws],  # type: ignore[index]
            "stops": [
                [{"lat": stop[0], "lon": stop[1]} for stop in raw["stops"]] if "stops" in raw else None  # type: ignore[attr-defined]
                for raw in raws
            ],
        }
    )
    assert agree(texts, raws, arrow) > 100


def test_networks_of_every_length_find_their_addresses() -> None:
    random = Random(1)
    addresses = [f"10.{random.choice([0, 1, 127])}.{random.randrange(256)}.{random.randrange(256)}" for _ in range(60)]
    texts = []
    for length in range(33):
        base = random.choice(addresses).split(".")
        number = sum(int(part) << shift for part, shift in zip(base, (24, 16, 8, 0), strict=True))
        number &= ~((1 << (32 - length)) - 1)
        network = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
        texts.append(f"ip in network '{network}/{length}'")
        assert len(network_prefixes(f"{network}/{length}")) <= 32
    raws: list[dict[str, object]] = [{"ip": each} for each in [*addresses, "10.1", "x", "::1", "11.0.0.1"]]
    assert agree(texts, raws, pa.RecordBatch.from_pylist(raws)) > 100


def test_lists_of_texts_are_coded_where_arrow_has_them() -> None:
    lists = [["a", "b"], None, [], ["b", "b", "zz"], ["é"], [""], ["c", "a", "nowhere"]]
    texts = ["tags contains 'a'", "tags contains any ('b', 'é')", "tags != 'b'", "tags = ''", "tags > 'b'",
             "tags contains all ('a', 'c')", "tags is absent", "tags between 'b' and 'd'"]  # fmt: skip
    raws: list[dict[str, object]] = [{"tags": each} if each else {} for each in lists]
    for kind in (pa.list_(pa.string()), pa.large_list(pa.string())):
        column = pa.array([["x"], *lists], kind).slice(1)
        agree(texts, raws, pa.RecordBatch.from_arrays([column], ["tags"]))
    assert agree(texts, raws) > 8


def test_what_lies_above_a_value_of_a_hierarchy() -> None:
    values = ["furniture", "dining room", "dining table", "sideboard", "bedroom", "bed", "toys"]
    texts = [f"category {op} '{value}'" for op in (">", ">=", "<", "<=") for value in values]
    assert agree(texts, [{"category": value} for value in values]) > 20


def test_words_beside_other_checks_and_negated_in_order() -> None:
    texts = [
        "title contains ('a' near[0..2] 'b')",
        "not (title contains ('a' near[0..2] 'b'))",
        "title contains ('nowhere' near[0..2] 'b') or title matches 'b +a'",
        "not (title contains ('c' near[1..1] 'a' near[0..0] 'b'))",
        "title contains ('a' near[0..0] 'a')",
    ]
    raws: list[dict[str, object]] = [{"title": text} for text in ("a b", "b a", "c x a b", "a a", "b  a", "", "é a-b")]
    assert agree(texts, [*raws, {"kind": 1}], pa.RecordBatch.from_pylist([*raws, {"kind": 1}])) > 10


def test_comparisons_whose_truth_changes_once_as_their_number_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    told, by_steps = [], deciders._by_steps

    def counted(*given: object) -> object:
        found = by_steps(*given)  # type: ignore[arg-type]
        told.append(found is not None)
        return found

    monkeypatch.setattr(deciders, "_by_steps", counted)
    random = Random(4)
    shapes = ("kind < {} * price", "not (kind - {} < price)", "price / 2 - {} * kind > kind", "kind * {} <= -price")
    numbers = [*(round(random.uniform(-9, 9), 2) for _ in range(70)), 0.5, 0.5]
    texts = [shape.format(number) for shape in shapes for number in numbers]
    texts += [f"kind + {number} >= price" for number in range(-40, 40)]
    values = (-7, 0, 3, 2.5, -0.25, 12)
    raws: list[dict[str, object]] = [{"kind": a, "price": b} for a in values for b in values]
    assert agree(texts, [*raws, {"kind": 1}, {"price": 2}]) > 1_000
    assert told == [True] * 5
    extreme: list[dict[str, object]] = [{"kind": 10**17, "price": 10**17 - 1}, {"kind": 1e308, "price": -1e308}]
    agree(texts, extreme)
    assert not all(told)
