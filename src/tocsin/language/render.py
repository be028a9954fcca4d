"""Rendering: from a syntax tree to the text form, such that parsing gives the tree back.

Parentheses stand where the grammar needs them, and where they show a nesting that the tree has: And((And((a, b)), c))
is `(a and b) and c`, while And((a, b, c)) is `a and b and c`.
"""

from __future__ import annotations

from tocsin.language import syntax
from tocsin.language.bounds import check_size
from tocsin.language.literals import render_constant, render_literal, render_number, render_string
from tocsin.language.syntax import ALWAYS, Expression, Node, Op, Predicate, Subscription, WordPattern
from tocsin.language.tokens import is_bare_name
from tocsin.schema import NOW
from tocsin.schema.readings import ANY_ATTRIBUTE, reading_of

_LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
_COMPARISONS = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE})
_LISTS = frozenset({Op.IN, Op.CONTAINS_ANY, Op.CONTAINS_ALL})
_PRESENCE = frozenset({Op.PRESENT, Op.ABSENT})
_CONDITIONS = (
    syntax.Predicate,
    syntax.And,
    syntax.Or,
    syntax.Not,
    syntax.OperatorCall,
    syntax.Comparison,
    syntax.ScopeCondition,
)


def render(tree: Subscription | Node | Expression) -> str:
    """Return the text of a subscription, condition or expression; parsing it gives an equal tree."""
    check_size(tree)
    if isinstance(tree, Subscription):
        return _subscription(tree)
    return _condition(tree) if isinstance(tree, _CONDITIONS) else _expression(tree)


def render_name(name: str) -> str:
    """Return the name, in double quotes where it needs them."""
    if is_bare_name(name):
        return name
    if name == ANY_ATTRIBUTE:
        return name
    if (reading := reading_of(name)) is not None:
        return f"{render_name(reading[0])} as {reading[1]}"
    return '"' + name.replace('"', '""') + '"'


def _subscription(tree: Subscription) -> str:
    types = ", ".join(map(_event_type, tree.event_types))
    condition = "" if tree.where == ALWAYS and types else _condition(tree.where)
    where = " where ".join(filter(None, (types, condition)))
    properties = ", ".join(f"{render_name(name)} = {render_literal(value)}" for name, value in tree.properties)
    return " with ".join(filter(None, (where, properties)))


def _event_type(name: str) -> str:
    parts = name.split("-")
    hyphenated = all(is_bare_name(part) and "." not in part for part in parts)
    return name if hyphenated else render_name(name)


# --- conditions -------------------------------------------------------------------------------------------------------


def _condition(node: Node) -> str:
    match node:
        case syntax.And(parts):
            return " and ".join(_within(part, syntax.And, syntax.Or) for part in parts) or "true"
        case syntax.Or(parts):
            return " or ".join(_within(part, syntax.Or) for part in parts) or "false"
        case syntax.Not(part):
            return _negated(part)
        case syntax.Predicate():
            return _predicate(node)
        case syntax.OperatorCall(name, arguments):
            return _call(name, arguments)
        case syntax.Comparison(left, op, right):
            return f"{_side(left, right)} {op.value} {_side(right, left, is_right=True)}"
        case syntax.ScopeCondition(quantifier, array, part):
            return f"{quantifier.value} {render_name(array)} ({_condition(part)})"


def _within(part: Node, *in_parentheses: type) -> str:
    """Return the part of a connective, in parentheses if it is a connective of one of these kinds."""
    text = _condition(part)
    empty = isinstance(part, syntax.And | syntax.Or) and not part.parts
    return f"({text})" if isinstance(part, in_parentheses) and not empty else text


def _negated(part: Node) -> str:
    if isinstance(part, Predicate) and part.op not in _COMPARISONS | _PRESENCE:
        return _predicate(part, "not ")
    if isinstance(part, syntax.OperatorCall) or part in (syntax.ALWAYS, syntax.NEVER):
        return f"not {_condition(part)}"
    return f"not ({_condition(part)})"


def _predicate(predicate: Predicate, negation: str = "") -> str:
    head = f"{render_name(predicate.attribute)} {negation}{predicate.op.value}"
    if predicate.op in _PRESENCE:
        return head
    return f"{head} {_operand(predicate)}"


