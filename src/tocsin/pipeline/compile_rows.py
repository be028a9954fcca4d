"""Subscriptions compiled: lines by this process, rows of a DataFrame by Spark's executors, and only those that are new.

A DataFrame holds a subscription a row: `id`, and either `text` (an expression), `document` (JSON in any form), or
`predicates` (the bulk form: JSON text, or an array of structs with attribute, operator and operand as JSON text) with
`event_types` if it likes. Each row becomes a line of JSON, and a digest of it says what it is. Workers are sent the
digests that a table has already; they compile the other lines, and send back tables of conjunctions, a Piece for some
thousands of lines. So a second load of the same rows costs reading them. Used by subscription_table.py.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.compile.bulk import load_bulk
from tocsin.compile.ids import Ids, ids_of
from tocsin.compile.table import ConjunctionTable
from tocsin.errors import BindError, DuplicateSubscription, NotSupported, ParseError, TocsinError
from tocsin.language import parse
from tocsin.language.documents import BadLine, to_bulk
from tocsin.language.formula import Operators
from tocsin.language.syntax import OperatorCall
from tocsin.operators.registry import INSTALLED, Registry, open_registry
from tocsin.schema import Schema, ViewAttribute
from tocsin.schema.files import dumps, loads

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PIECE_LINES = 20_000  # compiled together: what a worker holds, and what it sends at once
DIGEST_BYTES = 16
FORMS = ("document", "text", "predicates")
ROW = "__tocsin_row"
_LOCAL = (1 << 33) - 1  # of a row's number, below the number of its partition
Digests = npt.NDArray[np.bytes_]
Longs = npt.NDArray[np.int64]


class BadRow(msgspec.Struct, frozen=True):
    """A line that holds no subscription, by its row, with the reason."""

    row: int
    id: str | int | None
    reason: str
    line: str
    repeated: bool = False  # its id came before


@dataclass(slots=True)
class Piece:
    """What came of some lines: those that are known by content, a table of the others, and those that are bad."""

    known: Digests
    known_rows: Longs
    ids: Ids  # of the table, in the order of lines
    rows: Longs
    digests: Digests
    table: ConjunctionTable | None = None
    documents: list[str] | None = None
    bad: list[BadRow] = field(default_factory=list)
    sum: int = 0  # of all digests: what all lines say, in whatever order they come
    counts: dict[int, int] = field(default_factory=dict)  # partition -> rows seen of it


class TextTemplates:
    """Texts that differ in their constants only are parsed once; the others of a kind become bulk predicates.

    Parsing is nine tenths of compiling. A kind is a text without its constants, and it is a template if its first text
    is a conjunction of predicates with just these constants, in their order. Only plain numbers and texts are taken for
    constants; whatever else a text has is part of its kind, or lets it be parsed.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[list[str], list[list[str]]] | None] = {}

    def as_bulk(self, line: bytes) -> bytes:
        """Return the line, or one that means the same and needs no parsing."""
        try:
            given = _read_text(line)
        except msgspec.MsgspecError:
            return line
        if _UNTEMPLATED.search(given.text) is not None:
            return line
        constants = [_constant(text) for text in _CONSTANT.findall(given.text)]
        kind = _CONSTANT.sub(_kind_of_constant, given.text)
        if kind not in self._kinds:
            if len(self._kinds) >= MOST_TEMPLATES:
                self._kinds.clear()
            self._kinds[kind] = _template(given.text, constants)
        template = self._kinds[kind]
        if template is None:
            return line
        types, predicates = template
        filled = [[*predicate, constant] for predicate, constant in zip(predicates, constants, strict=True)]
        return msgspec.json.encode({"id": given.id, "event_types": types, "predicates": filled})


class _WithText(msgspec.Struct, forbid_unknown_fields=True):
    id: str | int
    text: str


