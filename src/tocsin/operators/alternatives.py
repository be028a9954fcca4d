"""Alternatives: a condition as a disjunction of conjunctions, each a cheap part, operator calls and value constraints.

What has no operator stays together, as the columnar engine has its own normal form for it; only operators and
constraints are taken apart. Alternatives that differ in nothing but the cheap part are one, with `or` in that part.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from tocsin.compile.normalise import MAX_CONJUNCTIONS
from tocsin.errors import TooLarge
from tocsin.language.render import render
from tocsin.language.syntax import ALWAYS, And, Comparison, Node, Not, OperatorCall, Or, Predicate


@dataclass(frozen=True, slots=True)
class Asked:
    """A call or a constraint, with its sign."""

    node: OperatorCall | Comparison
    negated: bool


@dataclass(frozen=True, slots=True)
class Alternative:
    """A conjunction: the cheap part and all that is asked of operators and variables."""

    cheap: Node
    asked: tuple[Asked, ...]


def alternative_texts(where: Node) -> list[str]:
    """Return the alternatives of a condition as texts."""
    texts = []
    for each in alternatives(where):
        asked = [Not(one.node) if one.negated else one.node for one in each.asked]
        parts = [*([] if each.cheap == ALWAYS else [each.cheap]), *asked]
        texts.append(render(parts[0] if len(parts) == 1 else And(tuple(parts))))
    return texts


def alternatives(where: Node) -> list[Alternative]:
    """Return the alternatives of a condition; raises TooLarge where they are too many."""
    if (needed := _count(where, negated=False)) > MAX_CONJUNCTIONS:
        raise TooLarge(
            f"as alternatives of plain conjunctions this has {needed} of them; the limit is {MAX_CONJUNCTIONS}. "
            "Make several subscriptions of it"
        )
    cheap: dict[tuple[Asked, ...], list[Node]] = {}
    for parts in _expanded(where, negated=False):
        asked = tuple(dict.fromkeys(part for part in parts if isinstance(part, Asked)))
        plain = tuple(part for part in parts if not isinstance(part, Asked))
        cheap.setdefault(asked, []).append(plain[0] if len(plain) == 1 else And(plain))
    return [
        Alternative(ALWAYS if ALWAYS in found else found[0] if len(found) == 1 else Or(tuple(found)), asked)
        for asked, found in cheap.items()
    ]


def is_cheap(node: Node) -> bool:
    """Return whether the node has neither calls nor constraints."""
    match node:
        case And(parts) | Or(parts):
            return all(map(is_cheap, parts))
        case Not(part):
            return is_cheap(part)
        case Predicate():
            return True
        case _:
            return False


_Part = Node | Asked


def _count(node: Node, *, negated: bool) -> int:
    match node:
        case _ if is_cheap(node):
            return 1
        case Not(part):
            return _count(part, negated=not negated)
        case And() | Or():
            combine = prod if isinstance(node, And) != negated else sum
            return combine(_count(part, negated=negated) for part in _grouped(node))
        case _:
            return 1


def _expanded(node: Node, *, negated: bool) -> list[tuple[_Part, ...]]:
    if is_cheap(node):
        return [(Not(node) if negated else node,)]
    match node:
        case Not(part):
            return _expanded(part, negated=not negated)
        case And() | Or():
            each = [_expanded(part, negated=negated) for part in _grouped(node)]
            if isinstance(node, And) != negated:
                return [tuple(part for chosen in choice for part in chosen) for choice in product(*each)]
            return [found for choices in each for found in choices]
        case OperatorCall() | Comparison():
            return [(Asked(node, negated),)]
        case _:
            raise AssertionError("a predicate is cheap")


def _grouped(node: And | Or) -> tuple[Node, ...]:
    """Return the parts, with those that are cheap joined into one."""
    cheap = tuple(part for part in node.parts if is_cheap(part))
    rest = tuple(part for part in node.parts if not is_cheap(part))
    return (*((type(node)(cheap),) if len(cheap) > 1 else cheap), *rest)
