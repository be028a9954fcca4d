"""TOPSS, figures 3 and 4 and the first half of tables 1 and 2: bit, byte and list counting under W4; and updates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tocsin.index.encode import EventObjects
from tocsin.matching.matcher import Matcher
from tocsin_lab.claims import Growth, Less, Statement, Where
from tocsin_lab.classic.association import Association
from tocsin_lab.classic.columns import Columns
from tocsin_lab.classic.counting import ASSOCIATIONS, CountingMatcher, DistinctPredicates
from tocsin_lab.classic.predicate_bits import BitVectorMatcher
from tocsin_lab.classic.value_table import ValueTable
from tocsin_lab.experiments.experiment import Experiment, Plot
from tocsin_lab.prepared import Prepared
from tocsin_lab.results import Row
from tocsin_lab.rounds import Act, Bench, Notebook
from tocsin_lab.timing import Changes, filled, load, matching
from tocsin_lab.workloads import w4

PAPER = "TOPSS"
SIZES = (1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000)


def _table(*values: float) -> dict[float, float]:
    return dict(zip(map(float, SIZES), values, strict=True))


BITS = _table(0.3, 1.9, 3.8, 20.0, 40.4, 264.0, 562.4, 1555.7)
LISTS = _table(0.10, 0.27, 0.63, 3.85, 8.10, 79.0, 190.7, 1056.0)
KDB = _table(89.3, 206.4, 397.4, 1800.3, 3451.2, 17299.7, 33473.1, 338166.1)
LOAD_BITS = _table(6, 26, 52, 261, 523, 2712, 5428, 26976)
LOAD_LISTS = _table(6, 28, 58, 353, 862, 16093, 97746, 2678858)
LOAD_KDB = _table(52, 84, 196, 706, 1699, 6976, 15658, 69811)
LARGEST_BYTES = 1_000_000  # a byte per predicate and subscription: beyond this the matrix takes gigabytes
BATCH = 10  # subscriptions submitted at once, n_Sb of W4
STEPPED, DOUBLING, BIT, BYTE = "lists in constant steps", "lists", "bit matrix", "byte matrix"
TIME, MEMORY, REMOVAL, LOADING = "matching ms", "association MB", "association with removal MB", "loading ms"


def run(bench: Bench) -> Iterator[Row]:
    book = Notebook("topss-w4")
    for count in bench.of([500], [1_000, 10_000, 100_000], [1_000, 10_000, 100_000, 1_000_000, 5_000_000]):
        prepared = w4(count, 20)
        names = ["counting-table", "counting-bits", "counting-bytes", "counting"]
        engines = {name: filled(bench, name, prepared) for name in (names if count <= LARGEST_BYTES else names[:2])}
        engines[BitVectorMatcher.name] = load(BitVectorMatcher(prepared.schema), prepared)
        acts = {name: matching(matcher, prepared.events) for name, matcher in engines.items()}
        columnar = Matcher(prepared.schema)
        load(columnar, prepared)
        acts["columnar"] = _one_by_one(columnar, prepared)
        batch = w4(count, 200)
        acts["columnar, batch of 200"] = _batch(columnar, batch)
        for name, sample in bench.race(acts).items():
            events = len(batch.events) if "batch" in name else len(prepared.events)
            yield from book.measured(TIME, count, {name: sample}, 1e3 / events)
        for name in ("counting-table", "counting-bits", "counting-bytes"):
            matcher = engines.get(name)
            if isinstance(matcher, CountingMatcher):
                yield book.counted(MEMORY, count, name, matcher.associated.bytes() / 1e6)
        del engines, acts, columnar


def _one_by_one(matcher: Matcher, prepared: Prepared) -> Act:
    events = [EventObjects([event]) for event in prepared.events]
    return lambda: [sum(len(part) for part in matcher.match_source(event)) for event in events]


def _batch(matcher: Matcher, prepared: Prepared) -> Act:
    return lambda: sum(len(part) for part in matcher.match_source(EventObjects(prepared.events)))


MATCHING = (
    Statement(
        "List-based counting is faster than the bit matrix", "figure 3, table 1, 5.1.2", "at 1,000,000: 190.7 against 562.4 ms",
        (Less(TIME, "counting-table", "counting-bits"),),
    ),
    Statement(
        "The byte matrix (regular matching) is the slowest", "figure 3, 5.1.2", "figure only",
        (Less(TIME, "counting-bits", "counting-bytes"), Less(TIME, "counting-table", "counting-bytes")),
    ),
    Statement(
        "Bit-wise matching outperforms the byte matrix by about a factor of 3", "figure 3, 5.1.2", "about 3 (here: 2 to 4.5)",
        (
            Less(TIME, "counting-bits", "counting-bytes", 1 / 2, Where.MANY),
            Less(TIME, "counting-bytes", "counting-bits", 4.5, Where.MANY),
        ),
    ),
    Statement(
        "The matching time of lists and bits grows about linearly from 10,000 subscriptions on", "table 1", "0.63 → 190.7 ms, 3.8 → 562.4 ms",
        (
            Growth(TIME, "counting-table", 0.75, 1.35, from_x=10_000), Growth(TIME, "counting-bits", 0.75, 1.35, from_x=10_000),
        ),
    ),
    Statement(
        "A predicate bit vector conveys which predicates are satisfied", "section 3", "in words",
        unmeasured="a structure, not a finding; the series `counting-table, bit vector` shows what it costs here",
    ),
    Statement(
        "The byte matrix could not be run over the entire data set", "5.1.2", "memory contention",
        unmeasured="a limit of 1.5 GB of memory in 2002; here it is left out above 1,000,000 subscriptions for the same reason",
    ),
)  # fmt: skip


# --- what the papers' structures take and how long they are built -----------------------------------------------------


class Structure:
    """The table-based stage with one association, built from coded predicates alone; no master copy."""

    def __init__(self, prepared: Prepared, association: type[Association]) -> None:
        self.columns = Columns(prepared.schema)
        offset, predicates = self.columns.code_table(prepared.table)
        self.offset = np.asarray(offset, np.int64)
        self.fields = [np.asarray(field, np.int64) for field in predicates]
        self.owner = np.repeat(np.arange(len(self.offset) - 1), np.diff(self.offset))
        self.association = association

    def build(self, batch: int) -> Association:
        """Return the association with all subscriptions, that many submitted at once."""
        predicates, associated = DistinctPredicates(ValueTable(self.columns)), self.association()
        for first in range(0, len(self.offset) - 1, batch):
            last = min(first + batch, len(self.offset) - 1)
            part = slice(int(self.offset[first]), int(self.offset[last]))
            numbers = predicates.acquire_many([field[part] for field in self.fields])
            associated.insert_many(self.owner[part], numbers)
        return associated


def run_structures(bench: Bench) -> Iterator[Row]:
    book = Notebook("topss-structures")
    for count in bench.of([300], [1_000, 5_000, 20_000], [1_000, 10_000, 100_000, 500_000]):
        prepared = w4(count, 1)
        structures = {name: Structure(prepared, kind) for name, kind in ASSOCIATIONS.items() if name != BYTE}
        loads = {name: _building(structure, BATCH) for name, structure in structures.items()}
        yield from book.measured(LOADING, count, bench.race(loads), 1e3)
        structures[BYTE] = Structure(prepared, ASSOCIATIONS[BYTE])
        for name, structure in structures.items():
            built = structure.build(len(prepared))
            yield book.counted(MEMORY, count, name, built.bytes() / 1e6)
            yield book.counted(REMOVAL, count, name, (built.bytes() + built.removal_bytes()) / 1e6)


def _building(structure: Structure, batch: int) -> Act:
    return lambda: structure.build(batch)


STRUCTURES = (
    Statement(
        "Pure list-based matching takes the least memory", "figure 4, 5.1.2", "figure only",
        (Less(MEMORY, STEPPED, BIT), Less(MEMORY, STEPPED, BYTE)),
    ),
    Statement(
        "With what removal needs, lists take more memory than the bit matrix", "figure 4, 5.1.2", "figure only",
        (Less(REMOVAL, BIT, STEPPED),),
    ),
    Statement(
        "Loading the bit matrix is faster than loading lists", "table 2, 5.1.3", "at 1,000,000: 5,428 and 97,746 ms",
        (Less(LOADING, BIT, STEPPED),),
    ),
    Statement(
        "The bit matrix loads in time linear in the number of subscriptions", "table 2", "52 ms at 10,000, 5,428 ms at 1,000,000",
        (Growth(LOADING, BIT, 0.75, 1.25, from_x=1_000),),
    ),
    Statement(
        "Lists re-allocated in constant steps load in more than linear time", "table 2", "58 ms at 10,000, 97,746 ms at 1,000,000",
        (Growth(LOADING, STEPPED, least=1.2, from_x=5_000),),
    ),
    Statement(
        "A dynamic re-allocation would minimise expensive steps", "section 3.3", "in words",
        (Less(LOADING, DOUBLING, STEPPED, where=Where.MANY),),
    ),
)  # fmt: skip


def run_batches(bench: Bench) -> Iterator[Row]:
    """Loading over the number of subscriptions submitted at once."""
    book = Notebook("topss-batches")
    [count] = bench.of([300], [10_000], [100_000])
    structures = {name: Structure(w4(count, 1), ASSOCIATIONS[name]) for name in (STEPPED, DOUBLING, BIT)}
    for batch in bench.of([10, 300], [1, 10, 100, 10_000], [1, 10, 100, 1_000, 100_000]):
        loads = {name: _building(structure, batch) for name, structure in structures.items()}
        yield from book.measured(LOADING, batch, bench.race(loads), 1e3)


BATCHES = (
    Statement(
        "Subscriptions are submitted 10 at once (n_Sb)", "5.1.2, W4", "10; no other size is reported",
        unmeasured="a parameter, not a finding; the figures beside it show what it costs",
    ),
)  # fmt: skip


def run_updates(bench: Bench) -> Iterator[Row]:
    """The third metric: insertion and deletion of subscriptions in the running system."""
    book = Notebook("topss-updates")
    for count in bench.of([300], [1_000, 10_000, 100_000], [1_000, 10_000, 100_000, 1_000_000]):
        prepared = w4(count, 5)
        matchers = {name: CountingMatcher(prepared.schema, ValueTable, kind) for name, kind in ASSOCIATIONS.items()}
        ids = range(count - 50, count)
        for matcher in matchers.values():
            load(matcher, prepared)
        removals = {name: Changes(matcher, ids).removal() for name, matcher in matchers.items()}
        yield from book.measured("deletion ms", count, bench.race(removals), 1e3 / len(ids))
        insertions = {name: Changes(matcher, ids).insertion() for name, matcher in matchers.items()}
        yield from book.measured("insertion ms", count, bench.race(insertions), 1e3 / len(ids))


UPDATES = (
    Statement(
        "Deletion in the bit matrix is very efficient: bits are set to zero", "section 3.3", "in words (here: than in lists)",
        (Less("deletion ms", BIT, STEPPED),),
    ),
    Statement(
        "The time to delete from the bit matrix does not depend on the number of subscriptions", "section 3.3", "in words",
        (Growth("deletion ms", BIT, -0.3, 0.3),),
    ),
    Statement(
        "Insertions into lists are simple list updates", "section 3.3", "in words (here: independent of the number)",
        (Growth("insertion ms", STEPPED, -0.3, 0.3),),
    ),
    Statement(
        "System update time (deletion and insertion) is the third metric", "5.1", "named, never reported but for bulk loading",
        unmeasured="the paper has no number to compare with; ours are in the figures of this experiment",
    ),
)  # fmt: skip


EXPERIMENTS = (
    Experiment(
        "topss-w4", "Subscription matching under W4: lists, bit matrix, byte matrix (figure 3, table 1)", PAPER,
        "10 attributes with values 1–10, 1–5 predicates with = ≠ < >; about 18% of all subscriptions match every event, "
        "so that the output alone is most of a megabyte per event at a million. Timed from the coded event to the array "
        "of matching subscriptions. The columnar engine's series include coding the events from Python objects.",
        run, MATCHING,
        (
            Plot(TIME, "subscriptions", "ms per event", paper={"paper: bit-wise": BITS, "paper: list-based": LISTS}),
            Plot(MEMORY, "subscriptions", "MB"),
        ),
    ),
    Experiment(
        "topss-structures", "Memory and bulk loading of the associations (figure 4, table 2)", PAPER,
        "W4. The table-based stage and one association, built from coded predicates, 10 subscriptions at once as in the "
        "paper; no master copy of ours. `lists in constant steps` is the paper's: re-allocated by 16 entries (the paper "
        "does not say how many), and beside it each subscription's predicates for removal. `lists` double.",
        run_structures, STRUCTURES,
        (
            Plot(LOADING, "subscriptions", "ms", paper={"paper: bit-wise": LOAD_BITS, "paper: list-based": LOAD_LISTS}),
            Plot(REMOVAL, "subscriptions", "MB"),
        ),
    ),
    Experiment(
        "topss-batches", "Bulk loading over the number of subscriptions submitted at once", PAPER,
        "W4, as above, over the size of a batch.",
        run_batches, BATCHES, (Plot(LOADING, "subscriptions submitted at once", "ms"),),
    ),
    Experiment(
        "topss-updates", "Deletion and insertion in the running system", PAPER,
        "W4. 50 subscriptions leave or come, predicates coded beforehand; numbers of predicates that leave are given again.",
        run_updates, UPDATES,
        (Plot("deletion ms", "subscriptions", "ms per subscription"), Plot("insertion ms", "subscriptions", "ms per subscription")),
    ),
)  # fmt: skip
