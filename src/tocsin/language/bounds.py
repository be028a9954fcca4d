"""Bounds: how large an expression may be, in any of its forms, so that none costs more than a second or two.

Checked before and while a form is read (tokens.py, convert.py, documents.py) and once more when a tree is bound
(bind.py), because trees can be built by hand. Nothing here recurses: a tree may be deeper than Python's stack.
"""

from __future__ import annotations

import math
from itertools import combinations

from tocsin.errors import ParseError, TooLarge
from tocsin.language import syntax
from tocsin.language.syntax import Expression, Node, Subscription, WordPattern
from tocsin.schema import Point
from tocsin.schema.readings import ANY_ATTRIBUTE

__all__ = ["ANY_ATTRIBUTE"]

MAX_TEXT = 512 * 1024  # characters of a text form
MAX_NESTING = 200  # parentheses and `case`s open at once; and `not`, `-`, `+` in a row
MAX_DEPTH = 64  # nodes on the way from the root to a leaf
MAX_NODES = 20_000  # nodes of a tree; the values in lists are not nodes
MAX_TOKENS = 3 * MAX_NODES  # of a text form; a list of plain values is one token
MAX_LIST = 10_000  # values in all lists of an expression together
MAX_STRING = 4_096  # characters of one text value
MAX_NAME = 200  # characters of a name
MAX_CORNERS = 1_000
MAX_GAP = 10_000  # words that a proximity may skip

Tree = Subscription | Node | Expression | WordPattern


def check_size(tree: Tree) -> None:
    """Raise TooLarge if the tree is deeper or larger than an expression may be."""
    waiting: list[tuple[Tree, int]] = [(tree.where if isinstance(tree, Subscription) else tree, 1)]
    nodes = listed = 0
    while waiting:
        node, depth = waiting.pop()
        nodes += len(node.words) if isinstance(node, syntax.Words) else 1
        if depth > MAX_DEPTH:
            raise too_deep()
        if nodes > MAX_NODES:
            raise too_many()
        operand = node.operand if isinstance(node, syntax.Predicate) else None
        if isinstance(operand, syntax.TextPatterns):
            operand = operand.texts
        if isinstance(operand, tuple):
            listed += len(operand)
            if listed > MAX_LIST:
                raise TooLarge(f"the lists of the expression have more than {MAX_LIST:,} values")
        waiting.extend((part, depth + 1) for part in children(node))


def at_least(count: int, parts: tuple[Node, ...]) -> Node:
    """Return the condition that so many of the parts hold: the alternatives of so many of them; raises TooLarge."""
    if not 1 <= count <= len(parts):
        raise ParseError(f"at least {count} of {len(parts)} conditions: the number is between 1 and {len(parts)}")
    if count == 1 or count == len(parts):
        return parts[0] if len(parts) == 1 else syntax.Or(parts) if count == 1 else syntax.And(parts)
    if math.comb(len(parts), count) * (count + 1) > MAX_NODES:
        raise TooLarge(f"at least {count} of {len(parts)} are too many combinations; ask for fewer, or for parts of it")
    return syntax.Or(tuple(map(syntax.And, combinations(parts, count))))


def too_deep() -> TooLarge:
    return TooLarge(f"the expression is nested deeper than {MAX_DEPTH}")


def too_many() -> TooLarge:
    return TooLarge(f"the expression has more than {MAX_NODES:,} parts; split it into several subscriptions")


def children(node: Tree) -> tuple[Tree, ...]:
    """Return the nodes directly below a node."""
    match node:
        case syntax.Subscription(where=where):
            return (where,)
        case syntax.And(parts) | syntax.Or(parts) | syntax.WordAnd(parts) | syntax.WordOr(parts):
            return parts
        case syntax.Not(part) | syntax.Negative(part) | syntax.WordNot(part) | syntax.ScopeCondition(part=part):
            return (part,)
        case syntax.OperatorCall(arguments=arguments) | syntax.Call(arguments=arguments):
            return arguments
        case syntax.Comparison(left=left, right=right) | syntax.Arithmetic(left=left, right=right):
            return left, right
        case syntax.Case(branches, otherwise):
            inner: list[Tree] = [part for branch in branches for part in branch]
            return (*inner, otherwise) if otherwise is not None else tuple(inner)
        case syntax.Predicate(
            operand=syntax.Words() | syntax.WordAnd() | syntax.WordOr() | syntax.WordNot() as pattern
        ):
            return (pattern,)
        case _:
            return ()


def check_corners(corners: tuple[Point, ...]) -> tuple[Point, ...]:
    """Return the corners of a polygon if they are not too many."""
    if len(corners) > MAX_CORNERS:
        raise TooLarge(f"a polygon may have {MAX_CORNERS:,} corners; this one has {len(corners):,}")
    return corners


def check_string(text: str) -> str:
    """Return the text if it may stand in an expression."""
    if len(text) > MAX_STRING:
        raise TooLarge(f"a text may have {MAX_STRING:,} characters; this one has {len(text):,}")
    return _check_unicode(text, "text")


def check_name(name: str) -> str:
    """Return the name if it may name an attribute, event type, operator or variable."""
    if not name:
        raise ParseError("a name cannot be empty")
    if len(name) > MAX_NAME:
        raise TooLarge(f"a name may have {MAX_NAME} characters; this one has {len(name):,}")
    return _check_unicode(name, "name")


def _check_unicode(text: str, what: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ParseError(f"the {what} is not Unicode: half a surrogate pair at character {error.start}") from None
    return text
