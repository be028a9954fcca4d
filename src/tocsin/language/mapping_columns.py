"""Mappings column by column: what SiteMapping.translate says of single documents, of whole batches of them.

A field's values are gathered from all documents once. Texts, and numbers that are only converted, are taken as they are;
times of a plain format are read by Arrow; any other rule on one field is applied to each distinct value once, by the
definition. Formulas and conditions are computed by formula_vector.py. What is left (arrays of objects, fields with several
values) goes row by row. A row with anything wrong or strange is translated by the definition, which says what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from tocsin.errors import BadValue, EventRejected, Violation
from tocsin.language.formula_columns import ValueColumn, column_of, several_column
from tocsin.language.formula_vector import compute_column, condition_column
from tocsin.language.mapping import MOST_VALUES, CompiledRule, NumberConversion, SiteMapping, admitted, text_of_value
from tocsin.schema import EVENT_TYPE, Domain, NumericDomain, TextDomain, TimeDomain
from tocsin.schema.domain import is_unicode

Bools = npt.NDArray[np.bool_]
Raws = list[Any]  # by row: what a document has at a path, None where nothing
Translated = dict[str, Any] | EventRejected
FEWEST = 4  # documents that are worth columns
_MOST_REMEMBERED = 20_000  # values of a rule, from one batch to the next
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN = frozenset({type(None), str, int, float, bool, Decimal})
_WRONG = object()  # what is made of a value that cannot be translated
_EXACT = 2**53  # whole floats below this are integers


def translate_batch(mapping: SiteMapping, documents: Sequence[Any]) -> list[Translated]:
    """Return the event that each document becomes, or why it is refused."""
    if len(documents) >= FEWEST and all(type(each) is dict for each in documents) and not _shadows(mapping):
        return _Translation(mapping, documents).run()
    return [_by_definition(mapping, each) for each in documents]


def _by_definition(mapping: SiteMapping, document: Any) -> Translated:
    try:
        return mapping.translate(document)
    except EventRejected as error:
        return error


def _shadows(mapping: SiteMapping) -> bool:
    """Return whether a formula's name may mean a field in one row and an attribute in another."""
    return any(name in mapping.source for rule in mapping.rules for name in rule.targets)


@dataclass(slots=True)
class _Made:
    """What rules made of an attribute, by row: one value, or None; with `several`, a tuple of values."""

    values: list[Any]
    several: bool = False

    def as_tuples(self) -> list[tuple[Any, ...]]:
        return self.values if self.several else [() if value is None else (value,) for value in self.values]


