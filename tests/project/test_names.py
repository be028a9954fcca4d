"""One word for one thing: no class name twice, and every public noun in the glossary."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.project.files import ROOT

SOURCES = ROOT / "src" / "tocsin"
GLOSSARY = ROOT / "docs" / "glossary.md"
ROOMS = ("", "schema", "language", "compile", "matching", "operators", "offers", "store", "broker", "client", "spark")


@cache
def classes(folder: Path) -> tuple[tuple[str, str], ...]:
    return tuple(_classes(folder))


def _classes(folder: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, str(file.relative_to(folder))


def test_no_class_name_is_defined_twice() -> None:
    places = defaultdict(list)
    for name, place in classes(SOURCES):
        places[name].append(place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def exported(room: str) -> list[str]:
    """The names in a room's __all__."""
    tree = ast.parse((SOURCES / room / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def nouns() -> set[str]:
    """The classes that users import; errors are listed in tocsin/errors.py, with their meaning."""
    errors = {name for name, place in classes(SOURCES) if place == "errors.py"}
    defined = {name for name, _ in classes(SOURCES)}
    return {name for room in ROOMS for name in exported(room) if name in defined} - errors


def glossary_names() -> set[str]:
    return set(re.findall(r"`(\w+)`", GLOSSARY.read_text(encoding="utf-8")))


def test_rooms_say_what_they_offer() -> None:
    assert "Matcher" in nouns()
    assert "Schema" in nouns()


def test_every_public_noun_is_in_the_glossary() -> None:
    assert sorted(nouns() - glossary_names()) == []


def test_the_glossary_names_nothing_that_is_gone() -> None:
    in_code = re.findall(r"\| `([A-Z]\w+)` \|", GLOSSARY.read_text(encoding="utf-8"))
    assert [name for name in in_code if name not in {each for each, _ in classes(SOURCES)}] == []
