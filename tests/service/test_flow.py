"""The way through: register, log in, subscribe, publish, read, acknowledge, end."""

from __future__ import annotations

from pathlib import Path

from tests.service.world import World, play


def test_a_member_subscribes_and_is_told_of_what_is_published_after(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        subscribed = await world.subscribe("ada")
        assert subscribed["ticket"]
        receipt = await world.publish(50)
        await world.publish(500)
        (one,) = await world.notifications("ada")
        assert one["seq"] == receipt["seq"] > subscribed["seq"]
        assert one["event"]["price"] == 50
        assert await world.notifications("bob") == []

    play(tmp_path, scenario)
