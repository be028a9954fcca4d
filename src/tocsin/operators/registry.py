"""Registry: the operators that subscriptions may call, by name.

    registry = Registry([locIn, distanceFrom])      # operators made by the decorator
    registry = Registry.installed()                 # the built-in ones, and those that packages offer by entry points
    bound = registry.bind("camera where locIn('Bronx') and mobPattern(?p) and ?p > 50", schema)

A package offers operators in the entry point group `tocsin.operators`: an Operator, an iterable of them, or a function
without arguments that returns either. operator.py checks the calls of a subscription; questions.py has them run.

Registries by name: what a setting, an option or a worker of Spark says, and the registry that it stands for.

installed                       the built-in operators, and those that packages offer
operators.toml                  the same, with a settings file (builtin/settings.py)
package.module:function         what a function without arguments returns
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tocsin.errors import BadDefinition, BindError, FormulaFailed, NotSupported, UnknownOperator
from tocsin.language import BoundSubscription, Subscription, bind
from tocsin.language.formula import Substitution
from tocsin.language.syntax import OperatorCall
from tocsin.operators.operator import Operator, bind_call, unify, variable_domains
from tocsin.operators.runner import Runner
from tocsin.schema import Domain, Event, Schema, ViewAttribute

GROUP = "tocsin.operators"


class Registry:
    """Operators by name. It is itself the `Operators` that binding and the definition ask (language/formula.py)."""

    def __init__(self, operators: Iterable[Operator] = ()) -> None:
        self._operators: dict[str, Operator] = {}
        self.runner = Runner()
        for entry in operators:
            self.add(entry)

    @classmethod
    def installed(cls, settings: Path | None = None) -> Registry:
        """Return the registry of the built-in operators, and of those that installed packages offer.

        Which built-in ones there are, and on what they work, a settings file may say (builtin/settings.py).
        """
        from tocsin.operators.builtin import builtin_operators
        from tocsin.operators.builtin.settings import configured_operators

        registry = cls(builtin_operators() if settings is None else configured_operators(settings))
        for point in entry_points(group=GROUP):
            for found in _offered(point.name, point.load()):
                registry.add(found)
        return registry

    def add(self, operator: Operator) -> None:
        """Take an operator; raises BadDefinition where there is one of its name."""
        if operator.name in self._operators:
            raise BadDefinition(f"there is an operator {operator.name!r} already")
        self._operators[operator.name] = operator

    def get(self, name: str) -> Operator:
        """Return the operator of that name; raises UnknownOperator."""
        found = self._operators.get(name)
        if found is None:
            raise UnknownOperator(name, self._operators)
        return found

    def __iter__(self) -> Iterator[Operator]:
        return iter(self._operators.values())

    def __len__(self) -> int:
        return len(self._operators)

    def __contains__(self, name: object) -> bool:
        return name in self._operators

    def bind(self, subscription: str | Subscription, schema: Schema) -> BoundSubscription:
        """Return the subscription bound to the schema and to these operators; raises LanguageError."""
        return bind(subscription, schema, operators=self)

    # --- what binding and the definition ask --------------------------------------------------------------------------

    def bind_call(self, call: OperatorCall, attributes: Mapping[str, ViewAttribute]) -> OperatorCall:
        """Return the call with canonical arguments; raises BindError."""
        try:
            operator = self.get(call.name)
        except UnknownOperator as error:
            raise BindError(str(error), span=call.span) from None
        return bind_call(call, operator, attributes)

    def variable_domains(self, call: OperatorCall) -> Mapping[str, Domain]:
        """Return the domain of each variable of a bound call."""
        return variable_domains(call, self.get(call.name))

    def solutions(self, call: OperatorCall, event: Event) -> Sequence[Substitution]:
        """Return every substitution of the call's variables for which it holds; raises FormulaFailed."""
        pattern, names = unify(call, self.get(call.name))
        outcome = self.runner.run(pattern, event)
        if outcome.failure is not None:
            raise FormulaFailed(outcome.failure)
        return [dict(zip(names, row, strict=True)) for row in pattern.solutions(outcome.rows)]


def _offered(name: str, found: object) -> list[Operator]:
    """Return the operators that an entry point leads to."""
    if callable(found) and not isinstance(found, Operator):
        found = found()
    listed = found if isinstance(found, Iterable) else [found]
    offered: list[Operator] = []
    for entry in listed:
        if not isinstance(entry, Operator):
            raise BadDefinition(
                f"the entry point {name!r} of {GROUP} leads to {type(entry).__name__}, not to operators"
            )
        offered.append(entry)
    return offered


# Registries by name.


INSTALLED = "installed"


def open_registry(given: Registry | str | Path | None) -> Registry:
    """Return the registry that is given or named; none is one without operators. Raises NotSupported, FileError."""
    if given is None:
        return Registry()
    if isinstance(given, Registry):
        return given
    if given == INSTALLED:
        return Registry.installed()
    module, colon, name = str(given).partition(":")
    if colon and not Path(given).exists() and not str(given).endswith(".toml"):
        return _made(str(given), module, name)
    return Registry.installed(Path(given))


def _made(reference: str, module: str, name: str) -> Registry:
    """Return what the function of that name makes."""
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise NotSupported(f"{reference!r} does not lead to a function that makes a registry: {error}") from None
    made = found()
    if not isinstance(made, Registry):
        raise NotSupported(f"{reference!r} returns {type(made).__name__}, not a Registry")
    return made
