"""The symmetric paper's claims about the algorithms it reviews (section 3): trees against predicate indexes."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.language import BoundSubscription
from tocsin.matching import engine_of
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.classic.gough import GoughMatcher
from tocsin_lab.experiments.experiment import Claim, Experiment, Plot, Scale, ratio
from tocsin_lab.prepared import Prepared
from tocsin_lab.results import Results, Row
from tocsin_lab.timing import loaded, matching_milliseconds, seconds
from tocsin_lab.workloads import le_subscribe

NAME = "symmetric-maintenance"
INDEXES = ("counting", "hanson", "propagation", "schema-clustering")
TREES = ("matching-tree", "gough")
GOUGH_LARGEST = 2_000
NODES_AT_MOST = 200_000


def run(scale: Scale) -> Iterator[Row]:
    for count in scale.of([200], [500, 2_000, 10_000], [500, 2_000, 10_000, 50_000, 200_000]):
        more = 20
        prepared = le_subscribe(count + more, 50, seed=3)
        new = list(prepared.subscriptions(count, count + more))
        for engine in (*INDEXES, *TREES):
            if engine == "gough" and count > GOUGH_LARGEST:
                continue
            matcher = engine_of(engine)(prepared.schema)
            assert isinstance(matcher, ClassicMatcher)
            loaded(matcher, prepared)
            value = matching_milliseconds(matcher, prepared, scale.budget(0.3))
            yield Row(experiment=NAME, series=engine, x=count, figure="matching ms", value=value)
            if engine in INDEXES:
                looked_at = _looked_at(matcher, prepared)
                yield Row(experiment=NAME, series=engine, x=count, figure="subscriptions looked at", value=looked_at)
            value = _change_milliseconds(matcher, new, prepared)
            yield Row(experiment=NAME, series=engine, x=count, figure="change ms", value=value)
            if engine in TREES:
                nodes = float(matcher.work.details["nodes"])
                yield Row(experiment=NAME, series=engine, x=count, figure="nodes", value=nodes)
    yield from run_explosion(scale)


def _looked_at(matcher: ClassicMatcher, prepared: Prepared) -> float:
    """Return how many subscriptions the engine looks at for an event, on average."""
    before, events = matcher.work.subscriptions_checked, prepared.events[:20]
    for event in events:
        matcher.match(event)
    return (matcher.work.subscriptions_checked - before) / len(events)


def _change_milliseconds(
    matcher: ClassicMatcher, new: list[tuple[int, BoundSubscription]], prepared: Prepared
) -> float:
    """Return the time of taking a subscription out, putting it in again and matching the next event."""
    event = prepared.events[0]

    def change() -> None:
        for id, subscription in new:
            matcher.remove(id)
            matcher.add(id, subscription)
            matcher.match(event)

    without = seconds(lambda: [matcher.match(event) for _ in new])
    return max(seconds(change) - without, 0) / len(new) * 1e3


def run_explosion(scale: Scale) -> Iterator[Row]:
    """Yield how many nodes the whole tree of Gough and Smith has, for a few subscriptions."""
    for count in scale.of([3, 6], [5, 10, 20, 40], [5, 10, 20, 40, 80]):
        prepared = le_subscribe(count, 1, seed=3, equality=1.0)
        tree = GoughMatcher(prepared.schema)
        tree.load_table(prepared.table)
        nodes = tree.expand(NODES_AT_MOST)
        note = "the bound: there are more" if nodes > NODES_AT_MOST else ""
        yield Row(experiment=NAME, series="gough, whole tree", x=count, figure="nodes", value=nodes, note=note)


def claims(results: Results) -> list[Claim]:
    [at, *_] = sorted(results.common("change ms", "gough", "matching-tree", "counting"), reverse=True)
    change = {name: results.points(name, "change ms")[at] for name in (*INDEXES, *TREES)}
    last, fair = results.last("counting", "matching ms")
    speed = {name: results.points(name, "matching ms")[last] for name in (*INDEXES, "matching-tree")}
    looked = {name: results.points(name, "subscriptions looked at")[last] for name in INDEXES}
    whole = sorted(results.points("gough, whole tree", "nodes").items())
    tree_nodes = results.points("matching-tree", "nodes")[last]
    return [
        Claim(
            "Matching trees are more costly to maintain than predicate indexes",
            "in words",
            f"a removal and an insertion at {at:,.0f}: " + ", ".join(f"{name} {value:.3f} ms" for name, value in change.items()),
            min(change[name] for name in TREES) > max(change[name] for name in INDEXES),
            "it does for Gough's tree, which is built anew; a change of the matching tree is one walk, and normalising and "
            "coding, which all share, take most of the time",
        ),
        Claim(
            "Matching trees take more space than predicate indexes",
            "in words",
            f"matching tree {tree_nodes:,.0f} nodes for {last:,.0f} subscriptions; Gough's whole tree "
            + ", ".join(f"{x:,.0f} → {nodes:,.0f}" for x, nodes in whole),
            tree_nodes > last and whole[-1][1] / whole[0][1] > 2 * whole[-1][0] / whole[0][0],
        ),
        Claim(
            "Hanson's algorithm improves on counting: it considers only what its access predicate finds",
            "in words",
            f"at {last:,.0f}: looks at {looked['hanson']:,.0f} instead of {looked['counting']:,.0f} subscriptions; "
            f"{speed['hanson']:.3f} against {fair:.3f} ms",
            looked["hanson"] < looked["counting"] and speed["hanson"] < fair,
            "it looks at a hundredth of the subscriptions, but each where it lies, while counting walks arrays in order",
        ),
        Claim(
            "Propagation optimises the second phase of Hanson's algorithm",
            "in words", f"{speed['propagation']:.3f} against {speed['hanson']:.3f} ms", speed["propagation"] < speed["hanson"],
            "clusters of few rows: there is little second phase to optimise, and more structure to reach it",
        ),
        Claim(
            "Schema-based clustering has advantages over a single access predicate",
            "in words",
            f"looks at {looked['schema-clustering']:,.0f} instead of {looked['propagation']:,.0f}; "
            f"{speed['schema-clustering']:.3f} against {speed['propagation']:.3f} ms",
            speed["schema-clustering"] < speed["propagation"],
            "it tests fewer, but asks a hash table for each combination of attributes, which costs more than the tests saved",
        ),
        Claim(
            "Trees suit a stable set of subscriptions (they match fast once built)",
            "in words",
            f"matching tree {speed['matching-tree']:.3f} ms, counting {fair:.3f} ms; {ratio(speed['matching-tree'], fair)} times",
            speed["matching-tree"] < fair,
            "half of the predicates on numbers are no equalities, each a level of its own",
        ),
    ]  # fmt: skip


EXPERIMENTS = (
    Experiment(
        NAME, "Maintenance and matching: trees against predicate indexes",
        "Event matching in symmetric subscription systems (Rjaibi, Dittrich, Jaepel), section 3",
        "The workload of Le Subscribe. A change is one removal, one insertion and what the next event has to wait for; "
        "the matching time itself is taken off. Gough's tree is built as events come to its nodes, and from scratch "
        "after every change; its whole tree is expanded for a few subscriptions only, up to 200,000 nodes.",
        run, claims,
        (
            Plot("change ms", "subscriptions", "ms per change"),
            Plot("matching ms", "subscriptions", "ms per event"),
            Plot("nodes", "subscriptions", "nodes"),
        ),
    ),
)  # fmt: skip
