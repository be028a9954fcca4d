"""Mappings proposed from samples, and what a mapping makes of samples: for people who join with data of their own.

A field goes to the attribute whose name says the same (words, abbreviations, units set apart) and whose domain takes its
values, as they are, without regard to case, or by a unit that both names tell. What goes nowhere is said, with what would
help: another attribute, a table of values, values that the domain lacks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin.errors import BadValue, EventRejected
from tocsin.language.mapping import (
    MappingDocument,
    MappingRule,
    SiteMapping,
    admitted,
    paths_of,
    text_of_value,
    values_at,
)
from tocsin.language.mapping_columns import translate_batch
from tocsin.language.units import UNIT_DIMENSIONS
from tocsin.schema import EVENT_TYPE, Domain, EnumeratedDomain, HierarchicalDomain, Schema
from tocsin.schema.growth import are_similar

MISSING = ("", "NA", "N/A", "null", "NaN", "-")
MOST_SHOWN = 8
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_UNIT_WORDS = {
    "kg": "kg", "lb": "lb", "lbs": "lb", "pounds": "lb", "tonnes": "t", "km": "km", "miles": "mi", "mi": "mi", "cm": "cm",
    "mm": "mm", "inches": "in", "feet": "ft", "litres": "l", "liters": "l", "l": "l", "gallons": "gal", "cc": "cm3",
    "kmh": "km/h", "mph": "mph", "celsius": "C", "fahrenheit": "F", "kw": "kW", "hp": "hp", "horsepower": "hp", "ps": "PS", "mpg": "mpg",
    "kml": "km/l", "cuin": "in3", "klb": "klb",
}  # fmt: skip
_PHRASES = (("miles per gallon", "mpg"), ("litres per 100 km", "l/100km"), ("liters per 100 km", "l/100km"),
            ("l per 100 km", "l/100km"), ("cubic inches", "in3"), ("cu in", "in3"), ("per", ""), ("in", ""))  # fmt: skip


@dataclass(frozen=True, slots=True)
class MappingProposal:
    """A mapping, and what to know about it."""

    document: MappingDocument
    notes: tuple[str, ...]


@dataclass(slots=True)
class Coverage:
    """What becomes of samples: how many are refused and why, which fields are lost, how many bind each attribute."""

    samples: int
    refused: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    bound: Counter[str] = field(default_factory=Counter)
    admitted: int = 0

    def lines(self) -> list[str]:
        """Return the report, for people."""
        said = [f"{self.admitted} of {self.samples} documents become events"]
        said += [f"  {name}: {count} of {self.samples}" for name, count in self.bound.items()]
        said += [f"lost: {name} ({count} documents)" for name, count in self.lost.most_common()]
        said += [f"refused ({count}): {reason}" for reason, count in self.refused.most_common(MOST_SHOWN)]
        return said


def coverage(mapping: SiteMapping, samples: Sequence[Mapping[str, Any]]) -> Coverage:
    """Return what a mapping makes of samples."""
    found = Coverage(len(samples))
    for sample, translated in zip(samples, translate_batch(mapping, samples), strict=True):
        found.lost.update(mapping.lost(sample))
        try:
            if isinstance(translated, EventRejected):
                raise translated
            event = mapping.schema.admit(translated)
        except EventRejected as error:
            found.refused.update(dict.fromkeys(map(str, error.violations), 1))
        else:
            found.admitted += 1
            found.bound.update(event.values.keys())
    return found


def infer_mapping(
    site: str, samples: Sequence[Mapping[str, Any]], schema: Schema, event_type: str | None = None
) -> MappingProposal:
    """Return a mapping of a site's samples to events of a type; of the only one, where none is named."""
    types = [event_type] if event_type is not None else list(schema.event_types)[:1]
    notes = (
        [] if event_type is not None or len(schema.event_types) == 1 else [f"the event type is taken to be {types[0]}"]
    )
    view = schema.view(types)
    rules: list[MappingRule] = []
    taken: set[str] = set()
    for path in dict.fromkeys(path for sample in samples for path in paths_of(sample)):
        raws = [
            raw
            for sample in samples
            for raw in values_at(sample, path)
            if not (isinstance(raw, str) and raw in MISSING)
        ]
        names = [name for name in view.attributes if name not in taken and name != EVENT_TYPE]
        rule, note = _rule(path, raws, names, schema)
        if rule is not None:
            rules.append(rule)
            taken.update(rule.targets)
        notes += [note] if note else []
    notes += [
        f"{name} is mandatory, and no field was found for it"
        for name in view.mandatory
        if name not in taken | {EVENT_TYPE}
    ]
    used = {
        raw
        for sample in samples
        for path in paths_of(sample)
        for raw in values_at(sample, path)
        if isinstance(raw, str)
    }
    missing = tuple(each for each in MISSING if not each or each in used)
    document = MappingDocument(site=site, rules=tuple(rules), event_type=types[0] if types else None, missing=missing)
    return MappingProposal(document, tuple(notes))


