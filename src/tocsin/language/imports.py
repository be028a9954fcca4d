"""Importers: rules of other systems as subscriptions, each with its own meaning translated, or refused with the reason.

    sigma         detection rules (YAML, read by pySigma, the extra `sigma`)
    eventbridge   event patterns (JSON): {"source": ["shop"], "detail": {"price": [{"numeric": ["<", 100]}]}}
    cesql         filter expressions of CloudEvents, jms: message selectors (import_selectors.py); a line each, or JSON with an id
    percolator    queries of Elasticsearch and OpenSearch (JSON): {"bool": {"must": [{"term": {"brand": "mini"}}]}}

What differs is translated. In the first three a negation holds where the field is absent, which `not` does not: `_not` adds
`is absent`. Texts of Sigma are compared without regard to case, those of the others with. Where events have several values
of a field, some value satisfies a leaf in all of these languages, but for `anything-but`, which is refused for fields that
the schema says are multiple. tests/language/test_imports.py compares each with an evaluator of its own semantics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tocsin import plugins
from tocsin.errors import LanguageError, NotSupported, TocsinError
from tocsin.language import syntax
from tocsin.language.bounds import ANY_ATTRIBUTE, at_least, check_size
from tocsin.language.import_selectors import Dialect, parse_selector
from tocsin.language.syntax import (
    ALWAYS,
    NEVER,
    And,
    AttributeValue,
    Comparison,
    Node,
    Not,
    Op,
    Or,
    Predicate,
    Subscription,
    TextPatterns,
    names_of,
)
from tocsin.language.text_patterns import AS_IT_IS, FOLDED, escaped, predicate_of_key, words, wrong_regex
from tocsin.schema import Schema

_ORDER = {
    "<": Op.LT,
    "<=": Op.LE,
    ">": Op.GT,
    ">=": Op.GE,
    "=": Op.EQ,
    "lt": Op.LT,
    "lte": Op.LE,
    "gt": Op.GT,
    "gte": Op.GE,
}


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of one rule: a subscription, or the reason why there is none. `id` names the rule where it came from."""

    id: str
    name: str
    subscription: Subscription | None = None
    reason: str = ""


class _Untranslatable(Exception):
    """Something that the language has no word for."""


def import_rules(kind: str, text: str, *, source: str = "", schema: Schema | None = None) -> Iterator[Imported]:
    """Yield the rules of one file in the language of that kind; raises NotSupported, and LanguageError for a bad file."""
    if kind not in _IMPORTERS:
        raise NotSupported(f"there is no importer {kind!r}; there are: {', '.join(_IMPORTERS)}")
    return _IMPORTERS[kind](text, source, schema)


def _made(id: str, name: str, translate: Callable[[], Node]) -> Imported:
    try:
        return Imported(id, name, Subscription((), translate()))
    except (_Untranslatable, TocsinError) as error:
        return Imported(id, name, reason=str(error))


# --- conditions -------------------------------------------------------------------------------------------------------


def _not(node: Node, schema: Schema | None = None) -> Node:
    """Return the negation that holds where fields are absent, too."""
    match node:
        case Not(part):
            return part
        case And(parts):
            return _or(_not(part, schema) for part in parts)
        case Or(parts):
            return _and(_not(part, schema) for part in parts)
        case Predicate(op=Op.PRESENT | Op.ABSENT as op):
            return syntax.Predicate(node.attribute, Op.ABSENT if op is Op.PRESENT else Op.PRESENT)
        case Predicate(attribute=name) if name == ANY_ATTRIBUTE:
            return _not_anywhere(node, schema)
        case _:
            absent = (Predicate(name, Op.ABSENT) for name in dict.fromkeys(names_of(node)))
            return Or((*absent, Not(node)))


