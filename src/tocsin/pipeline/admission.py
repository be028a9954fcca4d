"""Admission of a batch: rows of any columns -> events in canonical columns, and the reasons of those that are none.

Two ways, with one meaning. The columnar way checks whole columns (column_checks.py) and gives canonical columns, ready
for the engine; JSON and maps become columns first (column_checks.py). Rows that it cannot decide (a text where a number
belongs, an unknown attribute, ...) become raw events, and are admitted one by one by the schema, which is the definition,
and which tells the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.errors import EventRejected, Violation
from tocsin.language.offer import is_offer
from tocsin.pipeline.column_checks import BROKEN, MAX_NESTED, fit, map_columns, read_all, values_of
from tocsin.pipeline.plan import Layout
from tocsin.schema import EVENT_TYPE, Event, Schema, ViewAttribute
from tocsin.schema.arrow import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa


MAX_BYTES = 256 << 10  # of an event as JSON


def raw_rows(batch: pa.RecordBatch, layout: Layout) -> list[dict[str, Any] | EventRejected]:
    """Return each row as a raw event, or why it is none (JSON that cannot be read)."""
    if layout.whole is not None:
        return [_decode_whole(text) for text in batch.column(layout.whole).to_pylist()]
    plain = [(name, _values(batch.column(name))) for name in layout.plain]
    embedded = [(name, batch.column(name).to_pylist()) for name in layout.json]
    rows: list[dict[str, Any] | EventRejected] = []
    for at in range(batch.num_rows):
        row = {name: values[at] for name, values in plain if values[at] is not None}
        try:
            row |= {name: _decode(name, texts[at]) for name, texts in embedded if texts[at] is not None}
        except EventRejected as error:
            rows.append(error)
        else:
            rows.append(row)
    return rows


def _decode_whole(text: str | bytes | None) -> dict[str, Any] | EventRejected:
    try:
        found = _decode("the event", text)
    except EventRejected as error:
        return error
    if not isinstance(found, dict):
        return EventRejected([Violation("not an object", None, f"an event is an object, not {type(found).__name__}")])
    return found


def _decode(what: str, text: str | bytes | None) -> Any:
    if text is None:
        raise EventRejected([Violation("not an object", None, f"{what} is null")])
    if len(text) > MAX_BYTES:
        raise EventRejected([Violation("too large", None, f"{what} has more than {MAX_BYTES} bytes")])
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EventRejected([Violation("not an object", None, f"{what} is not JSON: {error}")]) from None
    except RecursionError:
        raise EventRejected([Violation("too large", None, f"{what} is nested too deeply")]) from None


def _values(column: pa.Array) -> list[Any]:
    """Return the values as JSON-like Python objects: maps as dictionaries, at any depth."""
    values: list[Any] = column.to_pylist()
    if not _holds_map(column.type):
        return values
    return [_without_maps(value, column.type) for value in values]


def _holds_map(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_map(kind):
        return True
    return any(_holds_map(kind.field(at).type) for at in range(kind.num_fields))


def _without_maps(value: Any, kind: pa.DataType) -> Any:
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_map(kind):
        return {str(key): _without_maps(inner, kind.item_type) for key, inner in value}
    if pa.types.is_struct(kind):
        return {
            kind.field(at).name: _without_maps(value[kind.field(at).name], kind.field(at).type)
            for at in range(kind.num_fields)
        }
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_without_maps(inner, kind.value_type) for inner in value]
    return value


Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


@dataclass(slots=True)
class Admission:
    """What became of the rows of a batch; every row is in exactly one of the three.

    `columns` holds the events of `rows` in canonical columns (schema/arrow.py, columns that no event binds left out);
    `events` and `rejected` are by row.
    """

    rows: Rows
    columns: pa.RecordBatch
    events: dict[int, Event] = field(default_factory=dict)
    rejected: dict[int, EventRejected] = field(default_factory=dict)

    def of_rows(self, rows: Rows) -> Admission:
        """Return the same of a batch of which these rows were admitted."""
        numbers = rows.tolist()
        events = {numbers[at]: event for at, event in self.events.items()}
        rejected = {numbers[at]: error for at, error in self.rejected.items()}
        return Admission(rows[self.rows], self.columns, events, rejected)


Analyse = Callable[[Mapping[str, Any]], Event]  # raises EventRejected


def admit_batch(
    batch: pa.RecordBatch,
    schema: Schema,
    layout: Layout,
    analyse: Analyse | None = None,
    *,
    read: Analyse | None = None,
) -> Admission:
    """Return the batch's events, and why the others are none; without `analyse` there are no offers.

    `read` admits one raw event, where that is not the schema.
    """
    columns = _Columns(batch, schema, layout)
    rows = np.flatnonzero(columns.fits)
    admission = Admission(rows, columns.canonical(rows))
    slow = np.flatnonzero(~columns.fits)
    if len(slow):
        _admit_slowly(batch.take(pa_indices(slow)), slow, layout, admission, analyse, read or schema.admit)
    return admission


def _admit_slowly(
    part: pa.RecordBatch, rows: Rows, layout: Layout, admission: Admission, analyse: Analyse | None, read: Analyse
) -> None:
    for row, raw in zip(rows.tolist(), raw_rows(part, layout), strict=True):
        try:
            if isinstance(raw, EventRejected):
                raise raw
            offered = analyse is not None and is_offer(raw)
            admission.events[row] = analyse(raw) if analyse is not None and offered else read(raw)
        except EventRejected as error:
            admission.rejected[row] = error


class _Columns:
    """The columnar way: canonical columns by attribute, and which rows they decide."""

    def __init__(self, batch: pa.RecordBatch, schema: Schema, layout: Layout) -> None:
        self._schema = schema
        self._size = batch.num_rows
        self._canonical: dict[str, pa.Array] = {}
        self._bound: dict[str, Mask] = {}
        self.fits: Mask = np.ones(self._size, np.bool_)
        self._unknown: Mask = np.zeros(self._size, np.bool_)  # rows that bind what no attribute is
        if layout.whole is not None:
            self._take_documents(batch.column(layout.whole).to_pylist())
        for name in layout.json:
            self._take_embedded(name, batch.column(name).to_pylist())
        for name in layout.plain:
            self._take(name, batch.column(name))
        self._check_types()

    def canonical(self, rows: Rows) -> pa.RecordBatch:
        """Return the canonical columns of some rows."""
        import pyarrow as pa

        names = [name for name, bound in self._bound.items() if bound[rows].any()]
        if not names:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        columns = [self._canonical[name] for name in names]
        if len(rows) < self._size:
            columns = [column.take(pa_indices(rows)) for column in columns]
        return pa.RecordBatch.from_arrays(columns, names=names)

    # --- one column ---------------------------------------------------------------------------------------------------

    def _take(self, name: str, values: pa.Array) -> None:
        import pyarrow as pa

        known = name == EVENT_TYPE or name in self._schema.attributes
        if name in self._schema.object_attributes:  # elements are made one by one
            self.fits &= ~_valid(values)
            return
        if pa.types.is_map(values.type):
            self._take_map(name, values)
            return
        if pa.types.is_struct(values.type) and not (known and name in self._schema.point_attributes):
            self._take_struct(name, values)
            return
        entry = self._schema.view().attributes.get(name) if known else None
        # A name may come twice, as `a.b` and within the struct `a`: then the slow way adds up the values.
        found = None if entry is None or name in self._canonical else _fit_column(values, entry)
        if found is None:
            if known:
                self.fits &= ~_valid(values)
            else:
                self._unknown |= _valid(values)
            return
        canonical, fits = found
        self.fits &= fits
        self._canonical[name] = canonical
        self._bound[name] = _valid(canonical)

    def _take_struct(self, name: str, values: pa.Array) -> None:
        from pyarrow import compute

        for at in range(values.type.num_fields):
            self._take(f"{name}.{values.type.field(at).name}", compute.struct_field(values, [at]))

    def _take_map(self, name: str, values: pa.Array) -> None:
        columns = map_columns(values)
        if columns is None or name in self._schema.point_attributes:
            self.fits &= ~_valid(values)
            return
        for key, column in columns:
            self._take(f"{name}.{key}", column)

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def _take_documents(self, texts: list[Any]) -> None:
        """Take whole events; offers, and what is no object, are left to the slow way."""
        documents = read_all(texts, MAX_BYTES)
        good = np.fromiter((type(each) is dict and type(each.get("event")) is not dict for each in documents), np.bool_)
        self.fits &= good
        kept = documents if good.all() else [each if fits else {} for each, fits in zip(documents, good, strict=True)]
        self._take_objects("", kept)

    def _take_embedded(self, name: str, texts: list[Any]) -> None:
        documents = read_all(texts, MAX_BYTES)
        self.fits &= np.fromiter((each is not BROKEN for each in documents), np.bool_)
        self._take_values(name, [None if each is BROKEN else each for each in documents])

    def _take_objects(self, prefix: str, objects: list[Any]) -> None:
        for key in sorted(set().union(*objects)):
            self._take_values(prefix + key, [each.get(key) for each in objects])

    def _take_values(self, name: str, values: list[Any]) -> None:
        """Take what documents have under a name: objects by their names, values as columns; odd ones the slow way."""
        if name in self._schema.object_attributes:  # as in _take: an object by itself is an element, too
            self.fits &= np.fromiter((each is None for each in values), np.bool_)
            return
        found = values_of(values, is_point=name in self._schema.point_attributes)
        self.fits &= ~found.odd
        if found.column is not None:
            self._take(name, found.column)
        if found.objects is None:
            return
        if name.count(".") >= MAX_NESTED:
            self.fits &= np.fromiter((not each for each in found.objects), np.bool_)
            return
        self._take_objects(f"{name}.", found.objects)

    # --- what an event's types say ------------------------------------------------------------------------------------

    def _check_types(self) -> None:
        """Leave to the slow way the rows that bind too little, or too much, for their event types."""
        from pyarrow import compute

        types = self._types()
        if types is None:
            self.fits[:] = False
            return
        for name in compute.unique(types).to_pylist():
            chosen = _mask(compute.equal(types, name)) if name is not None else ~_valid(types)
            self.fits[chosen] &= False if name is None else self._obeys(name)[chosen]

    def _types(self) -> pa.Array | None:
        """Return the event type of each row, null where it names none or several; None where columns cannot tell."""
        import pyarrow as pa

        if EVENT_TYPE in self._canonical:
            return _only_member(self._canonical[EVENT_TYPE])
        if len(self._schema.event_types) != 1:
            return None
        (only,) = self._schema.event_types
        self._canonical[EVENT_TYPE] = _lists_of_one(_dictionary([only] * self._size, self._schema))
        self._bound[EVENT_TYPE] = np.ones(self._size, np.bool_)
        return pa.array([only] * self._size)

    def _obeys(self, event_type: str) -> Mask:
        view = self._schema.view([event_type])
        obeys = np.ones(self._size, np.bool_) if view.unknown == "ignored" else ~self._unknown
        for name in view.mandatory:
            obeys &= self._bound.get(name, np.zeros(self._size, np.bool_))
        for name, bound in self._bound.items():
            entry = view.attributes.get(name)
            if entry is None:
                obeys &= ~bound
            elif not entry.multiple and self._schema.view()[name].multiple:
                obeys &= ~bound | _single(self._canonical[name])
        return obeys


# --- columns of an attribute ------------------------------------------------------------------------------------------


def _fit_column(values: pa.Array, entry: ViewAttribute) -> tuple[pa.Array, Mask] | None:
    """Return the canonical column of an attribute, and which rows fit."""
    import pyarrow as pa

    if not _is_list(values.type):
        found = fit(values, entry.domain)
        if found is None:
            return None
        canonical, fits = found
        return (_lists_of_one(canonical) if entry.multiple else canonical), _mask(fits)
    found = fit(values.flatten(), entry.domain)
    if found is None:
        return None
    members, fits = found
    lengths = np.diff(values.offsets.to_numpy())
    valid = _valid(values)
    lengths = np.where(valid, lengths, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    bad = np.concatenate([[0], np.cumsum(~(_mask(fits) & _valid(members)))])
    row_fits = bad[offsets[1:]] == bad[offsets[:-1]]
    if entry.multiple:
        empty = pa.array(lengths == 0)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), members, mask=empty), row_fits
    first = pa.array(np.where(lengths > 0, offsets[:-1], 0), mask=lengths == 0)
    canonical = members.take(first) if len(members) else pa.nulls(len(values), arrow_type(entry.domain))
    return canonical, row_fits & (lengths <= 1)


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _lists_of_one(values: pa.Array) -> pa.Array:
    """Return each value as a list of its own; null where it is null."""
    import pyarrow as pa

    valid = _valid(values)
    offsets = np.concatenate([[0], np.cumsum(valid)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.drop_null(), mask=pa.array(~valid))


def _only_member(lists: pa.Array) -> pa.Array:
    """Return the text in each list of one, null elsewhere."""
    import pyarrow as pa

    lengths = np.where(_valid(lists), np.diff(lists.offsets.to_numpy()), 0)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    chosen = pa.array(np.where(lengths == 1, starts, 0), mask=lengths != 1)
    flat = lists.flatten()
    texts = flat.dictionary_decode() if pa.types.is_dictionary(flat.type) else flat
    return texts.take(chosen) if len(texts) else pa.nulls(len(lists), pa.string())


def _single(lists: pa.Array) -> Mask:
    return np.where(_valid(lists), np.diff(lists.offsets.to_numpy()), 0) <= 1


def _dictionary(names: list[str], schema: Schema) -> pa.Array:
    import pyarrow as pa

    members = list(schema.event_types)
    keys = pa.array([members.index(name) for name in names], pa.int32())
    return pa.DictionaryArray.from_arrays(keys, pa.array(members, pa.string()))


def _valid(values: pa.Array) -> Mask:
    return _mask(values.is_valid())


def _mask(values: Any) -> Mask:
    mask: Mask = values.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask


def pa_indices(rows: Rows) -> pa.Array:
    """Return the numbers of rows for Arrow's take."""
    import pyarrow as pa

    return pa.array(rows, pa.int64())
