"""From the grammar's tree to the syntax tree: what may stand where.

The grammar is generic, so `price < 3` and `'boolean' near[1..5] 'proximity'` come as trees of the same rules; this
module reads each as what its place asks for: a condition, an attribute, or a value (convert_values.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tocsin.errors import Span
from tocsin.language import tokens
from tocsin.language.bounds import at_least, check_corners
from tocsin.language.convert_values import ValueConverter, is_constant, is_quoted_name, span_of, ungrouped
from tocsin.language.syntax import (
    ALWAYS,
    NEVER,
    PATTERN_OPERATORS,
    And,
    Box,
    Comparison,
    Constant,
    Literal,
    Node,
    Not,
    Op,
    Operand,
    OperatorCall,
    Or,
    Polygon,
    Predicate,
    Quantifier,
    ScopeCondition,
    Subscription,
    TextPatterns,
    Within,
)
from tocsin.language.text_patterns import escaped

if TYPE_CHECKING:
    from tocsin.language.convert_values import Branch

_COMPARISONS = {"!=": Op.NE, "<>": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_TURNED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_SIMPLE = {"kind_of": Op.KIND_OF}
_PATTERNS = {op.value.replace(" ", "_"): op for op in PATTERN_OPERATORS}
_LISTS = {"among": Op.IN, "contains_any": Op.CONTAINS_ANY, "contains_all": Op.CONTAINS_ALL}


class Converter(ValueConverter):
    """Reads the trees of one text."""

    def subscription(self, tree: Branch) -> Subscription:
        """Return the subscription that a whole text is."""
        types: tuple[str, ...] = ()
        spans: tuple[Span, ...] = ()
        where: Node = ALWAYS
        properties: tuple[tuple[str, Literal], ...] = ()
        places: tuple[Span, ...] = ()
        for child in self.branches(tree):
            if child.data == "types":
                types = tuple(self.name(leaf) for leaf in self.leaves(child))
                spans = tuple(span_of(leaf) for leaf in child.children)
            elif child.data == "properties":
                properties = self._properties(child)
                places = tuple(map(span_of, self.branches(child)))
            else:
                where = self.condition(child)
        return Subscription(types, where, properties, event_type_spans=spans, property_spans=places)

    def _properties(self, tree: Branch) -> tuple[tuple[str, Literal], ...]:
        found: dict[str, Literal] = {}
        for entry in self.branches(tree):
            leaf, value = self.leaves(entry)[0], self.branches(entry)[0]
            name = self.name(leaf)
            if name in found:
                raise self.wrong(entry, f"{name} is given twice")
            found[name] = self.literal(value)
        return tuple(found.items())

    # --- conditions ---------------------------------------------------------------------------------------------------

    def condition(self, tree: Branch, depth: int = 1) -> Node:
        """Return the condition that the tree is; raises ParseError where it is a value."""
        tree = ungrouped(tree)
        self.enter(tree, depth)
        match tree.data:
            case "conjunction":
                return And(tuple(self.condition(part, depth + 1) for part in self.branches(tree)))
            case "disjunction":
                return Or(tuple(self.condition(part, depth + 1) for part in self.branches(tree)))
            case "negation":
                return Not(self.condition(self.branches(tree)[0], depth + 1))
            case "true":
                return ALWAYS
            case "false":
                return NEVER
            case "call":
                name, arguments = self.call(tree, depth)
                return OperatorCall(name, arguments, span=span_of(tree))
            case "equality":
                return self._compared(tree, Op.EQ, depth)
            case "comparison":
                return self._compared(tree, _COMPARISONS[str(self.leaves(tree)[0])], depth)
            case "presence":
                return self._presence(tree)
            case "at_least":
                parts = tuple(self.condition(part, depth + 2) for part in self.branches(tree))
                with self.at(tree):
                    found = at_least(int(self.number(self.leaves(tree)[1])), parts)
                self.count(tree, len(found.parts) if isinstance(found, Or) else 1)
                return found
            case "scope":
                quantifier, array = self.leaves(tree)
                part = self.condition(self.branches(tree)[0], depth + 1)
                return ScopeCondition(
                    Quantifier(str(quantifier).lower()), self.name(array), part, span_of(tree), span_of(array)
                )
            case "is_not" | "is_not_among" | "is_not_pattern":
                return self._is_not(tree, depth)
            case (
                "among" | "between" | "contains" | "contains_any" | "contains_all" | "within" | "in_box" | "in_polygon"
            ):
                return self._operated(tree, depth)
            case (
                "kind_of"
                | "starts_with"
                | "ends_with"
                | "contains_text"
                | "like"
                | "matches"
                | "in_network"
                | "folded_among"
            ):
                return self._operated(tree, depth)
            case "folded_equality" | "folded_comparison":
                return self._compared_folded(tree, depth)
            case _:
                raise self.wrong(tree, self._not_a_condition(tree))

    def _not_a_condition(self, tree: Branch) -> str:
        written = self.written(tree)
        match tree.data:
            case "name":
                return f"{written} alone is not a condition; compare it, such as: {written} = true"
            case "text" | "near":
                return f"{written} is not a condition; words go after contains: title contains ({written})"
            case "case":
                return "case gives a value, not a condition; compare it with another value"
            case _:
                return f"{written} is a value, not a condition; compare it with something"

    # --- comparisons --------------------------------------------------------------------------------------------------

    def _compared(self, tree: Branch, op: Op, depth: int) -> Node:
        """Return the predicate, where an attribute is compared with a constant (on either side); else a constraint."""
        left, right = map(ungrouped, self.branches(tree))
        if left.data == "name" and right.data == "name":
            self._check_two_names(tree, left, right)
        if left.data == "name" and is_constant(right):
            return self._predicate(tree, left, op, self.literal(right, depth), right)
        if right.data == "name" and is_constant(left):
            return self._predicate(tree, right, _TURNED[op], self.literal(left, depth), left)
        return Comparison(self.value(left, depth + 1), op, self.value(right, depth + 1), span=span_of(tree))

    def _check_two_names(self, tree: Branch, left: Branch, right: Branch) -> None:
        """Raise where the right name was most likely meant as a text or as SQL's null."""
        written = self.written(right)
        if is_quoted_name(right):
            raise self.wrong(right, f"double quotes are for names; text goes in single quotes: '{written[1:-1]}'")
        if written.lower() in ("null", "none"):
            raise self.wrong(tree, f"to ask whether there is a value, write: {self.written(left)} is absent")

    def _predicate(self, tree: Branch, attribute: Branch, op: Op, operand: Operand, stands: Branch) -> Predicate:
        return Predicate(
            self.name(self.leaves(attribute)[0]),
            op,
            operand,
            span=span_of(tree),
            operand_span=span_of(stands),
            attribute_span=span_of(attribute),
        )

    def _is_not(self, tree: Branch, depth: int) -> Node:
        """Return a negation that holds where the attribute is absent, too."""
        subject, stands = self._subject(tree, "is not"), self.branches(tree)[1]
        folded = any(str(leaf).lower().startswith("ignoring") for leaf in self.leaves(tree))
        operand: Operand
        if tree.data == "is_not_pattern":
            op = _PATTERNS["_".join(str(self.leaves(tree)[1]).lower().split())]
            operand = self._patterns(op, stands, depth)
        elif tree.data == "is_not" and not folded:
            op, operand = Op.EQ, self.literal(stands, depth)
        elif not folded:
            op, operand = Op.IN, self.values(stands, depth)
        else:
            texts = (self.literal(stands, depth),) if tree.data == "is_not" else self.values(stands, depth)
            if not all(isinstance(text, str) for text in texts):
                raise self.wrong(stands, "ignoring case stands after texts")
            op, operand = Op.LIKE, TextPatterns(tuple(escaped(str(text)) for text in texts), ignoring_case=True)
        self.count(tree, 3)
        found = self._predicate(tree, subject, op, operand, stands)
        absent = replace(found, op=Op.ABSENT, operand=None)
        return Or((absent, replace(found, op=Op.NE) if op is Op.EQ else Not(found)))

    def _presence(self, tree: Branch) -> Predicate:
        subject = self._subject(tree, "is present")
        last = self.leaves(tree)[0].lower().split()
        present = ("not" in last) != (last[-1] == "present")
        op = Op.PRESENT if present else Op.ABSENT
        name = self.name(self.leaves(subject)[0])
        return Predicate(name, op, span=span_of(tree), attribute_span=span_of(subject))

    # --- the operators that are words ---------------------------------------------------------------------------------

    def _operated(self, tree: Branch, depth: int) -> Node:
        """Return `subject [not] operator operand` as a node."""
        negated = tree.children[1] is not None
        depth += negated
        self.enter(tree, depth)
        subject, *operands = self.branches(tree)
        if ungrouped(subject).data == "variable" and tree.data in ("among", "between"):
            node = self._variable_operated(tree, depth)
        else:
            node = self._attribute_operated(tree, operands, depth)
        return Not(node) if negated else node

    def _attribute_operated(self, tree: Branch, operands: list[Branch], depth: int) -> Predicate:
        op, operand = self._operator(tree, operands, depth)
        subject = self._subject(tree, op.value)
        return Predicate(
            self.name(self.leaves(subject)[0]),
            op,
            operand,
            span=span_of(tree),
            operand_span=Span(span_of(operands[0]).start, span_of(operands[-1]).end),
            attribute_span=span_of(subject),
        )

    def _operator(self, tree: Branch, operands: list[Branch], depth: int) -> tuple[Op, Operand]:
        rule = str(tree.data)
        first = operands[0]
        if rule in _SIMPLE:
            return _SIMPLE[rule], self.literal(first, depth)
        if rule in _PATTERNS:
            return _PATTERNS[rule], self._patterns(_PATTERNS[rule], first, depth)
        if rule == "folded_among":
            return Op.LIKE, TextPatterns(tuple(map(escaped, self._texts(first, depth))), ignoring_case=True)
        if rule in _LISTS:
            return _LISTS[rule], self.values(first, depth)
        if rule == "between":
            return Op.BETWEEN, (self.literal(first, depth), self.literal(operands[1], depth))
        if rule == "within":
            return Op.WITHIN, self._within(tree, first, depth)
        if rule == "in_box":
            return Op.IN_BOX, self._box(first, depth)
        if rule == "in_polygon":
            return Op.IN_POLYGON, self._polygon(first, depth)
        return Op.CONTAINS, self.contained(first, depth)

    def _patterns(self, op: Op, tree: Branch, depth: int) -> Operand:
        """Return the text or texts after an operator of patterns."""
        inner = self.branches(tree)[0]
        leaves = [str(leaf).lower() for leaf in self.leaves(tree)]
        folded = any(leaf.startswith("ignoring") for leaf in leaves)
        if tree.data == "patterns":
            return TextPatterns(self._texts(inner, depth), every="all" in leaves, ignoring_case=folded)
        if inner.data == "point":
            raise self.wrong(
                inner, f"several patterns need any or all before them: {op.value} any {self.written(inner)}"
            )
        literal = self.literal(inner, depth)
        return TextPatterns((literal,), ignoring_case=True) if folded and isinstance(literal, str) else literal

    def _texts(self, tree: Branch, depth: int) -> tuple[str, ...]:
        found = self.values(tree, depth)
        for value in found:
            if not isinstance(value, str):
                raise self.wrong(tree, f"texts are expected in this list, such as 'mini'; {value} is none")
        return found  # type: ignore[return-value]

    def _compared_folded(self, tree: Branch, depth: int) -> Node:
        """Return `= … ignoring case` as the pattern that it is: one without % and _."""
        sides = [ungrouped(side) for side in self.branches(tree)]
        signs = [str(leaf) for leaf in self.leaves(tree)][:-1]
        names = [side for side in sides if side.data == "name"]
        texts = [side for side in sides if side.data != "name" and is_constant(side)]
        value = self.literal(texts[0], depth) if len(names) == len(texts) == 1 else None
        if not isinstance(value, str) or (signs and _COMPARISONS[signs[0]] is not Op.NE):
            raise self.wrong(tree, "ignoring case stands after an attribute and a text: name = 'Ann' ignoring case")
        operand = TextPatterns((escaped(value),), ignoring_case=True)
        found = self._predicate(tree, names[0], Op.LIKE, operand, texts[0])
        return Not(found) if signs else found

    def _within(self, tree: Branch, center: Branch, depth: int) -> Within:
        amount, unit = self.leaves(tree)[-2:]
        return Within(self.number(amount), tokens.UNITS[unit.lower()], self.literal(center, depth))

    def _box(self, tree: Branch, depth: int) -> Box:
        corners = self.branches(tree)
        if len(corners) != 4:
            raise self.wrong(tree, "a box has four corners: in box (south, west, north, east)")
        return Box(*(self.coordinate(corner, depth) for corner in corners))

    def _polygon(self, tree: Branch, depth: int) -> Polygon:
        corners = self.values(tree, depth)
        for corner in corners:
            if not isinstance(corner, tuple):
                raise self.wrong(tree, f"a polygon has points for corners, such as (40.85, -73.88); {corner} is none")
        with self.at(tree):
            return Polygon(check_corners(corners))  # type: ignore[arg-type]

    def _subject(self, tree: Branch, op: str) -> Branch:
        """Return the tree of the attribute's name."""
        subject = ungrouped(self.branches(tree)[0])
        if subject.data != "name":
            raise self.wrong(subject, f"`{op}` asks about an attribute; {self.written(subject)} is not one")
        return subject

    def _variable_operated(self, tree: Branch, depth: int) -> Node:
        """Return `in` and `between` of a variable as the comparisons that they stand for."""
        subject, *operands = self.branches(tree)
        variable = self.value(subject, depth + 1)
        span = span_of(tree)
        if tree.data == "between":
            low, high = (Constant(self.literal(operand, depth)) for operand in operands)
            return And((Comparison(variable, Op.GE, low, span=span), Comparison(variable, Op.LE, high, span=span)))
        members = [Constant(member) for member in self.values(operands[0], depth)]
        self.count(tree, 3 * len(members))
        parts = tuple(Comparison(variable, Op.EQ, member, span=span) for member in members)
        return parts[0] if len(parts) == 1 else Or(parts)
