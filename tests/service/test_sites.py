"""Sites over HTTP: who may publish as one, what buyers are told, and what becomes of an account's sites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.service.world import PASSWORD, World, play

HAMMER = "Hammer & Sons"
CAR = {"event_type": "car", "brand": "mini", "price": 9}
MAPPING = {
    "event_type": "car",
    "id": "nr",
    "link": "url",
    "rules": [{"from": "Preis", "to": "price", "scale": 0.01}, {"from": "Marke", "to": "brand"}],
}


async def make_site(world: World, name: str = HAMMER, owner: str = "ada") -> dict[str, Any]:
    answer = await world.client(owner).post("/v1/sites", json={"name": name, "contact": "ada@example.org"})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_a_buyer_asks_once_hears_of_a_site_and_can_reach_its_owner(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        assert (await make_site(world))["owner"] == "ada"
        await world.subscribe("bob", f"car where source.site = '{HAMMER}'")
        stored = await world.client("ada").put(
            "/v1/sites/Hammer%20%26%20Sons/mapping", json={"mapping": MAPPING, "words": "cents"}
        )
        assert (stored.status_code, stored.json()["version"]) == (200, 1)
        document = {"nr": 17, "url": "https://example.org/17", "Preis": "900", "Marke": "mini"}
        for body in (document, CAR):
            query = {"site": HAMMER, "mapping": "newest" if body is document else "none"}
            answer = await world.client("ada").post("/v1/events", json=body, params=query)
            assert answer.status_code == 201, answer.text
        first, second = [one["event"] for one in await world.notifications("bob")]
        source = {"source.site": HAMMER, "source.publisher": "ada", "source.contact": "ada@example.org"}
        assert second == CAR | source
        assert first == CAR | source | {
            "source.id": "17", "source.link": "https://example.org/17", "source.key": f"{HAMMER}/17",
        }  # fmt: skip
        inbox = (await world.client("bob").get("/v1/inbox")).json()["items"]
        assert inbox[0]["event"]["source.site"] == HAMMER
        found = (await world.client("bob").get("/v1/sites/Hammer & Sons")).json()
        assert (found["contact"], found["mapping"]) == ("ada@example.org", 1)
        assert [one["name"] for one in (await world.client("bob").get("/v1/sites")).json()["items"]] == [HAMMER]
        assert (await world.client("bob").get("/v1/sites?own=true")).json() == {"items": [], "cursor": None}

    play(tmp_path, scenario)


def test_a_forged_site_is_refused_on_every_way_in(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await make_site(world)
        await world.subscribe("bob", f"car where source.site = '{HAMMER}'")
        eve = world.client("bob")
        forged = CAR | {"source.site": HAMMER}
        cloud = {
            "specversion": "1.0",
            "type": "car",
            "source": "x",
            "id": "1",
            "data": CAR | {"source": {"site": HAMMER}},
        }
        assert (await eve.post("/v1/events", json=CAR, params={"site": HAMMER})).status_code == 403
        assert (await world.client("admin").post("/v1/events", json=CAR, params={"site": HAMMER})).status_code == 403
        assert (await world.client("").post("/v1/events", json=CAR, params={"site": HAMMER})).status_code == 403
        assert (await eve.post("/v1/events", json=CAR, params={"site": "hammer & sons"})).status_code == 404
        answers = [
            await eve.post("/v1/events", json=forged),
            await eve.post("/v1/events", json={"event": forged, "rules": []}),
            await eve.post("/v1/events", json=cloud, headers={"content-type": "application/cloudevents+json"}),
        ]
        assert [one.status_code for one in answers] == [422, 422, 422]
        assert answers[0].json()["errors"][0]["rule"] == "reserved attribute"
        assert (await eve.post("/v1/sites", json={"name": "hammer  & SONS"})).status_code == 409
        assert await world.notifications("bob") == []

    play(tmp_path, scenario, guests="publish")


def test_xml_cannot_forge_a_site_either(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await make_site(world)
        await world.subscribe("bob", "car")
        forged = f'<ATTR type="source.site">{HAMMER.replace("&", "&amp;")}</ATTR>'
        for more, reached in (("", 1), (forged, 1)):  # the second is refused
            event = (
                '<PUBLISH_EVENT contact=""><EVENT_TYPE><VALUE type="car"/></EVENT_TYPE><ATTRIBUTES>'
                f'<ATTR type="price">9</ATTR>{more}</ATTRIBUTES></PUBLISH_EVENT>'
            )
            await world.client("bob").post("/v1/xml", content=event, headers={"content-type": "application/xml"})
            assert len(await world.notifications("bob")) == reached

    play(tmp_path, scenario)


def test_a_token_for_reading_cannot_publish_as_a_site(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await make_site(world)
        made = await world.client("ada").post("/v1/tokens", json={"name": "reader", "scopes": ["read"]})
        headers = {"authorization": f"Bearer {made.json()['token']}"}
        refused = [
            await world.client("").post("/v1/events", json=CAR, params={"site": HAMMER}, headers=headers),
            await world.client("").delete("/v1/sites/Hammer & Sons", headers=headers),
        ]
        assert [one.status_code for one in refused] == [403, 403]

    play(tmp_path, scenario)


def test_the_sites_of_a_deleted_account_end_and_their_names_stay_taken(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await make_site(world)
        ada = world.client("ada")
        assert (await ada.request("DELETE", "/v1/account", json={"password": PASSWORD})).status_code == 204
        assert (await world.client("bob").get("/v1/sites/Hammer & Sons")).status_code == 404
        assert (await world.client("bob").post("/v1/sites", json={"name": HAMMER})).status_code == 409

    play(tmp_path, scenario)


def test_bad_requests_say_what_would_be_right(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await make_site(world)
        ada = world.client("ada")
        for body in (
            {"name": "a/b"},
            {"name": ""},
            {"name": "x", "home_page": "javascript:alert(1)"},
            {"name": "x", "owner": "bob"},
        ):
            assert (await ada.post("/v1/sites", json=body)).status_code == 422
        for rules in ([{"from": "a", "to": "nothing"}], [{"from": "a", "to": "source.site"}], [{"from": "a"}]):
            answer = await ada.put("/v1/sites/Hammer & Sons/mapping", json={"mapping": {"rules": rules}})
            assert answer.status_code == 422, answer.text
        assert (await ada.post("/v1/events", json=CAR, params={"mapping": "3"})).status_code == 400
        assert (await ada.post("/v1/events", json=CAR, params={"site": HAMMER, "mapping": "3"})).status_code == 404
        assert (await ada.post("/v1/events", json=CAR, params={"site": HAMMER, "mapping": "x"})).status_code == 422

    play(tmp_path, scenario)