MOST_TEMPLATES = 10_000
_read_text = msgspec.json.Decoder(_WithText).decode
_UNTEMPLATED = re.compile(r"""["\[\\]|--|''|[^\x20-\x7e]|.{2000}""")
_CONSTANT = re.compile(r"'[^']{0,200}'|(?<![\w.?'])[0-9]{1,9}(?:\.[0-9]{1,6})?(?![\w.'])")


def _constant(text: str) -> int | float | str:
    if text.startswith("'"):
        return text[1:-1]
    return float(text) if "." in text else int(text)


def _kind_of_constant(found: re.Match[str]) -> str:
    return "\0" + type(_constant(found.group())).__name__


def _template(text: str, constants: list[int | float | str]) -> tuple[list[str], list[list[str]]] | None:
    """Return event types, and attribute and operator for each constant; None where the text is not of that form."""
    try:
        bulk = to_bulk(parse(text))
    except TocsinError:
        return None
    predicates = bulk["predicates"]
    operands = [predicate[2] for predicate in predicates if len(predicate) == 3]
    same = len(operands) == len(predicates) == len(constants) > 0 and "with" not in bulk
    if not same or any(
        type(one) is not type(other) or one != other for one, other in zip(operands, constants, strict=True)
    ):
        return None
    return bulk.get("event_types", []), [[predicate[0], predicate[1]] for predicate in predicates]


@dataclass(frozen=True, slots=True)
class LineCompiler:
    """Compiles lines of one schema; `known` are digests, sorted, of what needs no compiling."""

    schema: Schema
    operators: Operators
    known: Digests
    documents: bool = False
    needs_id: bool = False
    templates: TextTemplates = field(default_factory=TextTemplates)

    def compile(self, lines: Sequence[bytes], rows: Longs) -> Piece:
        """Return what comes of lines with these numbers."""
        digests = _digests(lines)
        is_known = _is_in(digests, self.known)
        piece = Piece(digests[is_known], rows[is_known], ids_of([]), rows[:0], digests[:0])
        piece.sum = _sum(digests)
        partitions, local = rows >> 33, rows & _LOCAL
        piece.counts = {int(each): int(local[partitions == each].max()) + 1 for each in np.unique(partitions)}
        if not is_known.all():
            self._take(
                piece, [lines[at] for at in np.flatnonzero(~is_known).tolist()], rows[~is_known], digests[~is_known]
            )
        return piece

    def _take(self, piece: Piece, lines: list[bytes], rows: Longs, digests: Digests) -> None:
        places: dict[Any, int] = {}
        for at, line in enumerate(lines):
            id = _id_of(line)
            if id is msgspec.UNSET and not self.needs_id:
                id = int(rows[at]) + 1  # the number of the line
                lines[at] = line = msgspec.json.encode({"id": id, **msgspec.json.decode(line)})
            if id is msgspec.UNSET:
                piece.bad.append(BadRow(int(rows[at]), None, "a subscription in a DataFrame has an id", line.decode()))
                lines[at] = b""
            elif id is not None and places.setdefault(id, at) != at:
                why = str(DuplicateSubscription(id))
                piece.bad.append(BadRow(int(rows[at]), id, why, line.decode(), repeated=True))
                lines[at] = b""
        loaded = load_bulk(map(self.templates.as_bulk, lines), self.schema, self.operators, first_line=0)
        piece.bad += [self._bad(error, lines[error.line], int(rows[error.line])) for error in loaded.errors]
        if len(loaded.table.ids):
            chosen = np.array([places[id] for id in _listed(loaded.table.ids)], np.int64)
            piece.table, piece.ids = loaded.table, loaded.table.ids
            piece.rows, piece.digests = rows[chosen], digests[chosen]
            piece.documents = [lines[at].decode() for at in chosen.tolist()] if self.documents else None

    def _bad(self, found: BadLine, line: bytes, row: int) -> BadRow:
        """Return why a line is none, in the words of what was written."""
        as_written = load_bulk([line], self.schema, self.operators).errors or [found]
        return BadRow(row, found.id, str(as_written[0].error), line.decode("utf-8", "replace"))


