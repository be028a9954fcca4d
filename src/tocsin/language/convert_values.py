"""Values in the grammar's tree: names, constants, expressions and word patterns (see convert.py for conditions)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from tocsin.errors import LanguageError, ParseError, Span
from tocsin.language import literals, tokens
from tocsin.language.bounds import MAX_DEPTH, MAX_GAP, MAX_NODES, check_name, too_deep, too_many
from tocsin.language.literals import check_coordinate, read_literal, read_number, read_string
from tocsin.language.syntax import (
    Arithmetic,
    AttributeValue,
    Call,
    Case,
    Constant,
    Expression,
    Literal,
    Negative,
    Node,
    Variable,
    WordAnd,
    WordNot,
    WordOr,
    WordPattern,
    Words,
)
from tocsin.language.units import MICROSECONDS
from tocsin.schema import Number
from tocsin.schema.readings import reading_of

if TYPE_CHECKING:
    import lark

    Leaf: TypeAlias = lark.Token
    Branch: TypeAlias = lark.Tree[lark.Token]

_CONSTANTS = frozenset(
    ("text", "number", "time", "true", "false", "duration", "interval", "point")
    + ("arithmetic", "negative", "positive", "group")
)


def span_of(part: Branch | Leaf) -> Span:
    """Return where a tree or token stood."""
    place: Any = part.meta if hasattr(part, "meta") else part
    return Span(place.start_pos, place.end_pos)


def ungrouped(tree: Branch) -> Branch:
    """Return the tree without the parentheses around it."""
    while tree.data == "group":
        tree = tree.children[0]  # type: ignore[assignment]
    return tree


def is_constant(tree: Branch) -> bool:
    """Return whether the tree is an expression of constants."""
    return all(rule in _CONSTANTS for rule in _rules(tree))


def _rules(tree: Branch) -> Iterator[str]:
    """Yield the grammar's rule of the tree and of each part below; without recursion, since sums may be long."""
    waiting: list[Any] = [tree]
    while waiting:
        part = waiting.pop()
        if hasattr(part, "data"):
            yield part.data
            waiting.extend(part.children)


def is_quoted_name(tree: Branch) -> bool:
    return (
        tree.data == "name"
        and str(tree.children[0]).startswith('"')
        and reading_of(str(tree.children[0])[1:-1]) is None
    )


