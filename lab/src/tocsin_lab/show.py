"""Structures as pictures in text: what an engine made of a few subscriptions.

For counting these are the figures of thesis section 7.5: the predicate clusters by operator and attribute (figure 7.4),
the association of predicates with subscriptions (7.3, 7.6), and for an event the satisfied predicates (7.5) and the
subscriptions with their hits (7.7). Where the predicates lie in a table it is figure 1 of TOPSS: operators by values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tocsin.errors import NotSupported
from tocsin.matching import Engine
from tocsin.schema import Event
from tocsin_lab.classic.access import AccessIndex
from tocsin_lab.classic.clusters import Clusters
from tocsin_lab.classic.columns import ClassicColumn
from tocsin_lab.classic.counting import CountingMatcher
from tocsin_lab.classic.equality_clusters import EqualityClusters
from tocsin_lab.classic.equality_preferred import EqualityPreferredMatcher
from tocsin_lab.classic.front import ClassicMatcher
from tocsin_lab.classic.gough import GoughMatcher, Node
from tocsin_lab.classic.hanson import HansonMatcher
from tocsin_lab.classic.labels import HIGHEST, LOWEST, WholeLabels
from tocsin_lab.classic.matching_tree import VALUE, MatchingTreeMatcher
from tocsin_lab.classic.propagation import PropagationMatcher
from tocsin_lab.classic.quarantining import QuarantiningMatcher
from tocsin_lab.classic.rows import ABSENT, NONE_IN, NONE_OF, PRESENT, SOME_IN, CodedPredicate
from tocsin_lab.classic.schema_clustering import SchemaClusteringMatcher
from tocsin_lab.classic.stage import EQ, GE, LE, NE, OTHER, operator_of
from tocsin_lab.classic.value_table import ValueTable

LARGEST = 200  # subscriptions: a picture of more is no picture


def show(matcher: Engine, event: Event | None = None) -> str:
    """Return the structure of an engine, and what an event does in it; raises NotSupported where there is no picture."""
    if len(matcher) > LARGEST:
        raise NotSupported(f"a picture of {len(matcher)} subscriptions helps nobody; give at most {LARGEST}")
    match matcher:
        case QuarantiningMatcher() | EqualityPreferredMatcher():
            lines = _equality(matcher)
        case CountingMatcher():
            lines = _counting(matcher, event)
        case HansonMatcher() | PropagationMatcher():
            lines = _access(matcher)
        case SchemaClusteringMatcher():
            lines = _clustering(matcher)
        case MatchingTreeMatcher():
            lines = _tree(matcher, 0, "")
        case GoughMatcher():
            lines = _gough(matcher)
        case ClassicMatcher():
            lines = _rows(matcher)
        case _:
            raise NotSupported(f"the engine {matcher.name} has no picture; the papers' engines have")
    return "\n".join(lines) + "\n"


# --- predicates in words ----------------------------------------------------------------------------------------------


def predicate_text(matcher: ClassicMatcher, predicate: CodedPredicate) -> str:
    """Return a coded predicate in the language's operators."""
    column = matcher.columns.columns[predicate.column]
    _, kind, low, high = predicate
    if kind in (PRESENT, ABSENT):
        return f"{column.name} is {'present' if kind == PRESENT else 'absent'}"
    if kind > NONE_IN:
        word = "not in" if kind == NONE_OF else "in"
        parts = ", ".join(_interval(column, *ends) for ends in matcher.columns.sets.intervals(low))
        return f"{column.name} {word} {{{parts}}}"
    if low == high:
        return f"{column.name} {'=' if kind == SOME_IN else '!='} {_key(column, low)}"
    shown = f"{column.name} {_interval(column, low, high)}"
    return shown if kind == SOME_IN else f"not {shown}"


def _interval(column: ClassicColumn, low: int, high: int) -> str:
    if low == high:
        return _key(column, low)
    parts = []
    if low != LOWEST:
        parts.append(f">= {_key(column, low)}" if _is_constant(column, low) else f"> {_key(column, low - 1)}")
    if high != HIGHEST:
        parts.append(f"<= {_key(column, high)}" if _is_constant(column, high) else f"< {_key(column, high + 1)}")
    return " and ".join(parts)


