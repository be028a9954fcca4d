"""A schema proposed from sample events, so that whoever has only data can start.

    schema = infer([{"event_type": "bid", "price": 12.5, "item": {"title": "Oak table"}}, …])   # or a DataFrame, or an Arrow table

Nested objects become dotted names, arrays multiple attributes, null says nothing. What is proposed is careful, since
what exists can never be redefined: attributes are optional, whole numbers share the domain `number` with all others,
strings are `text`, unless the caller asks for more (`mandatory`, `integers`, `enumerate_up_to`, `fold_case`). An attribute
with values of several types is `dynamic`. Strings that are all instants with a zone are `time`; pairs
such as {"lat": 40.85, "lon": -73.88} are `point`.
An array of objects is an attribute of its own, of the domain `object`, beside those of its elements, so that scopes can ask
about it: `some items (sku = 'A' and qty > 3)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from tocsin.errors import BadDefinition, BadValue, EventRejected, shown
from tocsin.schema.domain import (
    BooleanDomain,
    Domain,
    DynamicDomain,
    Element,
    IpDomain,
    NumericDomain,
    ObjectDomain,
    PointDomain,
    TextDomain,
    TimeDomain,
    check_member,
)
from tocsin.schema.event import flatten
from tocsin.schema.event_type import EVENT_TYPE, EventType, TypeAttribute, Unknown
from tocsin.schema.finite_domains import EnumeratedDomain
from tocsin.schema.foreign_values import ZONE_REMEDY, has_no_zone, plain_row, rows_of

if TYPE_CHECKING:
    from tocsin.schema.schema import Schema

DEFAULT_TYPE = "event"
POSITION_NAMES = frozenset({"location", "loc", "position", "pos", "point", "coordinates", "coords", "geo", "latlon"})
ENOUGH = 5  # samples for each distinct value, before a list of values is proposed

_BOOLEAN = BooleanDomain(name="boolean")
_INTEGER = NumericDomain(name="integer", type="int")
_NUMBER = NumericDomain(name="number")
_DECIMAL = NumericDomain(name="decimal", type="decimal")
_TIME = TimeDomain(name="time")
_IP = IpDomain(name="ip")
_TEXT = TextDomain(name="text")
_FOLDED_TEXT = TextDomain(name="text", case="folded")
_POINT = PointDomain(name="point")
_DYNAMIC = DynamicDomain(name="dynamic")
_OBJECT = ObjectDomain(name="object")

# From the narrowest to the widest; an attribute gets the first that admits all its values.
_CANDIDATES: tuple[Domain, ...] = (_BOOLEAN, _INTEGER, _NUMBER, _DECIMAL, _TIME, _IP, _TEXT, _POINT)
PLAIN_DOMAINS = {domain.name: domain for domain in _CANDIDATES}


@dataclass(frozen=True, slots=True)
class Proposal:
    """A schema, what was uncertain about it, and the samples (by position) that it does not admit."""

    schema: Schema
    notes: tuple[str, ...]
    rejected: tuple[tuple[int, EventRejected], ...]


def infer(
    make: type[Schema],
    events: Iterable[Mapping[str, object]],
    *,
    enumerate_up_to: int = 0,
    integers: bool = False,
    mandatory: bool = False,
    unknown: Unknown = "refused",
    fold_case: bool = False,
) -> Schema:
    """Return a schema that admits all the samples; raises BadDefinition where there is none, and says why."""
    proposal = propose(
        make, events, enumerate_up_to=enumerate_up_to, integers=integers, mandatory=mandatory, unknown=unknown,
        fold_case=fold_case,
    )  # fmt: skip
    if proposal.rejected:
        position, error = proposal.rejected[0]
        reasons = [*proposal.notes, f"sample {position + 1}: {error}"]
        raise BadDefinition(f"no schema admits all the samples: {'; '.join(reasons)}")
    return proposal.schema


def propose(
    make: type[Schema],
    events: Iterable[Mapping[str, object]],
    *,
    enumerate_up_to: int = 0,
    integers: bool = False,
    mandatory: bool = False,
    unknown: Unknown = "refused",
    fold_case: bool = False,
) -> Proposal:
    """Return a schema for the samples, with what it leaves out.

    enumerate_up_to: propose a list of values for strings with at most so many distinct ones, each seen often enough.
    integers: propose whole numbers where all samples are whole. mandatory: what all samples of a type bind is mandatory.
    unknown: what becomes of other attributes. fold_case: texts are compared without regard to case.
    """
    raws, points = _with_points(events)
    samples = [_Sample.of(raw, points) for raw in raws]
    _note_objects(samples, points)
    attributes = _collect(samples)
    notes: list[str] = []
    domains: dict[str, Domain] = {}
    domain_of: dict[str, str] = {}
    for name, values in attributes.items():
        domain = _choose(name, values, notes, integers=integers)
        if isinstance(domain, TextDomain) and _few(values, enumerate_up_to):
            domain = _enumeration(name, values, domains)
        if domain is _TEXT and fold_case:
            domain = _FOLDED_TEXT
        domains[domain.name] = domain
        domain_of[name] = domain.name
    notes += [f"{name} never has a value, so it is left out" for name in _never_bound(samples, attributes)]
    types = {
        name: replace(each, unknown=unknown) for name, each in _event_types(samples, notes, mandatory=mandatory).items()
    }
    schema = make(domains, domain_of, types)
    return Proposal(schema, tuple(notes), tuple(_rejected(schema, samples)))


@dataclass(slots=True)
class _Sample:
    raw: Mapping[str, object]
    bound: dict[str, list[object]]
    types: tuple[str, ...] = ()
    arrays: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, raw: Mapping[str, object], points: frozenset[str]) -> _Sample:
        bound = flatten(raw, points)
        types = tuple(dict.fromkeys(value for value in bound.pop(EVENT_TYPE, []) if isinstance(value, str)))
        return cls(raw, bound, types, _arrays(raw, points))

    def arrays_of_objects(self, points: frozenset[str]) -> Iterable[str]:
        """Yield the names of arrays that have objects for elements."""
        for name, value in _named(self.raw, ""):
            if (
                name not in points
                and isinstance(value, list | tuple)
                and any(isinstance(each, Mapping) for each in value)
            ):
                yield name


# --- points and arrays ------------------------------------------------------------------------------------------------


def _with_points(events: Iterable[Mapping[str, object]]) -> tuple[list[Mapping[str, object]], frozenset[str]]:
    """Return the samples, and the names whose every value is a point."""
    samples = [plain_row(row) for row in rows_of(events)]
    shapes: dict[str, set[bool]] = {}
    for sample in samples:
        if not isinstance(sample, Mapping):
            raise BadDefinition(f"a sample is an object, not {shown(sample)}")
        flatten(sample)  # refuses what is nested too deeply
        for name, value in _named(sample, ""):
            if value is not None and value != []:
                shapes.setdefault(name, set()).add(_is_point_or_points(name, value))
    return samples, frozenset(name for name, seen in shapes.items() if seen == {True})


def _named(value: object, name: str) -> Iterable[tuple[str, object]]:
    """Yield every dotted name with what stands there, arrays as a whole."""
    if name:
        yield name, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _named(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            if isinstance(inner, Mapping):
                for key, below in inner.items():
                    yield from _named(below, f"{name}.{key}" if name else str(key))


def _note_objects(samples: list[_Sample], points: frozenset[str]) -> None:
    """Let the samples bind the arrays of objects that they have, but for those that hold other things, too."""
    plain = {name for sample in samples for name in sample.bound}
    found = {name for sample in samples for name in sample.arrays_of_objects(points)} - plain
    for sample in samples:
        for name, value in _named(sample.raw, ""):
            inner = value if isinstance(value, list | tuple) else [value]
            if name in found and any(isinstance(each, Mapping) for each in inner):
                sample.bound[name] = [Element()]
                sample.arrays.add(name)


def _is_point_or_points(name: str, value: object) -> bool:
    if _is_point(name, value):
        return True
    return isinstance(value, list | tuple) and bool(value) and all(_is_point(name, inner) for inner in value)


def _is_point(name: str, value: object) -> bool:
    is_pair = isinstance(value, list | tuple) and name.rpartition(".")[2].lower() in POSITION_NAMES
    return (is_pair or isinstance(value, Mapping)) and _admits(_POINT, value)


def _arrays(raw: Mapping[str, object], points: frozenset[str]) -> set[str]:
    """Return the names that some array leads to, since an array says that there may be several values."""
    found: set[str] = set()

    def walk(name: str, value: object, inside: bool) -> None:
        if name in points and not (isinstance(value, list | tuple) and not _admits(_POINT, value)):
            found.update([name] if inside else [])
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                walk(f"{name}.{key}" if name else str(key), inner, inside)
        elif isinstance(value, list | tuple | set | frozenset):
            found.add(name)
            for inner in value:
                walk(name, inner, inside=True)
        elif inside:
            found.add(name)

    walk("", raw, inside=False)
    return found


# --- domains ----------------------------------------------------------------------------------------------------------


def _collect(samples: Iterable[_Sample]) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for sample in samples:
        for name, values in sample.bound.items():
            found.setdefault(name, []).extend(values)
    return found


def _choose(name: str, values: list[object], notes: list[str], *, integers: bool) -> Domain:
    """Return the narrowest domain that admits all the values; where they are mixed, the dynamic one, with a note."""
    if all(isinstance(value, Element) for value in values):
        return _OBJECT
    exact = any(isinstance(value, Decimal) for value in values)
    candidates = [
        domain
        for domain in _CANDIDATES
        if (domain is not _INTEGER or integers) and (domain is not _NUMBER or not exact)
    ]
    for domain in candidates:
        if all(_fits(domain, value) for value in values):
            return domain
    if any(map(has_no_zone, values)):
        example = next(filter(has_no_zone, values))
        raise BadDefinition(f"{name} has times without a zone, such as {example}: {ZONE_REMEDY.format(name=name)}")
    counts = Counter({domain.name: sum(_fits(domain, value) for value in values) for domain in candidates})
    best = max(candidates, key=lambda domain: counts[domain.name])
    wrong = next(value for value in values if not _fits(best, value))
    chosen = _DYNAMIC if all(_fits(_DYNAMIC, value) for value in values) else best
    notes.append(
        f"{name} has mixed values: {counts[best.name]} of {len(values)} are {best.name}, others are such as "
        f"{shown(wrong)}; {chosen.name} was chosen"
    )
    return chosen


def _fits(domain: Domain, value: object) -> bool:
    # A decimal domain admits strings of digits, but such strings are not why to propose one.
    return not (domain is _DECIMAL and isinstance(value, str)) and _admits(domain, value)


def _admits(domain: Domain, value: object) -> bool:
    try:
        domain.admit(value)
    except BadValue:
        return False
    return True


def _few(values: list[object], limit: int) -> bool:
    distinct = {value for value in values if isinstance(value, str)}
    if not 0 < len(distinct) <= limit or len(values) < ENOUGH * len(distinct):
        return False
    try:
        for value in distinct:
            check_member(_TEXT, value)
    except BadDefinition:
        return False
    return True


def _enumeration(name: str, values: list[object], domains: Mapping[str, Domain]) -> EnumeratedDomain:
    """Return the domain that lists these values: one that exists already, else one named after the attribute."""
    listed = tuple(sorted({value for value in values if isinstance(value, str)}))
    for domain in domains.values():
        if isinstance(domain, EnumeratedDomain) and domain.values == listed:
            return domain
    taken = {*domains, *(domain.name for domain in _CANDIDATES), EVENT_TYPE}
    while name in taken:
        name += " values"
    return EnumeratedDomain(name=name, values=listed)


# --- event types ------------------------------------------------------------------------------------------------------


def _event_types(samples: list[_Sample], notes: list[str], *, mandatory: bool) -> dict[str, EventType]:
    names = list(dict.fromkeys(name for sample in samples for name in sample.types)) or [DEFAULT_TYPE]
    untyped = [sample for sample in samples if not sample.types]
    if untyped and len(names) > 1:
        notes.append(f"{len(untyped)} of {len(samples)} samples name no event type")
    for sample in untyped:
        sample.types = (names[0],) if len(names) == 1 else ()
    owners = _owners(samples)
    return {name: EventType(name, tuple(_entries(name, samples, owners, mandatory=mandatory))) for name in names}


def _owners(samples: list[_Sample]) -> dict[str, list[str]]:
    """Return attribute -> the event types that have it.

    Samples of one type tell for certain; in a sample of several types, an attribute that none of them has for certain
    is given to all of them.
    """
    owners: dict[str, dict[str, None]] = {}
    for sample in sorted(samples, key=lambda sample: len(sample.types)):
        for attribute in sample.bound:
            known = owners.setdefault(attribute, {})
            if not any(name in known for name in sample.types):
                known.update(dict.fromkeys(sample.types))
    return {attribute: list(names) for attribute, names in owners.items()}


def _entries(
    event_type: str, samples: list[_Sample], owners: Mapping[str, list[str]], *, mandatory: bool
) -> Iterable[TypeAttribute]:
    own = [sample for sample in samples if event_type in sample.types]
    for attribute, names in owners.items():
        if event_type in names:
            always = mandatory and all(attribute in sample.bound for sample in own)
            several = any(attribute in sample.arrays or len(sample.bound.get(attribute, ())) > 1 for sample in own)
            yield TypeAttribute(attribute, mandatory=always, multiple=several)


def _never_bound(samples: list[_Sample], attributes: Mapping[str, object]) -> list[str]:
    named = dict.fromkeys(
        name for sample in samples for name, value in _named(sample.raw, "") if value is None or value == []
    )
    return [name for name in named if name not in attributes and name != EVENT_TYPE]


def _rejected(schema: Schema, samples: list[_Sample]) -> Iterable[tuple[int, EventRejected]]:
    for position, sample in enumerate(samples):
        try:
            schema.admit(sample.raw)
        except EventRejected as error:
            yield position, error
