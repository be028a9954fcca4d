"""The subscription language: its forms, the syntax tree in which they meet, binding to a schema, and its meaning.

forms      parse.py and render.py (text), builder.py (Python), documents.py (JSON tree, bulk)
tree       syntax.py; bounds.py says how large it may be
binding    bind.py, with sides.py (names), operands.py (operators, operands) and formula.py
meaning    semantics.py, the definition; explain.py
offers     offer.py: events with rules and computed attributes
formulas   formula.py (scopes, functions), formula_vector.py: computed for columns of rows
"""

from tocsin.language.bind import BoundSubscription, bind
from tocsin.language.builder import Condition, at_least, attributes, function, operator, subscription, variable, word
from tocsin.language.documents import (
    expression_from_json,
    expression_to_json,
    from_bulk,
    from_json,
    node_from_json,
    node_to_json,
    to_bulk,
    to_json,
)
from tocsin.language.explain import Explanation, explain
from tocsin.language.parse import parse, parse_condition, parse_expression
from tocsin.language.render import render
from tocsin.language.semantics import Verdict, decide, evaluate
from tocsin.language.syntax import ALWAYS, NEVER, And, Node, Not, Op, Or, Predicate, Subscription

__all__ = [
    "ALWAYS",
    "NEVER",
    "And",
    "BoundSubscription",
    "Condition",
    "Explanation",
    "Node",
    "Not",
    "Op",
    "Or",
    "Predicate",
    "Subscription",
    "Verdict",
    "at_least",
    "attributes",
    "bind",
    "decide",
    "evaluate",
    "explain",
    "expression_from_json",
    "expression_to_json",
    "from_bulk",
    "from_json",
    "function",
    "node_from_json",
    "node_to_json",
    "operator",
    "parse",
    "parse_condition",
    "parse_expression",
    "render",
    "subscription",
    "to_bulk",
    "to_json",
    "variable",
    "word",
]
