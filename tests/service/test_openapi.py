"""The OpenAPI document, attacked: whatever it allows, and what it does not, is answered as it says; never with a 5xx.

A few examples an operation by default, the same ones every time; TOCSIN_SLOW=1 for many.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service.live import Live, serving
from tests.service.test_access import BODIES, EVENT
from tocsin.service.app import create_app
from tocsin.service.settings import ServiceSettings
from tocsin.store import accounts

# Hypothesis sees that the state of `random` has moved while it drew a case. Strategies have not used it: the service
# runs in a thread of this process, and what it stands on may.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

CHECKS: list[Any] = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
]  # fmt: skip
UNENDING = "/v1/notifications/stream"
OPERATIONS = sorted(
    (method.upper(), path)
    for path, methods in create_app(ServiceSettings()).document["paths"].items()
    for method in methods
    if path != UNENDING
)
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
XML = '<PUBLISH_EVENT><EVENT_TYPES><EVENT_TYPE type="car"/></EVENT_TYPES></PUBLISH_EVENT>'


@schemathesis.serializer("application/x-ndjson", "application/xml")
def as_it_is(_: Any, value: Any) -> Any:
    """Send a text as the text it is."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@dataclass
class Attacked:
    """A running service, its document, and who attacks: an admin, so that every door is open."""

    live: Live
    schema: Any
    document: dict[str, Any]

    def things(self, path: str) -> dict[str, Any]:
        """Make one of what a path is about; return what fills the path in."""
        broker = self.live.broker
        if path.startswith(("/v1/subscriptions/{", "/v1/notifications/{")):
            id = broker.subscribe("car where price < 100", owner="ada").id
            if "{id}" in path:
                return {"id": id}
            broker.publish(EVENT)
            return {"cursor": list(broker.replay("ada"))[-1].items[-1].cursor}
        with self.live.http("ada") as client:
            if path.startswith("/v1/webhooks/{"):
                return {"id": client.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/"}).json()["id"]}
            if path.startswith("/v1/tokens/{"):
                return {"id": client.post("/v1/tokens", json={"name": "one"}).json()["id"]}
            if path.startswith("/v1/drafts/backfills/{"):
                return {"id": client.post("/v1/drafts/backfills", json={"text": "car"}).json().get("id", 1)}
            if path.startswith("/v1/dead-letters/{"):
                lines: dict[str, Any] = {
                    "content": b'{"event_type": "car"}',
                    "headers": {"content-type": "application/x-ndjson"},
                }
                return {"seq": client.post("/v1/events?atomic=false", **lines).json()["items"][0]["seq"]}
        others = {"kind": "ADD_EVENT", "name": "bob"}
        return {name: others.get(name, 1) for name in re.findall(r"{(\w+)}", path)}

    def send(self, case: Any) -> None:
        """Ask, and hold the answer against the document."""
        case.call_and_validate(headers={"authorization": f"Bearer {self.live.tokens['ada']}"}, checks=CHECKS)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """Give one service for all operations."""
    plenty: dict[str, Any] = {"registrations_per_hour": 10**6, "logins_per_minute": 10**6, "requests_per_minute": 10**9}
    bounds: dict[str, Any] = {"tokens_per_account": 10**6, "webhooks_per_account": 10**6}
    with serving(tmp_path_factory.mktemp("openapi"), guests="publish", **plenty, **bounds) as live:
        with live.broker.store.write() as turn:
            accounts.change_account(turn, accounts.ensure_accounts(turn, ["ada"])["ada"], role="admin")
        with live.http("ada") as client:
            document = client.get("/openapi.json").json()
        schema = schemathesis.openapi.from_dict(document)
        schema.config.update(base_url=live.url)
        yield Attacked(live, schema, document)


def attack(attacked: Attacked, method: str, path: str, examples: int) -> int:
    """Ask for an operation in ways that the document allows, and in ways that it does not; return how often."""
    operation = attacked.schema[path][method]
    takes = attacked.document["paths"][path][method.lower()]
    made = 0
    for mode in MODES if takes.get("parameters") or takes.get("requestBody") else MODES[:1]:

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=examples, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def ask(case: Any) -> None:
            nonlocal made
            made += 1
            if made % 2 and case.path_parameters:  # every other time about something that is there
                case.path_parameters = {**case.path_parameters, **attacked.things(path)}
            attacked.send(case)

        ask()
    return made


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_proper_request_is_answered_as_documented(method: str, path: str, attacked: Attacked) -> None:
    things = attacked.things(path)
    body, media = BODIES.get((method, path)), "application/json"
    if path.endswith("/bulk"):
        body, media = '{"text": "car where price < 3"}', "application/x-ndjson"
    elif path == "/v1/xml":
        body, media = XML, "application/xml"
    elif path.endswith("/acknowledge"):
        body = {"cursor": attacked.live.broker.oldest_cursor()}
    elif path.endswith("/deliveries/retry"):
        body = {"seq": 1, "subscription": 1}
    more = {} if body is None else {"body": body, "media_type": media}
    attacked.send(attacked.schema[path][method].Case(path_parameters=things, **more))


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_operation_answers_as_documented(method: str, path: str, attacked: Attacked) -> None:
    assert attack(attacked, method, path, 3) >= 1


@pytest.mark.slow
@pytest.mark.skipif("TOCSIN_SLOW" not in os.environ, reason="takes minutes; set TOCSIN_SLOW=1")
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_operation_answers_as_documented_at_length(method: str, path: str, attacked: Attacked) -> None:
    assert attack(attacked, method, path, 60) >= 1
