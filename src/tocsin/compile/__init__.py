"""From subscriptions to what gets indexed: normal forms, their analysis, and flat tables of codes."""

from tocsin.compile.analysis import conjunction_text, refuse_meaningless, warnings_of
from tocsin.compile.atoms import Conjunction
from tocsin.compile.bulk import BulkLoad, load_bulk
from tocsin.compile.normalise import MAX_CONJUNCTIONS, NormalForm, normalise
from tocsin.compile.table import Check, Column, ConjunctionTable, PredicateKind
from tocsin.compile.table_builder import TableBuilder, compile_table

__all__ = [
    "MAX_CONJUNCTIONS",
    "BulkLoad",
    "Check",
    "Column",
    "Conjunction",
    "ConjunctionTable",
    "NormalForm",
    "PredicateKind",
    "TableBuilder",
    "compile_table",
    "conjunction_text",
    "load_bulk",
    "normalise",
    "refuse_meaningless",
    "warnings_of",
]
