"""What the demo says when its doors open: where to look, and who to be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from tocsin.broker.broker import Matching
from tocsin_examples.front import show
from tocsin_examples.open_house import PASSWORD, VISITOR, OpenHouse
from tocsin_examples.worlds import WORLDS


def opener(
    console: Console, world: str, port: int | None, matching: Matching, *, serve: bool, browser: bool
) -> Callable[[Path, int], OpenHouse]:
    """Return what opens the house and says so."""

    def open_house(folder: Path, seed: int) -> OpenHouse:
        about = WORLDS[world](seed)
        house = OpenHouse(folder, seed, about, port=port, matching=matching)
        url = house.front.url
        ending = "Ctrl-C ends it." if serve else "It ends by itself; make serve leaves it running."
        for line in (
            f"The dashboard:   {url}/dashboard",
            f"Your matches:    {url}/login   as {VISITOR}, password: {PASSWORD}",
            f"The market:      {about.words}",
            f"{ending}\n",
        ):
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        if browser:
            show(f"{url}/dashboard")
        return house

    return open_house
