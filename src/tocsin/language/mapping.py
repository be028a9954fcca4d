"""Mappings: how a site's documents become events of the integrated schema, as data that people write, read and keep.

    site = "flohmarkt"
    version = 2
    event_type = "item"
    missing = ["", "NA"]
    ignore = ["internal"]

    [source]                      # fields that formulas and conditions speak of, and their domains
    rooms = "number"

    [[rules]]                     # rename; text becomes what the attribute's domain has
    from = "Titel"
    to = "title"

    [[rules]]                     # unit; or scale and offset; digits rounds
    from = "Gewicht_lb"
    to = "weight"
    unit = ["lb", "kg"]

    [[rules]]                     # table of values; otherwise: refuse, keep or drop
    from = "Zustand"
    to = "condition"
    table = { neu = "new", gebraucht = "used" }

    [[rules]]                     # time format and zone; also "iso", "seconds" and "milliseconds" since 1970
    from = "Ende"
    to = "ends"
    time = "%d.%m.%Y %H:%M"
    zone = "Europe/Berlin"

Beside these: `value` (a constant), `split` (a text into several values), `join` (several fields into one text), `pattern` with
groups (RE2), `formula` (over attributes that rules before it gave, and the fields in `source`), `when` (a condition over the
same), `array` (rules for each object of an array). A path such as "seller.name" leads through objects and arrays. What a
document has beyond the rules is passed over, or refused with others = "refuse".

SiteMapping.translate is the definition; mapping_columns.py does the same for many documents at once. Values that come out are
canonical: what cannot be is refused, with the name of the original field. `back` undoes what can be undone.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tocsin.errors import (
    BadDefinition,
    BadValue,
    EventRejected,
    FormulaFailed,
    LanguageError,
    SchemaError,
    Violation,
    did_you_mean,
    nearest,
    shown,
)
from tocsin.language.bind import bind_condition, bind_value
from tocsin.language.formula import ConditionFormula, Scope, ValueFormula, one_value
from tocsin.language.semantics import Situation, holds, value_of
from tocsin.language.units import conversion
from tocsin.schema import EVENT_TYPE, Domain, Schema, TextDomain, Value
from tocsin.schema.domain import is_number, parse_number
from tocsin.schema.event import MAX_DEPTH
from tocsin.schema.infer import PLAIN_DOMAINS

MOST_BYTES = 1 << 20  # of a mapping as JSON
MOST_VALUES = 10_000  # of one event
LONGEST_TEXT = 1 << 16  # that is split or searched
_MEMORY = 1 << 20  # of a compiled pattern, bytes
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS = {"%Y": "year", "%m": "month", "%d": "day", "%H": "hour", "%M": "minute", "%S": "second"}
_SINCE = {"seconds": 1_000_000, "milliseconds": 1_000}

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class MappingRule(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename={"source": "from"}
):
    """How one attribute, or the groups of a pattern several, get their values."""

    to: Name | tuple[Name, ...]
    source: Name | tuple[Name, ...] | None = None
    value: str | int | float | bool | list[str | int | float | bool] | UnsetType = UNSET
    formula: str | None = None
    when: str | None = None
    split: Annotated[str, Meta(min_length=1, max_length=20)] | None = None
    join: Annotated[str, Meta(max_length=20)] | None = None
    pattern: Annotated[str, Meta(max_length=1000)] | None = None
    table: Annotated[dict[str, str | int | float | bool], Meta(max_length=10_000)] | None = None
    otherwise: Literal["refuse", "keep", "drop"] = "refuse"
    time: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    zone: str | None = None
    unit: tuple[str, str] | None = None
    scale: float | None = None
    offset: float | None = None
    digits: Annotated[int, Meta(ge=0, le=15)] | None = None
    array: Annotated[tuple[MappingRule, ...], Meta(max_length=100)] | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.to,) if isinstance(self.to, str) else self.to

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else self.source or ()


class MappingDocument(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A mapping as it is written and kept."""

    site: Name
    rules: Annotated[tuple[MappingRule, ...], Meta(max_length=1000)]
    version: Annotated[int, Meta(ge=1)] = 1
    event_type: Name | tuple[Name, ...] | None = None
    missing: Annotated[tuple[str, ...], Meta(max_length=100)] = ("",)
    ignore: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    others: Literal["ignore", "refuse"] = "ignore"
    source: Annotated[dict[str, str], Meta(max_length=1000)] = {}
    id: Name | None = None  # the field with the document's own id, and the one with the link to it
    link: Name | None = None