def _is_constant(column: ClassicColumn, label: int) -> bool:
    return isinstance(column.labels, WholeLabels) or label in column.labels.labels


def _key(column: ClassicColumn, label: int) -> str:
    if isinstance(column.labels, WholeLabels):
        values = getattr(column.domain, "values", None)
        return str(values[label]) if values and 0 <= label < len(values) else str(label)
    return str(column.labels.keys[column.labels.labels.index(label)])


def _owners(matcher: ClassicMatcher, rows: list[int]) -> str:
    return ", ".join(str(matcher._owner[row]) for row in rows) or "—"


# --- counting: the snapshots of thesis 7.5 ----------------------------------------------------------------------------


def _counting(matcher: CountingMatcher, event: Event | None) -> Iterator[str]:
    keys = matcher.predicates.numbering.arrays.keys.reshape(-1, 4)
    live = [number for number in range(len(matcher.predicates.numbering)) if matcher.predicates.uses[number]]
    texts = {number: predicate_text(matcher, CodedPredicate(*keys[number].tolist())) for number in live}
    of_row = {
        row: [matcher.predicates.numbering.number(*predicate) for predicate in matcher.rows.of(row)]
        for row in matcher.rows.live().tolist()
    }
    if isinstance(matcher.predicates.stage, ValueTable):
        yield from _value_tables(matcher, {number: CodedPredicate(*keys[number].tolist()) for number in live}, event)
    else:
        yield from _operator_clusters(texts)
    yield "predicate → subscriptions"
    for number in live:
        yield f"  p{number + 1} → " + _owners(matcher, [row for row, found in of_row.items() if number in found])
    if event is None:
        return
    satisfied = sorted(matcher.predicates.satisfied(matcher.columns.code_event(event)).tolist())
    yield "satisfied predicates: " + (", ".join(f"p{number + 1}" for number in satisfied) or "none")
    yield "subscription, hits of predicates"
    for row, found in of_row.items():
        hits = len(set(found) & set(satisfied))
        if hits:
            verdict = "  matches" if hits == len(found) else ""
            yield f"  {matcher._owner[row]}  {hits} of {len(found)}{verdict}"


def _operator_clusters(texts: Mapping[int, str]) -> Iterator[str]:
    yield "predicates, each stored once"
    clusters: dict[str, list[int]] = {}
    for number, text in texts.items():
        clusters.setdefault(text.removeprefix("not ").split(" ")[1], []).append(number)
    for operator in sorted(clusters):
        shown = ", ".join(f"p{number + 1}: {texts[number]}" for number in clusters[operator])
        yield f"  {operator:<3} {shown}"


# --- TOPSS figure 1: the table of a finite domain -------------------------------------------------------------------

WIDEST = 24  # values: of a larger domain only those that a predicate or the event has
_ROWS = {"=": (EQ, 0), "!=": (NE, 0), ">": (GE, -1), "<": (LE, 1)}  # the paper's > 7 lies here as >= 8


def _value_tables(
    matcher: CountingMatcher, predicates: Mapping[int, CodedPredicate], event: Event | None
) -> Iterator[str]:
    """Yield a table for each column with a finite domain: the paper's operators by its values, numbers of predicates in it."""
    coded = None if event is None else matcher.columns.code_event(event)
    satisfied = set() if coded is None else set(matcher.predicates.satisfied(coded).tolist())
    beside = dict(predicates)
    for number, column in enumerate(matcher.columns.columns):
        if not isinstance(column.labels, WholeLabels):
            continue
        here = {each: predicate for each, predicate in predicates.items() if predicate.column == number}
        placed = {each: found for each, predicate in here.items() if (found := operator_of(predicate))[0] != OTHER}
        occurred = [] if coded is None else coded.labels[coded.offset[number] : coded.offset[number + 1]].tolist()
        yield from _value_table(column, column.labels, placed, satisfied, occurred)
        beside = {each: predicate for each, predicate in beside.items() if each not in placed}
    if beside:
        texts = {each: predicate_text(matcher, predicate) for each, predicate in beside.items()}
        yield "beside the tables: " + ", ".join(f"p{each + 1}: {text}" for each, text in texts.items())


