"""Mappings column by column: what SiteMapping.translate says of single documents, of whole batches of Arrow columns.

A rule that only renames, or computes with numbers, works on the arrays themselves where they are of the right type. Any
other rule on one field is applied to each distinct value once, by the definition, and the results are taken by position.
Formulas and conditions are computed by formula_vector.py. What is left (joined fields, arrays of objects, columns that are
neither plain nor lists) goes row by row. A row with anything wrong is refused, and translated by the definition to say why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tocsin.errors import BadValue, EventRejected
from tocsin.language.formula_columns import ValueColumn, column_of, several_column
from tocsin.language.formula_vector import compute_column, condition_column
from tocsin.language.mapping import CompiledRule, SiteMapping, admitted
from tocsin.schema import EVENT_TYPE, Domain, NumericDomain, TextDomain, TimeDomain
from tocsin.schema.domain import microseconds

if TYPE_CHECKING:
    import pyarrow as pa

Bools = npt.NDArray[np.bool_]
Values = list[tuple[Any, ...]]  # by row


@dataclass(frozen=True, slots=True)
class TranslatedBatch:
    """The events of a batch's rows in columns, by attribute; and why some rows are refused, whose events are none.

    `apart` are the events of rows with a number that the column beside the others cannot hold exactly.
    """

    columns: pa.RecordBatch
    refused: dict[int, EventRejected]
    apart: dict[int, dict[str, Any]]

    def rows(self) -> list[dict[str, Any] | None]:
        """Return the event of each row; None where it is refused."""
        rows = enumerate(self.columns.to_pylist())
        return [None if at in self.refused else self.apart.get(at) or _without_nothing(row) for at, row in rows]


def _without_nothing(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def translate_batch(mapping: SiteMapping, batch: pa.RecordBatch) -> TranslatedBatch:
    """Return the batch's documents as events."""
    return _Translation(mapping, batch).run()


@dataclass(slots=True)
class _Made:
    """What a rule made: an array with one value a row, or lists of values by row."""

    array: pa.Array | None = None
    lists: Values | None = None

    def as_lists(self) -> Values:
        if self.lists is None:
            assert self.array is not None
            rows = self.array.to_pylist()
            self.lists = [() if row is None else tuple(row) if isinstance(row, list) else (row,) for row in rows]
        return self.lists