def _rule(path: str, raws: list[Any], names: list[str], schema: Schema) -> tuple[MappingRule | None, str]:
    words, unit = words_of(path)
    ranked = [name for name in names if _same_words(words, words_of(name)[0]) or _is_alias(path, name, schema)]
    if not ranked:
        return None, f"{path} has no attribute; make one, map it, or ignore it"
    name = ranked[0]
    domain, target_unit = schema.domain_of(name), words_of(name)[1]
    if unit and target_unit and unit != target_unit and UNIT_DIMENSIONS[unit] == UNIT_DIMENSIONS[target_unit]:
        return MappingRule(to=name, source=path, unit=(unit, target_unit)), ""
    note = ""
    if unit and not target_unit:
        note = f"{path} is in {unit}: is {name} too? If not, say unit = [{unit!r}, …]"
    elif target_unit and not unit:
        note = f"{name} is in {target_unit}: is {path} too? If not, say unit = […, {target_unit!r}]"
    wrong = [raw for raw in raws if not _fits(domain, raw)]
    if not wrong:
        return MappingRule(to=name, source=path), note
    if isinstance(domain, EnumeratedDomain | HierarchicalDomain):
        return _by_table(path, name, wrong, domain)
    return None, f"{path} looks like {name}, and {text_of_value(wrong[0])} is not {domain.kind}"


def _by_table(
    path: str, name: str, wrong: list[Any], domain: EnumeratedDomain | HierarchicalDomain
) -> tuple[MappingRule | None, str]:
    """Return a rule with a table for values that the domain has under another case; and which it lacks."""
    by_case = {value.casefold(): value for value in (*domain.values, *domain.meaning)}
    texts = list(dict.fromkeys(map(text_of_value, wrong)))
    table: dict[str, str | int | float | bool] = {
        text: by_case[text.casefold()] for text in texts if text.casefold() in by_case
    }
    lacking = [text for text in texts if text not in table]
    note = ""
    if lacking:
        has = ", ".join(domain.values[:MOST_SHOWN])
        note = (
            f"{domain.name} has {has}; {path} also has {', '.join(lacking[:MOST_SHOWN])}: add the values to the domain, or map "
            f"them by a table of {name}"
        )
    return MappingRule(to=name, source=path, table=table or None, otherwise="keep" if table else "refuse"), note


def _fits(domain: Domain, raw: Any) -> bool:
    try:
        admitted(domain, raw)
    except BadValue:
        return False
    return True


def words_of(name: str) -> tuple[tuple[str, ...], str | None]:
    """Return the words of a name, its unit left out, and that unit: `Weight_in_lbs` is (weight,) and lb."""
    said = " ".join(word.casefold() for word in _WORDS.findall(name.rpartition(".")[2]))
    unit = None
    for phrase, meant in _PHRASES:
        if f" {phrase} " in f" {said} ":
            said = f" {said} ".replace(f" {phrase} ", " ").strip()
            unit = unit or meant or None
    words = []
    for word in said.split():
        if unit is None and word in _UNIT_WORDS:
            unit = _UNIT_WORDS[word]
        else:
            words.append(word)
    return tuple(words or ([] if unit is None else [UNIT_DIMENSIONS[unit]])), unit


def _same_words(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    return (
        left == right
        or are_similar("".join(left), "".join(right))
        or (len(left) == len(right) == 1 and _is_short(left[0], right[0]))
    )


def _is_short(left: str, right: str) -> bool:
    """Return whether one word is the beginning of the other, of three letters or more: displ, displacement."""
    short, long = sorted((left, right), key=len)
    return len(short) >= 3 and long.startswith(short)


def _is_alias(path: str, name: str, schema: Schema) -> bool:
    return schema.aliases.get(path) == name