def _not_anywhere(node: Predicate, schema: Schema | None) -> Node:
    """Return that no text of the event satisfies a predicate, by the texts that the schema says there are."""
    if schema is None:
        raise _Untranslatable("a negated search in any attribute, which needs a schema")
    view = schema.view()
    if ANY_ATTRIBUTE in view.attributes:  # of events that keep what no one has declared
        return Or((Predicate(ANY_ATTRIBUTE, Op.ABSENT), Not(node)))
    texts = [name for name, entry in view.attributes.items() if entry.domain.kind == "text"]
    return _and(_not(replace(node, attribute=name)) for name in texts) if texts else ALWAYS


def _and(parts: Iterable[Node]) -> Node:
    found = [inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,))]
    return found[0] if len(found) == 1 else And(tuple(found))


def _or(parts: Iterable[Node]) -> Node:
    """Return the alternatives, patterns and values of one attribute as lists."""
    found: dict[object, list[Node]] = {}
    for part in parts:
        for inner in part.parts if isinstance(part, Or) else (part,):
            key: object = id(inner)
            if isinstance(inner, Predicate) and isinstance(inner.operand, TextPatterns) and not inner.operand.every:
                key = (inner.attribute, inner.op, inner.operand.ignoring_case)
            found.setdefault(key, []).append(inner)
    joined = [_joined(alike) if isinstance(key, tuple) and len(alike) > 1 else alike[0] for key, alike in found.items()]
    return joined[0] if len(joined) == 1 else Or(tuple(joined))


def _joined(alike: list[Node]) -> Node:
    operands = [each.operand for each in alike if isinstance(each, Predicate)]
    texts = dict.fromkeys(text for each in operands if isinstance(each, TextPatterns) for text in each.texts)
    first = alike[0]
    assert isinstance(first, Predicate)
    assert isinstance(first.operand, TextPatterns)
    return Predicate(first.attribute, first.op, TextPatterns(tuple(texts), False, first.operand.ignoring_case))


def _pattern(field: str, like: str, *, ignoring_case: bool) -> Predicate:
    found = predicate_of_key(field, (FOLDED if ignoring_case else AS_IT_IS) + like)
    if isinstance(found.operand, str):
        return Predicate(field, found.op, TextPatterns((found.operand,)))
    return found


def _regex(field: str, pattern: str) -> Predicate:
    if wrong := wrong_regex(pattern):
        raise _Untranslatable(wrong)
    return Predicate(field, Op.MATCHES, TextPatterns((pattern,)))


def _is_text(field: str, schema: Schema | None) -> bool:
    """Return whether the schema says that a field is text."""
    return schema is not None and field in schema.attributes and schema.domain_of(field).kind == "text"


def _equal(field: str, value: Any, schema: Schema | None) -> Node:
    """Return that some value of a field is this one, as the field's type has it."""
    if value is None:
        return Predicate(field, Op.ABSENT)
    if isinstance(value, bool | int | float) and _is_text(field, schema):
        value = json.dumps(value)
    if not isinstance(value, bool | int | float | str):
        raise _Untranslatable(f"{field}: a value of type {type(value).__name__}")
    return Predicate(field, Op.EQ, value)


def _document(text: str, kind: str) -> list[tuple[str, Any]]:
    """Return the rules of a JSON file, with their ids (or file and number): one, a list of them, or one for each line."""
    try:
        found = json.loads(text)
    except ValueError:
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise LanguageError(f"{kind}: this is no JSON: {error}") from None
    listed = found if isinstance(found, list) else [found]
    ids = [rule.get("id") if isinstance(rule, Mapping) else None for rule in listed]
    named = [str(id) if isinstance(id, str | int) else f"{kind}#{at}" for at, id in enumerate(ids)]
    return list(zip(named, listed, strict=True))


# --- Sigma ------------------------------------------------------------------------------------------------------------


