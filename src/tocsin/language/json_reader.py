"""Reading the JSON tree (documents.py shows it): strict, bounded, with the path of what is wrong in each error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NoReturn, TypeVar

from tocsin.errors import BadValue, LanguageError, ParseError, did_you_mean, nearest, shown
from tocsin.language import syntax
from tocsin.language.bounds import (
    MAX_DEPTH,
    MAX_GAP,
    MAX_LIST,
    MAX_NAME,
    MAX_NODES,
    at_least,
    check_corners,
    check_name,
    check_size,
    check_string,
    too_deep,
    too_many,
)
from tocsin.language.literals import check_coordinate, check_literal, constant, read_decimal, read_interval
from tocsin.language.syntax import (
    ALWAYS,
    NEVER,
    PATTERN_OPERATORS,
    Box,
    Expression,
    Literal,
    Node,
    Op,
    Operand,
    Polygon,
    Predicate,
    Subscription,
    TextPatterns,
    Within,
    WordPattern,
)
from tocsin.language.tokens import UNITS
from tocsin.schema import Number, TimeDomain

Raw = TypeVar("Raw")
Read = TypeVar("Read")

_TIME = TimeDomain(name="time")
OPERATORS: dict[str, Op] = {**{op.value: op for op in Op}, "==": Op.EQ, "<>": Op.NE}
_COMPARISONS = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE})
_PRESENCE = frozenset({Op.PRESENT, Op.ABSENT})
_LISTS = frozenset({Op.IN, Op.CONTAINS_ANY, Op.CONTAINS_ALL})
_ARITHMETIC = frozenset("+-*/%")


def from_json(tree: object) -> Subscription:
    """Return the subscription that a JSON tree is; raises ParseError or TooLarge, naming the path."""
    reader = JsonReader()
    found = reader.record(tree, "", optional=("event_types", "where", "with"), what="a subscription")
    subscription = Subscription(
        reader.event_types(found.get("event_types", [])),
        reader.node(found.get("where", True), "where"),
        reader.properties(found.get("with", {})),
    )
    check_size(subscription)
    return subscription


def node_from_json(tree: object) -> Node:
    """Return the condition that a JSON tree is."""
    node = JsonReader().node(tree, "")
    check_size(node)
    return node


def expression_from_json(tree: object) -> Expression:
    """Return the value expression that a JSON tree is."""
    expression = JsonReader().expression(tree, "")
    check_size(expression)
    return expression


def literal_from_json(tree: object) -> Literal:
    """Return the value that a JSON tree is."""
    return JsonReader().literal(tree, "")


def wrong(path: str, message: str) -> NoReturn:
    raise ParseError(f"{path}: {message}" if path else message)


class JsonReader:
    """Reads one JSON tree."""

    def __init__(self) -> None:
        self._nodes = 0

    def _enter(self, depth: int) -> None:
        """Count a node at this depth."""
        self._nodes += 1
        if depth > MAX_DEPTH:
            raise too_deep()
        if self._nodes > MAX_NODES:
            raise too_many()

    # --- shapes -------------------------------------------------------------------------------------------------------

    def record(
        self, tree: Any, path: str, *, required: tuple[str, ...] = (), optional: tuple[str, ...] = (), what: str
    ) -> Mapping[str, Any]:
        """Return the object, which has these keys and no others."""
        known = (*required, *optional)
        if not isinstance(tree, Mapping):
            wrong(path, f"{what} is an object with {_keys(known)}, not {_shown(tree)}")
        for key in tree:
            if key not in known:
                hint = _meant(key, known) or f"; it has {_keys(known)}"
                wrong(path, f"{what} has no {shown(key)}{hint}")
        for key in required:
            if key not in tree:
                wrong(path, f"{what} needs {_keys((key,))}")
        return tree

    def array(self, tree: Any, path: str, what: str) -> list[Any]:
        if not isinstance(tree, list | tuple):
            wrong(path, f"{what} is an array, not {_shown(tree)}")
        if len(tree) > MAX_LIST:
            wrong(path, f"{what} may have {MAX_LIST:,} entries, not {len(tree):,}")
        return list(tree)

    def name(self, tree: Any, path: str, what: str) -> str:
        if not isinstance(tree, str):
            wrong(path, f"{what} is a text, not {_shown(tree)}")
        return self._placed(path, check_name, tree)

    def _placed(self, path: str, read: Callable[[Raw], Read], raw: Raw) -> Read:
        """Return read(raw), its error with the path."""
        try:
            return read(raw)
        except LanguageError as error:
            raise type(error)(f"{path}: {error.message}" if path else error.message) from None

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def event_types(self, tree: Any) -> tuple[str, ...]:
        names = self.array(tree, "event_types", "event_types")
        return tuple(self.name(name, f"event_types[{at}]", "an event type") for at, name in enumerate(names))

    def properties(self, tree: Any) -> tuple[tuple[str, Literal], ...]:
        if not isinstance(tree, Mapping):
            wrong("with", f'properties are an object such as {{"age": 42}}, not {_shown(tree)}')
        return tuple(
            (self.name(name, "with", "a property"), self.literal(value, f"with.{name}")) for name, value in tree.items()
        )

    # --- conditions ---------------------------------------------------------------------------------------------------

    def node(self, tree: Any, path: str, depth: int = 1) -> Node:
        """Return the condition at a path."""
        self._enter(depth)
        if isinstance(tree, bool):
            return ALWAYS if tree else NEVER
        if isinstance(tree, list | tuple):
            return self.predicate(tree, path)
        if not isinstance(tree, Mapping) or not tree:
            wrong(
                path,
                f'a condition is an array such as ["price", "<", 100] or an object such as {{"and": […]}}, not {_shown(tree)}',
            )
        if "and" in tree or "or" in tree:
            return self._connective(tree, path, depth)
        if "not" in tree:
            found = self.record(tree, path, required=("not",), what="a negation")
            return syntax.Not(self.node(found["not"], _under(path, "not"), depth + 1))
        if "at_least" in tree:
            return self._at_least(tree, path, depth)
        if "compare" in tree:
            return self._constraint(tree, path, depth)
        if "operator" in tree:
            found = self.record(tree, path, required=("operator",), optional=("arguments",), what="an operator")
            name = self.name(found["operator"], _under(path, "operator"), "an operator's name")
            return syntax.OperatorCall(name, self._arguments(found, path, depth))
        if any(quantifier in tree for quantifier in syntax.Quantifier):
            return self._scope(tree, path, depth)
        key = str(next(iter(tree)))
        known = ("and", "or", "not", "operator", "compare", *syntax.Quantifier)
        hint = _meant(key, known) or f"; there are: {', '.join(known)}"
        wrong(path, f"{shown(key)} is not a condition{hint}")

    def _scope(self, tree: Any, path: str, depth: int) -> Node:
        quantifier = next(each for each in syntax.Quantifier if each in tree)
        found = self.record(tree, path, required=(quantifier.value, "where"), what="a scope")
        array = self.name(found[quantifier], _under(path, quantifier.value), "an array's name")
        return syntax.ScopeCondition(quantifier, array, self.node(found["where"], _under(path, "where"), depth + 1))

    def _connective(self, tree: Any, path: str, depth: int) -> Node:
        key = "and" if "and" in tree else "or"
        found = self.record(tree, path, required=(key,), what=f"an {key}")
        path = _under(path, key)
        parts = [
            self.node(part, f"{path}[{at}]", depth + 1) for at, part in enumerate(self.array(found[key], path, key))
        ]
        if len(parts) == 1:
            return parts[0]
        return syntax.And(tuple(parts)) if key == "and" else syntax.Or(tuple(parts))

    def _at_least(self, tree: Any, path: str, depth: int) -> Node:
        found = self.record(tree, path, required=("at_least", "of"), what="at least so many")
        count, within = found["at_least"], _under(path, "of")
        if not isinstance(count, int) or isinstance(count, bool):
            wrong(_under(path, "at_least"), f"expected a whole number, not {_shown(count)}")
        parts = tuple(
            self.node(part, f"{within}[{at}]", depth + 2)
            for at, part in enumerate(self.array(found["of"], within, "of"))
        )
        node = self._placed(path, partial(at_least, count), parts)
        self._nodes += len(node.parts) if isinstance(node, syntax.Or) else 0
        return node

    def _constraint(self, tree: Any, path: str, depth: int) -> Node:
        found = self.record(tree, path, required=("compare",), what="a comparison")
        path = _under(path, "compare")
        sides = self.array(found["compare"], path, "a comparison")
        if len(sides) != 3 or OPERATORS.get(_text(sides[1])) not in _COMPARISONS:
            wrong(path, 'a comparison is an array such as [{"variable": "y"}, ">", 2]')
        left = self.expression(sides[0], f"{path}[0]", depth + 1)
        right = self.expression(sides[2], f"{path}[2]", depth + 1)
        return syntax.Comparison(left, OPERATORS[sides[1]], right)

    def predicate(self, tree: Any, path: str) -> Predicate:
        """Return the predicate that an array [attribute, operator, operand] is."""
        if len(tree) not in (2, 3):
            wrong(path, 'a predicate is an array such as ["price", "<", 100] or ["price", "is present"]')
        attribute = self.name(tree[0], f"{path}[0]", "an attribute's name")
        op = OPERATORS.get(_text(tree[1]))
        if op is None:
            hint = _meant(_text(tree[1]), OPERATORS)
            wrong(f"{path}[1]", f"there is no operator {_shown(tree[1])}{hint or '; there are: ' + ', '.join(Op)}")
        if (len(tree) == 2) != (op in _PRESENCE):
            wrong(path, f"`{op.value}` takes {'no' if op in _PRESENCE else 'an'} operand")
        return Predicate(attribute, op, None if len(tree) == 2 else self._operand(op, tree[2], f"{path}[2]"))

    def _operand(self, op: Op, tree: Any, path: str) -> Operand:
        if op in _LISTS:
            members = self.array(tree, path, f"the operand of `{op.value}`")
            if not members:
                wrong(path, f"the list of `{op.value}` is empty; no value would be in it")
            return tuple(self.literal(member, f"{path}[{at}]") for at, member in enumerate(members))
        if op is Op.BETWEEN:
            pair = self.array(tree, path, "the operand of `between`")
            if len(pair) != 2:
                wrong(path, "`between` takes two values: [1, 5]")
            return self.literal(pair[0], f"{path}[0]"), self.literal(pair[1], f"{path}[1]")
        if op is Op.WITHIN:
            return self._within(tree, path)
        if op is Op.IN_BOX:
            corners = self.array(tree, path, "the operand of `in box`")
            if len(corners) != 4:
                wrong(path, "a box has four corners: [south, west, north, east]")
            return Box(*(self._placed(path, check_coordinate, corner) for corner in corners))
        if op is Op.IN_POLYGON:
            listed = self.array(tree, path, "the operand of `in polygon`")
            points = tuple(self._tagged({"point": corner}, f"{path}[{at}]") for at, corner in enumerate(listed))
            return Polygon(self._placed(path, check_corners, points))  # type: ignore[arg-type]
        if op is Op.CONTAINS and isinstance(tree, Mapping) and "words" in tree:
            found = self.record(tree, path, required=("words",), what="a word pattern")
            return self.pattern(found["words"], _under(path, "words"))
        if op in PATTERN_OPERATORS and isinstance(tree, Mapping):
            return self._patterns(tree, path)
        return self.literal(tree, path)

    def _patterns(self, tree: Any, path: str) -> TextPatterns:
        every = "all" in tree
        key = "all" if every else "any"
        found = self.record(tree, path, required=(key,), optional=("ignoring_case",), what="a list of patterns")
        texts = [
            self.literal(text, f"{_under(path, key)}[{at}]")
            for at, text in enumerate(self.array(found[key], _under(path, key), "a list of patterns"))
        ]
        folded = found.get("ignoring_case", False)
        if not texts or not all(isinstance(text, str) for text in texts):
            wrong(_under(path, key), "a list of patterns has texts, and at least one")
        if not isinstance(folded, bool):
            wrong(_under(path, "ignoring_case"), f"expected true or false, not {_shown(folded)}")
        return TextPatterns(tuple(texts), every, folded)  # type: ignore[arg-type]

    def _within(self, tree: Any, path: str) -> Within:
        found = self.record(tree, path, required=("amount", "unit", "of"), what="the operand of `within`")
        amount = self.literal(found["amount"], _under(path, "amount"))
        if isinstance(amount, bool) or not isinstance(amount, Number):
            wrong(_under(path, "amount"), f"the amount is a number, not {_shown(amount)}")
        unit = UNITS.get(_text(found["unit"]))
        if unit is None:
            wrong(
                _under(path, "unit"),
                f"there is no unit {_shown(found['unit'])}; there are: {', '.join(dict.fromkeys(UNITS.values()))}",
            )
        return Within(amount, unit, self.literal(found["of"], _under(path, "of")))

    # --- values -------------------------------------------------------------------------------------------------------

    def literal(self, tree: Any, path: str) -> Literal:
        """Return the value at a path."""
        if isinstance(tree, Mapping):
            return self._tagged(tree, path)
        if isinstance(tree, list | tuple):
            wrong(path, 'expected one value, not an array; a point is {"point": [40.85, -73.88]}')
        if tree is None:
            wrong(path, 'there is no null; to ask whether there is a value, use ["price", "is present"]')
        return self._placed(path, check_literal, tree)

    def _tagged(self, tree: Any, path: str) -> Literal:
        kind, inner = next(iter(tree.items())) if len(tree) == 1 else (None, None)
        match kind:
            case "decimal" if isinstance(inner, str):
                return self._placed(path, read_decimal, inner)
            case "time" if isinstance(inner, str):
                try:
                    return _TIME.admit(inner)
                except BadValue as error:
                    wrong(path, str(error))
            case "point" if isinstance(inner, list | tuple) and len(inner) == 2:
                return self._placed(path, check_coordinate, inner[0]), self._placed(path, check_coordinate, inner[1])
            case _:
                wrong(
                    path,
                    'a value as an object is {"decimal": "0.1"}, {"time": "2026-11-15T10:00:00Z"} or {"point": [40.85, -73.88]}',
                )

    def expression(self, tree: Any, path: str, depth: int = 1) -> Expression:
        """Return the value expression at a path."""
        self._enter(depth)
        if isinstance(tree, Mapping) and tree.keys() == {"duration"} and isinstance(tree["duration"], str):
            duration = self._placed(path, read_interval, f"interval '{tree['duration']}'")
            return syntax.Constant(self._placed(path, constant, duration))
        if not isinstance(tree, Mapping) or tree.keys() & {"decimal", "time", "point"}:
            return syntax.Constant(self.literal(tree, path))
        if "case" in tree:
            return self._case(tree, path, depth)
        if "call" in tree:
            found = self.record(tree, path, required=("call",), optional=("arguments",), what="a call")
            name = self.name(found["call"], _under(path, "call"), "a function's name")
            return syntax.Call(name, self._arguments(found, path, depth))
        key, inner = next(iter(tree.items())) if len(tree) == 1 else ("", None)
        within = _under(path, str(key))
        if key == "attribute":
            return syntax.AttributeValue(self.name(inner, within, "an attribute's name"))
        if key == "variable":
            return syntax.Variable(self.name(inner, within, "a variable's name"))
        if key == "negative":
            return syntax.Negative(self.expression(inner, within, depth + 1))
        if key in _ARITHMETIC:
            sides = self.array(inner, within, "the operand")
            if len(sides) != 2:
                wrong(within, f"{key} takes two operands")
            left, right = (self.expression(side, f"{within}[{at}]", depth + 1) for at, side in enumerate(sides))
            return syntax.Arithmetic(key, left, right)
        wrong(
            path,
            "an expression is a value, or an object with attribute, variable, +, -, *, /, %, negative, case or call",
        )

    def _arguments(self, found: Mapping[str, Any], path: str, depth: int) -> tuple[Expression, ...]:
        path = _under(path, "arguments")
        arguments = self.array(found.get("arguments", []), path, "arguments")
        return tuple(self.expression(argument, f"{path}[{at}]", depth + 1) for at, argument in enumerate(arguments))

    def _case(self, tree: Any, path: str, depth: int) -> Expression:
        found = self.record(tree, path, required=("case",), optional=("else",), what="a case")
        otherwise = self.expression(found["else"], _under(path, "else"), depth + 1) if "else" in found else None
        path = _under(path, "case")
        branches = []
        for at, branch in enumerate(self.array(found["case"], path, "a case")):
            place = f"{path}[{at}]"
            inner = self.record(branch, place, required=("when", "then"), what="a branch")
            when = self.node(inner["when"], f"{place}.when", depth + 1)
            branches.append((when, self.expression(inner["then"], f"{place}.then", depth + 1)))
        if not branches:
            wrong(path, "a case needs at least one branch")
        return syntax.Case(tuple(branches), otherwise)

    # --- word patterns ------------------------------------------------------------------------------------------------

    def pattern(self, tree: Any, path: str, depth: int = 2) -> WordPattern:
        """Return the word pattern at a path."""
        self._enter(depth)
        if isinstance(tree, str):
            return syntax.Words((self._placed(path, check_string, tree),))
        kind, inner = next(iter(tree.items())) if isinstance(tree, Mapping) and len(tree) == 1 else (None, None)
        within = _under(path, str(kind))
        match kind:
            case "near":
                return self._near(self.array(inner, within, "a proximity"), within)
            case "not":
                return syntax.WordNot(self.pattern(inner, within, depth + 1))
            case "and" | "or":
                listed = self.array(inner, within, kind)
                parts = tuple(self.pattern(part, f"{within}[{at}]", depth + 1) for at, part in enumerate(listed))
                if not parts:
                    wrong(within, "a word pattern needs at least one word")
                if len(parts) == 1:
                    return parts[0]
                return syntax.WordAnd(parts) if kind == "and" else syntax.WordOr(parts)
            case _:
                wrong(path, "a word pattern is a word, or an object with near, and, or, not")

    def _near(self, chain: list[Any], path: str) -> WordPattern:
        words, gaps = chain[::2], chain[1::2]
        if len(chain) < 3 or len(chain) % 2 == 0 or not all(isinstance(word, str) for word in words):
            wrong(path, 'a proximity is an array such as ["boolean", [1, 5], "proximity"]')
        for gap in gaps:
            if not isinstance(gap, list | tuple) or len(gap) != 2 or not all(type(end) is int for end in gap):
                wrong(path, f"between two words stand the least and the most words between, [1, 5], not {_shown(gap)}")
            if not 0 <= gap[0] <= gap[1] <= MAX_GAP:
                wrong(path, f"the least comes first, and the most is {MAX_GAP:,}; found {_shown(gap)}")
        checked = tuple(self._placed(path, check_string, word) for word in words)
        return syntax.Words(checked, tuple((gap[0], gap[1]) for gap in gaps))


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _keys(keys: tuple[str, ...]) -> str:
    return ", ".join(f'"{key}"' for key in keys)


def _text(tree: Any) -> str:
    return tree if isinstance(tree, str) else ""


def _meant(name: object, known: Iterable[str]) -> str:
    """Return '; did you mean …?' or nothing; the name is cut, since comparing a long one takes long."""
    return did_you_mean(nearest(str(name)[:MAX_NAME], known))


def _shown(tree: Any) -> str:
    """Return a JSON value as a message shows it: containers by their kind, since they may be large."""
    if isinstance(tree, Mapping):
        return "an object"
    if isinstance(tree, list | tuple):
        return "an array"
    return "null" if tree is None else shown(tree)