def _value_table(
    column: ClassicColumn,
    labels: WholeLabels,
    placed: Mapping[int, tuple[int, int]],
    satisfied: set[int],
    occurred: list[int],
) -> Iterator[str]:
    shift = dict(_ROWS.values())
    entries = {(operator, operand + shift[operator]): each for each, (operator, operand) in placed.items()}
    values = list(range(labels.lowest, labels.highest + 1))
    if labels.size > WIDEST:
        values = sorted({value for _, value in entries} | set(occurred))
    heads = [f"[{_key(column, value)}]" if value in occurred else _key(column, value) for value in values]
    width = 1 + max(len(text) for text in [*heads, *(f"p{each + 1}*" for each in placed)])
    whole = "" if labels.size <= WIDEST else f", {len(values)} of {labels.size:,} values"
    yield f"table of {column.name}, {_key(column, labels.lowest)} to {_key(column, labels.highest)}{whole}"
    yield "      " + "".join(f"{text:>{width}}" for text in heads)
    for sign, (operator, _) in _ROWS.items():
        numbers = [entries.get((operator, value)) for value in values]
        cells = ["." if each is None else f"p{each + 1}{'*' if each in satisfied else ''}" for each in numbers]
        yield f"  {sign:<3} " + "".join(f"{cell:>{width}}" for cell in cells)


# --- access predicates and clusters -----------------------------------------------------------------------------------


def _access(matcher: HansonMatcher | PropagationMatcher) -> Iterator[str]:
    yield from _forest(matcher, matcher.access)
    if isinstance(matcher, HansonMatcher):
        yield "rows by access predicate"
        for entry in range(matcher.access.entries):
            for row in matcher._members.of(entry):
                yield f"  entry {entry}: {matcher._owner[row]}  {_remaining(matcher, row)}"
    else:
        yield from _clusters(matcher, matcher.clusters)


def _forest(matcher: ClassicMatcher, access: AccessIndex) -> Iterator[str]:
    forest = access.forest
    for number, column in enumerate(matcher.columns.columns):
        root = int(forest.trees.root[number]) - 1 if number < len(forest.trees.root) else -1
        if root >= 0:
            yield f"IBS tree of {column.name}, depth {forest.depth(number)}"
            yield from _ibs_node(access, column, root, "  ")


def _ibs_node(access: AccessIndex, column: ClassicColumn, node: int, indent: str) -> Iterator[str]:
    trees, marks = access.forest.trees, access.forest.marks
    below, at, above = (marks.of(3 * node + which) for which in range(3))
    label = int(trees.key[node])
    shown = (
        _key(column, label)
        if _is_constant(column, label)
        else f"just beside {_key(column, label - 1 if _is_constant(column, label - 1) else label + 1)}"
    )
    yield f"{indent}{shown}   <{below} ={at} >{above}"
    for side in range(2):
        child = int(trees.children[2 * node + side])
        if child >= 0:
            yield from _ibs_node(access, column, child, indent + ("< " if side == 0 else "> "))


def _clusters(matcher: ClassicMatcher, clusters: Clusters) -> Iterator[str]:
    keys = clusters._numbering.arrays.keys.reshape(-1, 4)
    for cluster in range(len(clusters)):
        size, first = int(clusters.arrays.size[cluster]), int(clusters.arrays.first[cluster])
        if size:
            entry, steps = keys[cluster, :2].tolist()
            rows = clusters.row[first : first + size].tolist()
            yield f"cluster of access {entry}, {steps} more predicates: {_owners(matcher, rows)}"


def _clustering(matcher: SchemaClusteringMatcher) -> Iterator[str]:
    yield from _schemas(matcher, matcher.hashed)
    yield from _clusters(matcher, matcher.by_equalities)
    yield from _forest(matcher, matcher.access)
    yield from _clusters(matcher, matcher.by_interval)


