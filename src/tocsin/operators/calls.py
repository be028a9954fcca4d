"""Calls: an operator with its arguments, and when two of them are one evaluation (Liu et al., section 3).

Two calls unify where they agree but for the names of their variables: p(?x, ?y) is p(?a, ?b), but not p(?x, ?x). A
Pattern is what unified calls have in common. From the values that an operator returned (runner.py), it picks the
solutions: rows in which repeated variables are equal, and outputs given as constants have that value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tocsin.language.syntax import Constant, OperatorCall, Variable
from tocsin.operators.operator import OPEN, Open, Operator, Row
from tocsin.schema import Value


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a variable; equal numbers, one variable."""

    number: int


Argument = Slot | tuple[str, Value]  # a constant is kept with its type: 1 is not true


@dataclass(frozen=True, slots=True)
class Pattern:
    """A call, whatever its variables are called."""

    operator: Operator
    arguments: tuple[Argument, ...]

    @property
    def inputs(self) -> tuple[Value | Open, ...]:
        """What the operator's function is given; calls with the same inputs share one call of it."""
        pairs = zip(self.operator.parameters, self.arguments, strict=True)
        return tuple(_value(argument) for entry, argument in pairs if entry.role != "output")

    @property
    def input_key(self) -> tuple[object, ...]:
        pairs = zip(self.operator.parameters, self.arguments, strict=True)
        return (
            self.operator.name,
            *(OPEN if isinstance(found, Slot) else found for entry, found in pairs if entry.role != "output"),
        )

    @property
    def found(self) -> list[Argument]:
        """The arguments that the function finds: open inputs given as variables, then the outputs."""
        pairs = list(zip(self.operator.parameters, self.arguments, strict=True))
        opened = [found for entry, found in pairs if entry.role == "open" and isinstance(found, Slot)]
        return opened + [found for entry, found in pairs if entry.role == "output"]

    @property
    def slots(self) -> int:
        """How many different variables it has."""
        return 1 + max((entry.number for entry in self.arguments if isinstance(entry, Slot)), default=-1)

    def solutions(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """Return the different solutions among the rows that the operator found, each a value per slot."""
        return tuple(dict.fromkeys(found for row in rows if (found := self._solution(row)) is not None))

    def _solution(self, row: Row) -> Row | None:
        values: dict[int, Value] = {}
        for argument, value in zip(self.found, row, strict=True):
            if isinstance(argument, Slot):
                if values.setdefault(argument.number, value) != value:
                    return None
            elif argument[1] != value:
                return None
        return tuple(values[slot] for slot in range(len(values)))

    def __str__(self) -> str:
        return f"{self.operator.name}({', '.join(map(_shown, self.arguments))})"


def unify(call: OperatorCall, operator: Operator) -> tuple[Pattern, tuple[str, ...]]:
    """Return the call's pattern, and the variables that stand in its slots."""
    slots: dict[str, Slot] = {}
    arguments: list[Argument] = []
    for argument in call.arguments:
        if isinstance(argument, Variable):
            arguments.append(slots.setdefault(argument.name, Slot(len(slots))))
        else:
            assert isinstance(argument, Constant), "bind folds other arguments"
            arguments.append((type(argument.value).__name__, argument.value))
    return Pattern(operator, tuple(arguments)), tuple(slots)


def _value(argument: Argument) -> Value | Open:
    return OPEN if isinstance(argument, Slot) else argument[1]


def _shown(argument: Argument) -> str:
    if isinstance(argument, Slot):
        return f"?{argument.number}"
    return repr(argument[1]) if isinstance(argument[1], str) else str(argument[1])
