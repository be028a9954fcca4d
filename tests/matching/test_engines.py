"""Engines by name: ours, and those of other distributions."""

from __future__ import annotations

import pytest

from tocsin.errors import NotInstalled, NotSupported
from tocsin.matching import engine_names, engine_of


def test_the_papers_engines_are_found_by_name() -> None:
    assert engine_names()[:2] == ("columnar", "naive")
    assert engine_of("counting").name == "counting"


def test_an_engine_that_is_not_there_is_refused_with_the_names_of_those_that_are() -> None:
    with pytest.raises(NotSupported, match=r"did you mean columnar.*there are: columnar, naive, "):
        engine_of("columna")


def test_an_engine_of_another_distribution_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.plugins.installed", lambda group: {})
    assert engine_names() == ("columnar", "naive")
    with pytest.raises(NotInstalled, match="'counting' is not installed here; to have it: pip install tocsin-lab"):
        engine_of("counting")
