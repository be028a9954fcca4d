"""The symmetric paper's claims about the algorithms it reviews (section 3): trees against predicate indexes."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tocsin.schema import Event
from tocsin_lab.claims import Growth, Less, Statement, Where
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.classic.gough import GoughMatcher, Node
from tocsin_lab.classic.hanson import HansonMatcher
from tocsin_lab.experiments.experiment import Experiment, Plot
from tocsin_lab.results import Row
from tocsin_lab.rounds import Act, Bench, Notebook, Scale
from tocsin_lab.timing import Changes, bytes_of, filled, load, matching, work_of
from tocsin_lab.workloads import le_subscribe

NAME = "symmetric-review"
PAPER = "Symmetric subscriptions"
INDEXES = ("counting", "hanson", "propagation", "schema-clustering")
TREE, GOUGH = "matching-tree", "gough"
GOUGH_LARGEST = {Scale.TINY: 300, Scale.QUICK: 500, Scale.FULL: 2_000}
NODES_AT_MOST = 200_000
CHANGED = 4
TIME, CHANGE, BYTES, WHOLE = "matching ms", "change ms", "structure MB", "whole tree nodes"
LOOKED_AT, VISITED = "subscriptions looked at", "nodes visited"
FRONT = ("schema", "work", "columns", "rows", "_rows_of", "_owner", "_checks", "_unconditional", "_several")


def run(bench: Bench) -> Iterator[Row]:
    book = Notebook(NAME)
    for count in bench.of([200], [500, 2_000, 10_000, 50_000], [500, 2_000, 10_000, 50_000, 200_000]):
        prepared = le_subscribe(count, 50, seed=3)
        engines: dict[str, ClassicMatcher] = {}
        for name in [*INDEXES, TREE] + ([GOUGH] if count <= GOUGH_LARGEST[bench.scale] else []):
            matcher = filled(bench, name, prepared)
            assert isinstance(matcher, ClassicMatcher)
            engines[name] = matcher
        acts = {name: matching(matcher, prepared.events) for name, matcher in engines.items()}
        if count <= 500:
            acts["naive"] = matching(filled(bench, "naive", prepared), prepared.events)
        yield from book.measured(TIME, count, bench.race(acts), 1e3 / len(prepared.events))
        for name, matcher in engines.items():
            for counter, value in work_of(matcher, prepared.events[:20]).items():
                if counter in (LOOKED_AT, VISITED):
                    yield book.counted(counter, count, name, value)
            if name != GOUGH:
                yield book.counted(BYTES, count, name, structure_bytes(matcher) / 1e6)
        yield from _changes(bench, book, count, engines, prepared.events[0])
    yield from run_explosion(bench, book)


def _changes(
    bench: Bench, book: Notebook, count: int, engines: dict[str, ClassicMatcher], event: Event
) -> Iterator[Row]:
    """Yield the time of a change; the matching in it is measured in the same rounds and taken off."""
    acts: dict[str, Act] = {}
    for name, matcher in engines.items():
        acts[name] = Changes(matcher, range(CHANGED), event).change
        acts[f"{name}, matching"] = matching(matcher, [event] * CHANGED)
    found = bench.race(acts)
    for name in engines:
        pairs = zip(found[name].values, found[f"{name}, matching"].values, strict=True)
        values = tuple(max(with_it - without, 1e-9) / CHANGED * 1e3 for with_it, without in pairs)
        yield Row(experiment=book.experiment, series=name, x=count, figure=CHANGE, values=values)


def structure_bytes(matcher: ClassicMatcher) -> int:
    """Return what an engine's own structure takes: the front end's master copy counts only where matching reads it."""
    own = bytes_of({name: value for name, value in vars(matcher).items() if name not in FRONT})
    return own + (bytes_of(matcher.rows) if isinstance(matcher, HansonMatcher) else 0)


def run_explosion(bench: Bench, book: Notebook) -> Iterator[Row]:
    """Yield how many nodes the whole trees have for a few subscriptions, and what they take."""
    for count in bench.of([3, 6], [5, 10, 20, 40], [5, 10, 20, 40, 80]):
        prepared = le_subscribe(count, 1, seed=3, equality=1.0)
        gough, tree = GoughMatcher(prepared.schema), bench.engine(TREE, prepared.schema)
        gough.load_table(prepared.table)
        nodes = gough.expand(NODES_AT_MOST)
        note = "the bound: there are more" if nodes > NODES_AT_MOST else ""
        yield book.counted(WHOLE, count, GOUGH, nodes, note=note)
        load(tree, prepared)
        yield book.counted(WHOLE, count, TREE, tree.work.details["nodes"])
        assert isinstance(tree, ClassicMatcher)
        yield book.counted("whole tree MB", count, GOUGH, _tree_bytes(gough.root, set()) / 1e6)
        yield book.counted("whole tree MB", count, TREE, structure_bytes(tree) / 1e6)


def _tree_bytes(node: Node, seen: set[int]) -> int:
    if id(node) in seen:
        return 0
    seen.add(id(node))
    own = sum(map(sys.getsizeof, (node, node.possible, node.edges)))
    return own + sum(_tree_bytes(below, seen) for below in node.edges.values())


STATEMENTS = (
    Statement(
        "Sequential search performs very badly with many subscriptions", "section 3", "in words (here: 10 times counting)",
        (Less(TIME, "counting", "naive", 0.1),),
    ),
    Statement(
        "Hanson's algorithm improves on counting: it considers only what its access predicate finds", "section 3.1.2", "in words",
        (Less(LOOKED_AT, "hanson", "counting"), Less(TIME, "hanson", "counting", because=(LOOKED_AT,))),
    ),
    Statement(
        "Propagation optimises the second phase of Hanson's algorithm", "section 3.1.3", "in words",
        (Less(TIME, "propagation", "hanson", because=(LOOKED_AT,)),),
    ),
    Statement(
        "Schema-based clustering can have advantages over a single access predicate", "section 3.1.3", "in words",
        (
            Less(LOOKED_AT, "schema-clustering", "propagation"),
            Less(TIME, "schema-clustering", "propagation", where=Where.MANY, because=(LOOKED_AT,)),
        ),
    ),
    Statement(
        "Matching trees take more space than predicate indexes", "sections 3.2 and 5", "in words (here: bytes)",
        tuple(Less(BYTES, name, TREE) for name in INDEXES),
    ),
    Statement(
        "The tree that puts a subscription into several leaves explodes", "section 3.2", "in words (here: Gough's, faster than n)",
        (Growth(WHOLE, GOUGH, least=1.2),),
    ),
    Statement(
        "Matching trees are more costly to maintain than predicate indexes", "sections 3.2 and 5", "in words",
        tuple(Less(CHANGE, name, TREE) for name in INDEXES),
    ),
    Statement(
        "Gough's tree, built anew, is more costly to maintain than predicate indexes", "sections 3.2 and 5", "in words",
        tuple(Less(CHANGE, name, GOUGH) for name in INDEXES),
    ),
    Statement(
        "Matching trees suit a stable set of subscriptions (they match faster than counting)", "sections 3.2 and 5", "in words",
        (Less(TIME, TREE, "counting", because=(VISITED,)),),
    ),
    Statement(
        "Gough's algorithm follows several paths, Gryphon's a single one; Gryphon is more efficient", "section 3.2", "in words",
        (Less(VISITED, TREE, GOUGH), Less(TIME, TREE, GOUGH, because=(VISITED,))),
    ),
    Statement(
        "Gryphon's tree takes more space than Gough's", "section 3.2", "in words",
        (Less("whole tree MB", GOUGH, TREE),),
    ),
)  # fmt: skip


EXPERIMENTS = (
    Experiment(
        NAME, "Maintenance, space and matching: trees against predicate indexes", PAPER,
        "The workload of Le Subscribe. A change is one removal, one insertion of coded predicates and what the next event has "
        "to wait for. Space is that of an engine's own structure; the front end's master copy of the predicates counts for "
        "Hanson alone, whose predicates table it is. Gough's tree is built as events come to its nodes, and from scratch "
        "after every change; its whole tree is expanded for a few subscriptions only, up to 200,000 nodes. This paper says "
        "that Gough's events follow several paths and Gryphon's one; Le Subscribe (section 3) says the opposite, and the "
        "engines here are those of Le Subscribe's description, so that the two claims about paths speak of the other tree.",
        run, STATEMENTS,
        (
            Plot(CHANGE, "subscriptions", "ms per change"),
            Plot(TIME, "subscriptions", "ms per event"),
            Plot(BYTES, "subscriptions", "MB"),
            Plot(WHOLE, "subscriptions", "nodes"),
        ),
    ),
)  # fmt: skip