class ValueConverter(ABC):
    """Reads the values of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._nodes = 0

    @abstractmethod
    def condition(self, tree: Branch, depth: int = 1) -> Node:
        """Return the condition that the tree is."""

    # --- the tree and its bounds --------------------------------------------------------------------------------------

    def branches(self, tree: Branch) -> list[Branch]:
        """Return the parts of a tree that are trees."""
        return [cast("Branch", child) for child in tree.children if hasattr(child, "data")]

    def leaves(self, tree: Branch) -> list[Leaf]:
        """Return the parts of a tree that are tokens."""
        return [cast("Leaf", child) for child in tree.children if hasattr(child, "start_pos")]

    def written(self, part: Branch | Leaf, limit: int = 40) -> str:
        """Return the text of a part, cut where it is long."""
        span = span_of(part)
        text = self.text[span.start : span.end]
        return text if len(text) <= limit else f"{text[: limit - 1]}…"

    def enter(self, tree: Branch, depth: int) -> None:
        """Count a node of the syntax tree at this depth."""
        if depth > MAX_DEPTH:
            raise self.placed(too_deep(), tree)
        self.count(tree, 1)

    def count(self, tree: Branch, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise self.placed(too_many(), tree)

    def wrong(self, part: Branch | Leaf, message: str) -> ParseError:
        return ParseError(message, text=self.text, span=span_of(part))

    def placed(self, error: LanguageError, part: Branch | Leaf) -> LanguageError:
        """Return the error, with this place if it has none."""
        if error.span is None:
            error.text, error.span = self.text, span_of(part)
        return error

    @contextmanager
    def at(self, part: Branch | Leaf) -> Iterator[None]:
        """Give errors from within the place of this part."""
        try:
            yield
        except LanguageError as error:
            raise self.placed(error, part) from None

    # --- names and constants ------------------------------------------------------------------------------------------

    def name(self, leaf: Leaf) -> str:
        with self.at(leaf):
            return check_name(tokens.unquoted(str(leaf).removeprefix("?")))

    def string(self, leaf: Leaf) -> str:
        with self.at(leaf):
            return read_string(str(leaf))

    def number(self, leaf: Leaf) -> Number:
        with self.at(leaf):
            return read_number(str(leaf))

    def values(self, tree: Branch, depth: int) -> tuple[Literal, ...]:
        """Return the constants of a list."""
        if tree.data == "plain_values":
            with self.at(tree):
                return tuple(map(read_literal, tokens.list_values(str(self.leaves(tree)[0]))))
        return tuple(self.literal(value, depth) for value in self.branches(tree))

    def literal(self, tree: Branch, depth: int = 1) -> Literal:
        """Return the constant that the tree is, arithmetic done; raises ParseError where it is not constant."""
        with self.at(tree):
            return literals.literal(self._constant(ungrouped(tree), depth))

    def constant(self, tree: Branch, depth: int) -> Constant:
        """Return a constant of a formula, which may be a duration."""
        with self.at(tree):
            return Constant(literals.constant(self._constant(ungrouped(tree), depth)), span=span_of(tree))

    def coordinate(self, tree: Branch, depth: int) -> float:
        with self.at(tree):
            return check_coordinate(self.literal(tree, depth))

    def _constant(self, tree: Branch, depth: int) -> literals.Operand:
        tree = ungrouped(tree)
        if depth > MAX_DEPTH:
            raise self.placed(too_deep(), tree)
        match tree.data:
            case "arithmetic":
                left, right = (self._constant(part, depth + 1) for part in self.branches(tree))
                with self.at(tree):
                    return literals.compute(str(self.leaves(tree)[0]), left, right)
            case "negative" | "positive":
                part = self._constant(self.branches(tree)[0], depth + 1)
                with self.at(tree):
                    return literals.negate(part) if tree.data == "negative" else literals.compute("+", part, 0)
            case "duration":
                amount, unit = self.leaves(tree)
                return self._duration(tree, amount, unit)
            case "interval":
                with self.at(tree):
                    return literals.read_interval(str(self.leaves(tree)[0]))
            case "point":
                latitude, longitude = (self.coordinate(part, depth + 1) for part in self.branches(tree))
                return latitude, longitude
            case "text" | "number" | "time" | "true" | "false":
                return self._atom(tree)
            case _:
                raise self.wrong(tree, self._not_constant(tree))

    def _atom(self, tree: Branch) -> Literal:
        leaf = self.leaves(tree)[0]
        with self.at(leaf):
            return read_literal(str(leaf)) if tree.data in ("text", "number", "time") else tree.data == "true"

    def _duration(self, tree: Branch, amount: Leaf, unit: Leaf) -> literals.Duration:
        canonical = tokens.UNITS[unit.lower()]
        if canonical not in MICROSECONDS:
            raise self.wrong(tree, f"{self.written(tree)} is a distance; distances go with within … of")
        return literals.Duration.of(self.number(amount), canonical)

    def _not_constant(self, tree: Branch) -> str:
        written = self.written(tree)
        match tree.data:
            case "name" if written.lower() in ("null", "none"):
                return "there is no null; to ask whether there is a value, write: is absent, is present"
            case "name":
                return (
                    f"expected a constant; {written} is a name. Text goes in single quotes: '{written.strip(chr(34))}'"
                )
            case "near":
                return f"word patterns go in parentheses after contains: contains ({written})"
            case _:
                return f"expected a constant; {written} is not one"

    # --- expressions --------------------------------------------------------------------------------------------------

    def value(self, tree: Branch, depth: int = 1) -> Expression:
        """Return the value expression that the tree is; raises ParseError where it is a condition."""
        tree = ungrouped(tree)
        self.enter(tree, depth)
        match tree.data:
            case "name":
                return AttributeValue(self.name(self.leaves(tree)[0]), span=span_of(tree))
            case "variable":
                return Variable(self.name(self.leaves(tree)[0]), span=span_of(tree))
            case "text" | "number" | "time" | "true" | "false" | "point" | "duration" | "interval":
                return self.constant(tree, depth)
            case "positive":
                return self.value(self.branches(tree)[0], depth)
            case "negative":
                return self._negative(tree, depth)
            case "arithmetic":
                return self._arithmetic(tree, depth)
            case "call":
                name, arguments = self.call(tree, depth)
                return Call(name, arguments, span=span_of(tree))
            case "case":
                return self._case(tree, depth)
            case "near":
                raise self.wrong(tree, self._not_constant(tree))
            case _:
                raise self.wrong(tree, f"{self.written(tree)} is a condition; a value is expected here")

    def _negative(self, tree: Branch, depth: int) -> Expression:
        part = self.branches(tree)[0]
        if part.data in ("number", "duration"):  # a minus right before digits belongs to the number
            return self.constant(tree, depth)
        return Negative(self.value(part, depth + 1))

    def _arithmetic(self, tree: Branch, depth: int) -> Expression:
        left, right = (self.value(part, depth + 1) for part in self.branches(tree))
        return Arithmetic(str(self.leaves(tree)[0]), left, right)

    def call(self, tree: Branch, depth: int) -> tuple[str, tuple[Expression, ...]]:
        """Return the name and the arguments of a call."""
        listed = self.branches(tree)
        arguments = self.branches(listed[0]) if listed else []
        return self.name(self.leaves(tree)[0]), tuple(self.value(argument, depth + 1) for argument in arguments)

    def _case(self, tree: Branch, depth: int) -> Case:
        branches: list[tuple[Node, Expression]] = []
        otherwise: Expression | None = None
        for part in self.branches(tree):
            if part.data == "branch":
                when, then = self.branches(part)
                branches.append((self.condition(when, depth + 1), self.value(then, depth + 1)))
            else:
                otherwise = self.value(part, depth + 1)
        return Case(tuple(branches), otherwise)

    # --- word patterns ------------------------------------------------------------------------------------------------

    def contained(self, tree: Branch, depth: int) -> Literal | WordPattern:
        """Return what stands after `contains`: a constant, or a word pattern, which goes in parentheses."""
        inner = ungrouped(tree)
        if inner.data == "near" or (tree.data == "group" and (inner.data == "text" or not is_constant(inner))):
            return self.pattern(inner, depth + 1)
        return self.literal(tree, depth)

    def pattern(self, tree: Branch, depth: int) -> WordPattern:
        """Return the word pattern that the tree is."""
        tree = ungrouped(tree)
        self.enter(tree, depth)
        match tree.data:
            case "text":
                return Words((self.string(self.leaves(tree)[0]),))
            case "near":
                return self._near(tree)
            case "conjunction":
                return WordAnd(tuple(self.pattern(part, depth + 1) for part in self.branches(tree)))
            case "disjunction":
                return WordOr(tuple(self.pattern(part, depth + 1) for part in self.branches(tree)))
            case "negation":
                return WordNot(self.pattern(self.branches(tree)[0], depth + 1))
            case _:
                message = "a word pattern is made of words in single quotes, near[1..5], and, or, not"
                raise self.wrong(tree, f"{message}; found {self.written(tree)}")

    def _near(self, tree: Branch) -> Words:
        words = []
        for part in map(ungrouped, self.branches(tree)):
            if part.data != "text":
                raise self.wrong(
                    part, "near stands between two words in single quotes: 'boolean' near[1..5] 'proximity'"
                )
            words.append(self.string(self.leaves(part)[0]))
        self.count(tree, len(words))
        return Words(tuple(words), tuple(self._gap(leaf) for leaf in self.leaves(tree)))

    def _gap(self, leaf: Leaf) -> tuple[int, int]:
        least, most = (digits.strip() for digits in leaf[leaf.index("[") + 1 : -1].split(".."))
        if max(len(least), len(most)) > 5 or int(most) > MAX_GAP:
            raise self.wrong(leaf, f"near may skip at most {MAX_GAP:,} words")
        if int(least) > int(most):
            raise self.wrong(leaf, f"the least comes first: near[{most}..{least}]")
        return int(least), int(most)