def _equality(matcher: QuarantiningMatcher | EqualityPreferredMatcher) -> Iterator[str]:
    """Yield the groups of the equality clusters, and the rows without equality."""
    clusters, shift = matcher.clusters, 1 if isinstance(matcher, EqualityPreferredMatcher) else 0
    grouped: set[int] = set()
    for group in range(clusters.groups):
        names = ", ".join(matcher.columns.columns[column].name for column in clusters.columns_of(group))
        rows = matcher._members.of(group + shift)
        grouped.update(rows)
        for row in rows:
            yield f"cluster ({names}), group {group}: {matcher._owner[row]}  {_remaining(matcher, row)}"
    for row in matcher.rows.live().tolist():
        if row not in grouped:
            yield f"without equality: {matcher._owner[row]}  {_remaining(matcher, row)}"


def _schemas(matcher: ClassicMatcher, clusters: EqualityClusters) -> Iterator[str]:
    for columns in clusters.schemas:
        yield "schema (" + ", ".join(matcher.columns.columns[column].name for column in columns) + ")"


def _remaining(matcher: ClassicMatcher, row: int) -> str:
    return " and ".join(predicate_text(matcher, predicate) for predicate in matcher.rows.of(row))


def _rows(matcher: ClassicMatcher) -> Iterator[str]:
    yield "rows"
    for row in matcher.rows.live().tolist():
        yield f"  {matcher._owner[row]}  {_remaining(matcher, row)}"


# --- trees ------------------------------------------------------------------------------------------------------------


def _tree(matcher: MatchingTreeMatcher, place: int, indent: str) -> Iterator[str]:
    tree = matcher.tree
    if ends := matcher._ends.of(place):
        yield f"{indent}[{_owners(matcher, ends)}]"
    node = int(tree.node_at[place]) - 1
    if node < 0:
        return
    column = matcher.columns.columns[int(tree.column[node])]
    if int(tree.kind[node]) == VALUE:
        yield f"{indent}{column.name}?"
        keys = matcher._edges.arrays.keys.reshape(-1, 4)
        for edge in range(len(matcher._edges)):
            if keys[edge, 0] == node:
                yield f"{indent}= {_key(column, int(keys[edge, 1]))}"
                yield from _tree(matcher, int(tree.edge[edge]) - 1, indent + "    ")
    else:
        asked = CodedPredicate(*(int(field[node]) for field in (tree.column, tree.kind, tree.low, tree.high)))
        yield f"{indent}{predicate_text(matcher, asked)}?"
        yield f"{indent}yes"
        yield from _tree(matcher, int(tree.yes[node]) - 1, indent + "    ")
    if tree.dont_care[node]:
        yield f"{indent}*"
        yield from _tree(matcher, int(tree.dont_care[node]) - 1, indent + "    ")


def _gough(matcher: GoughMatcher) -> Iterator[str]:
    nodes = matcher.expand(LARGEST)
    names = ", ".join(matcher.columns.columns[level.column].name for level in matcher.levels())
    yield f"{nodes} nodes{' and more' if nodes > LARGEST else ''}; levels: {names}"
    if nodes <= LARGEST:
        yield from _gough_node(matcher, matcher.root, 0, "")


def _gough_node(matcher: GoughMatcher, node: Node, depth: int, indent: str) -> Iterator[str]:
    if depth == len(matcher.levels()) or not node.possible:
        rows = [row for row in matcher._rows if node.possible >> row & 1]
        yield f"{indent}[{_owners(matcher, rows)}]"
        return
    level = matcher.levels()[depth]
    column = matcher.columns.columns[level.column]
    for stretch, below in sorted(node.edges.items()):
        if not below.possible:
            continue
        if stretch < 0:
            shown = "absent"
        else:
            end = level.starts[stretch + 1] - 1 if stretch + 1 < len(level.starts) else HIGHEST
            shown = _interval(column, level.starts[stretch], end) or "any"
        yield f"{indent}{column.name} {shown}"
        yield from _gough_node(matcher, below, depth + 1, indent + "    ")
