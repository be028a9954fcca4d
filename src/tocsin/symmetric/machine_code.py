"""Code for the machine: formulas over numbers become instructions (machine.py runs them).

Programs are coded in the place of their calls. What needs more than numbers has no code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tocsin.language.formula import (
    Choice,
    Compared,
    Computed,
    Every,
    Given,
    Invoked,
    Negated,
    Opposite,
    Reference,
    Satisfies,
    Some,
    Term,
    Test,
    ValueFormula,
    is_numeric,
    numeric_type,
)
from tocsin.language.formula_columns import EXACT
from tocsin.language.formula_compare import float_bound, integer_bound, is_told_apart_by_value
from tocsin.language.syntax import Op
from tocsin.schema import Domain, NumericDomain
from tocsin.symmetric import machine_kernel as k
from tocsin.symmetric.machine import Machine

_OPS_I = {"+": k.ADD_I, "-": k.SUB_I, "*": k.MUL_I, "%": k.MOD_I}
_OPS_F = {"+": k.ADD_F, "-": k.SUB_F, "*": k.MUL_F, "/": k.DIV_F, "%": k.MOD_F}
_COMPARE_I = {Op.EQ: k.EQ_I, Op.NE: k.NE_I, Op.LT: k.LT_I, Op.LE: k.LE_I}
_COMPARE_F = {Op.EQ: k.EQ_F, Op.NE: k.NE_F, Op.LT: k.LT_F, Op.LE: k.LE_F}
_OPPOSITE = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}


class NoCode(Exception):
    """The formula needs what the machine does not have."""


def machine_for(formula: ValueFormula, wanted: Domain, properties: Mapping[str, Domain]) -> Machine | None:
    """Return the machine that computes the formula as a value of the wanted domain; None where it has no code."""
    try:
        return _Coding(properties).machine(formula.root, wanted)
    except NoCode:
        return None


@dataclass(slots=True)
class _Value:
    """A register, and whether its number is whole."""

    register: int
    whole: bool


@dataclass(slots=True)
class _Coding:
    """The work of making the code of one formula."""

    properties: Mapping[str, Domain]
    code: list[tuple[int, int, int, int]] = field(default_factory=list)
    registers: int = 0
    constants: dict[int, int | float] = field(default_factory=dict)
    inputs: dict[str, _Value] = field(default_factory=dict)
    coded: dict[str, int] = field(default_factory=dict)
    codes: list[tuple[int, Satisfies]] = field(default_factory=list)
    numbers: list[tuple[int, str, bool]] = field(default_factory=list)
    answers: list[tuple[int, Satisfies, bool]] = field(default_factory=list)
    arguments: list[Mapping[str, _Value]] = field(default_factory=list)  # of the programs that are being inlined

    def machine(self, root: Term, wanted: Domain) -> Machine:
        found = self.admitted(self.term(root), wanted)
        assert isinstance(wanted, NumericDomain)
        ints, floats = np.zeros(self.registers, np.int64), np.zeros(self.registers, np.float64)
        for register, value in self.constants.items():
            (floats if isinstance(value, float) else ints)[register] = value
        inputs = list(self.inputs.items())
        return Machine(
            np.array(self.code, np.int64).reshape(-1, 4), ints, floats, found.register, wanted,
            [(value.register, name) for name, value in inputs if name in self.properties and value.whole],
            [(value.register, name) for name, value in inputs if name in self.properties and not value.whole],
            [(register, name) for name, register in self.coded.items()],
            self.codes, self.numbers, self.answers,
        )  # fmt: skip

    def new(self) -> int:
        self.registers += 1
        return self.registers - 1

    def emit(self, op: int, to: int = 0, a: int = 0, b: int = 0) -> int:
        self.code.append((op, to, a, b))
        return len(self.code) - 1

    def land(self, jumps: list[int]) -> None:
        """Let these jumps go to what comes next."""
        for at in jumps:
            op, to, a, _ = self.code[at]
            self.code[at] = (op, to, a, len(self.code))

    # --- values -------------------------------------------------------------------------------------------------------

    def term(self, term: Term) -> _Value:
        match term:
            case Given(value, domain):
                return self.constant(value, domain)
            case Reference(name, domain):
                return self.reference(name, domain)
            case Negated(part, domain):
                return self.computed("-", self.constant(0, part.domain), self.term(part), domain)
            case Computed(op, left, right, domain):
                return self.computed(op, self.term(left), self.term(right), domain)
            case Choice():
                return self.choice(term)
            case Invoked():
                return self.invoked(term)

    def constant(self, value: Any, domain: Domain) -> _Value:
        if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > EXACT:
            raise NoCode
        whole = _is_whole(domain)
        register = self.new()
        self.constants[register] = int(value) if whole else float(value)
        return _Value(register, whole)

    def reference(self, name: str, domain: Domain) -> _Value:
        if self.arguments:
            return self.arguments[-1][name]
        whole = _is_whole(domain)
        if name not in self.inputs:
            self.inputs[name] = _Value(self.new(), whole)
            if name not in self.properties:
                self.numbers.append((self.inputs[name].register, name, whole))
        return self.inputs[name]

    def computed(self, op: str, left: _Value, right: _Value, domain: Domain) -> _Value:
        to = self.new()
        if left.whole and right.whole:
            if op == "/":
                self.emit(k.DIV_I, to, left.register, right.register)
                return _Value(to, False)
            self.emit(_OPS_I[op], to, left.register, right.register)
            return _Value(to, True)
        if _is_whole(domain):
            raise NoCode
        self.emit(_OPS_F[op], to, self.as_float(left), self.as_float(right))
        return _Value(to, False)

    def as_float(self, value: _Value, op: int = k.FLOAT_OF) -> int:
        if not value.whole:
            return value.register
        to = self.new()
        self.emit(op, to, value.register)
        return to

    def typed(self, value: _Value, domain: Domain) -> _Value:
        if _is_whole(domain):
            if not value.whole:
                raise NoCode
            return value
        return _Value(self.as_float(value), False)

    def choice(self, choice: Choice) -> _Value:
        to, ends = self.new(), []
        for when, then in choice.branches:
            test = self.test(when, negated=False)
            skip = self.emit(k.JUMP_UNLESS, 0, test)
            self.emit(k.MOVE, to, self.typed(self.term(then), choice.domain).register)
            ends.append(self.emit(k.JUMP))
            self.land([skip])
        if choice.otherwise is None:
            self.emit(k.MAKE_ABSENT, to)
        else:
            self.emit(k.MOVE, to, self.typed(self.term(choice.otherwise), choice.domain).register)
        self.land(ends)
        return _Value(to, _is_whole(choice.domain))

    def invoked(self, call: Invoked) -> _Value:
        body = call.function.body
        if body is None:
            raise NoCode
        given = [
            self.typed(self.term(argument), domain)
            for argument, domain in zip(call.arguments, call.function.parameters, strict=True)
        ]
        to = self.new()
        self.emit(k.MAKE_ABSENT, to)
        ends = [self.emit(k.JUMP_IF_ABSENT, 0, argument.register) for argument in given]
        self.arguments.append(dict(zip(body.parameters, given, strict=True)))
        found = self.admitted(self.term(body.formula.root), call.function.returns)
        self.arguments.pop()
        self.emit(k.MOVE, to, found.register)
        self.land(ends)
        return _Value(to, found.whole)

    def admitted(self, value: _Value, domain: Domain) -> _Value:
        """Return the value as the domain admits it; what it does not admit is doubtful."""
        if not isinstance(domain, NumericDomain) or domain.type == "decimal":
            raise NoCode
        if domain.type == "int" and not value.whole:
            to = self.new()
            self.emit(k.WHOLE_OF, to, value.register)
            value = _Value(to, True)
        elif domain.type == "float" and value.whole:
            value = _Value(self.as_float(value, k.EXACT_FLOAT_OF), False)
        kind = 0 if value.whole else 2
        least, most = (-EXACT, EXACT) if value.whole else (float(-EXACT), float(EXACT))
        if domain.minimum is not None:
            least = max(least, _bound(Op.GE, domain.minimum, whole=value.whole))
        if domain.maximum is not None:
            most = min(most, _bound(Op.LE, domain.maximum, whole=value.whole))
        for op, bound in ((k.AT_LEAST_I + kind, least), (k.AT_MOST_I + kind, most)):
            register = self.new()
            self.constants[register] = bound
            self.emit(op, 0, value.register, register)
        return value

    # --- conditions ---------------------------------------------------------------------------------------------------

    def test(self, test: Test, *, negated: bool) -> int:
        """Return the register that says whether the test, or its negation, holds."""
        match test:
            case Every(parts) | Some(parts):
                return self.joined(parts, negated=negated, conjunction=isinstance(test, Every) != negated)
            case Opposite(part):
                return self.test(part, negated=not negated)
            case Compared(left, op, right, domain) if is_numeric(domain):
                return self.compared(self.term(left), _OPPOSITE[op] if negated else op, self.term(right))
            case Satisfies():
                return self.satisfied(test, negated=negated)
            case _:
                raise NoCode

    def joined(self, parts: tuple[Test, ...], *, negated: bool, conjunction: bool) -> int:
        to, ends = self.new(), []
        self.emit(k.SET, to, int(not conjunction))
        for part in parts:
            found = self.test(part, negated=negated)
            ends.append(self.emit(k.JUMP_UNLESS if conjunction else k.JUMP_IF, 0, found))
        self.emit(k.SET, to, int(conjunction))
        self.land(ends)
        return to

    def compared(self, left: _Value, op: Op, right: _Value) -> int:
        if op in (Op.GT, Op.GE):
            left, right, op = right, left, Op.LT if op is Op.GT else Op.LE
        to = self.new()
        if left.whole and right.whole:
            self.emit(_COMPARE_I[op], to, left.register, right.register)
        else:
            one, other = self.as_float(left, k.EXACT_FLOAT_OF), self.as_float(right, k.EXACT_FLOAT_OF)
            self.emit(_COMPARE_F[op], to, one, other)
        return to

    def satisfied(self, test: Satisfies, *, negated: bool) -> int:
        if not self.arguments and test.name not in self.properties:
            to = self.new()
            self.answers.append((to, test, negated))
            return to
        op, operand = test.predicate.op, test.predicate.operand
        if not is_numeric(test.domain) or numeric_type(test.domain) == "decimal":
            return self.coded_test(test, negated=negated)
        value = self.reference(test.name, test.domain)
        if op in (Op.PRESENT, Op.ABSENT):
            to = self.new()
            self.emit(k.PRESENT if (op is Op.PRESENT) != negated else k.ABSENT, to, value.register)
            return to
        if op is Op.BETWEEN:
            assert isinstance(operand, tuple)
            ends = [(Op.GE, operand[0]), (Op.LE, operand[1])]
            found = [self.bounded(value, _OPPOSITE[o] if negated else o, end) for o, end in ends]
            return self._both(found, conjunction=not negated)
        if op not in _OPPOSITE:
            raise NoCode
        return self.bounded(value, _OPPOSITE[op] if negated else op, operand)

    def _both(self, found: list[int], *, conjunction: bool) -> int:
        to = self.new()
        self.emit(k.SET, to, int(not conjunction))
        ends = [self.emit(k.JUMP_UNLESS if conjunction else k.JUMP_IF, 0, register) for register in found]
        self.emit(k.SET, to, int(conjunction))
        self.land(ends)
        return to

    def bounded(self, value: _Value, op: Op, operand: Any) -> int:
        """Return the register that says whether `value op operand`."""
        op, bound = integer_bound(op, operand) if value.whole else float_bound(op, operand)
        if bound is None:  # nothing equals it
            to = self.new()
            self.emit(k.PRESENT if op is Op.NE else k.SET, to, value.register if op is Op.NE else 0)
            return to
        register = self.new()
        self.constants[register] = int(bound) if value.whole else float(bound)
        return self.compared(value, op, _Value(register, value.whole))

    def coded_test(self, test: Satisfies, *, negated: bool) -> int:
        """Return the register of a predicate on a property whose values are coded."""
        if self.arguments or test.multiple or test.predicate.op not in (Op.EQ, Op.NE, Op.PRESENT, Op.ABSENT):
            raise NoCode
        if test.domain.kind == "time" or not (
            test.predicate.op in (Op.PRESENT, Op.ABSENT) or is_told_apart_by_value(test.domain)
        ):
            raise NoCode
        if test.name not in self.coded:
            self.coded[test.name] = self.new()
        to, op = self.new(), test.predicate.op
        if op in (Op.PRESENT, Op.ABSENT):
            self.emit(k.PRESENT if (op is Op.PRESENT) != negated else k.ABSENT, to, self.coded[test.name])
            return to
        register = self.new()
        self.codes.append((register, test))
        self.emit(k.EQ_I if (op is Op.EQ) != negated else k.NE_I, to, self.coded[test.name], register)
        return to


def _is_whole(domain: Domain) -> bool:
    if not isinstance(domain, NumericDomain) or domain.type == "decimal":
        raise NoCode
    return domain.type == "int"


def _bound(op: Op, constant: int | float, *, whole: bool) -> Any:
    """Return the least or greatest number that array values may have to be on the right side of a constant."""
    op, bound = integer_bound(op, constant) if whole else float_bound(op, constant)
    if bound is None:
        raise NoCode
    return np.nextafter(bound, np.inf).item() if op is Op.GT else bound