class _Translation:
    """The work on one batch."""

    def __init__(self, mapping: SiteMapping, batch: pa.RecordBatch) -> None:
        self.mapping, self.batch, self.size = mapping, batch, batch.num_rows
        self.bad: Bools = np.zeros(self.size, np.bool_)
        self.odd: Bools = np.zeros(self.size, np.bool_)
        self.made: dict[str, _Made] = {}
        self._documents: list[dict[str, Any]] | None = None
        self._named: dict[str, ValueColumn] = {}  # what formulas may speak of

    @property
    def documents(self) -> list[dict[str, Any]]:
        if self._documents is None:
            self._documents = self.batch.to_pylist()
        return self._documents

    def run(self) -> TranslatedBatch:
        import pyarrow as pa

        if self.mapping.types:
            self.made[EVENT_TYPE] = self._constant(self.mapping.types, self.mapping.schema.event_type_domain)
        if self.mapping.document.others == "refuse" or self.mapping.source:
            self._check_source()
        for rule in self.mapping.rules:
            self._rule(rule)
        names = list(self.made)
        arrays = [self._array(name, self.made[name]) for name in names]
        if names:
            columns = pa.RecordBatch.from_arrays(arrays, names=names)
        else:
            columns = pa.RecordBatch.from_struct_array(pa.array([{}] * self.size, pa.struct([])))
        refused, apart = {}, {}
        for row in np.flatnonzero(self.bad | self.odd).tolist():
            try:
                apart[row] = self.mapping.translate(self.batch.slice(row, 1).to_pylist()[0])
            except EventRejected as error:
                refused[row] = error
        return TranslatedBatch(columns, refused, apart)

    def _check_source(self) -> None:
        """Mark rows whose fields are not what `source` says, or have no rule where that matters."""
        mapping = self.mapping
        for name, domain in mapping.source.items():
            values: Values = []
            for row, document in enumerate(self.documents):
                found = []
                for raw in mapping.raws(document, name):
                    try:
                        found.append(admitted(domain, raw))
                    except BadValue:
                        self.bad[row] = True
                values.append(tuple(found))
            self._named[name] = _named_column(domain, values)
        if mapping.document.others == "refuse":
            self.bad |= np.array([bool(mapping.lost(document)) for document in self.documents], np.bool_)

    # --- rules --------------------------------------------------------------------------------------------------------

    def _rule(self, rule: CompiledRule) -> None:
        chosen = self._chosen(rule)
        if rule.inner:
            self._by_rows(rule, chosen)
        elif rule.formula is not None:
            found = compute_column(rule.formula, self._columns(rule.formula.names), self.size)
            self._take_formula(rule, found, chosen)
        elif rule.constant:
            if chosen.all():
                self._add(rule, [self._constant(rule.constant, rule.domains[0])])
            else:
                self._add(rule, [_Made(lists=[rule.constant if here else () for here in chosen.tolist()])])
        elif rule.rule.join is not None:
            self._by_rows(rule, chosen)
        else:
            self._field(rule, chosen)

    def _constant(self, values: tuple[Any, ...], domain: Domain) -> _Made:
        array, odd = _typed(values, domain)
        if len(values) != 1 or odd.any():
            return _Made(lists=[values] * self.size)
        return _Made(array.take(_positions(np.zeros(self.size, np.int64))))

    def _chosen(self, rule: CompiledRule) -> Bools:
        if rule.when is None:
            return np.ones(self.size, np.bool_)
        found = condition_column(rule.when, self._columns(rule.when.names), self.size)
        if found.failed is not None:
            self.bad |= found.failed != 0
        return found.holds

    def _columns(self, names: Sequence[str]) -> dict[str, ValueColumn]:
        """Return the columns that a formula mentions."""
        columns = {}
        for name in names:
            if name not in self._named:
                made, domain = self.made.get(name), self.mapping.schema.domain_of(name)
                self._named[name] = _named_column(domain, [()] * self.size if made is None else made.as_lists())
            columns[name] = self._named[name]
        return columns

    def _take_formula(self, rule: CompiledRule, found: ValueColumn, chosen: Bools) -> None:
        if found.failed is not None:
            self.bad |= (found.failed != 0) & chosen
        values: Values = []
        known: dict[Any, tuple[Any, ...] | None] = {}
        for row, value in enumerate(found.to_list()):
            if value is None or not chosen[row]:
                values.append(())
                continue
            key = (type(value), value)
            if key not in known:
                try:
                    known[key] = (admitted(rule.domains[0], value),)
                except BadValue:
                    known[key] = None
            self.bad[row] |= known[key] is None
            values.append(known[key] or ())
        self._add(rule, [_Made(lists=values)])

    def _by_rows(self, rule: CompiledRule, chosen: Bools) -> None:
        """Apply a rule by the definition, row by row."""
        made: list[Values] = [[] for _ in rule.targets]
        for row, document in enumerate(self.documents):
            found: list[tuple[Any, ...]] = [()] * len(rule.targets)
            if chosen[row] and rule.inner:
                wrong: list[Any] = []
                found = [tuple(self.mapping._elements(rule, document, wrong))]
                self.bad[row] |= bool(wrong)
            elif chosen[row]:
                for raw in self.mapping._inputs(rule, document):
                    try:
                        found = [(*before, *more) for before, more in zip(found, rule.values(raw), strict=True)]
                    except BadValue:
                        self.bad[row] = True
            for values, each in zip(made, found, strict=True):
                values.append(each)
        self._add(rule, [_Made(lists=values) for values in made])

    def _field(self, rule: CompiledRule, chosen: Bools) -> None:
        array = self._array_at(rule.rule.paths[0])
        if array is None:
            if self._is_nested(rule.rule.paths[0]):
                self._by_rows(rule, chosen)
            return
        array = self._without_missing(array)
        if not chosen.all():
            import pyarrow as pa
            from pyarrow import compute

            array = compute.if_else(pa.array(chosen), array, pa.scalar(None, array.type))
        direct = self._directly(rule, array)
        if direct is not None:
            self._add(rule, [_Made(direct)])
            return
        self._by_distinct_values(rule, array)

    def _is_nested(self, path: str) -> bool:
        """Return whether documents may have something at the path that is no plain column."""
        return any(name == path or path.startswith(f"{name}.") for name in self.batch.schema.names)

    def _array_at(self, path: str) -> pa.Array | None:
        """Return the plain column at a path, through structs; None where there is none."""
        import pyarrow as pa
        from pyarrow import compute

        for name in self.batch.schema.names:
            if name == path or path.startswith(f"{name}."):
                array, rest = self.batch.column(name), path[len(name) + 1 :]
                while rest and pa.types.is_struct(array.type):
                    key, _, rest = rest.partition(".")
                    if array.type.get_field_index(key) < 0:
                        return None
                    array = compute.struct_field(array, [array.type.get_field_index(key)])
                if pa.types.is_dictionary(array.type):
                    array = array.dictionary_decode()
                return None if rest or pa.types.is_nested(array.type) or pa.types.is_null(array.type) else array
        return None

    def _without_missing(self, array: pa.Array) -> pa.Array:
        import pyarrow as pa
        from pyarrow import compute

        if not self.mapping.missing or not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
            return array
        absent = compute.is_in(array, value_set=pa.array(sorted(self.mapping.missing), array.type))
        return compute.if_else(absent, pa.scalar(None, array.type), array) if compute.any(absent).as_py() else array

    def _directly(self, rule: CompiledRule, array: pa.Array) -> pa.Array | None:
        """Return the attribute's column where the field's array is one, or is computed with as an array."""
        import pyarrow as pa

        kind, domain, plain = array.type, rule.domains[0], rule.rule
        if isinstance(domain, TimeDomain) and rule.time_pattern is not None and plain.split is plain.pattern is None:
            return _times(rule, array) if plain.table is None and pa.types.is_string(kind) else None
        if plain.split is not None or plain.pattern is not None or plain.table is not None or plain.time is not None:
            return None
        number = rule.arithmetic
        if isinstance(domain, TextDomain) and number is None and domain.max_length is None:
            return array if pa.types.is_string(kind) else None
        if isinstance(domain, TimeDomain) and number is None:
            return array if pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit == "us" else None
        if not isinstance(domain, NumericDomain) or domain.type == "decimal":
            return None
        if (domain.minimum, domain.maximum) != (None, None):
            return None
        if pa.types.is_signed_integer(kind) and number is None:
            return array.cast(pa.int64())
        if domain.type != "float" or not (pa.types.is_signed_integer(kind) or kind in (pa.float64(), pa.float32())):
            return None
        if kind == pa.float32() or (number is not None and number.digits not in (None, 0)):
            return None
        values = array.fill_null(1).to_numpy(zero_copy_only=False).astype(np.float64)
        with np.errstate(all="ignore"):
            if number is None:
                found = values
            elif number.reciprocal:
                found = number.factor / values
            elif (number.factor, number.offset) == (1.0, 0.0):
                found = values
            else:
                found = values * number.factor + number.offset
            if number is not None and number.digits == 0:
                found = np.rint(found)
        if not np.isfinite(found).all() or (np.abs(values) >= 2**53).any():
            return None
        return pa.array(found, mask=~array.is_valid().to_numpy(zero_copy_only=False))

    def _by_distinct_values(self, rule: CompiledRule, array: pa.Array) -> None:
        encoded = array.dictionary_encode()
        results: list[list[tuple[Any, ...]]] = []
        wrong = np.zeros(len(encoded.dictionary) + 1, np.bool_)
        for at, raw in enumerate(encoded.dictionary.to_pylist()):
            try:
                results.append(rule.values(raw))
            except BadValue:
                results.append([()] * len(rule.targets))
                wrong[at] = True
        positions = encoded.indices.fill_null(len(results)).to_numpy(zero_copy_only=False)
        self.bad |= wrong[positions]
        results.append([()] * len(rule.targets))
        made = []
        for target, domain in enumerate(rule.domains):
            distinct = [each[target] for each in results]
            if all(len(values) <= 1 for values in distinct):
                singles, odd = _typed([values[0] if values else None for values in distinct], domain)
                self.odd |= odd[positions]
                made.append(_Made(singles.take(_positions(positions))))
            else:
                listed, odd = _listed(distinct, domain)
                self.odd |= odd[positions]
                made.append(_Made(listed.take(_positions(positions))))
        self._add(rule, made)

    # --- columns ------------------------------------------------------------------------------------------------------

    def _add(self, rule: CompiledRule, made: list[_Made]) -> None:
        for name, each in zip(rule.targets, made, strict=True):
            before = self.made.get(name)
            if before is not None:
                both = zip(before.as_lists(), each.as_lists(), strict=True)
                each = _Made(lists=[(*some, *more) for some, more in both])
            self.made[name] = each
            self._named.pop(name, None)

    def _array(self, name: str, made: _Made) -> pa.Array:
        import pyarrow as pa

        if made.array is not None:
            return made.array
        lists = made.as_lists()
        if name not in self.mapping.schema.attributes and name != EVENT_TYPE:  # an array of objects
            return pa.array([list(values) or None for values in lists])
        domain = self.mapping.schema.domain_of(name)
        if all(len(values) <= 1 for values in lists):
            found, odd = _typed([values[0] if values else None for values in lists], domain)
            self.odd |= odd
            return found
        found, odd = _listed(lists, domain)
        self.odd |= odd
        return found


