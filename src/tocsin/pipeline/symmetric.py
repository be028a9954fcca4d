"""match_symmetric(offers, subscribers, ...): offers in a DataFrame against the subscribers of a file, by mapInArrow.

Each Python worker keeps one Matchmaker per file of subscribers, and with it the cache of program results. The file of
programs is looked at before every batch: a program's new version is taken up, and what was cached of the old is let go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.errors import EventRejected, ParseError
from tocsin.schema import Schema
from tocsin.schema.files import dumps, loads
from tocsin.symmetric import Matched, Matchmaker, Offer, load_subscribers
from tocsin.symmetric.explain import plain
from tocsin.symmetric.load import program_from

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

OUTPUT = "offer string, subscriber string, values string, failure string"
SHOWN = 5


def match_symmetric(
    offers: DataFrame,
    subscribers: str | Path,
    *,
    schema: Schema,
    union: str | None = None,
    programs: str | Path | None = None,
) -> DataFrame:
    """Return one row per match: offer, subscriber, and the computed values as JSON; and one per failure, with its reason.

    `offers` has the columns `id` and `document` (the offer as JSON). `subscribers` and `programs` are JSONL files that
    all workers see. An offer that breaks the rules gives one row without subscriber.
    """
    if missing := sorted({"id", "document"} - set(offers.columns)):
        raise ParseError(f"a DataFrame of offers has the columns id and document; {missing[0]} is missing")
    function = SymmetricBatches(
        dumps(schema, "json"), union, str(subscribers), None if programs is None else str(programs)
    )
    return offers.selectExpr("cast(id as string) as id", "document").mapInArrow(function, OUTPUT)


@dataclass(frozen=True)
class SymmetricBatches:
    """What a worker runs: batches of offers in, batches of matches out."""

    schema: str
    union: str | None
    subscribers: str
    programs: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        names = ("offer", "subscriber", "values", "failure")
        for batch in batches:
            market = _opened(self)
            rows = _matched(market, zip(batch["id"].to_pylist(), batch["document"].to_pylist(), strict=True))
            columns = zip(*rows, strict=True) if rows else ((),) * len(names)
            yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], names=list(names))


_Row = tuple[str, str | None, str | None, str | None]
_OPEN: dict[SymmetricBatches, tuple[object, Matchmaker, list[object]]] = {}  # of this worker process


def _opened(given: SymmetricBatches) -> Matchmaker:
    """Return the worker's matchmaker, with the programs of now; read anew where the file of subscribers has changed."""
    stamp = _stamp(given.subscribers)
    found = _OPEN.get(given)
    if found is None or found[0] != stamp:
        market = Matchmaker(loads(given.schema, "json"), given.union)
        with Path(given.subscribers).open("rb") as lines:
            errors = load_subscribers(market, lines)
        if errors:
            listed = "\n".join(map(str, errors[:SHOWN]))
            raise ParseError(f"{len(errors)} subscribers are wrong:\n{listed}")
        found = _OPEN[given] = (stamp, market, [None])
    _, market, seen = found
    if given.programs is not None and (now := _stamp(given.programs)) != seen[0]:
        _take_up(market, given.programs)
        seen[0] = now
    return market


def _take_up(market: Matchmaker, path: str) -> None:
    """Register what the file has that is newer; the last version of a name counts."""
    known = {program.name: program.version for program in market.programs}
    for line in Path(path).read_bytes().splitlines():
        if line.strip():
            program = program_from(msgspec.json.decode(line), market)
            if program.version > known.get(program.name, 0):
                market.programs.register(program)
                known[program.name] = program.version


def _stamp(path: str) -> tuple[int, int]:
    facts = Path(path).stat()
    return facts.st_mtime_ns, facts.st_size


def _matched(market: Matchmaker, offers: Iterable[tuple[str, str]]) -> list[_Row]:
    """Return the rows of a batch of offers; the bad ones among them first."""
    rows: list[_Row] = []
    analysed: list[tuple[str, Offer]] = []
    for id, document in offers:
        try:
            analysed.append((id, market.analyse(msgspec.json.decode(document))))
        except (EventRejected, msgspec.DecodeError) as error:
            rows.append((id, None, None, str(error)))
    answers = market.match_all(offer for _, offer in analysed)
    for (id, _), found in zip(analysed, answers, strict=True):
        rows += _rows(id, found)
    return rows


def _rows(id: str, found: Matched) -> Iterator[_Row]:
    for match in found.notifications():
        values: dict[str, Any] = {name: plain(value) for name, value in match.values.items()}
        yield id, str(match.id), msgspec.json.encode(values).decode(), None
    for failure in found.failures:
        yield id, str(failure.id), None, failure.reason
