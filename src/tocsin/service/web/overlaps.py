"""Overlaps: which of a member's subscriptions match everything that a draft would, and which the draft would replace.

Normal forms are kept, since somebody who types asks for them again and again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from tocsin.broker import Broker, SubscriptionView
from tocsin.compile.covering import covers
from tocsin.compile.normalise import NormalForm, normalise
from tocsin.errors import TocsinError
from tocsin.language import bind, parse
from tocsin.schema import Schema

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
        self._forms: OrderedDict[tuple[int, int, int], NormalForm | None] = OrderedDict()

    def of(self, owner: str, draft: NormalForm, *, other_than: int | None = None) -> Overlap:
        """Return how a draft overlaps with an owner's subscriptions; nothing where it can never hold."""
        if draft.never:
            return Overlap()
        schema = self._broker.schema
        multiple = schema.multiple_attributes
        covering, covered = [], []
        for one in self._live(owner):
            form = None if one.id == other_than else self._form(one, schema)
            if form is None or form.never:
                continue
            if covers(form, draft, multiple):
                covering.append(one.id)
            elif covers(draft, form, multiple):
                covered.append(one.id)
        return Overlap(tuple(covering[:_SHOWN]), tuple(covered[:_SHOWN]))

    def _live(self, owner: str) -> list[SubscriptionView]:
        found = self._broker.subscriptions(owner, limit=COMPARED)
        return [one for one in found if not one.ended and not one.paused]

    def _form(self, one: SubscriptionView, schema: Schema) -> NormalForm | None:
        """Return the normal form; None of what calls operators, whose meaning is theirs."""
        key = (schema.version, one.id, one.seq)
        with self._guard:
            if key in self._forms:
                self._forms.move_to_end(key)
                return self._forms[key]
        try:
            bound = bind(parse(one.text), schema)
            form = None if bound.operators else normalise(bound)
        except TocsinError:  # stored under another version of an operator, say: nothing can be told of it
            form = None
        with self._guard:
            self._forms[key] = form
            while len(self._forms) > _KEPT:
                self._forms.popitem(last=False)
        return form
