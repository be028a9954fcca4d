"""Attacks on the parser are refused; no file and no socket is opened; any bytes at all get a well-formed reply."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.xml.attacks import attacks
from tests.xml.test_handle import EVENT, SUBSCRIPTION
from tests.xml.thesis import ADMIN, EVENT_OF_APPENDIX_B, reply_of, sample, thesis_broker, user_log
from tocsin.broker import Broker
from tocsin.xml.handle import handle
from tocsin.xml.requests import DTD_FILES

NAMES = list(attacks("", 0))
# Well formed and harmless, but no valid request; and one that is too large.
INVALID = {
    *(
        "XInclude",
        "schema location",
        "huge attribute",
        "many wrong elements",
        "entity in an attribute",
        "many comments",
    ),
}
STATUS = {"too large": 413} | dict.fromkeys(INVALID, 422)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of each attack, run in a process of its own that watches itself."""
    command = [sys.executable, "-m", "tests.xml.attacks", str(tmp_path_factory.mktemp("attacks"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", NAMES)
def test_an_attack_is_refused_and_touches_nothing(name: str, results: dict[str, dict[str, Any]]) -> None:
    result = results[name]
    assert result["touched"] == []
    assert result["status"] == STATUS.get(name, 400), result["reply"]
    assert len(result["reply"]) < 50_000
    root = etree.fromstring(result["reply"].encode())
    assert root.get("status") == "refused"
    assert len(root) > 0


# --- any bytes --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with thesis_broker(tmp_path_factory.mktemp("fuzz")) as opened:
        yield opened


GOOD = [
    *(sample(name) for name in ("add_domain", "add_attribute", "extent_schema", "add_event")),
    *(EVENT.encode(), SUBSCRIPTION.encode(), EVENT_OF_APPENDIX_B, b"<IESCHEMA/>"),
]
NAMES_OF_ELEMENTS = sorted(
    {*DTD_FILES, *(str(e.tag) for e in user_log().iter()), "ATTR_DOM", "E_ATTR", "E_TYPE", "OPER"}
)
NAMES_OF_ATTRIBUTES = ["type", "oper", "contact", "name", "domid", "unique", "mandatory", "lease", "username", "attr"]
VALUES = st.sampled_from(
    ["car", "price", "period", "event_type", "contains", "eq", "gteq", "1", "2", "true", "enum", ""]
)
TEXTS = VALUES | st.text(st.characters(codec="utf-8"), max_size=8)
_CLEAN = str.maketrans({"<": "&lt;", "&": "&amp;", '"': "&quot;"})


def _element(name: str, attributes: dict[str, str], content: list[str]) -> str:
    listed = "".join(f' {key}="{value.translate(_CLEAN)}"' for key, value in attributes.items())
    return f"<{name}{listed}>{''.join(content)}</{name}>"


documents = st.recursive(
    TEXTS.map(lambda text: text.translate(_CLEAN)),
    lambda inner: st.builds(
        _element,
        st.sampled_from(NAMES_OF_ELEMENTS),
        st.dictionaries(st.sampled_from(NAMES_OF_ATTRIBUTES), TEXTS, max_size=3),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return a good request with some of its bytes replaced, removed or put twice."""
    body = bytearray(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        end = min(len(body), at + draw(st.integers(0, 12)))
        body[at:end] = draw(
            st.binary(max_size=6) | st.just(bytes(body[at:end]) * 2) | st.sampled_from([b"&x;", b"<", b"]]>"])
        )
    return bytes(body)


def _check(broker: Broker, body: bytes) -> None:
    reply = handle(body, broker, ADMIN)
    reply_of(reply)
    assert reply.http_status in (200, 400, 409, 422)


@given(st.binary(max_size=200))
def test_any_bytes_get_a_well_formed_reply(broker: Broker, body: bytes) -> None:
    _check(broker, body)


@given(damaged())
def test_any_damaged_request_gets_a_well_formed_reply(broker: Broker, body: bytes) -> None:
    _check(broker, body)


@given(documents)
def test_any_document_in_the_thesis_s_vocabulary_gets_a_well_formed_reply(broker: Broker, text: str) -> None:
    _check(broker, text.encode("utf-8", "surrogatepass"))


@given(
    st.lists(st.tuples(st.sampled_from(["price", "period", "brand", "year", "event_type"]), TEXTS), max_size=6),
    st.sampled_from(["eq", "noteq", "gt", "lteq", "contains", "like", "startswith", "kindof"]),
)
def test_any_values_in_an_event_or_a_subscription_get_a_well_formed_reply(
    broker: Broker, values: list[tuple[str, str]], operator: str
) -> None:
    event = "".join(_element("ATTR", {"type": name}, [text.translate(_CLEAN)]) for name, text in values)
    asked = "".join(
        _element("ATTR", {"type": name, "oper": operator}, [text.translate(_CLEAN)]) for name, text in values
    )
    contains = ' oper="contains"'
    types = '<EVENT_TYPE><VALUE type="car"{}/></EVENT_TYPE>'
    for body in (
        f'<PUBLISH_EVENT contact="">{types.format("")}<ATTRIBUTES>{event}</ATTRIBUTES></PUBLISH_EVENT>',
        f"<PUBLISH_SUB>{types.format(contains)}<ATTRIBUTES>{asked}</ATTRIBUTES></PUBLISH_SUB>",
    ):
        _check(broker, body.encode("utf-8", "surrogatepass"))