class _Translation:
    """The work on one batch."""

    def __init__(self, mapping: SiteMapping, documents: Sequence[dict[str, Any]]) -> None:
        self.mapping, self.documents, self.size = mapping, documents, len(documents)
        self.strange: Bools = np.zeros(self.size, np.bool_)  # rows for the definition
        self.made: dict[str, _Made] = {}
        self._raws: dict[str, Raws | None] = {}
        self._named: dict[str, ValueColumn] = {}  # what formulas may speak of

    def run(self) -> list[Translated]:
        mapping = self.mapping
        for name, domain in mapping.source.items():
            self._take_source(name, domain)
        if mapping.document.others == "refuse":
            self.strange |= np.array([bool(mapping.lost(document)) for document in self.documents], np.bool_)
        for rule in mapping.rules:
            self._rule(rule)
        self._bound_sizes()
        found: list[Translated] = self._rows()
        for row in np.flatnonzero(self.strange).tolist():
            found[row] = _by_definition(mapping, self.documents[row])
        return found

    def _rows(self) -> list[Any]:
        types = self.mapping.types
        if types:
            rows = [{EVENT_TYPE: types[0] if len(types) == 1 else [*types]} for _ in self.documents]
        else:
            rows = [{} for _ in self.documents]
        for name, made in self.made.items():
            if made.several:
                for row, values in zip(rows, made.values, strict=True):
                    if values:
                        row[name] = values[0] if len(values) == 1 else [*values]
            else:
                for row, value in zip(rows, made.values, strict=True):
                    if value is not None:
                        row[name] = value
        return rows

    def _bound_sizes(self) -> None:
        """Leave rows that may have too many values to the definition."""
        several = [made.values for made in self.made.values() if made.several]
        if several:
            counts = np.array([[len(values) for values in column] for column in several]).sum(axis=0)
            self.strange |= counts + len(self.made) + len(self.mapping.types) > MOST_VALUES

    # --- fields -------------------------------------------------------------------------------------------------------

    def _field(self, path: str) -> Raws | None:
        """Return what documents have at a path; None where some have several values, or objects."""
        if path not in self._raws:
            found: Raws = [document.get(path) for document in self.documents]
            if "." in path:
                self._lead_through(path, found)
            kinds, missing = set(map(type, found)), self.mapping.missing
            if str in kinds and kinds <= _PLAIN and not missing.isdisjoint(found):
                found = [None if raw in missing else raw for raw in found]
            self._raws[path] = found if kinds <= _PLAIN else None
        return self._raws[path]

    def _lead_through(self, path: str, found: Raws) -> None:
        """Fill in what documents have inside of objects and arrays; a list where that is several values."""
        first, _, rest = path.partition(".")
        for row, document in enumerate(self.documents):
            if path in document:
                continue
            inner = document.get(first)
            if inner.__class__ is dict and rest in inner and inner[rest].__class__ is str:
                found[row] = inner[rest]  # by far the most
            elif inner is not None or "." in rest:
                raws = self.mapping.raws(document, path)
                found[row] = raws if len(raws) > 1 else raws[0] if raws else None

    def _take_source(self, name: str, domain: Domain) -> None:
        """Make the column of a field that formulas speak of."""
        values = []
        for row, document in enumerate(self.documents):
            found = []
            for raw in self.mapping.raws(document, name):
                try:
                    found.append(admitted(domain, raw))
                except BadValue:
                    self.strange[row] = True
            values.append(tuple(found))
        self._named[name] = several_column(domain, [each or None for each in values])

    def _columns(self, names: Sequence[str]) -> dict[str, ValueColumn]:
        """Return the columns that a formula mentions."""
        for name in names:
            if name not in self._named:
                made, domain = self.made.get(name), self.mapping.schema.domain_of(name)
                if made is None:
                    self._named[name] = column_of(domain, [None] * self.size)
                elif made.several:
                    self._named[name] = several_column(domain, [each or None for each in made.values])
                else:
                    self._named[name] = column_of(domain, made.values)
        return {name: self._named[name] for name in names}

    # --- rules --------------------------------------------------------------------------------------------------------

    def _rule(self, rule: CompiledRule) -> None:
        chosen = self._chosen(rule)
        if rule.inner:
            self._by_rows(rule, chosen)
        elif rule.formula is not None:
            self._take_formula(rule, chosen)
        elif rule.rule.value is not UNSET:
            self._add(rule, [_Made([rule.constant if here else () for here in chosen.tolist()], True)])
        elif (raws := self._input(rule)) is None:
            self._by_rows(rule, chosen)
        else:
            if not chosen.all():
                raws = [raw if here else None for raw, here in zip(raws, chosen.tolist(), strict=True)]
            direct = self._directly(rule, raws)
            self._add(rule, [_Made(direct)] if direct is not None else self._by_distinct_values(rule, raws))

    def _chosen(self, rule: CompiledRule) -> Bools:
        if rule.when is None:
            return np.ones(self.size, np.bool_)
        found = condition_column(rule.when, self._columns(rule.when.names), self.size)
        if found.failed is not None:
            self.strange |= found.failed != 0
        return found.holds

    def _input(self, rule: CompiledRule) -> Raws | None:
        """Return what a rule reads, several fields joined; None where that is not one value a row."""
        columns = [self._field(path) for path in rule.rule.paths]
        if rule.rule.join is None:
            return columns[0]
        found = []
        for parts in zip(*(column for column in columns if column is not None), strict=True):
            texts = [text_of_value(raw) for raw in parts if raw is not None]
            found.append(rule.rule.join.join(texts) if texts else None)
        return found if all(column is not None for column in columns) else None

    def _take_formula(self, rule: CompiledRule, chosen: Bools) -> None:
        assert rule.formula is not None
        found = compute_column(rule.formula, self._columns(rule.formula.names), self.size)
        if found.failed is not None:
            self.strange |= (found.failed != 0) & chosen
        domain = rule.domains[0]
        raws = [value if here else None for value, here in zip(found.to_list(), chosen.tolist(), strict=True)]
        self._add(rule, [_Made(self._each_once(raws, lambda raw: admitted(domain, raw), None, {}))])

    def _by_rows(self, rule: CompiledRule, chosen: Bools) -> None:
        """Apply a rule by the definition, row by row."""
        made: list[list[Any]] = [[] for _ in rule.targets]
        for row, (document, here) in enumerate(zip(self.documents, chosen.tolist(), strict=True)):
            found: list[tuple[Any, ...]] = [()] * len(rule.targets)
            if here and rule.inner:
                wrong: list[Violation] = []
                found = [tuple(self.mapping.elements(rule, document, wrong))]
                self.strange[row] |= bool(wrong)
            elif here:
                for raw in self.mapping.inputs(rule, document):
                    try:
                        found = [(*before, *more) for before, more in zip(found, rule.values(raw), strict=True)]
                    except BadValue:
                        self.strange[row] = True
            for values, each in zip(made, found, strict=True):
                values.append(each)
        self._add(rule, [_Made(values, True) for values in made])

    # --- one value a row ----------------------------------------------------------------------------------------------

    def _directly(self, rule: CompiledRule, raws: Raws) -> Raws | None:
        """Return the attribute's values where the rule only takes over texts, converts numbers or reads plain times."""
        plain, domain, kinds = rule.rule, rule.domains[0], set(map(type, raws)) - {type(None)}
        if plain.split is not None or plain.pattern is not None or plain.table is not None:
            return None
        if plain.time is not None:
            simple = isinstance(domain, TimeDomain) and rule.arithmetic is None and kinds == {str}
            return self._times(rule, raws) if simple else None
        if isinstance(domain, TextDomain):
            return self._texts(domain, raws) if kinds == {str} and rule.arithmetic is None else None
        if isinstance(domain, NumericDomain) and domain.type != "decimal" and kinds <= {int, float}:
            return self._numbers(rule, domain, raws)
        return None

    def _texts(self, domain: TextDomain, raws: Raws) -> Raws:
        longest = domain.max_length or math.inf
        for row, raw in enumerate(raws):
            if (raw is not None and not (raw.isascii() or is_unicode(raw))) or len(raw or "") > longest:
                self.strange[row] = True
        return raws

    def _numbers(self, rule: CompiledRule, domain: NumericDomain, raws: Raws) -> Raws:
        """Return numbers as the domain has them; strange are those that it does not take."""
        smallest = -_EXACT if domain.minimum is None else max(domain.minimum, -_EXACT)
        largest = _EXACT if domain.maximum is None else min(domain.maximum, _EXACT)
        whole = domain.type == "int"
        found = _converted(rule.arithmetic, raws)
        for row, value in enumerate(found):
            if value is None:
                continue
            if value.__class__ is float and value.is_integer() and -_EXACT < value < _EXACT:
                value = found[row] = int(value)
            # What is no number is not within the bounds either.
            if not smallest <= value <= largest or (whole and value.__class__ is not int):
                self.strange[row] = True
        return found

    def _times(self, rule: CompiledRule, raws: Raws) -> Raws | None:
        distinct = list({raw for raw in raws if raw is not None})
        instants = read_times(rule, distinct)
        if instants is None:
            return None
        known = dict(zip(distinct, instants, strict=True))
        return [None if raw is None else known[raw] for raw in raws]

    def _by_distinct_values(self, rule: CompiledRule, raws: Raws) -> list[_Made]:
        nothing: list[tuple[Any, ...]] = [() for _ in rule.targets]
        if len(rule.remembered) > _MOST_REMEMBERED:
            rule.remembered.clear()
        results = self._each_once(raws, rule.values, nothing, rule.remembered)
        made = []
        for target in range(len(rule.targets)):
            values = [each[target] for each in results]
            if max(map(len, values)) <= 1:
                made.append(_Made([each[0] if each else None for each in values]))
            else:
                made.append(_Made(values, True))
        return made

    def _each_once(self, raws: Raws, make: Any, nothing: Any, known: dict[Any, Any]) -> list[Any]:
        """Return what is made of each raw value, made once for equal ones; strange are rows of which nothing can be.

        `known` is what was made before, of this batch and others; it is added to.
        """
        kinds = set(map(type, raws)) - {type(None)}
        keys = raws if len(kinds) == 1 and kinds <= {str, int, bool} else [_key(raw) for raw in raws]
        here: dict[Any, Any] = {}
        for key, raw in zip(keys, raws, strict=True) if keys is not raws else ((raw, raw) for raw in set(raws)):
            if key not in here:
                here[key] = nothing if raw is None else self._made_once(raw, make, known)
        found = [here[key] for key in keys]
        if any(each is _WRONG for each in here.values()):
            for row, each in enumerate(found):
                if each is _WRONG:
                    found[row], self.strange[row] = nothing, True
        return found

    def _made_once(self, raw: Any, make: Any, known: dict[Any, Any]) -> Any:
        key = _key(raw)
        found = known.get(key)
        if found is None:
            try:
                found = make(raw)
            except BadValue:
                found = _WRONG
            known[key] = found
        return found

    def _add(self, rule: CompiledRule, made: list[_Made]) -> None:
        for name, each in zip(rule.targets, made, strict=True):
            before = self.made.get(name)
            if before is not None:
                both = zip(before.as_tuples(), each.as_tuples(), strict=True)
                each = _Made([(*some, *more) for some, more in both], True)
            self.made[name] = each
            self._named.pop(name, None)


