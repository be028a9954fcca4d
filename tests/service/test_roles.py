"""Roles: who extends the schema at once, who waits for an admin's yes, and what the history says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.world import World, play

COLOUR = {"changes": [{"add_attribute": {"name": "shade", "domain": "name"}}], "words": "we sell paint"}
ALIAS = {"changes": [{"add_alias": {"alias": "cost", "means": "price"}}]}


async def promote(world: World, role: str = "publisher", name: str = "ada") -> None:
    answer = await world.client("admin").patch(f"/v1/accounts/{name}", json={"role": role})
    assert (answer.status_code, answer.json()["role"]) == (200, role)
    world.service.identities.forget()


async def extend(world: World, body: Any = COLOUR, name: str = "ada") -> httpx.Response:
    return await world.client(name).post("/v1/schema/extensions", json=body)


async def history(world: World) -> list[str]:
    return [one["change"] for one in (await world.client("bob").get("/v1/schema/history")).json()["items"]]


def test_a_publisher_extends_the_schema_at_once_and_the_history_says_who_what_and_why(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        assert (await extend(world)).status_code == 403
        await promote(world)
        assert (await world.client("ada").get("/v1/account")).json()["role"] == "publisher"
        assert (await extend(world)).status_code == 200
        assert (await history(world))[-1] == "ada: attribute shade (we sell paint)"
        await promote(world, "member")
        assert (
            await extend(world, {"changes": [{"add_attribute": {"name": "x", "domain": "name"}}]})
        ).status_code == 403

    play(tmp_path, scenario)


def test_what_changes_the_meaning_of_others_names_waits_for_a_yes_always(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await promote(world)
        answer = await extend(world, ALIAS)
        assert (answer.status_code, answer.json()["version"]) == (202, 1)
        assert world.broker.schema.aliases == {}

    play(tmp_path, scenario)


def test_additions_wait_for_a_yes_where_the_operator_wants_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await promote(world)
        number = (await extend(world)).json()["proposal"]
        assert "shade" not in world.broker.schema.attributes
        assert (
            await extend(world, name="admin", body={"changes": [{"add_attribute": {"name": "y", "domain": "name"}}]})
        ).status_code == 200
        (mine,) = (await world.client("ada").get("/v1/schema/proposals")).json()["items"]
        assert (mine["number"], mine["state"], mine["words"], mine["changes"]) == (
            number,
            "waiting",
            "we sell paint",
            COLOUR["changes"],
        )
        assert (await world.client("bob").get("/v1/schema/proposals")).json()["items"] == []
        assert (await world.client("ada").post(f"/v1/schema/proposals/{number}/accept")).status_code == 403
        accepted = await world.client("admin").post(f"/v1/schema/proposals/{number}/accept", json={"words": "fine"})
        assert (accepted.status_code, accepted.json()["version"]) == (200, 3)
        assert "shade" in world.broker.schema.attributes
        assert (await history(world))[-1] == "ada: attribute shade (we sell paint; accepted by admin; fine)"
        for answer in ("accept", "refuse"):
            assert (await world.client("admin").post(f"/v1/schema/proposals/{number}/{answer}")).status_code == 404
        (mine,) = (await world.client("ada").get("/v1/schema/proposals")).json()["items"]
        assert (mine["state"], mine["decided_by"], mine["answer"], mine["version"]) == ("accepted", "admin", "fine", 3)

    play(tmp_path, scenario, schema_additions="after-yes")


def test_a_proposal_that_is_refused_or_no_longer_fits_changes_nothing(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await promote(world)
        first, second = [(await extend(world)).json()["proposal"] for _ in range(2)]
        assert (
            await world.client("admin").post(f"/v1/schema/proposals/{first}/refuse", json={"words": "no"})
        ).status_code == 204
        third = (await extend(world)).json()["proposal"]
        assert (await world.client("admin").post(f"/v1/schema/proposals/{second}/accept")).status_code == 200
        taken = await world.client("admin").post(f"/v1/schema/proposals/{third}/accept")
        assert taken.status_code == 409
        states = {
            one["number"]: one["state"]
            for one in (await world.client("admin").get("/v1/schema/proposals")).json()["items"]
        }
        assert states == {first: "refused", second: "accepted", third: "waiting"}
        assert world.broker.schema.version == 2
        wrong = await extend(world, {"changes": [{"add_attribute": {"name": "z", "domain": "nothing"}}]})
        assert wrong.status_code == 422

    play(tmp_path, scenario, schema_additions="after-yes")


def test_only_admins_extend_the_schema_where_the_operator_wants_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await promote(world)
        refused = await extend(world)
        assert (refused.status_code, refused.json()["detail"]) == (403, "here only admins extend the schema")
        assert (await extend(world, name="admin")).status_code == 200

    play(tmp_path, scenario, schema_additions="admins")


@pytest.mark.parametrize(
    ("policy", "role", "status"),
    [("at-once", "publisher", "ok"), ("after-yes", "publisher", "refused"), ("at-once", "member", "refused")],
)
def test_xml_keeps_to_the_same_policy(tmp_path: Path, policy: str, role: str, status: str) -> None:
    async def scenario(world: World) -> None:
        await promote(world, role)
        document = '<EXTENT_SCHEMA type="antique"><E_ATTR unique="true" type="brand"/></EXTENT_SCHEMA>'
        headers = {"content-type": "application/xml"}
        reply = await world.client("ada").post("/v1/xml", content=document, headers=headers)
        assert (f'status="{status}"' in reply.text) is True, reply.text
        assert (world.broker.schema.version == 2) is (status == "ok")
        if status == "ok":
            assert (await history(world))[-1].startswith("ada: antique may have brand (")
        subscription = (
            '<PUBLISH_SUB><EVENT_TYPE><VALUE type="car" oper="contains"/></EVENT_TYPE><ATTRIBUTES>'
            '<ATTR type="price" oper="gteq">3</ATTR></ATTRIBUTES></PUBLISH_SUB>'
        )
        made = await world.client("ada").post("/v1/xml", content=subscription, headers=headers)
        assert 'status="ok"' in made.text  # a publisher is a member, too

    play(tmp_path, scenario, schema_additions=policy)


def test_a_publishers_token_extends_only_with_the_scope_for_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await promote(world)
        found = []
        for scopes in (["read", "subscribe"], ["publish"]):
            made = await world.client("ada").post("/v1/tokens", json={"name": "one", "scopes": scopes})
            headers = {"authorization": f"Bearer {made.json()['token']}"}
            found.append(
                (await world.client("").post("/v1/schema/extensions", json=COLOUR, headers=headers)).status_code
            )
        assert found == [403, 200]

    play(tmp_path, scenario)


def test_the_only_admin_does_not_become_a_publisher(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        refused = await world.client("admin").patch("/v1/accounts/admin", json={"role": "publisher"})
        assert refused.status_code == 409

    play(tmp_path, scenario)
