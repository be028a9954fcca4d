"""Operators that installed packages offer."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from tocsin.errors import BadDefinition
from tocsin.operators.operator import operator
from tocsin.operators.registry import GROUP, Registry
from tocsin.schema import Event


@operator
def blinks(_event: Event) -> bool:
    """Whether it blinks."""
    return True


@operator
def rings(_event: Event) -> bool:
    """Whether it rings."""
    return True


several = [rings]
wrong = 3


def made() -> list[object]:
    return [blinks, rings]


def offer(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    points = [EntryPoint(name, f"{__name__}:{name}", GROUP) for name in names]
    monkeypatch.setattr("tocsin.operators.registry.entry_points", lambda group: points if group == GROUP else [])


@pytest.mark.parametrize("names", [("blinks", "several"), ("made",)])
def test_entry_points_offer_operators_in_each_of_the_ways(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    offer(monkeypatch, *names)
    registry = Registry.installed()
    assert "blinks" in registry
    assert "rings" in registry
    assert registry.get("rings").help == "Whether it rings."


def test_an_entry_point_that_leads_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "wrong")
    with pytest.raises(BadDefinition, match=r"the entry point 'wrong' of tocsin\.operators leads to int"):
        Registry.installed()


def test_two_operators_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "made", "blinks")
    with pytest.raises(BadDefinition, match="there is an operator 'blinks' already"):
        Registry.installed()
