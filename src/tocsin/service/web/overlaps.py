"""Overlaps: which of a member's subscriptions match everything that a draft would, and which the draft would replace.

Normal forms are kept, since somebody who types asks for them again and again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from tocsin.broker import Broker
from tocsin.broker.expressions import bind_stored
from tocsin.compile.analysis import covers
from tocsin.compile.normalise import NormalForm, normalise
from tocsin.errors import TocsinError
from tocsin.schema import Schema
from tocsin.store import accounts
from tocsin.store.subscriptions import StoredSubscription, list_subscriptions

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