def _converted(number: NumberConversion | None, raws: Raws) -> Raws:
    """Return converted numbers as they come, not a number where they cannot be; a list of one's own."""
    if number is None:
        return [*raws]
    factor, offset, digits = number.factor, number.offset, number.digits
    if not number.reciprocal and (factor, offset) != (1.0, 0.0):
        with suppress(OverflowError, ValueError):  # of a huge integer; of what is not finite
            if digits is None:
                return [None if raw is None else raw * factor + offset for raw in raws]
            return [None if raw is None else round(raw * factor + offset, digits) for raw in raws]
    found: Raws = []
    for raw in raws:
        try:
            found.append(None if raw is None else number(raw))
        except BadValue:
            found.append(math.nan)
    return found


def _key(raw: Any) -> Any:
    """Return what tells raw values apart that rules may tell apart: 1, 1.0, true, and zero with its sign."""
    if raw is None or raw.__class__ is str:
        return raw
    return (raw.__class__, repr(raw) if isinstance(raw, float | Decimal) else raw)


def read_times(rule: CompiledRule, texts: list[str]) -> list[datetime] | None:
    """Return the instants of texts that are all written as numbers of full width; None where something is not so plain."""
    import pyarrow as pa
    from pyarrow import compute

    if rule.time_pattern is None or rule.zone is None or not texts:
        return None
    try:
        parts = compute.extract_regex(pa.array(texts, pa.string()), f"^(?:{rule.time_pattern})$")
        if parts.null_count:
            return None
        given = {parts.type.field(at).name: compute.struct_field(parts, [at]) for at in range(parts.type.num_fields)}
        date, clock = (
            [given.get(name, pa.scalar(default)) for name, default in some]
            for some in ((("year", ""), ("month", "01"), ("day", "01")), (("hour", "00"), ("minute", "00"), ("second", "00")))
        )  # fmt: skip
        joined = [compute.binary_join_element_wise(*some, by) for some, by in ((date, "-"), (clock, ":"))]
        local = compute.binary_join_element_wise(*joined, "T").cast(pa.timestamp("us"))
        if compute.min(local).as_py().year < 2 or compute.max(local).as_py().year > 9998:
            return None
        # Of an hour that comes twice the first is meant, as Python has it; one that never comes is left to the definition.
        there = compute.assume_timezone(local, str(rule.zone), ambiguous="earliest", nonexistent="raise")
        return [_EPOCH + timedelta(microseconds=each) for each in there.cast(pa.int64()).to_numpy().tolist()]
    except (pa.ArrowInvalid, OverflowError, ValueError):  # a day that no month has, half a surrogate pair
        return None
