"""Polygons and addresses: the edge cases of what they mean, beside a slow reckoning of the same."""

from __future__ import annotations

import ipaddress
import json
from fractions import Fraction

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.arrow_events import events_to_arrow
from tocsin import Matcher
from tocsin.language.syntax import Polygon
from tocsin.language.units import in_polygon
from tocsin.pipeline.admission import admit_batch
from tocsin.pipeline.plan import Layout
from tocsin.schema import IpDomain, Schema, dumps, loads
from tocsin.schema.arrow import events_from_arrow

GRID = st.tuples(st.integers(-3, 3), st.integers(-3, 3)).map(lambda pair: (float(pair[0]), float(pair[1])))
TINY = st.sampled_from([0.0, 1e-12, -1e-12, 5e-324, 2.0**-60])
IP = IpDomain(name="ip")


def _by_fractions(point: tuple[float, float], corners: tuple[tuple[float, float], ...]) -> bool:
    """Return whether a ray to the north meets the edges an odd number of times, or the point lies on one."""
    y, x = map(Fraction, point)
    inside = False
    for start, end in zip(corners, (*corners[1:], corners[0]), strict=True):
        (a, b), (c, d) = (tuple(map(Fraction, corner)) for corner in sorted((start, end), key=lambda each: each[1]))
        turn = (d - b) * (y - a) - (c - a) * (x - b)
        if turn == 0 and b <= x <= d and min(a, c) <= y <= max(a, c):
            return True
        if b <= x < d and turn < 0:
            inside = not inside
    return inside


@given(st.lists(GRID, min_size=3, max_size=7), GRID, TINY, TINY)
def test_a_polygon_has_its_edges_exactly(
    corners: list[tuple[float, float]], point: tuple[float, float], north: float, east: float
) -> None:
    near = (point[0] + north, point[1] + east)
    assert in_polygon(near, Polygon(tuple(corners))) == _by_fractions(near, tuple(corners))


@given(st.ip_addresses(), st.ip_addresses())
def test_keys_of_addresses_are_in_their_order_and_say_which_they_are(one, other) -> None:  # type: ignore[no-untyped-def]
    keys = [IP.key(IP.admit(str(each))) for each in (one, other)]
    assert (keys[0] < keys[1]) == ((one.version, int(one)) < (other.version, int(other)))
    assert IP.from_key(keys[0]) == str(one) == IP.admit(one.exploded)


@given(st.ip_addresses(), st.ip_addresses(), st.integers(0, 32))
def test_a_network_is_an_interval_of_keys(address, within, bits: int) -> None:  # type: ignore[no-untyped-def]
    network = ipaddress.ip_network((within, bits), strict=False)
    first, last = IP.network_keys(str(network))
    assert (first <= IP.key(str(address)) <= last) == (address.version == network.version and address in network)


def test_a_domain_that_offers_inequality_alone_is_matched() -> None:
    domain = {"kind": "point", "operators": ["!="]}
    schema = loads(
        json.dumps({"domains": {"p": domain}, "attributes": {"at": "p"}, "event_types": {"e": {"at": "optional"}}}),
        "json",
    )
    matcher = Matcher(schema)
    matcher.subscribe(1, "at != (1, 2)")
    assert [matcher.match({"at": place}) for place in ([1, 2], [1, 3])] == [[], [1]]


def test_addresses_of_columns_are_admitted_as_those_of_events() -> None:
    schema = Schema.infer([{"n": 1, "source": "10.1.2.3"}, {"n": 2, "source": "2001:db8::1"}])
    assert isinstance(schema.domain_of("source"), IpDomain)
    texts = ["10.1.2.3", "2001:DB8:0::1", None, "10.1.2", "11.0.0.1"]
    batch = pa.RecordBatch.from_pydict({"n": [1.0, 2.0, 3.0, 4.0, 5.0], "source": texts})
    admission = admit_batch(batch, schema, Layout(("n", "source")))
    assert admission.rows.tolist() == [0, 1, 2, 4]
    assert admission.columns.column("source").to_pylist() == ["10.1.2.3", "2001:db8::1", None, "11.0.0.1"]
    matcher = Matcher(schema)
    matcher.subscribe("network", "source in network any ('10.0.0.0/8', '2001:db8::/32')")
    matcher.subscribe("one", "source = '2001:db8:0:0::1'")
    rows = [
        ids
        for part in matcher.match_arrow(batch.filter(pa.array([True, True, True, False, True])))
        for ids in part.lists()
    ]
    assert [sorted(ids) for ids in rows] == [["network"], ["network", "one"], [], []]
    again = events_from_arrow(events_to_arrow([schema.admit({"n": 2, "source": "2001:DB8::1"})], schema), schema)
    assert [event.values["source"] for event in again] == [("2001:db8::1",)]
    assert loads(dumps(schema, "toml"), "toml") == loads(dumps(schema, "json"), "json") == schema