def compile_lines(lines: Iterable[bytes | str], compiler: LineCompiler) -> Iterator[Piece]:
    """Yield what comes of lines, compiled by this process."""
    remaining, first = iter(lines), 0
    while chunk := list(islice(remaining, PIECE_LINES)):
        given = [line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass") for line in chunk]
        yield compiler.compile(given, np.arange(first, first + len(given)))
        first += len(given)


# --- on the executors -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompileRows:
    """Maps rows of subscriptions to Pieces: what runs in the workers. Names and bytes only, since Spark carries it."""

    __name__ = "tocsin_compile"
    schema: str  # as JSON
    form: str
    names: tuple[str, ...]
    operators: str | None
    known: bytes
    documents: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        compiler = LineCompiler(
            loads(self.schema, "json"), PureOperators(open_registry(self.operators)),
            np.frombuffer(self.known, f"S{DIGEST_BYTES}"), self.documents, needs_id=True,
        )  # fmt: skip
        waiting: list[tuple[list[bytes], Longs]] = []
        for batch in batches:
            named = batch.rename_columns([*self.names, ROW])
            waiting.append((_lines_of(named, self.form), np.asarray(named.column(ROW).to_numpy(), np.int64)))
            if sum(len(lines) for lines, _ in waiting) >= PIECE_LINES:
                yield pa.RecordBatch.from_pydict({"piece": pa.array([_packed(compiler, waiting)], pa.binary())})
                waiting = []
        if waiting:
            yield pa.RecordBatch.from_pydict({"piece": pa.array([_packed(compiler, waiting)], pa.binary())})


def _packed(compiler: LineCompiler, waiting: list[tuple[list[bytes], Longs]]) -> bytes:
    lines = [line for each, _ in waiting for line in each]
    rows = np.concatenate([rows for _, rows in waiting])
    order = np.argsort(rows)  # of rows with one id the first counts, and they may have been spread
    return pickle.dumps(compiler.compile([lines[at] for at in order.tolist()], rows[order]))


def compile_rows(
    given: DataFrame, schema: Schema, *, operators: str | None, known: Digests, documents: bool
) -> Iterator[Piece]:
    """Yield what comes of the rows of a DataFrame, compiled by Spark's executors."""
    from pyspark.sql import functions

    form, names = form_of(given)
    rows = given.select(*(functions.col(name) for name in names))
    rows = rows.withColumn(ROW, functions.monotonically_increasing_id())
    if (parallel := _cores(given)) is not None:
        rows = rows.repartition(parallel)
    function = CompileRows(dumps(schema, "json"), form, names, operators, known.tobytes(), documents)
    for packed in rows.mapInArrow(function, "piece binary").collect():
        yield pickle.loads(bytes(packed.piece))  # noqa: S301 - written by this job's own workers


def _cores(given: DataFrame) -> int | None:
    """Return over how many partitions rows should be spread; None where they are well as they are."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if not isinstance(given, ClassicDataFrame):
        return None
    cores = given.sparkSession.sparkContext.defaultParallelism
    return cores if 0 < given.rdd.getNumPartitions() < cores else None


def form_of(given: DataFrame) -> tuple[str, tuple[str, ...]]:
    """Return the form in which a DataFrame holds subscriptions, and the columns; raises ParseError where it has none."""
    names = set(given.columns)
    form = next((form for form in FORMS if form in names), None)
    if form is None or (form != "document" and "id" not in names):
        raise ParseError(
            "a DataFrame of subscriptions has the columns id and text, id and predicates, or document; "
            f"this one has {', '.join(given.columns)}"
        )
    chosen = ("document",) if form == "document" else ("id", form, "event_types")
    return form, tuple(name for name in chosen if name in names)


def _lines_of(batch: pa.RecordBatch, form: str) -> list[bytes]:
    """Return rows as lines of JSON."""
    if form == "document":
        return [(text or "").encode() for text in batch.column("document").to_pylist()]
    encode = msgspec.json.Encoder().encode
    ids, values = batch.column("id").to_pylist(), batch.column(form).to_pylist()
    if form == "text":
        return [encode({"id": id, "text": text}) for id, text in zip(ids, values, strict=True)]
    types = batch.column("event_types").to_pylist() if "event_types" in batch.schema.names else [None] * len(ids)
    return [
        encode({"id": id, **({"event_types": of} if of else {}), "predicates": _predicates(value)})
        for id, of, value in zip(ids, types, values, strict=True)
    ]


def _predicates(value: Any) -> Any:
    if isinstance(value, str):
        return msgspec.Raw(value.encode())
    return [[one["attribute"], one["operator"], msgspec.Raw(one["operand"].encode())] for one in value or ()]


# --- operators, which go to the workers by name -----------------------------------------------------------------------


def named_operators(operators: Operators | str | Path | None) -> str | None:
    """Return the name of operators as workers, started elsewhere, understand it."""
    if operators is None:
        return None
    if operators == INSTALLED:
        return INSTALLED
    if not isinstance(operators, str | Path):
        raise NotSupported(
            "operators go to the workers by name: 'installed', a settings file, or package.module:function"
        )
    return str(Path(operators).resolve()) if Path(operators).exists() else str(operators)


class PureOperators:
    """Operators of which only pure ones can be called, since Spark may run a task again."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.variable_domains, self.solutions = registry.variable_domains, registry.solutions

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        bound = self._registry.bind_call(call, attributes)
        if not self._registry.get(call.name).pure:
            raise BindError(f"the operator {call.name} is not pure, and Spark may run a task again", span=call.span)
        return bound


# --- lines ------------------------------------------------------------------------------------------------------------


class _Named(msgspec.Struct):
    id: Any = msgspec.UNSET


_read_id = msgspec.json.Decoder(_Named).decode


def _id_of(line: bytes) -> Any:
    """Return the id that a line says: UNSET where it says none, None where it says none that could be one."""
    try:
        found = _read_id(line).id
    except msgspec.MsgspecError:
        return None
    return found if type(found) in (str, int) or found is msgspec.UNSET else None


def _listed(ids: Ids) -> list[Any]:
    found: list[Any] = ids.tolist()
    return found


def _digests(lines: Sequence[bytes]) -> Digests:
    joined = b"".join(hashlib.blake2b(line, digest_size=DIGEST_BYTES).digest() for line in lines)
    return np.frombuffer(joined, f"S{DIGEST_BYTES}")


def _sum(digests: Digests) -> int:
    halves = np.frombuffer(digests.tobytes(), "<u8").reshape(-1, 2).astype(object)
    return int(sum(halves[:, 0])) + (int(sum(halves[:, 1])) << 64)


def _is_in(digests: Digests, known: Digests) -> npt.NDArray[np.bool_]:
    if not len(known) or not len(digests):
        return np.zeros(len(digests), np.bool_)
    places = np.searchsorted(known, digests)
    found: npt.NDArray[np.bool_] = known[np.minimum(places, len(known) - 1)] == digests
    return found


def bad_lines(pieces: Sequence[Piece], more: Sequence[BadRow] = ()) -> list[BadLine]:
    """Return the bad rows of pieces as lines, counted from 1 in the order of partitions, and those rows beside."""
    counts: dict[int, int] = {}
    for piece in pieces:
        for partition, count in piece.counts.items():
            counts[partition] = max(counts.get(partition, 0), count)
    first, total = {}, 0
    for partition in sorted(counts):
        first[partition], total = total, total + counts[partition]
    rows = sorted((row for piece in pieces for row in piece.bad), key=lambda bad: bad.row)
    rows = sorted([*rows, *more], key=lambda bad: bad.row)
    return [
        BadLine(
            first.get(bad.row >> 33, 0) + (bad.row & _LOCAL) + 1,
            bad.id,
            DuplicateSubscription(bad.id) if bad.repeated and bad.id is not None else ParseError(bad.reason),
        )
        for bad in rows
    ]