def _sigma(text: str, source: str, schema: Schema | None) -> Iterator[Imported]:
    plugins.require("sigma")
    import yaml
    from sigma.collection import SigmaCollection
    from sigma.exceptions import SigmaError

    try:
        rules = SigmaCollection.from_yaml(text, collect_errors=True).rules
    except (SigmaError, yaml.YAMLError) as error:
        raise LanguageError(f"{source}: {error}") from None
    for number, rule in enumerate(rules):
        id = str(getattr(rule, "id", None) or f"{source}#{number}")
        name = str(getattr(rule, "title", "") or id)
        if rule.errors:
            yield Imported(f"sigma:{id}", name, reason=str(rule.errors[0]))
        elif not hasattr(rule, "detection"):
            yield Imported(f"sigma:{id}", name, reason="a correlation of several events")
        else:
            yield _made(f"sigma:{id}", name, lambda rule=rule: _sigma_rule(rule, schema))  # type: ignore[misc]


def _sigma_rule(rule: Any, schema: Schema | None) -> Node:
    from sigma.exceptions import SigmaError

    try:
        return _or(_sigma_node(each.parsed, schema) for each in rule.detection.parsed_condition)
    except SigmaError as error:
        raise _Untranslatable(str(error)) from None


def _sigma_node(node: Any, schema: Schema | None) -> Node:
    kind = type(node).__name__
    if kind in ("ConditionAND", "ConditionOR", "ConditionNOT"):
        parts = [_sigma_node(each, schema) for each in node.args]
        return _not(parts[0], schema) if kind == "ConditionNOT" else (_and if kind == "ConditionAND" else _or)(parts)
    field = node.field if kind == "ConditionFieldEqualsValueExpression" else ANY_ATTRIBUTE
    return _sigma_value(field, node.value, schema)


def _sigma_value(field: str, value: Any, schema: Schema | None) -> Node:
    kind = type(value).__name__
    match kind:
        case "SigmaString" | "SigmaCasedString":
            like = _sigma_like(value)
            if field == ANY_ATTRIBUTE:
                like = f"%{like.strip('%')}%"
            return _pattern(field, like, ignoring_case=kind == "SigmaString")
        case "SigmaExpansion":
            return _or(_sigma_value(field, each, schema) for each in value.values)
        case "SigmaNumber" if field != ANY_ATTRIBUTE:
            return _equal(field, value.number, schema)
        case "SigmaNumber":
            return _pattern(field, f"%{value.number}%", ignoring_case=True)
        case "SigmaBool":
            return _equal(field, value.boolean, schema)
        case "SigmaNull":
            return Predicate(field, Op.ABSENT)
        case "SigmaExists":
            return Predicate(field, Op.PRESENT if value.exists else Op.ABSENT)
        case "SigmaRegularExpression":
            flags = "".join(
                sorted({"IGNORECASE": "i", "MULTILINE": "m", "DOTALL": "s"}[each.name] for each in value.flags)
            )
            return _regex(field, f"(?{flags}){value.regexp.original}" if flags else value.regexp.original)
        case "SigmaCIDRExpression":
            return Predicate(field, Op.IN_NETWORK, TextPatterns((str(value.network),)))
        case "SigmaCompareExpression":
            return Predicate(field, _ORDER[value.op.name.lower()], value.number.number)
        case "SigmaFieldReference" if not value.starts_with and not value.ends_with:
            return Comparison(AttributeValue(field), Op.EQ, AttributeValue(value.field))
        case _:
            raise _Untranslatable(f"a value of the kind {kind}")


def _sigma_like(value: Any) -> str:
    found = ""
    for part in value.s:
        name = getattr(part, "name", None)
        if isinstance(part, str):
            found += escaped(part)
        elif name in ("WILDCARD_MULTI", "WILDCARD_SINGLE"):
            found += "%" if name == "WILDCARD_MULTI" else "_"
        else:
            raise _Untranslatable(f"the placeholder {part}")
    return found


# --- EventBridge ------------------------------------------------------------------------------------------------------


