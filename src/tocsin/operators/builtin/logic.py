"""Logic operators: what follows from an ontology, and what follows from rules.

isA('Vehicle')                      the event's class, or one above it by inference (OWL 2 RL, by `reasonable`)
concludes('dangerous', ?who)        what an answer set program concludes from the event (by clingo)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tocsin.errors import BadArgument, FileError, did_you_mean, nearest
from tocsin.operators.operator import OPEN, Open, Operator, operator
from tocsin.schema import Event, Value

MAX_SECONDS = 5.0


class Ontology:
    """Classes and what lies below them, all inferred once when the ontology is read."""

    def __init__(self, superclasses: Mapping[str, frozenset[str]]) -> None:
        self._superclasses = superclasses

    @classmethod
    def of_file(cls, path: Path) -> Ontology:
        """Return the ontology of an RDF file (Turtle, RDF/XML, …); raises FileError."""
        import rdflib

        graph = rdflib.Graph()
        try:
            graph.parse(path)
        except Exception as error:  # noqa: BLE001 - each format's parser has errors of its own
            raise FileError(str(path), f"not an RDF file that can be read: {error}") from None
        return cls.of_graph(graph)

    @classmethod
    def of_graph(cls, graph: Any) -> Ontology:
        """Return the ontology of an rdflib graph, subclasses inferred."""
        import reasonable
        from rdflib import OWL, RDF, RDFS, BNode

        reasoner = reasonable.PyReasoner()
        reasoner.from_graph(graph)
        above: dict[str, set[str]] = {}
        for subject, predicate, found in [*graph, *reasoner.reason()]:
            if isinstance(subject, BNode) or isinstance(found, BNode):
                continue
            if predicate == RDFS.subClassOf or (predicate == RDF.type and found not in (OWL.Class, RDFS.Class)):
                above.setdefault(_local(subject), set()).add(_local(found))
            elif predicate == RDF.type:
                above.setdefault(_local(subject), set())
        return cls({name: frozenset({name, *found}) for name, found in above.items()})

    @property
    def names(self) -> frozenset[str]:
        """The names of all classes and individuals, without what stands before # or the last /."""
        return frozenset(self._superclasses).union(*self._superclasses.values())

    def classes_of(self, name: str) -> frozenset[str]:
        """Return the name and all classes above it; nothing for a name that the ontology does not have."""
        return self._superclasses.get(_local(name), frozenset())


def _local(term: object) -> str:
    return str(term).replace("#", "/").rstrip("/").rsplit("/", 1)[-1]


def ontology_operators(ontology: Ontology, attribute: str = "class") -> list[Operator]:
    """Return the operator of class membership, for events whose attribute names a class or an individual."""

    def check(name: object) -> None:
        if isinstance(name, str) and name not in ontology.names:
            raise BadArgument(
                f"there is no class {name!r} in the ontology{did_you_mean(nearest(name, ontology.names))}"
            )

    @operator(name="isA", cost=0.0001, reads=(f"{attribute}:text",), check=check)
    def is_a(event: Event, name: str | Open) -> object:
        """Whether the event's class is this one or below it; with a variable, all classes that it is in."""
        named: Sequence[str] = event.values.get(attribute, ())  # type: ignore[assignment]
        found = {above for each in named for above in ontology.classes_of(each)}
        return sorted(found) if name is OPEN else name in found

    return [is_a]


def rule_operators(programs: Mapping[str, str], reads: Sequence[str] = ()) -> list[Operator]:
    """Return the operator of answer set programs, by name.

    A program sees a fact `value(attribute, v)` for each value of the event: numbers rounded down, everything else as
    text. It concludes by `conclusion(X)`; what the first answer set has is found.
    """

    def check(program: object) -> None:
        if program not in programs:
            known = ", ".join(programs)
            raise BadArgument(
                f"there is no program {program!r}{did_you_mean(nearest(str(program), programs))}; there are: {known}"
            )

    @operator(name="concludes", cost=0.005, timeout=2 * MAX_SECONDS, reads=reads, check=check, outputs={"what": str})
    def concludes(event: Event, program: str) -> list[str]:
        """What a named answer set program concludes from the event."""
        return conclusions(programs[program], event)

    return [concludes]


def conclusions(program: str, event: Event) -> list[str]:
    """Return the arguments of `conclusion` in the first answer set; raises TimeoutError after MAX_SECONDS."""
    import clingo

    control = clingo.Control(["--models=1", "--warn=none"], message_limit=1)
    control.add("base", [], program)
    control.add("base", [], "".join(f"{fact}.\n" for fact in _facts(event)))
    control.ground([("base", [])])
    found: list[str] = []

    def collect(model: Any) -> None:
        found.extend(
            each.arguments[0].string if each.arguments[0].type is clingo.SymbolType.String else str(each.arguments[0])
            for each in model.symbols(atoms=True)
            if each.name == "conclusion" and len(each.arguments) == 1
        )

    with control.solve(on_model=collect, async_=True) as handle:
        if not handle.wait(MAX_SECONDS):
            handle.cancel()
            raise TimeoutError(f"no answer set within {MAX_SECONDS:g} s")
        handle.get()
    return sorted(found)


def _facts(event: Event) -> list[str]:
    import clingo

    def symbol(value: Value) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return clingo.String(str(value))
        whole = int(value // 1)
        return clingo.Number(whole) if abs(whole) < 2**31 else clingo.String(str(value))

    return [
        str(clingo.Function("value", [clingo.String(name), symbol(value)]))
        for name, values in event.values.items()
        for value in values
    ]
