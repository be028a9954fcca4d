"""Formulas: the comparisons that a segment's rows leave to be decided, for many pairs of events and rows at once.

    price < 0.8 * estimate        the template is  price < #0 * estimate

Comparisons that differ in numbers only share a template, whose numbers are columns, by check; so do the properties that a
comparison mentions. A template is then computed for all pairs that ask it in a few array operations (language/formula_vector.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.compile.table import Check, CheckKind
from tocsin.index.encode import EventSource
from tocsin.language.bind import bind_condition
from tocsin.language.formula import FLOAT, INT, ConditionFormula, Scope, one_value
from tocsin.language.formula_columns import Column, column_of, several_column
from tocsin.language.formula_vector import Holding, condition_column
from tocsin.language.json_form import node_from_json
from tocsin.language.json_reader import literal_from_json
from tocsin.language.sides import sides_of
from tocsin.schema import Schema, Value

Int64s = npt.NDArray[np.int64]
_FITS = 2**63


@dataclass
class _Template:
    """A comparison without its numbers and properties, and those of each check that is of it."""

    shape: str
    numbers: int  # how many numbers it lacks
    own: tuple[str, ...]
    places: dict[int, int] = field(default_factory=dict)  # check -> place among the rows below
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    formula: ConditionFormula | None = None
    columns: dict[str, Column] = field(default_factory=dict)


class Formulas:
    """The comparisons among the checks of one segment."""

    def __init__(self, checks: Sequence[Check], schema: Schema) -> None:
        self._schema, self._attributes = schema, schema.view().attributes
        self._templates: list[_Template] = []
        self.template_of = np.full(len(checks), -1, np.int32)
        known: dict[tuple[Any, ...], int] = {}
        for number, check in enumerate(checks):
            if check.kind is CheckKind.FORMULA:
                self._take(number, check, known)

    def _take(self, number: int, check: Check, known: dict[tuple[Any, ...], int]) -> None:
        numbers: list[int | float] = []
        shape = msgspec.json.encode(_without_numbers(msgspec.json.decode(check.expression), numbers)).decode()
        own = {name: literal_from_json(value) for name, value in msgspec.json.decode(check.own).items()}
        key = (shape, tuple(map(type, numbers)), tuple(own))
        if key not in known:
            known[key] = len(self._templates)
            self._templates.append(_Template(shape, len(numbers), tuple(own)))
        template = self._templates[known[key]]
        template.places[number] = len(template.rows)
        template.rows.append((*numbers, *own.values()))
        self.template_of[number] = known[key]

    def hold(
        self, source: EventSource, checks: npt.NDArray[np.int32], events: Int64s, computed: Mapping[str, Column]
    ) -> list[tuple[Int64s, Holding]]:
        """Return, for groups of the pairs (check, event), which hold and which fail; `computed` has values for each pair."""
        found = []
        of = self.template_of[checks]
        for number in np.unique(of).tolist():
            pairs = np.flatnonzero(of == number)
            found.append((pairs, self._hold(self._templates[number], source, checks[pairs], events[pairs],
                                            {name: column.take(pairs) for name, column in computed.items()})))  # fmt: skip
        return found

    def _hold(
        self, template: _Template, source: EventSource, checks: npt.NDArray[np.int32], events: Int64s,
        computed: Mapping[str, Column],
    ) -> Holding:  # fmt: skip
        formula = self._made(template)
        places = np.array([template.places[check] for check in checks.tolist()], np.int64)
        columns = {name: column.take(places) for name, column in template.columns.items()}
        asked, inverse = np.unique(events, return_inverse=True)
        constants: dict[str, tuple[Value, ...]] = {}
        for name in formula.names:
            if name in computed:
                columns[name] = computed[name]
            elif name not in columns and name in self._attributes:  # not a property that is not given
                values = source.values(name, self._schema.domain_of(name), asked)
                if len(asked) == 1:
                    if values[0] is not None:
                        constants[name] = values[0]
                    continue
                columns[name] = several_column(self._schema.domain_of(name), values).take(inverse)
        return condition_column(formula, columns, len(events), constants)

    def _made(self, template: _Template) -> ConditionFormula:
        """Return the template's formula; it and the columns are made when they are first needed."""
        if template.formula is None:
            sides = sides_of(self._schema, ()).subscription_scope
            kinds = [INT if type(value) is int else FLOAT for value in template.rows[0][: template.numbers]]
            names = {f"#{at}": domain for at, domain in enumerate(kinds)}
            attributes = {**sides.attributes, **{name: one_value(name, domain) for name, domain in names.items()}}
            scope = Scope(attributes, aliases=sides.aliases, trusted=True)
            domains = {**names, **{name: attributes[name].domain for name in template.own}}
            listed = list(zip(*template.rows, strict=True)) if domains else []
            template.columns = {
                name: column_of(domain, values) for (name, domain), values in zip(domains.items(), listed, strict=True)
            }
            template.formula = bind_condition(node_from_json(msgspec.json.decode(template.shape)), scope)
        return template.formula


def _without_numbers(tree: Any, numbers: list[int | float]) -> Any:
    """Return the JSON tree of a comparison with its numbers as names; adds them to a list."""
    match tree:
        case {"compare": [left, op, right]}:
            return {"compare": [_value(left, numbers), op, _value(right, numbers)]}
        case {"not": part}:
            return {"not": _without_numbers(part, numbers)}
        case _:
            return tree


def _value(tree: Any, numbers: list[int | float]) -> Any:
    """Return the JSON tree of an expression with its numbers as names; those within a case stay."""
    match tree:
        case bool():
            return tree
        case int() | float() if -_FITS <= tree < _FITS:
            numbers.append(tree)
            return {"attribute": f"#{len(numbers) - 1}"}
        case {"negative": part}:
            return {"negative": _value(part, numbers)}
        case dict() if len(tree) == 1 and next(iter(tree)) in "+-*/%":
            ((op, (left, right)),) = tree.items()
            return {op: [_value(left, numbers), _value(right, numbers)]}
        case _:
            return tree
