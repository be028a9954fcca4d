"""A house that is open for long stays as large as it was: as many members go as come, and who left is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin_examples import house as houses
from tocsin_examples.house import House


def test_members_come_and_go_and_their_number_stays_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(houses, "KEPT_ENDED", 100)
    house = House(tmp_path, seed=3, matching="inline")
    try:
        house.subscribe(1200)
        newcomers = house.members.wishes(10_000)
        for _ in range(30):
            house.publish(2)
            house._change(100, newcomers)  # three thousand changes: half come, half go
        assert house.live == 1200
        assert house.broker.index_stats()["live"] == 1200
        assert len(house.wishes) <= 1200 + 100
        assert len(house.ended) <= 100
        assert len(house._owners) == 1200
        assert house.check(house.notifications()) > 0  # what it still knows is right
    finally:
        house.close()