def _eventbridge(text: str, source: str, schema: Schema | None) -> Iterator[Imported]:
    for id, rule in _document(text, source or "eventbridge"):
        pattern = rule.get("EventPattern", rule) if isinstance(rule, Mapping) else rule
        name = str(rule.get("Name", id)) if isinstance(rule, Mapping) and "EventPattern" in rule else id
        if isinstance(pattern, Mapping) and pattern is rule:
            pattern = {key: value for key, value in pattern.items() if key != "id" or isinstance(value, list | dict)}
        yield _made(f"eventbridge:{id}", name, lambda pattern=pattern: _bridge_fields("", pattern, schema))  # type: ignore[misc]


def _bridge_fields(prefix: str, pattern: Any, schema: Schema | None) -> Node:
    if not isinstance(pattern, Mapping):
        raise _Untranslatable(f"{prefix or 'a pattern'}: an object of fields was expected")
    parts: list[Node] = []
    for name, inner in pattern.items():
        field = f"{prefix}{name}"
        if name == "$or":
            parts.append(_or(_bridge_fields(prefix, each, schema) for each in inner))
        elif isinstance(inner, Mapping):
            parts.append(_bridge_fields(f"{field}.", inner, schema))
        elif isinstance(inner, list):
            parts.append(_or(_bridge_leaf(field, each, schema) for each in inner) if inner else NEVER)
        else:
            raise _Untranslatable(f"{field}: a list of what is allowed was expected")
    return _and(parts) if parts else ALWAYS


def _bridge_leaf(field: str, leaf: Any, schema: Schema | None) -> Node:
    if not isinstance(leaf, Mapping):
        return _equal(field, leaf, schema)
    if len(leaf) != 1:
        raise _Untranslatable(f"{field}: one comparison was expected")
    [(kind, value)] = leaf.items()
    folded = isinstance(value, Mapping) and set(value) == {"equals-ignore-case"}
    text = value["equals-ignore-case"] if folded else value
    match kind:
        case "prefix" | "suffix" if isinstance(text, str):
            like = f"{escaped(text)}%" if kind == "prefix" else f"%{escaped(text)}"
            return _pattern(field, like, ignoring_case=folded)
        case "equals-ignore-case" if isinstance(value, str):
            return _pattern(field, escaped(value), ignoring_case=True)
        case "wildcard" if isinstance(value, str):
            return _pattern(field, _wildcard(value, one=False), ignoring_case=False)
        case "exists" if isinstance(value, bool):
            return Predicate(field, Op.PRESENT if value else Op.ABSENT)
        case "cidr" if isinstance(value, str):
            return Predicate(field, Op.IN_NETWORK, TextPatterns((value,)))
        case "numeric" if isinstance(value, list) and len(value) in (2, 4):
            bounds = [Predicate(field, _ORDER[value[at]], value[at + 1]) for at in range(0, len(value), 2)]
            if len(bounds) == 2 and _is_multiple(field, schema):
                raise _Untranslatable(f"{field}: two bounds for one of several values")
            return _and(bounds)
        case "anything-but":
            if _is_multiple(field, schema):
                raise _Untranslatable(f"{field}: anything-but holds where some value differs, which `not` does not")
            inner = value if isinstance(value, list) else [value]
            return _and(Not(_bridge_leaf(field, each, schema)) for each in inner)
        case _:
            raise _Untranslatable(f"{field}: {kind} with {json.dumps(value)}")


def _is_multiple(field: str, schema: Schema | None) -> bool:
    return schema is not None and field in schema.attributes and schema.view()[field].ever_multiple


def _wildcard(text: str, *, one: bool) -> str:
    """Return a wildcard pattern (* any text, with `one` also ?, a backslash before these) as a like pattern."""
    found, at = "", 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            at += 1
            found += escaped(text[at])
        else:
            found += "%" if text[at] == "*" else "_" if one and text[at] == "?" else escaped(text[at])
        at += 1
    return found


# --- percolator -------------------------------------------------------------------------------------------------------


