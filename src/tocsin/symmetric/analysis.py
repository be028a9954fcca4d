"""Analysis: offers become their static sub-event, dynamic sub-event and rules, and their texts are remembered.

Offers of one publisher mostly have the same formulas, and rules that differ in their constants. Such texts are bound once
(language/formula_templates.py for rules); what was bound to a program is forgotten when any program changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from tocsin.language.formula import ConditionFormula, Scope, ValueFormula
from tocsin.language.formula_bind import bind_value
from tocsin.language.formula_templates import MOST, ConditionTemplates
from tocsin.symmetric.meeting import Meeting
from tocsin.symmetric.offer import DynamicAttribute, Offer, bind_offer
from tocsin.symmetric.programs import Programs


class Analysis:
    """Analyses the offers of a meeting. Not safe to share among threads."""

    def __init__(self, meeting: Meeting, programs: Programs) -> None:
        self.meeting, self.programs = meeting, programs
        self._generation = -1
        self._scope: Scope
        self._rules: ConditionTemplates
        self._values: OrderedDict[str, ValueFormula]
        self._attributes: OrderedDict[tuple[str, int], DynamicAttribute]
        self._sets: OrderedDict[tuple[tuple[str, str], ...], tuple[DynamicAttribute, ...]]

    def analyse(self, document: object) -> Offer:
        """Return the offer that a document describes; raises EventRejected."""
        if self._generation != self.programs.generation:
            self._generation = self.programs.generation
            self._scope = self.meeting.rule_scope(self.programs.resolve)
            self._rules = ConditionTemplates(self._scope)
            self._values, self._attributes, self._sets = OrderedDict(), OrderedDict(), OrderedDict()
        return bind_offer(document, self.meeting, texts=self)

    def rule(self, text: str) -> ConditionFormula:
        """Return the condition that a rule's text says."""
        return self._rules.bind(text)

    def value(self, text: str) -> ValueFormula:
        """Return the formula that a dynamic attribute's text says."""
        known = self._values.get(text)
        if known is None:
            known = self._values[text] = bind_value(text, self._scope)
            if len(self._values) > MOST:
                self._values.popitem(last=False)
        return known

    def attribute(self, fresh: DynamicAttribute) -> DynamicAttribute:
        """Return the attribute as it was before, where it is the same: what was made for it is then found again."""
        key = fresh.name, id(fresh.formula)
        known = self._attributes.get(key)
        if known is None or known.formula is not fresh.formula:
            known = self._attributes[key] = fresh
            if len(self._attributes) > MOST:
                self._attributes.popitem(last=False)
        return known

    def known(self, given: object, event: Mapping[str, Any]) -> tuple[DynamicAttribute, ...] | None:
        """Return the dynamic attributes that these texts were before, where the event gives none of them."""
        if type(given) is not dict:
            return None
        try:
            known = self._sets.get(tuple(given.items()))
        except TypeError:  # a formula that is no text
            return None
        return None if known is None or not event.keys().isdisjoint(given) else known

    def learn(self, given: object, found: tuple[DynamicAttribute, ...]) -> None:
        """Remember which dynamic attributes these texts are."""
        assert isinstance(given, Mapping)
        self._sets[tuple(given.items())] = found
        if len(self._sets) > MOST:
            self._sets.popitem(last=False)