def _operand(predicate: Predicate) -> str:
    match predicate.operand:
        case syntax.Words() | syntax.WordAnd() | syntax.WordOr() | syntax.WordNot() as pattern:
            return f"({_pattern(pattern)})"
        case syntax.TextPatterns(texts, every, ignoring_case):
            listed = f"{'all' if every else 'any'} ({', '.join(map(render_string, texts))})"
            single = render_string(texts[0]) if len(texts) == 1 and not every and ignoring_case else listed
            return f"{single} ignoring case" if ignoring_case else single
        case syntax.Within(amount, unit, center):
            return f"{render_number(amount)} {unit} of {render_literal(center)}"
        case syntax.Box(south, west, north, east):
            return "(" + ", ".join(map(render_number, (south, west, north, east))) + ")"
        case syntax.Polygon(corners):
            return "(" + ", ".join(map(render_literal, corners)) + ")"
        case (low, high) if predicate.op is Op.BETWEEN:
            return f"{render_literal(low)} and {render_literal(high)}"
        case tuple() as members if predicate.op in _LISTS:
            return "(" + ", ".join(map(render_literal, members)) + ")"
        case literal:
            return render_literal(literal)  # type: ignore[arg-type]


def _pattern(pattern: WordPattern) -> str:
    match pattern:
        case syntax.Words(words, gaps):
            nears = [f" near[{least}..{most}] " for least, most in gaps]
            return "".join(render_string(word) + near for word, near in zip(words, [*nears, ""], strict=True))
        case syntax.WordAnd(parts):
            return " and ".join(_pattern_within(part, syntax.WordAnd, syntax.WordOr) for part in parts)
        case syntax.WordOr(parts):
            return " or ".join(_pattern_within(part, syntax.WordOr) for part in parts)
        case syntax.WordNot(part):
            return f"not {_pattern_within(part, syntax.WordAnd, syntax.WordOr)}"


def _pattern_within(part: WordPattern, *in_parentheses: type) -> str:
    text = _pattern(part)
    return f"({text})" if isinstance(part, in_parentheses) else text


# --- expressions ------------------------------------------------------------------------------------------------------


def _side(side: Expression, other: Expression, *, is_right: bool = False) -> str:
    """Return one side of a constraint.

    An attribute beside a constant would read as a predicate, and beside a quoted name as a mistake; a plus before it
    keeps it a value.
    """
    text = _expression(side)
    if isinstance(side, syntax.AttributeValue) and (_is_constant(other) or (not is_right and _is_odd_name(other))):
        return f"+{text}"
    return text


def _is_constant(expression: Expression) -> bool:
    match expression:
        case syntax.Constant():
            return True
        case syntax.Negative(part):
            return _is_constant(part)
        case syntax.Arithmetic(_, left, right):
            return _is_constant(left) and _is_constant(right)
        case _:
            return False


def _is_odd_name(expression: Expression) -> bool:
    """Return whether the parser would take this name, right of another, for a mistake."""
    if not isinstance(expression, syntax.AttributeValue):
        return False
    if reading_of(expression.name) is not None:
        return False
    return not is_bare_name(expression.name) or expression.name.lower() in ("null", "none")


def _expression(tree: Expression) -> str:
    match tree:
        case syntax.Constant(value):
            return render_constant(value)
        case syntax.AttributeValue(name):
            return name if name == NOW else render_name(name)
        case syntax.Variable(name):
            return f"?{render_name(name)}"
        case syntax.Negative(part):
            plain = isinstance(part, syntax.Variable | syntax.AttributeValue | syntax.Call)
            return f"-{_expression(part)}" if plain else f"-({_expression(part)})"
        case syntax.Arithmetic():
            return _arithmetic(tree)
        case syntax.Call(name, arguments):
            return _call(name, arguments)
        case syntax.Case(branches, otherwise):
            whens = "".join(f" when {_condition(when)} then {_expression(then)}" for when, then in branches)
            final = f" else {_expression(otherwise)}" if otherwise is not None else ""
            return f"case{whens}{final} end"


def _arithmetic(tree: syntax.Arithmetic) -> str:
    level = _LEVELS[tree.op]
    left, right = _expression(tree.left), _expression(tree.right)
    if isinstance(tree.left, syntax.Arithmetic) and _LEVELS[tree.left.op] < level:
        left = f"({left})"
    if isinstance(tree.right, syntax.Arithmetic) and _LEVELS[tree.right.op] <= level:
        right = f"({right})"
    return f"{left} {tree.op} {right}"


def _call(name: str, arguments: tuple[Expression, ...]) -> str:
    return f"{render_name(name)}({', '.join(map(_expression, arguments))})"
