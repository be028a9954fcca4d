"""The form of a subscription and its text, each made from the other.

The form is rows of attribute, operator and value, all of which must hold. A text that says more than that (`or`, `not`,
word patterns, distances) is fine, but has no rows: the form then says so and leaves the text alone.

Beside it overlaps: which of a member's subscriptions match everything that a draft would, and which the draft would
replace. Normal forms are kept, since somebody who types asks for them again and again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.broker import Broker
from tocsin.broker.expressions import bind_stored, prepare
from tocsin.compile.analysis import covers
from tocsin.compile.normalise import NormalForm, normalise
from tocsin.errors import LanguageError, TocsinError
from tocsin.language import parse
from tocsin.language.documents import to_bulk
from tocsin.language.literals import render_string
from tocsin.language.operands import operators_of
from tocsin.language.render import render_name
from tocsin.language.syntax import Op
from tocsin.operators.registry import Registry
from tocsin.schema import EVENT_TYPE, Schema, View
from tocsin.schema.domain import is_number
from tocsin.store import accounts
from tocsin.store.subscriptions import StoredSubscription, list_subscriptions

LISTS = frozenset({Op.IN, Op.CONTAINS_ANY, Op.CONTAINS_ALL, Op.BETWEEN})
ALONE = frozenset({Op.PRESENT, Op.ABSENT})
NOT_IN_ROWS = frozenset({Op.WITHIN, Op.IN_BOX, Op.IN_POLYGON})
MOST_ROWS = 50
_MOST_BYTES = 64 << 10


@dataclass(frozen=True)
class Row:
    """One condition of the form."""

    attribute: str = ""
    op: str = "="
    value: str = ""


def operators(view: View, attribute: str) -> list[str]:
    """Return the operators that a row on an attribute offers."""
    if attribute not in view.attributes:
        return ["="]
    return [op.value for op in operators_of(view.attributes[attribute]) if op not in NOT_IN_ROWS]


def text_of(event_types: Sequence[str], rows: Sequence[Row], view: View) -> str:
    """Return the text that says what the rows say; empty rows say nothing. It may still be wrong: binding tells."""
    conditions = [_condition(row, view) for row in rows if row.attribute and (row.value.strip() or row.op in ALONE)]
    head = ", ".join(map(render_name, event_types))
    if not conditions:
        return head
    body = " and ".join(conditions)
    return f"{head} where {body}" if head else body


def _condition(row: Row, view: View) -> str:
    name = render_name(row.attribute)
    if row.op in ALONE:
        return f"{name} {row.op}"
    kind = view.attributes[row.attribute].domain.kind if row.attribute in view.attributes else "text"
    if row.op not in LISTS:
        return f"{name} {row.op} {_literal(row.value.strip(), kind)}"
    values = [_literal(part.strip(), kind) for part in row.value.split(",") if part.strip()]
    if row.op == Op.BETWEEN:
        return f"{name} between {' and '.join(values)}"
    return f"{name} {row.op} ({', '.join(values)})"


def _literal(text: str, kind: str) -> str:
    if kind == "numeric" and is_number(text):
        return text
    if kind == "boolean" and text in ("true", "false"):
        return text
    if kind == "time":
        return f"time {render_string(text)}"
    return render_string(text)


def rows_of(text: str) -> tuple[tuple[str, ...], list[Row]] | None:
    """Return the event types and the rows of a text; None where rows cannot say it. Raises ParseError."""
    tree = parse(text)
    if tree.properties:
        return None
    try:
        found = to_bulk(tree)["predicates"]
    except LanguageError:
        return None
    if any(isinstance(each, dict) for each in found):  # a scope, a comparison or a call: the text says it
        return None
    rows = []
    for attribute, op, *operand in found:
        value = _text(operand[0], op) if operand else ""
        if value is None or op in NOT_IN_ROWS or attribute == EVENT_TYPE:
            return None
        rows.append(Row(attribute, op, value))
    return tree.event_types, rows


def _text(operand: Any, op: str) -> str | None:
    """Return an operand as a row shows it; None where a row could not give it back."""
    if isinstance(operand, list):
        if op not in LISTS:
            return None
        parts = [_text(part, "=") for part in operand]
        if any(part is None or "," in part for part in parts):
            return None
        return ", ".join(part for part in parts if part is not None)
    if isinstance(operand, dict):
        tagged = operand.get("time", operand.get("decimal"))
        return tagged if isinstance(tagged, str) else None
    if isinstance(operand, bool):
        return "true" if operand else "false"
    return str(operand)


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a text: before the place, the place, after it, and the message."""

    before: str
    place: str
    after: str
    message: str


def trouble_with(text: str, schema: Schema, registry: Registry | None = None) -> Trouble | None:
    """Return what is wrong with a text, with the place where; None where it is right."""
    try:
        prepare(text, schema, most_bytes=_MOST_BYTES, registry=registry)
    except LanguageError as error:
        if error.span is None:
            return Trouble(text, "", "", error.message)
        start, end = error.span.start, max(error.span.end, error.span.start + 1)
        return Trouble(text[:start], text[start:end] or " ", text[end:], error.message)
    return None


COMPARED = 200  # of the owner's subscriptions, the first
_KEPT = 10_000
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Overlap:
    """By id: those that cover the draft, and those that the draft covers (equal ones are only in the first)."""

    covering: tuple[int, ...] = ()
    covered: tuple[int, ...] = ()


class Overlaps:
    """Compares drafts with what their author has."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._guard = threading.Lock()
        self._forms: OrderedDict[tuple[int, int], NormalForm | None] = OrderedDict()

    def of(self, owner: str, draft: NormalForm, *, other_than: int | None = None) -> Overlap:
        """Return how a draft overlaps with an owner's subscriptions; nothing where it can never hold."""
        if draft.never:
            return Overlap()
        schema = self._broker.schema
        multiple = schema.multiple_attributes
        covering, covered = [], []
        for one in self._live(owner):
            form = None if one.origin == other_than else self._form(one, schema)
            if form is None or form.never:
                continue
            if covers(form, draft, multiple):
                covering.append(one.origin)
            elif covers(draft, form, multiple):
                covered.append(one.origin)
        return Overlap(tuple(covering[:_SHOWN]), tuple(covered[:_SHOWN]))

    def _live(self, owner: str) -> list[StoredSubscription]:
        store = self._broker.store
        with store.read() as connection:
            number = accounts.find_account(connection, owner)
            if number is None:
                return []
            found = list_subscriptions(connection, number, 0, COMPARED, store.now_us())
        return [one for one in found if not one.paused]

    def _form(self, one: StoredSubscription, schema: Schema) -> NormalForm | None:
        """Return the normal form; None where nothing can be told of it."""
        key = (schema.version, one.id)
        with self._guard:
            if key in self._forms:
                self._forms.move_to_end(key)
                return self._forms[key]
        try:
            form = normalise(bind_stored(one.tree, schema, self._broker.operators))
        except TocsinError:  # stored under another version of an operator, say
            form = None
        with self._guard:
            self._forms[key] = form
            while len(self._forms) > _KEPT:
                self._forms.popitem(last=False)
        return form
