"""Types of formulas: which domain a computed value has, and what may be compared with what.

numbers    int with int gives int, but `/` always gives float; with a float, float; a decimal with an int, decimal
case       the branches agree: all numbers (the widest type), all texts, or all of one kind
compare    numbers with numbers; texts with texts, in order only within one domain; otherwise like with like
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from tocsin.language.formula import (
    BOOLEAN,
    DECIMAL,
    FLOAT,
    INT,
    POINT,
    TEXT,
    TIME,
    is_numeric,
    is_text_like,
    numeric_type,
)
from tocsin.language.syntax import Literal
from tocsin.schema import Domain, EnumeratedDomain, HierarchicalDomain, TextDomain

_WIDTH = {"int": 0, "decimal": 1, "float": 2}
_UNORDERED_TEXT = TextDomain(name="text", operators=frozenset({"=", "!="}))
_SAID = {"text": "text", "boolean": "true or false", "time": "a time", "point": "a point"}


def domain_of_literal(value: Literal) -> Domain:
    """Return the domain of a constant by itself."""
    match value:
        case bool():
            return BOOLEAN
        case int():
            return INT
        case float():
            return FLOAT
        case Decimal():
            return DECIMAL
        case str():
            return TEXT
        case datetime():
            return TIME
        case _:
            return POINT


def plain_number(domain: Domain) -> Domain:
    """Return the domain of all numbers of the domain's type."""
    return {"int": INT, "float": FLOAT, "decimal": DECIMAL}[numeric_type(domain)]


def arithmetic_domain(op: str, left: Domain, right: Domain) -> Domain:
    """Return the domain of left op right."""
    wider = max(plain_number(left), plain_number(right), key=lambda domain: _WIDTH[numeric_type(domain)])
    return FLOAT if op == "/" and wider == INT else wider


def common_domain(one: Domain, other: Domain) -> Domain | None:
    """Return the domain of a value that comes from one of the two; None where they are not alike."""
    if one == other:
        return one
    if is_numeric(one) and is_numeric(other):
        return max(plain_number(one), plain_number(other), key=lambda domain: _WIDTH[numeric_type(domain)])
    if is_text_like(one) and is_text_like(other):
        return TEXT
    return one if one.kind == other.kind else None


def comparing_domain(one: Domain, other: Domain) -> Domain | None:
    """Return the domain by whose keys values of the two are compared; None where they cannot be."""
    if is_numeric(one) and is_numeric(other):
        return FLOAT
    if is_text_like(one) and is_text_like(other):
        if one == other:
            return one
        if isinstance(one, TextDomain) and isinstance(other, TextDomain):
            return one if one.case == "folded" else other
        return _UNORDERED_TEXT
    return one if one.kind == other.kind else None


def is_ordered(domain: Domain) -> bool:
    """Return whether values of the domain can be compared by more than equality."""
    if isinstance(domain, EnumeratedDomain):
        return domain.order != "none"
    return isinstance(domain, HierarchicalDomain) or (
        domain.kind in ("numeric", "text", "time") and "<" in domain.offered
    )


def fits(found: Domain, wanted: Domain) -> bool:
    """Return whether a formula's value is of the kind that an attribute has."""
    if is_numeric(wanted):
        return is_numeric(found)
    return is_text_like(found) if is_text_like(wanted) else found.kind == wanted.kind


def kind_of(domain: Domain) -> str:
    """Return the domain's kind, all texts being of one."""
    return "text" if is_text_like(domain) else domain.kind


def said(domain: Domain) -> str:
    """Return how messages call a value of the domain."""
    if is_numeric(domain):
        return {"int": "a whole number", "float": "a number", "decimal": "a decimal number"}[numeric_type(domain)]
    return _SAID[kind_of(domain)]