def _times(rule: CompiledRule, array: pa.Array) -> pa.Array | None:
    """Return the instants of texts that are all written as numbers of full width; None where something is not so plain."""
    import pyarrow as pa
    from pyarrow import compute

    parts = compute.extract_regex(array, f"^(?:{rule.time_pattern})$")
    if parts.null_count > array.null_count or rule.zone is None or len(array) == array.null_count:
        return None
    given = {parts.type.field(at).name: compute.struct_field(parts, [at]) for at in range(parts.type.num_fields)}
    names = ("year", "month", "day", "hour", "minute", "second")
    defaults = dict(zip(names, ("", "01", "01", "00", "00", "00"), strict=True))
    date, clock = ([given.get(name, pa.scalar(defaults[name])) for name in some] for some in (names[:3], names[3:]))
    try:
        joined = [compute.binary_join_element_wise(*some, by) for some, by in ((date, "-"), (clock, ":"))]
        texts = compute.binary_join_element_wise(*joined, "T")
        local = compute.if_else(array.is_valid(), texts, pa.scalar(None, pa.string())).cast(pa.timestamp("us"))
        if compute.min(local).as_py().year < 2 or compute.max(local).as_py().year > 9998:
            return None
        # Of an hour that comes twice the first is meant, as Python has it; one that never comes is left to the definition.
        return compute.assume_timezone(local, str(rule.zone), ambiguous="earliest", nonexistent="raise").cast(
            pa.timestamp("us", "UTC")
        )
    except (pa.ArrowInvalid, OverflowError, ValueError):
        return None


