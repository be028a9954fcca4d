"""Analysis: documents become offers, and what was bound for one is used again for the next.

Offers of one publisher mostly have the same formulas, and rules that differ in their constants. Such texts are bound once
(language/formula_templates.py for rules); all is forgotten when any program changes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from tocsin.language.formula import NO_OPERATORS, ConditionFormula, Operators, ValueFormula
from tocsin.language.formula_templates import MOST, ConditionTemplates
from tocsin.language.offer import ComputedAttribute, Offer, OfferBinder, bind_offer
from tocsin.language.sides import Sides
from tocsin.offers.programs import Programs
from tocsin.schema import Schema


class RememberingBinder(OfferBinder):
    """Binds the texts of offers of some event types, each once. Not safe to share among threads."""

    def __init__(self, sides: Sides, programs: Programs, operators: Operators) -> None:
        super().__init__(sides, programs.resolve, operators)
        self._rules = ConditionTemplates(self.scope)
        self._values: OrderedDict[str, ValueFormula] = OrderedDict()
        self._computed: OrderedDict[tuple[tuple[str, str], ...], tuple[ComputedAttribute, ...]] = OrderedDict()

    def rule(self, text: str) -> ConditionFormula:
        return self._rules.bind(text)

    def value(self, text: str) -> ValueFormula:
        known = self._values.get(text)
        if known is None:
            known = self._values[text] = super().value(text)
            if len(self._values) > MOST:
                self._values.popitem(last=False)
        return known

    def known(self, given: Any) -> tuple[ComputedAttribute, ...] | None:
        try:
            return self._computed.get(tuple(given.items()))
        except TypeError:  # a formula that is no text
            return None

    def learn(self, given: Any, found: tuple[ComputedAttribute, ...]) -> None:
        self._computed[tuple(given.items())] = found
        if len(self._computed) > MOST:
            self._computed.popitem(last=False)


class Analysis:
    """Analyses the offers of a schema. Not safe to share among threads."""

    def __init__(self, schema: Schema, programs: Programs | None = None, operators: Operators = NO_OPERATORS) -> None:
        self.schema, self.operators = schema, operators
        self.programs = Programs() if programs is None else programs
        self._generation = -1
        self._binders: dict[tuple[str, ...], RememberingBinder] = {}

    def analyse(self, document: object) -> Offer:
        """Return the offer that a document describes; raises EventRejected with all its violations."""
        if self._generation != self.programs.generation:
            self._generation = self.programs.generation
            self._binders = {}
        return bind_offer(document, self.schema, binder=self._binder)

    def _binder(self, sides: Sides) -> RememberingBinder:
        known = self._binders.get(sides.event_types)
        if known is None:
            known = self._binders[sides.event_types] = RememberingBinder(sides, self.programs, self.operators)
        return known