def _percolator(text: str, source: str, schema: Schema | None) -> Iterator[Imported]:
    for id, rule in _document(text, source or "percolator"):
        query = rule.get("query", rule) if isinstance(rule, Mapping) else rule
        yield _made(f"percolator:{id}", id, lambda query=query: _query(query, schema))  # type: ignore[misc]


def _query(query: Any, schema: Schema | None) -> Node:
    if not isinstance(query, Mapping) or len(query) != 1:
        raise _Untranslatable("a query is an object with one key, its kind")
    [(kind, body)] = query.items()
    if kind == "match_all":
        return ALWAYS
    if kind == "match_none":
        return NEVER
    if kind == "exists":
        return Predicate(body["field"], Op.PRESENT)
    if kind == "constant_score":
        return _query(body["filter"], schema)
    if kind == "bool":
        return _bool(body, schema)
    if kind not in _LEAVES or not isinstance(body, Mapping):
        raise _Untranslatable(f"a query of the kind {kind}")
    fields = {field: value for field, value in body.items() if field not in ("boost", "_name")}
    if len(fields) != 1:
        raise _Untranslatable(f"{kind}: one field was expected")
    [(field, value)] = fields.items()
    return _LEAVES[kind](field, value, schema)


def _bool(body: Mapping[str, Any], schema: Schema | None) -> Node:
    def listed(key: str) -> list[Node]:
        found = body.get(key, [])
        return [_query(each, schema) for each in (found if isinstance(found, list) else [found])]

    needed = [*listed("must"), *listed("filter"), *map(_not, listed("must_not"))]
    should = listed("should")
    least = body.get("minimum_should_match", 0 if listed("must") or listed("filter") else 1)
    if should and least:
        if not isinstance(least, int) or least < 0:
            raise _Untranslatable(f"minimum_should_match {least!r}")
        needed.append(at_least(least, tuple(should)) if least <= len(should) else NEVER)
    return _and(needed) if needed else ALWAYS


def _option(value: Any, *keys: str) -> tuple[Any, Mapping[str, Any]]:
    """Return the value of a leaf, and its options, where it has any."""
    if not isinstance(value, Mapping):
        return value, {}
    for key in keys:
        if key in value:
            return value[key], value
    raise _Untranslatable(f"one of {', '.join(keys)} was expected")


def _term(field: str, value: Any, schema: Schema | None) -> Node:
    found, options = _option(value, "value")
    if options.get("case_insensitive") and isinstance(found, str):
        return _pattern(field, escaped(found), ignoring_case=True)
    return _equal(field, found, schema)


def _terms(field: str, value: Any, schema: Schema | None) -> Node:
    if not isinstance(value, list):
        raise _Untranslatable(f"{field}: terms that are looked up elsewhere")
    return _or(_equal(field, each, schema) for each in value) if value else NEVER


def _match(field: str, value: Any, schema: Schema | None) -> Node:
    found, options = _option(value, "query")
    if not isinstance(found, str):
        return _equal(field, found, schema)
    if {"fuzziness", "analyzer", "minimum_should_match"} & options.keys():
        raise _Untranslatable(f"{field}: a match with {', '.join(sorted(set(options) - {'query', 'operator'}))}")
    every = str(options.get("operator", "or")).lower() == "and"
    if not words(found):
        return NEVER
    return Predicate(field, Op.CONTAINS_ALL if every else Op.CONTAINS_ANY, tuple(words(found)))


def _match_phrase(field: str, value: Any, _: Schema | None) -> Node:
    found, options = _option(value, "query")
    listed = words(str(found))
    if options.get("slop") or not listed:
        raise _Untranslatable(f"{field}: a phrase with slop, or without words")
    return Predicate(field, Op.CONTAINS, syntax.Words(tuple(listed), ((0, 0),) * (len(listed) - 1)))


