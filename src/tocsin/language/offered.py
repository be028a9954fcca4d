"""Which operators an attribute has: those that its domain offers, and those that follow from them.

`in` follows from `=`, `between` from `>=` and `<=`, the three `contains` on attributes with several values from `=`;
`ends with`, `contains text` and `matches` from `like`; `is present` and `is absent` are always there. Used by bind.py; operands are checked in operands.py.
"""

from __future__ import annotations

from tocsin.errors import BindError
from tocsin.language.literals import render_literal
from tocsin.language.syntax import Op, Predicate
from tocsin.schema import ViewAttribute

CONTAINING = frozenset({Op.CONTAINS, Op.CONTAINS_ANY, Op.CONTAINS_ALL})
_PATTERNS = frozenset({Op.ENDS_WITH, Op.CONTAINS_TEXT, Op.MATCHES})
_ALWAYS = frozenset({Op.PRESENT, Op.ABSENT})
KINDS = {"time": "a time", "point": "a point"}  # how an attribute's kind is said where an adjective would not do


def operators_of(attribute: ViewAttribute) -> tuple[Op, ...]:
    """Return the operators that predicates on the attribute may use, in the order of Op."""
    return tuple(op for op in Op if _has(attribute, op))


def _has(attribute: ViewAttribute, op: Op) -> bool:
    offered = attribute.domain.offered
    if op in _ALWAYS:
        return True
    if op in CONTAINING:
        members = attribute.multiple and not offered.isdisjoint({"=", "contains"})
        return "contains" in offered if attribute.domain.kind == "text" else members
    if op is Op.IN:
        return "=" in offered or (attribute.multiple and "contains" in offered)
    if op in _PATTERNS:
        return "like" in offered
    if op is Op.BETWEEN:
        return {">=", "<="} <= offered
    return op.value in offered


def check_offered(predicate: Predicate, attribute: ViewAttribute) -> None:
    """Raise BindError if the attribute does not have the predicate's operator."""
    if not _has(attribute, predicate.op):
        raise BindError(_refusal(predicate, attribute), span=predicate.span)


def _refusal(predicate: Predicate, attribute: ViewAttribute) -> str:
    name, op, domain = attribute.name, predicate.op, attribute.domain
    kind = KINDS.get(domain.kind, domain.kind)
    if op in CONTAINING and domain.kind != "text" and not attribute.multiple:
        instead = f"{name} in (…)"
        if op is Op.CONTAINS and isinstance(predicate.operand, str | int | float):
            instead = f"{name} = {render_literal(predicate.operand)}"
        return f"{name} is {kind} and has one value in an event, so it contains nothing. Write: {instead}"
    listed = ", ".join(other.value for other in operators_of(attribute))
    narrowed = f" in the domain {domain.name!r}" if op.value in domain.possible else ""
    return f"{name} is {kind} and has no operator `{op.value}`{narrowed}; it has: {listed}"
