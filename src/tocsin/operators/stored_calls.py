"""StoredCalls: operators as stored subscriptions call them, some of which may be gone.

A call of an operator that is not installed here, or no longer takes its arguments, is kept as it is, and fails: the
subscription matches nothing by it, and matches again where the operator is there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from tocsin.errors import BindError, FormulaFailed
from tocsin.language.formula import FLOAT, Operators, Substitution
from tocsin.language.syntax import OperatorCall
from tocsin.language.variables import variables_of
from tocsin.schema import Domain, Event, ViewAttribute

log = logging.getLogger("tocsin.operators")


class StoredCalls:
    """The `Operators` (language/formula.py) that stored subscriptions are bound to."""

    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self.missing: dict[str, str] = {}  # operators that are called but cannot be, and why

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        """Return a stored call as it is used here; one that cannot be is kept, and fails."""
        try:
            return self._operators.bind_call(call, attributes)
        except BindError as error:
            if call.name not in self.missing:
                log.warning("subscriptions that call the operator %s fail: %s", call.name, error)
            self.missing[call.name] = str(error)
            return call

    def variable_domains(self, call: OperatorCall) -> Mapping[str, Domain]:
        """Return the domain of each variable of a call."""
        if call.name in self.missing:
            return dict.fromkeys(variables_of(call), FLOAT)
        return self._operators.variable_domains(call)

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Substitution]:
        """Return every substitution of the call's variables for which it holds; raises FormulaFailed."""
        if call.name in self.missing:
            raise FormulaFailed(self.missing[call.name])
        return self._operators.solutions(call, event)