def _range(field: str, value: Any, schema: Schema | None) -> Node:
    bounds = [(key, each) for key, each in value.items() if key in ("lt", "lte", "gt", "gte")]
    if set(value) - {"lt", "lte", "gt", "gte", "boost"} or not bounds:
        raise _Untranslatable(f"{field}: a range with {', '.join(sorted(value))}")
    if len(bounds) > 1 and _is_multiple(field, schema):
        raise _Untranslatable(f"{field}: two bounds for one of several values")
    return _and(Predicate(field, _ORDER[key], each) for key, each in bounds)


def _prefixed(field: str, value: Any, _: Schema | None) -> Node:
    found, options = _option(value, "value")
    return _pattern(field, f"{escaped(str(found))}%", ignoring_case=bool(options.get("case_insensitive")))


def _wild(field: str, value: Any, _: Schema | None) -> Node:
    found, options = _option(value, "value", "wildcard")
    return _pattern(field, _wildcard(str(found), one=True), ignoring_case=bool(options.get("case_insensitive")))


def _lucene_regex(field: str, value: Any, _: Schema | None) -> Node:
    found, options = _option(value, "value")
    if set(str(found)) & set('~&<>@#"'):
        raise _Untranslatable(f"{field}: a regular expression with operators of Lucene's own")
    return _regex(field, f"{'(?is)' if options.get('case_insensitive') else '(?s)'}^(?:{found})$")


# --- selectors --------------------------------------------------------------------------------------------------------


def _selectors(dialect: Dialect, text: str, source: str, schema: Schema | None) -> Iterator[Imported]:
    for number, (id, name, selector) in enumerate(_listed_selectors(text, source)):
        known = f"{dialect}:{id or f'{source}#{number}'}"
        yield _made(known, name or known, lambda selector=selector: _selected(selector, dialect, schema))  # type: ignore[misc]


def _listed_selectors(text: str, source: str) -> Iterator[tuple[str, str, str]]:
    """Yield id, name and text of each: lines, of which those with -- before them are comments, or JSON."""
    if not text.lstrip().startswith(("{", "[")):
        for line in text.splitlines():
            if line.strip() and not line.lstrip().startswith("--"):
                yield "", line.strip()[:80], line
        return
    for _, rule in _document(text, source):
        given = rule if isinstance(rule, Mapping) else {"selector": rule}
        found = next((given[key] for key in ("selector", "sql", "expression") if isinstance(given.get(key), str)), None)
        if found is None:
            raise LanguageError(f"{source}: a rule has a selector, an expression or sql: {json.dumps(rule)[:80]}")
        yield str(given.get("id", "")), str(given.get("name", "")), found


def _selected(selector: str, dialect: Dialect, schema: Schema | None) -> Node:
    found = parse_selector(selector, dialect)
    check_size(found)
    return _typed(found, schema)


def _typed(node: Node, schema: Schema | None) -> Node:
    """Return a condition in which numbers compared with texts for being the same are texts, as CESQL casts them."""
    match node:
        case And(parts) | Or(parts):
            return type(node)(tuple(_typed(part, schema) for part in parts))
        case Not(part):
            return Not(_typed(part, schema))
        case Predicate(name, Op.EQ | Op.NE as op, bool() | int() | float() as value):
            same = _equal(name, value, schema)
            return replace(same, op=op) if isinstance(same, Predicate) else same
        case _:
            return node


_LEAVES: dict[str, Callable[[str, Any, Schema | None], Node]] = {
    "term": _term, "terms": _terms, "match": _match, "match_phrase": _match_phrase, "range": _range, "prefix": _prefixed,
    "wildcard": _wild, "regexp": _lucene_regex,
}  # fmt: skip
_IMPORTERS: dict[str, Callable[[str, str, Schema | None], Iterator[Imported]]] = {
    "sigma": _sigma, "eventbridge": _eventbridge, "percolator": _percolator, "cesql": partial(_selectors, "cesql"),
    "jms": partial(_selectors, "jms"),
}  # fmt: skip
