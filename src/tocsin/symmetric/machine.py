"""The machine: formulas over numbers as code (machine_code.py) that one kernel runs for many rows (machine_kernel.py).

What language/formula_vector.py does by a few array operations per node, in one pass. Formulas that need more than
numbers (decimals, callables, computed texts) have no code; predicates on texts do, by the codes of their columns. The
values are those of language/formula_semantics.py; where the kernel is not sure of a row, the former computes all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from tocsin.language.formula import Satisfies
from tocsin.language.formula_columns import EXACT, Bools, Column
from tocsin.language.formula_semantics import satisfies
from tocsin.schema import NumericDomain
from tocsin.symmetric import machine_kernel as k
from tocsin.symmetric.columns import PropertyColumn, Rows


@dataclass
class Machine:
    """The code of a formula, and which registers hold what before it runs."""

    code: Any
    ints: Any
    floats: Any
    result: int
    domain: NumericDomain
    whole_inputs: list[tuple[int, str]]  # register, property
    float_inputs: list[tuple[int, str]]
    coded_inputs: list[tuple[int, str]]
    codes: list[tuple[int, Satisfies]]  # registers with the code of an operand in a property's column
    numbers: list[tuple[int, str, bool]]  # registers with a static attribute of the offer; whether it is whole
    answers: list[tuple[int, Satisfies, bool]]  # registers with what a predicate on such an attribute says

    @cached_property
    def registers(self) -> tuple[Any, Any]:
        """The registers of the whole inputs, coded ones after the others, and of the float inputs."""
        whole = [register for register, _ in self.whole_inputs + self.coded_inputs]
        return np.array(whole, np.int64), np.array([register for register, _ in self.float_inputs], np.int64)

    @property
    def asks_offer(self) -> bool:
        """Whether the formula asks about the offer, and not the subscriber alone."""
        return bool(self.numbers or self.answers)

    def run(
        self, columns: Mapping[str, PropertyColumn], rows: Rows, offer_row: Mapping[str, Any]
    ) -> tuple[Column, Bools] | None:
        """Return the values for these rows, and of which the machine is not sure; None where it cannot run."""
        ints, floats, absents = self.ints.copy(), self.floats.copy(), np.zeros(len(self.ints), np.bool_)
        if not self._set_constants(columns, offer_row, ints, floats, absents):
            return None
        size = len(rows)
        whole = self.whole_inputs + self.coded_inputs
        whole_columns = np.empty((len(whole), size), np.int64)
        float_columns = np.empty((len(self.float_inputs), size), np.float64)
        absent = np.empty((len(whole) + len(self.float_inputs), size), np.bool_)
        for at, (_, name) in enumerate(whole + self.float_inputs):
            values, missing = columns[name].arrays
            if columns[name].is_coded != (len(self.whole_inputs) <= at < len(whole)):
                return None
            target = whole_columns[at] if at < len(whole) else float_columns[at - len(whole)]
            if values.dtype == target.dtype:
                values.take(rows, out=target, mode="clip")
            else:
                target[:] = values.take(rows)
            missing.take(rows, out=absent[at], mode="clip")
        out = np.empty(size, np.int64), np.empty(size, np.float64), np.empty(size, np.bool_), np.empty(size, np.bool_)
        k.run(
            self.code, ints, floats, absents, self.registers[0], whole_columns, self.registers[1], float_columns,
            absent, self.result, *out,
        )  # fmt: skip
        return Column(self.domain, out[0] if self.domain.type == "int" else out[1], out[2]), out[3]

    def _set_constants(
        self, columns: Mapping[str, PropertyColumn], offer_row: Mapping[str, Any], ints: Any, floats: Any, absents: Any
    ) -> bool:
        for register, test in self.codes:
            ints[register] = columns[test.name].code_of(test.predicate.operand)
        for register, test, negated in self.answers:
            value = offer_row.get(test.name)
            ints[register] = satisfies(test.predicate, value, test.domain, multiple=test.multiple, negated=negated)
        for register, name, is_whole in self.numbers:
            value = offer_row.get(name)
            absents[register] = value is None
            if value is None:
                continue
            if isinstance(value, Decimal) or abs(value) > EXACT:
                return False
            (ints if is_whole else floats)[register] = value
        return True