def load_mapping(content: bytes | str, format: Literal["toml", "json"] = "toml") -> MappingDocument:
    """Return the mapping of a text; raises BadDefinition, which names the place."""
    try:
        if len(content) > MOST_BYTES:
            raise BadDefinition(f"a mapping has at most {MOST_BYTES} bytes")
        text = content.decode() if isinstance(content, bytes) else content
        document = tomllib.loads(text) if format == "toml" else msgspec.json.decode(text)
        return msgspec.convert(document, MappingDocument)
    except (msgspec.MsgspecError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadDefinition(f"the mapping: {error}") from None


# --- one value --------------------------------------------------------------------------------------------------------

Step = Callable[[Any], Any]  # raises BadValue; None: no value


def text_of_value(raw: object) -> str:
    """Return a value as text, as JSON writes it."""
    return raw if isinstance(raw, str) else msgspec.json.encode(raw).decode()


def number_of_value(raw: object) -> int | float | Decimal:
    """Return a number, also where it came as text; raises BadValue."""
    if isinstance(raw, str) and is_number(raw.strip()):
        return parse_number(raw.strip())
    if isinstance(raw, bool) or not isinstance(raw, int | float | Decimal) or not math.isfinite(raw):
        raise BadValue(raw, "number", "a number")
    return raw


@dataclass(frozen=True, slots=True)
class NumberConversion:
    """`value * factor + offset`, or `factor / value`; then rounded. Numbers are computed as floats."""

    factor: float
    offset: float = 0.0
    reciprocal: bool = False
    digits: int | None = None

    def __call__(self, raw: Any) -> Any:
        number = number_of_value(raw)
        try:
            found = self.factor / float(number) if self.reciprocal else self._linear(number)
        except (ZeroDivisionError, OverflowError):
            raise BadValue(raw, "number", "a number that can be converted") from None
        return found if self.digits is None else round(found, self.digits)

    def _linear(self, number: int | float | Decimal) -> int | float | Decimal:
        if self.factor == 1.0 and self.offset == 0.0:
            return number
        return float(number) * self.factor + self.offset

    def back(self, number: Any) -> Any:
        """Return the value that was converted, as near as floats are."""
        if self.reciprocal:
            return self.factor / float(number)
        return number if (self.factor, self.offset) == (1.0, 0.0) else (float(number) - self.offset) / self.factor


class CompiledRule:
    """A rule over one schema: what it reads, and what it makes of a value. `domains` are those of its targets."""

    def __init__(self, rule: MappingRule, at: str, compiler: SiteMapping, prefix: str = "") -> None:
        self.rule, self.at = rule, at
        schema = compiler.schema
        self.targets = tuple(schema.meaning(prefix + name) for name in rule.targets)
        try:
            self.domains = tuple(schema.domain_of(name) for name in self.targets) if rule.array is None else ()
            self._check(rule)
            self.steps = tuple(self._steps(rule))
        except (SchemaError, BadValue) as error:
            raise BadDefinition(f"{at}: {error}") from None
        self.inner = tuple(
            CompiledRule(each, f"{at}.array[{number}]", compiler, f"{prefix}{rule.to}.")
            for number, each in enumerate(rule.array or ())
        )
        self.formula: ValueFormula | None = None
        self.when: ConditionFormula | None = None
        try:
            if rule.formula is not None:
                self.formula = bind_value(rule.formula, compiler.scope)
            if rule.when is not None:
                self.when = bind_condition(rule.when, compiler.scope)
        except LanguageError as error:
            raise BadDefinition(f"{at}: {error}") from None
        self.constant = self._constant() if rule.value is not UNSET else ()
        self.remembered: dict[Any, Any] = {}  # what mapping_columns.py was given before

    def _check(self, rule: MappingRule) -> None:
        ways = {
            "value": rule.value is not UNSET, "formula": rule.formula is not None, "array": rule.array is not None,
            "from": rule.source is not None and rule.array is None,
        }  # fmt: skip
        if sum(ways.values()) != 1:
            raise BadDefinition("a rule has one of from, value and formula; or from and array")
        if rule.array is not None and not isinstance(rule.source, str):
            raise BadDefinition("an array comes from one field")
        if len(rule.paths) > 1 and rule.join is None:
            raise BadDefinition("several fields are joined: say join = ' '")
        if len(self.targets) > 1 and rule.pattern is None:
            raise BadDefinition("only the groups of a pattern are several attributes")
        if rule.zone is not None and rule.time is None:
            raise BadDefinition("a zone belongs to a time format")
        if rule.unit is not None and (rule.scale is not None or rule.offset is not None):
            raise BadDefinition("a rule has a unit, or a scale and an offset")
        stepped = (rule.split, rule.join, rule.pattern, rule.table, rule.time, rule.unit, rule.scale, rule.digits)
        if not ways["from"] and any(step is not None for step in stepped):
            raise BadDefinition("only what comes from a field is split, joined, looked up or converted")

    def _constant(self) -> tuple[Value, ...]:
        value = self.rule.value
        try:
            return tuple(self.domains[0].admit(each) for each in (value if isinstance(value, list) else [value]))
        except BadValue as error:
            raise BadDefinition(f"{self.at}.value: {error}") from None

    # --- steps --------------------------------------------------------------------------------------------------------

    def _steps(self, rule: MappingRule) -> Iterable[Step]:
        if rule.table is not None:
            yield self._look_up
        if rule.time is not None:
            yield self._read_time
        if (number := self.arithmetic) is not None:
            yield number

    @cached_property
    def arithmetic(self) -> NumberConversion | None:
        """What is computed with numbers, None where nothing is."""
        rule = self.rule
        if rule.unit is not None:
            factor, offset, reciprocal = conversion(*rule.unit)
            return NumberConversion(factor, offset, reciprocal, rule.digits)
        if rule.scale is None and rule.offset is None and rule.digits is None:
            return None
        if rule.scale == 0 or not math.isfinite((rule.scale or 1.0) + (rule.offset or 0.0)):
            raise BadDefinition("a scale is a number other than 0, an offset a number")
        return NumberConversion(1.0 if rule.scale is None else rule.scale, rule.offset or 0.0, digits=rule.digits)

    def _look_up(self, raw: Any) -> Any:
        table = self.rule.table or {}
        found = table.get(text_of_value(raw), UNSET)
        if found is not UNSET:
            return found
        if self.rule.otherwise == "refuse":
            raise BadValue(raw, "table", f"in the table{did_you_mean(nearest(text_of_value(raw), table))}")
        return raw if self.rule.otherwise == "keep" else None

    @cached_property
    def zone(self) -> ZoneInfo | None:
        try:
            return None if self.rule.zone is None else ZoneInfo(self.rule.zone)
        except (KeyError, ValueError, OSError):
            raise BadDefinition(f"{self.at}: there is no zone {self.rule.zone!r}, such as 'Europe/Paris'") from None

    def _read_time(self, raw: Any) -> Any:
        format = self.rule.time or ""
        if format in _SINCE:
            try:
                return _EPOCH + timedelta(microseconds=round(number_of_value(raw) * _SINCE[format]))
            except OverflowError:
                raise BadValue(raw, "time", f"{format} since 1970, up to the year 9999") from None
        if isinstance(raw, datetime):
            found = raw
        else:
            try:
                text = text_of_value(raw).strip()
                if (quick := self._quick_time) is not None and (digits := quick(text)) is not None:
                    return digits
                found = datetime.fromisoformat(text) if format == "iso" else datetime.strptime(text, format)  # noqa: DTZ007  (the zone is the rule's)
            except (ValueError, OverflowError):
                raise BadValue(raw, "time", f"a time written as {format}") from None
        if found.tzinfo is None and self.zone is not None:
            found = found.replace(tzinfo=self.zone)
        return found

    @cached_property
    def time_pattern(self) -> str | None:
        """The format as a regular expression with named groups, where it is numbers of full width and has a year."""
        format = self.rule.time or ""
        fields = [_NUMBERS[each] for each in re.findall("%.", format) if each in _NUMBERS]
        if "%Y" not in format or len(set(fields)) != format.count("%"):
            return None
        escaped = re.sub(r"([^%\w])", r"\\\1", format)
        return re.sub(
            "%(.)", lambda found: f"(?P<{_NUMBERS[found[0]]}>[0-9]{{{4 if found[1] == 'Y' else 2}}})", escaped
        )

    @cached_property
    def _quick_time(self) -> Callable[[str], datetime | None] | None:
        """Reads times of a format that is all numbers of full width, as strptime does; None for what is not so written."""
        zone, pattern = self.zone, self.time_pattern
        if zone is None or pattern is None:
            return None
        regex = re.compile(pattern)

        def read(text: str) -> datetime | None:
            found = regex.fullmatch(text)
            if found is None:
                return None
            given = {name: int(digits) for name, digits in found.groupdict().items()}
            return datetime(**{"month": 1, "day": 1, **given}, tzinfo=zone)

        return read

    @cached_property
    def _regex(self) -> Any:
        import re2

        options = re2.Options()
        options.log_errors, options.max_mem = False, _MEMORY
        try:
            found = re2.compile(self.rule.pattern or "", options)
        except re2.error as error:
            raise BadDefinition(f"{self.at}.pattern: {error}") from None
        if found.groups < len(self.targets):
            raise BadDefinition(
                f"{self.at}.pattern: it has {found.groups} groups, and there are {len(self.targets)} attributes"
            )
        return found

    def groups_of(self, raw: Any) -> tuple[Any, ...]:
        """Return a raw value for each target: the groups of the pattern, or the value itself; None where there is none."""
        if self.rule.pattern is None:
            return (raw,)
        found = self._regex.search(_short(text_of_value(raw)))
        if found is None:
            if self.rule.otherwise == "refuse":
                raise BadValue(raw, "pattern", f"a text in which {self.rule.pattern} occurs")
            return (raw if self.rule.otherwise == "keep" else None, *(None for _ in self.targets[1:]))
        return tuple(found.group(at + 1) for at in range(len(self.targets)))

    def pieces(self, raw: Any) -> list[Any]:
        """Return the raw values that one raw value is split into."""
        if self.rule.split is None:
            return [raw]
        return [piece for each in _short(text_of_value(raw)).split(self.rule.split) if (piece := each.strip())]

    def finish(self, raw: Any, domain: Domain) -> Value | None:
        """Return the canonical value of one raw value, None where there is none; raises BadValue."""
        for step in self.steps:
            raw = step(raw)
            if raw is None:
                return None
        return admitted(domain, raw)

    def values(self, raw: Any) -> list[tuple[Value, ...]]:
        """Return what one raw value gives each target; raises BadValue."""
        found: list[list[Value]] = [[] for _ in self.targets]
        for piece in self.pieces(raw):
            for values, group, domain in zip(found, self.groups_of(piece), self.domains, strict=True):
                if group is not None and (value := self.finish(group, domain)) is not None:
                    values.append(value)
        return [tuple(values) for values in found]

    # --- back ---------------------------------------------------------------------------------------------------------

    @cached_property
    def reversible(self) -> bool:
        """Whether what came can be told from what was made of it."""
        rule = self.rule
        number = self.arithmetic
        plain = isinstance(rule.source, str) and isinstance(rule.to, str) and rule.array is None
        one_to_one = rule.table is None or (
            rule.otherwise == "refuse" and len({text_of_value(each) for each in rule.table.values()}) == len(rule.table)
        )
        return (
            plain
            and one_to_one
            and rule.pattern is None
            and rule.when is None
            and (number is None or number.digits is None)
        )

    def back(self, values: Iterable[Value]) -> Any:
        """Return the raw value, or values, that gave these, where the rule is reversible."""
        raws = [self._back(value) for value in values]
        if self.rule.split is not None:
            return self.rule.split.join(map(text_of_value, raws))
        return raws[0] if len(raws) == 1 else raws

    def _back(self, value: Any) -> Any:
        if self.arithmetic is not None:
            value = self.arithmetic.back(value)
        if self.rule.time is not None:
            value = self._written_time(value)
        elif isinstance(value, datetime):
            value = self.domains[0].dump(value)
        if self.rule.table is not None:
            value = next(key for key, other in self.rule.table.items() if admitted(self.domains[0], other) == value)
        return value

    def _written_time(self, value: datetime) -> Any:
        format = self.rule.time or ""
        if format in _SINCE:
            number = Fraction((value - _EPOCH) // timedelta(microseconds=1), _SINCE[format])
            return int(number) if number.denominator == 1 else float(number)
        local = value if self.zone is None else value.astimezone(self.zone)
        return local.isoformat() if format == "iso" else local.strftime(format)


def admitted(domain: Domain, raw: Any) -> Value:
    """Return the canonical value of what a rule gave, text read or written as the domain needs it; raises BadValue."""
    if isinstance(raw, str) and not isinstance(domain, TextDomain):
        raw = domain.from_text(raw)
    elif isinstance(raw, bool | int | float | Decimal) and domain.kind in ("text", "enumerated", "hierarchical"):
        raw = text_of_value(raw)
    return domain.admit(raw)


def _short(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise BadValue(text[:40], "text", f"at most {LONGEST_TEXT} characters long")
    return text


# --- documents --------------------------------------------------------------------------------------------------------


def values_at(document: Any, path: str) -> list[Any]:
    """Return what stands at a path, through objects and arrays; nulls left out."""
    found: list[Any] = []

    def walk(value: Any, path: str, depth: int) -> None:
        if value is None or depth > MAX_DEPTH:
            return
        if isinstance(value, list | tuple):
            for inner in value:
                walk(inner, path, depth + 1)
        elif not path:
            found.append(value)
        elif isinstance(value, Mapping):
            if path in value:  # a name with a dot in it
                walk(value[path], "", depth + 1)
                return
            for at, character in enumerate(path):
                if character == "." and path[:at] in value:
                    walk(value[path[:at]], path[at + 1 :], depth + 1)
                    return

    walk(document, path, 0)
    return found


class SiteMapping:
    """A mapping over a schema, compiled once; raises BadDefinition where it does not fit."""

    def __init__(self, document: MappingDocument, schema: Schema) -> None:
        self.document, self.schema = document, schema
        self._newer: SiteMapping | None = None
        self.missing = frozenset(document.missing)
        self.types = (document.event_type,) if isinstance(document.event_type, str) else document.event_type or ()
        for name in self.types:
            try:
                schema.event_type(name)
            except SchemaError as error:
                raise BadDefinition(f"event_type: {error}") from None
        self.source = {name: self._source_domain(name, domain) for name, domain in document.source.items()}
        self.rules = tuple(CompiledRule(rule, f"rules[{at}]", self) for at, rule in enumerate(document.rules))
        for rule in (*self.rules, *(inner for each in self.rules for inner in each.inner)):
            _ = rule.zone, rule.rule.pattern is not None and rule._regex
        self.known = {path for rule in self.rules for path in rule.rule.paths} | self.source.keys()

    @classmethod
    def loads(cls, content: bytes | str, schema: Schema, format: Literal["toml", "json"] = "toml") -> SiteMapping:
        """Return the mapping of a text."""
        return cls(load_mapping(content, format), schema)

    def over(self, schema: Schema) -> SiteMapping:
        """Return the same mapping over a schema, compiled once as long as that stays; raises BadDefinition."""
        if schema is self.schema or schema == self.schema:
            return self
        if self._newer is None or (self._newer.schema is not schema and self._newer.schema != schema):
            self._newer = SiteMapping(self.document, schema)
        return self._newer

    def _source_domain(self, name: str, domain: str) -> Domain:
        found = self.schema.domains.get(domain) or PLAIN_DOMAINS.get(domain)
        if found is None:
            known = [*self.schema.domains, *PLAIN_DOMAINS]
            raise BadDefinition(f"source.{name}: there is no domain {domain!r}{did_you_mean(nearest(domain, known))}")
        return found

    @cached_property
    def scope(self) -> Scope:
        """What formulas and conditions may speak of: the fields in `source`, and attributes."""
        attributes = {name: one_value(name, self.schema.domain_of(name)) for name in self.schema.attributes}
        fields = {name: one_value(name, domain) for name, domain in self.source.items()}
        return Scope(attributes | fields, aliases=self.schema.aliases)

    # --- forward ------------------------------------------------------------------------------------------------------

    def translate(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the event that a document becomes; raises EventRejected with all that is wrong, by original field."""
        violations: list[Violation] = []
        if not isinstance(document, Mapping):
            raise EventRejected([Violation("not an object", None, f"a document is an object, not {shown(document)}")])
        found: dict[str, list[Any]] = {EVENT_TYPE: list(self.types)} if self.types else {}
        row = self._source_row(document, violations)
        for rule in self.rules:
            self._apply(rule, document, row, found, violations)
        if self.document.others == "refuse":
            violations += [
                Violation("unknown attribute", name, f"the field {name!r} has no rule") for name in self.lost(document)
            ]
        if sum(map(len, found.values())) > MOST_VALUES:
            violations.append(Violation("too large", None, f"the event has more than {MOST_VALUES} values"))
        if violations:
            raise EventRejected(violations)
        return {name: values[0] if len(values) == 1 else values for name, values in found.items() if values}

    def _source_row(self, document: Any, violations: list[Violation]) -> dict[str, tuple[Value, ...]]:
        row: dict[str, tuple[Value, ...]] = {}
        for name, domain in self.source.items():
            values = []
            for raw in self.raws(document, name):
                try:
                    values.append(admitted(domain, raw))
                except BadValue as error:
                    violations.append(Violation("bad value", name, f"{name}: {error}"))
            if values:
                row[name] = tuple(values)
        return row

    def raws(self, document: Any, path: str) -> list[Any]:
        """Return the raw values at a path, those left out that mean that there is none."""
        return [raw for raw in values_at(document, path) if not (isinstance(raw, str) and raw in self.missing)]

    def _apply(
        self,
        rule: CompiledRule,
        document: Any,
        row: dict[str, tuple[Value, ...]],
        found: dict[str, list[Any]],
        violations: list[Violation],
    ) -> None:
        def wrong(error: BadValue | FormulaFailed, field: str) -> None:
            name = rule.targets[0]
            violations.append(Violation("bad value", name, f"{name}, from {field}: {error}"))

        try:
            if rule.when is not None and not holds(rule.when.root, Situation(row)):
                return
        except FormulaFailed as error:
            wrong(error, f"the condition {rule.rule.when}")
            return
        if rule.inner:
            elements = self.elements(rule, document, violations)
            if elements:
                found.setdefault(rule.targets[0], []).extend(elements)
            return
        made: list[tuple[Value, ...]] = [()] * len(rule.targets)
        if rule.formula is not None:
            try:
                value = value_of(rule.formula.root, Situation(row))
                made = [() if value is None else (admitted(rule.domains[0], value),)]
            except (BadValue, FormulaFailed) as error:
                wrong(error, f"the formula {rule.rule.formula}")
        elif rule.rule.value is not UNSET:
            made = [rule.constant]
        else:
            for raw in self.inputs(rule, document):
                try:
                    made = [(*before, *more) for before, more in zip(made, rule.values(raw), strict=True)]
                except BadValue as error:
                    wrong(error, " and ".join(rule.rule.paths))
        for name, values in zip(rule.targets, made, strict=True):
            if values:
                found.setdefault(name, []).extend(values)
                row[name] = tuple(found[name])

    def inputs(self, rule: CompiledRule, document: Any) -> list[Any]:
        """Return the raw values that a rule reads; those of several fields joined."""
        lists = [self.raws(document, path) for path in rule.rule.paths]
        if rule.rule.join is None:
            return lists[0]
        parts = [text_of_value(raw) for raws in lists for raw in raws]
        return [rule.rule.join.join(parts)] if parts else []

    def elements(self, rule: CompiledRule, document: Any, violations: list[Violation]) -> list[dict[str, Any]]:
        """Return what a rule makes of the objects of an array; adds what is wrong to `violations`."""
        elements = []
        for element in values_at(document, rule.rule.paths[0]):
            inside: dict[str, list[Any]] = {}
            for inner in rule.inner:
                self._apply(inner, element, {}, inside, violations)
            start = len(rule.targets[0]) + 1
            made = {name[start:]: values[0] if len(values) == 1 else values for name, values in inside.items()}
            if made:
                elements.append(made)
        return elements

    def identity(self, document: Any) -> tuple[str | None, str | None]:
        """Return a document's own id and the link to it, as texts, where the mapping says which fields they are."""
        paths = (self.document.id, self.document.link)
        found = [[] if path is None else self.raws(document, path) for path in paths]
        id, link = (text_of_value(raws[0]) if raws else None for raws in found)
        return id, link

    # --- what is lost, and back ---------------------------------------------------------------------------------------

    def lost(self, document: Mapping[str, Any]) -> list[str]:
        """Return the fields of a document, by their paths, that no rule reads and that are not ignored."""
        meant = {*self.known, *self.document.ignore, self.document.id, self.document.link}
        return [path for path in paths_of(document) if not _is_within(path, meant)]

    @cached_property
    def origins(self) -> dict[str, list[str]]:
        """Attribute -> the original fields that it comes from, or the formula."""
        found: dict[str, list[str]] = {}
        for rule in (*self.rules, *(inner for each in self.rules for inner in each.inner)):
            for name in rule.targets if not rule.inner else ():
                found.setdefault(name, []).extend(
                    [*rule.rule.paths, *([rule.rule.formula] if rule.rule.formula else [])]
                )
        return found

    @property
    def reversible(self) -> bool:
        """Whether `back` gives whole documents: every rule is reversible, or a constant."""
        return all(rule.reversible or rule.rule.value is not UNSET for rule in self.rules)

    def back(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return as much of the original document as the reversible rules can tell."""
        document: dict[str, Any] = {}
        for rule in self.rules:
            if rule.reversible and (value := event.get(rule.targets[0])) is not None:
                _put(document, rule.rule.paths[0], rule.back(value if isinstance(value, list | tuple) else [value]))
        return document


def _put(document: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    for key in above:
        document = document.setdefault(key, {})
    document[last] = value


def paths_of(document: Mapping[str, Any]) -> list[str]:
    """Return the paths of a document's fields, each once."""
    found: dict[str, None] = {}

    def walk(value: Any, path: str, depth: int) -> None:
        if isinstance(value, Mapping) and depth < MAX_DEPTH:
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if path else str(key), depth + 1)
        elif isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value) and depth < MAX_DEPTH:
            for inner in value:
                walk(inner, path, depth + 1)
        elif path and value is not None:
            found[path] = None

    walk(document, "", 0)
    return list(found)


def _is_within(path: str, known: set[str | None]) -> bool:
    return path in known or any(path[:at] in known for at, character in enumerate(path) if character == ".")
