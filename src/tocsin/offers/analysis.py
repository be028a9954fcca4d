"""Analysis: documents become offers, and what was bound for one is used again for the next.

Offers of one publisher mostly have the same formulas, and rules that differ in their constants. Such texts are bound once
(offers/analysis.py for rules); all is forgotten when any program changes.

Conditions by their templates: a text that differs from an earlier one in its constants only is not parsed again.

    age between 23 and 31        the template is: age between # and #
    region = 'north'             region = ''

The template of a conjunction of comparisons with constants is remembered when such a text is first bound; a later text of
that template gets its own constants, checked against their domains as ever. Every other text is bound in full, and
remembered as a whole. What is wrong with a text is said by language/bind.py alone.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tocsin.errors import LanguageError
from tocsin.language.bind import bind_condition
from tocsin.language.formula import NO_OPERATORS, ConditionFormula, Operators, Scope, ValueFormula
from tocsin.language.offer import ComputedAttribute, Offer, OfferBinder, bind_offer
from tocsin.language.operands import canonical_operand
from tocsin.language.sides import Sides
from tocsin.language.syntax import And, Op, Predicate
from tocsin.offers.programs import Programs
from tocsin.schema import Schema, ViewAttribute
from tocsin.schema.event import Taker, taker

MOST = 1_024  # texts, and templates, remembered
_CONSTANT = re.compile(r"'([^']*)'|(?<![\w.'\"])([0-9]{1,15})(?![\w.'\"])")
_ONE = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE})


@dataclass(frozen=True, slots=True)
class _Template:
    """A bound conjunction of comparisons with constants, which are to be replaced in the order of the text."""

    predicates: tuple[Predicate, ...]
    takers: tuple[Taker, ...]  # what takes a constant that is canonical as it comes
    names: tuple[str, ...]
    is_conjunction: bool

    def bind(self, constants: list[Any]) -> ConditionFormula:
        """Return the condition with these constants; raises LanguageError where one is not of its domain."""
        given = iter(constants)
        nodes = []
        for predicate, take in zip(self.predicates, self.takers, strict=True):
            if predicate.op is Op.BETWEEN:
                low, high = next(given), next(given)
                node = _with_operand(predicate, (low, high))
                plain = take(low) is not None and take(high) is not None
            else:
                operand = next(given)
                node = _with_operand(predicate, operand)
                plain = take(operand) is not None
            nodes.append(node if plain else _canonical(node))
        return ConditionFormula(And(tuple(nodes)) if self.is_conjunction else nodes[0], self.names)


def _with_operand(template: Predicate, operand: Any) -> Predicate:
    # `replace` would take as long as all the rest.
    return Predicate(template.attribute, template.op, operand, domain=template.domain, multiple=template.multiple)


def _canonical(node: Predicate) -> Predicate:
    assert node.domain is not None
    attribute = ViewAttribute(node.attribute, node.domain, False, multiple=node.multiple, ever_multiple=node.multiple)
    return replace(node, operand=canonical_operand(node, attribute))


class ConditionTemplates:
    """Binds conditions in one scope. Not safe to share among threads."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.parsed = 0  # texts that were bound in full
        self._texts: OrderedDict[str, ConditionFormula] = OrderedDict()
        self._templates: OrderedDict[str, _Template | None] = OrderedDict()

    def bind(self, text: str) -> ConditionFormula:
        """Return the condition of the text; raises LanguageError, as bind_condition does."""
        known = self._texts.get(text)
        if known is None:
            known = self._by_template(text) or self._in_full(text)
            _remember(self._texts, text, known)
        else:
            self._texts.move_to_end(text)
        return known

    def _by_template(self, text: str) -> ConditionFormula | None:
        constants: list[Any] = []
        template = self._templates.get(_CONSTANT.sub(lambda found: _taken(found, constants), text))
        if template is None:
            return None
        try:
            return template.bind(constants)
        except LanguageError:
            return None  # binding in full says where in the text

    def _in_full(self, text: str) -> ConditionFormula:
        self.parsed += 1
        bound = bind_condition(text, self.scope)
        constants: list[Any] = []
        shape = _CONSTANT.sub(lambda found: _taken(found, constants), text)
        if constants and shape not in self._templates:
            template = _template_of(bound)
            # Constants that differ from one another show which is which.
            if template is not None and len(set(constants)) == len(constants) and template_fits(template, constants):
                _remember(self._templates, shape, template)
        return bound


def _taken(found: re.Match[str], constants: list[Any]) -> str:
    text = found[1]
    constants.append(int(found[2]) if text is None else text)
    return "#" if text is None else "''"


def _remember(kept: OrderedDict[str, Any], key: str, value: Any) -> None:
    kept[key] = value
    if len(kept) > MOST:
        kept.popitem(last=False)


def _template_of(bound: ConditionFormula) -> _Template | None:
    """Return the template of a conjunction of comparisons with constants; None for any other condition."""
    parts = bound.root.parts if isinstance(bound.root, And) else (bound.root,)
    predicates = [part for part in parts if isinstance(part, Predicate) and part.op in (*_ONE, Op.BETWEEN)]
    if not predicates or len(predicates) != len(parts):
        return None
    plain = tuple(replace(predicate, span=None, operand_span=None, attribute_span=None) for predicate in predicates)
    takers = tuple(taker(predicate.domain) for predicate in predicates if predicate.domain is not None)
    return _Template(plain, takers, bound.names, isinstance(bound.root, And))


def template_fits(template: _Template, constants: list[Any]) -> bool:
    """Return whether the template's own constants are those of the text, in its order."""
    return [(type(one), one) for one in _operands(template)] == [(type(one), one) for one in constants]


def _operands(template: _Template) -> Iterator[Any]:
    for predicate in template.predicates:
        if predicate.op is Op.BETWEEN:
            assert isinstance(predicate.operand, tuple)
            yield from predicate.operand
        else:
            yield predicate.operand


# Analysis.


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