def _listed(lists: Values, domain: Domain) -> tuple[pa.Array, Bools]:
    """Return canonical values as an array of lists, null where there are none; and which it cannot hold exactly."""
    import pyarrow as pa

    flat, odd = _typed([value for values in lists for value in values], domain)
    lengths = [len(values) for values in lists]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    strange = np.zeros(len(lists), np.bool_)
    strange[np.repeat(np.arange(len(lists)), lengths)[odd]] = True
    empty = pa.array([not values for values in lists])
    return pa.ListArray.from_arrays(pa.array(offsets), flat, mask=empty), strange


def _positions(positions: npt.NDArray[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array(positions.astype(np.int64))


def _named_column(domain: Domain, values: Values) -> ValueColumn:
    if any(len(each) > 1 for each in values):
        return several_column(domain, [each or None for each in values])
    return column_of(domain, [each[0] if each else None for each in values])


def _typed(values: Sequence[Any], domain: Domain) -> tuple[pa.Array, Bools]:
    """Return canonical values as an array that admission by columns takes, and which of them it cannot hold exactly."""
    exact = np.zeros(len(values), np.bool_)
    if domain.kind != "numeric":
        return _typed_values(values, domain), exact
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pa.array(values, pa.int64()), exact
    odd = np.array([value is not None and not _is_float(value) for value in values], np.bool_)
    floats = [None if value is None or strange else float(value) for value, strange in zip(values, odd, strict=True)]
    return pa.array(floats, pa.float64()), odd


def _is_float(value: Any) -> bool:
    try:
        return not isinstance(value, Decimal) and value == float(value)
    except OverflowError:
        return False


def _typed_values(values: Sequence[Any], domain: Domain) -> pa.Array:
    import pyarrow as pa

    if isinstance(domain, TimeDomain):
        micros = [None if value is None else microseconds(value) for value in values]
        return pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))
    if domain.kind == "point":
        points = [None if value is None else {"lat": value[0], "lon": value[1]} for value in values]
        return pa.array(points, pa.struct([("lat", pa.float64()), ("lon", pa.float64())]))
    if domain.kind == "boolean":
        return pa.array(values, pa.bool_())
    return pa.array(values, pa.string())
