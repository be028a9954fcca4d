"""The schema as the thesis's XML (<IESCHEMA>, appendix A), which loads as it is printed there.

    A      the attributes' names, event_type among them
    ET     the event types' names
    D      the domains, named by their oid: numeric, string, enum, with their operators
    DOM    attribute -> domain
    E      the event types' attributes: mandatory or not, unique or not

A schema that the thesis can express is written in its vocabulary alone. The rest is added to that: IESCHEMA version,
DOMAIN types hierarchical, boolean, time and point, U (unions). What is written reads back as an equal schema. The requests of the thesis are in requests.py; their DTDs in requests.py.

One domain as the thesis's <DOMAIN>, in a schema and in a request to add one (requests.py).

    <DOMAIN oid="5" type="enum" attr="wood ,carbon">
      <OPER type="eq" />
    </DOMAIN>

The thesis has the types numeric, string and enum, and the operators eq, noteq, gt, lt, gteq, lteq, contains. Added to
that, where a domain needs it: types hierarchical, boolean, time, point; operators kindof, startswith, like, within,
inbox; attributes number (int, decimal), minimum, maximum, case, max_length, order, operators="none"; elements
<VALUE below="…"> for values with commas or in a hierarchy, <LESS low="…" high="…"/> for a partial order. No <OPER> means
all operators that the type allows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any

from lxml import etree

from tocsin.errors import BadDefinition, SchemaError, did_you_mean, nearest
from tocsin.schema.document import domain_from
from tocsin.schema.domain import Domain, NumericDomain, TextDomain, is_number
from tocsin.schema.event_type import EVENT_TYPE, EventType, TypeAttribute, Union, Unknown
from tocsin.schema.finite_domains import EnumeratedDomain, HierarchicalDomain
from tocsin.schema.schema import Schema
from tocsin.xml.safe_xml import Element, elements, line_of, parse, text_of

OPERATOR_OF = {
    "eq": "=",
    "noteq": "!=",
    "gt": ">",
    "lt": "<",
    "gteq": ">=",
    "lteq": "<=",
    "contains": "contains",
    "kindof": "kind of",
    "startswith": "starts with",
    "like": "like",
    "within": "within",
    "inbox": "in box",
    "inpolygon": "in polygon",
    "innetwork": "in network",
}
KIND_OF = {
    "numeric": "numeric",
    "string": "text",
    "enum": "enumerated",
    "hierarchical": "hierarchical",
    "boolean": "boolean",
    "time": "time",
    "point": "point",
    "ip": "ip",
    "object": "object",
}
ATTRIBUTES = {
    *("oid", "name", "type", "attr", "operators"),
    *("number", "minimum", "maximum", "case", "max_length", "order"),
}
_TYPE_OF = {kind: name for name, kind in KIND_OF.items()}


# --- writing ----------------------------------------------------------------------------------------------------------


def domain_element(domain: Domain) -> Element:
    """Return <DOMAIN …>, in the thesis's vocabulary where that suffices."""
    element = etree.Element("DOMAIN", oid=domain.name, type=_TYPE_OF[domain.kind])
    if isinstance(domain, NumericDomain):
        _set(element, number=None if domain.type == "float" else domain.type)
        _set(element, minimum=domain.minimum, maximum=domain.maximum)
    elif isinstance(domain, TextDomain):
        _set(element, case=None if domain.case == "sensitive" else domain.case, max_length=domain.max_length)
    elif isinstance(domain, EnumeratedDomain):
        _write_values(element, domain)
    elif isinstance(domain, HierarchicalDomain):
        for value, above in domain.parents.items():
            child = etree.SubElement(element, "VALUE")
            child.text = value
            _set(child, below=above)
    if isinstance(domain, EnumeratedDomain | HierarchicalDomain):
        for alias, value in domain.aliases:
            etree.SubElement(element, "ALIAS", name=alias, means=value)
    _write_operators(element, domain)
    return element


def _write_values(element: Element, domain: EnumeratedDomain) -> None:
    _set(element, order=None if domain.order == "none" else domain.order)
    if any("," in value for value in domain.values):
        for value in domain.values:
            etree.SubElement(element, "VALUE").text = value
    else:
        element.set("attr", ", ".join(domain.values))
    for low, high in domain.less:
        etree.SubElement(element, "LESS", low=low, high=high)


def _write_operators(element: Element, domain: Domain) -> None:
    # The thesis lists the operators of its domains always; other kinds list them only where they offer fewer.
    plain = isinstance(domain, NumericDomain | EnumeratedDomain)
    operators = domain.offered if plain else domain.operators
    if domain.operators == frozenset():
        element.set("operators", "none")
    for code, operator in OPERATOR_OF.items():
        if operators is not None and operator in operators:
            etree.SubElement(element, "OPER", type=code)


def _set(element: Element, **attributes: object) -> None:
    for name, value in attributes.items():
        if value is not None:
            element.set(name, str(value))


# --- reading ----------------------------------------------------------------------------------------------------------


def read_domain(element: Element, default_name: str | None = None) -> tuple[Domain, str]:
    """Return the domain and its oid; the name is the attribute `name`, else the oid, else the default."""
    check_element(element, attributes=ATTRIBUTES, children={"OPER", "VALUE", "LESS", "ALIAS"})
    oid = (element.get("oid") or element.get("name") or default_name or "").strip()
    name = (element.get("name") or oid).strip()
    kind = element.get("type", "")
    if kind not in KIND_OF:
        raise refuse(element, f"type {kind!r} is not one of {', '.join(KIND_OF)}{did_you_mean(nearest(kind, KIND_OF))}")
    spec: dict[str, Any] = {"kind": KIND_OF[kind]}
    for attribute, field in (("number", "type"), ("case", "case"), ("order", "order")):
        if attribute in element.attrib:
            spec[field] = element.get(attribute)
    for attribute in ("minimum", "maximum", "max_length"):
        if attribute in element.attrib:
            spec[attribute] = _number(element, attribute)
    spec |= _read_children(element, spec["kind"])
    try:
        return domain_from(name, spec, "domain"), oid
    except BadDefinition as error:
        raise refuse(element, str(error)) from None


def _number(element: Element, attribute: str) -> int | float:
    text = element.get(attribute, "").strip()
    if not is_number(text):
        raise refuse(element, f"{attribute} {text!r} is not a number")
    try:
        return int(text)
    except ValueError:
        return float(text)


def _read_children(element: Element, kind: str) -> dict[str, Any]:
    """Return the fields of a domain that its elements, and the list in `attr`, give."""
    spec: dict[str, Any] = {}
    codes = [_operator(child) for child in elements(element) if child.tag == "OPER"]
    if codes or element.get("operators") == "none":
        spec["operators"] = codes
    listed = [child for child in elements(element) if child.tag == "VALUE"]
    for child in listed:
        check_element(child, attributes={"below"} if kind == "hierarchical" else frozenset())
    if kind == "hierarchical":
        spec["tree"] = _tree(listed)
    elif kind == "enumerated":
        spec["values"] = [text_of(value).strip() for value in listed] or _split(element.get("attr", ""))
    elif listed or element.get("attr", "").strip():
        raise refuse(element, "only enumerated and hierarchical domains list values")
    pairs = [_pair(child, "low", "high") for child in elements(element) if child.tag == "LESS"]
    aliases = [_pair(child, "name", "means") for child in elements(element) if child.tag == "ALIAS"]
    return spec | ({"less": pairs} if pairs else {}) | ({"aliases": aliases} if aliases else {})


def _pair(element: Element, first: str, second: str) -> tuple[str, str]:
    check_element(element, attributes={first, second})
    return element.get(first, ""), element.get(second, "")


def _split(text: str) -> list[str]:
    return [value.strip() for value in text.split(",") if value.strip()]


def _operator(element: Element) -> str:
    check_element(element, attributes={"type"})
    code = element.get("type", "")
    if code not in OPERATOR_OF:
        raise refuse(element, f"type {code!r} is not one of {', '.join(OPERATOR_OF)}")
    return OPERATOR_OF[code]


def _tree(listed: Iterable[Element]) -> dict[str, Any]:
    """Return the hierarchy; each value comes after the one that it lies below."""
    tree: dict[str, Any] = {}
    places: dict[str | None, dict[str, Any]] = {None: tree}
    for element in listed:
        value, below = text_of(element).strip(), element.get("below")
        if value in places:
            raise refuse(element, f"{value!r} stands in two places of the hierarchy")
        if below not in places:
            raise refuse(element, f"{value!r} lies below {below!r}, which is not above it in the list")
        places[value] = places[below][value] = {}
    return tree


# --- checks -----------------------------------------------------------------------------------------------------------


def check_element(element: Element, *, attributes: Set[str] = frozenset(), children: Set[str] = frozenset()) -> None:
    """Raise BadDefinition where the element has an attribute or a child that it should not."""
    for name in map(str, element.attrib):
        if name not in attributes:
            raise refuse(element, f"there is no attribute {name!r} here{did_you_mean(nearest(name, attributes))}")
    for child in elements(element):
        if child.tag not in children:
            tag = str(child.tag)
            raise refuse(child, f"does not belong into {element.tag}{did_you_mean(nearest(tag, children))}")
        if (child.tail or "").strip():
            raise refuse(element, f"the text {(child.tail or '').strip()[:40]!r} does not belong here")
    if children and (element.text or "").strip():
        raise refuse(element, f"the text {(element.text or '').strip()[:40]!r} does not belong here")


def refuse(element: Element, message: str) -> BadDefinition:
    """Return the error that says what is wrong with an element, and where it is."""
    oid = element.get("oid") or element.get("type") or element.get("name")
    return BadDefinition(f"line {line_of(element)}: {element.tag}{f' {oid!r}' if oid else ''}: {message}")


# The schema as the thesis's XML (<IESCHEMA>, appendix A), which loads as it is printed there.


_SECTIONS = ("A", "ET", "D", "DOM", "E")
_OPENNESS: dict[str, Unknown] = {"true": "ignored", "kept": "kept", "dynamic": "dynamic"}
_UNIONS = "U"  # the unions, which the thesis does not have
_ALIASES, _DEPRECATED = "AL", "DEP"  # nor other names of attributes, nor what should no longer be used


# --- writing ----------------------------------------------------------------------------------------------------------


def to_xml(schema: Schema) -> str:
    """Return the schema as an <IESCHEMA> document."""
    root = etree.Element("IESCHEMA")
    if schema.version != 1:
        root.set("version", str(schema.version))
    attributes, event_types, domains, dom, e = (etree.SubElement(root, name) for name in _SECTIONS)
    for name in (*schema.attributes, EVENT_TYPE):
        etree.SubElement(attributes, "VALUE").text = name
    for name in schema.event_types:
        etree.SubElement(event_types, "VALUE").text = name
    for domain in schema.domains.values():
        domains.append(domain_element(domain))
    if named := _domain_of_event_types(schema):
        etree.SubElement(dom, "ATTR_DOM", name=EVENT_TYPE, type=named)
    for name, domain_name in schema.attributes.items():
        etree.SubElement(dom, "ATTR_DOM", name=name, type=domain_name)
    for event_type in schema.event_types.values():
        element = etree.SubElement(e, "E_TYPE", type=event_type.name)
        if event_type.is_open:
            element.set("open", "true" if event_type.unknown == "ignored" else event_type.unknown)
        for entry in event_type.attributes:
            element.append(type_attribute_element(entry, schema.attributes[entry.attribute]))
    if schema.unions:
        unions = etree.SubElement(root, _UNIONS)
        for union in schema.unions.values():
            etree.SubElement(unions, "UNION", name=union.name, event=union.event, subscriber=union.subscriber)
    for tag, inner, words in (
        (_ALIASES, ("ALIAS", "means"), schema.aliases),
        (_DEPRECATED, ("DEPRECATED", "use"), schema.deprecated),
    ):
        section = etree.SubElement(root, tag) if words else root
        for name, said in words.items():
            etree.SubElement(section, inner[0], {"name": name, inner[1]: said})
    etree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + etree.tostring(root, encoding="unicode") + "\n"


def type_attribute_element(entry: TypeAttribute, domain: str) -> Element:
    """Return <E_ATTR …/> for one attribute of an event type."""
    flags = {"mandatory": str(entry.mandatory).lower(), "unique": str(not entry.multiple).lower()}
    return etree.Element("E_ATTR", {**flags, "domid": domain, "type": entry.attribute})


def _domain_of_event_types(schema: Schema) -> str | None:
    """Return the domain, if there is one, that lists just the event types, as the thesis's event_type has."""
    for domain in schema.domains.values():
        if isinstance(domain, EnumeratedDomain) and domain.values == tuple(schema.event_types):
            return domain.name
    return None


# --- reading ----------------------------------------------------------------------------------------------------------


def from_xml(document: str | bytes) -> Schema:
    """Return the schema that an <IESCHEMA> document describes; raises FileError or BadDefinition."""
    root = parse(document)
    if root.tag != "IESCHEMA":
        raise refuse(root, f"the root of a schema is IESCHEMA, not {root.tag}")
    check_element(root, attributes={"version"}, children={*_SECTIONS, _UNIONS, _ALIASES, _DEPRECATED})
    sections: dict[str, Element] = {}
    for element in elements(root):
        if element.tag in sections:
            raise refuse(element, "stands here a second time")
        sections[str(element.tag)] = element
    try:
        return _schema(root, sections)
    except BadDefinition:
        raise
    except SchemaError as error:
        raise BadDefinition(str(error)) from None


def _schema(root: Element, sections: Mapping[str, Element]) -> Schema:
    names = _values(sections.get("A"))
    names.pop(EVENT_TYPE, None)
    types = _values(sections.get("ET"))
    domains: dict[str, Domain] = {}
    by_oid: dict[str, str] = {}
    for element in _children(sections.get("D"), "DOMAIN"):
        domain, oid = read_domain(element)
        if domain.name in domains or oid in by_oid:
            raise refuse(element, f"there is a domain {domain.name!r} already")
        domains[domain.name] = domain
        by_oid[oid] = domain.name
    by_oid = {name: name for name in domains} | by_oid
    domain_of = _domains_of_attributes(sections.get("DOM"), names, by_oid)
    described = _event_types(sections.get("E"), types, domain_of, by_oid)
    event_types = {name: described.get(name) or EventType(name, ()) for name in types}
    unions = _unions(sections.get(_UNIONS))
    attributes = {name: domain_of[name] for name in names}
    aliases = dict(_pair(each, "name", "means") for each in _children(sections.get(_ALIASES), "ALIAS"))
    deprecated = dict(_pair(each, "name", "use") for each in _children(sections.get(_DEPRECATED), "DEPRECATED"))
    return Schema(domains, attributes, event_types, _version(root), unions, aliases, deprecated)


def _unions(section: Element | None) -> dict[str, Union]:
    found: dict[str, Union] = {}
    for element in _children(section, "UNION"):
        check_element(element, attributes={"name", "event", "subscriber"})
        union = Union(_required(element, "name"), _required(element, "event"), _required(element, "subscriber"))
        if union.name in found:
            raise refuse(element, f"there is a union {union.name!r} already")
        found[union.name] = union
    return found


def _version(root: Element) -> int:
    text = root.get("version", "1")
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise refuse(root, f"version {text!r} is not a whole number")
    return int(text)


def _values(section: Element | None) -> dict[str, None]:
    """Return the names that a section lists, in their order."""
    found: dict[str, None] = {}
    for element in _children(section, "VALUE"):
        check_element(element)
        name = text_of(element).strip()
        if name in found:
            raise refuse(element, f"{name!r} is listed twice")
        found[name] = None
    return found


def _domains_of_attributes(
    section: Element | None, names: Collection[str], by_oid: Mapping[str, str]
) -> dict[str, str]:
    """Return attribute -> domain's name. The one of event_type, which the thesis declares, is ours to define."""
    found: dict[str, str] = {}
    for element in _children(section, "ATTR_DOM"):
        check_element(element, attributes={"name", "type"})
        name, oid = _required(element, "name"), _required(element, "type")
        if oid not in by_oid:
            raise refuse(element, f"there is no domain {oid!r}{did_you_mean(nearest(oid, by_oid))}")
        if name in found:
            raise refuse(element, f"the attribute {name!r} has a domain already")
        if name not in names and name != EVENT_TYPE:
            raise refuse(element, f"<A> has no attribute {name!r}{did_you_mean(nearest(name, names))}")
        found[name] = by_oid[oid]
    if missing := [name for name in names if name not in found]:
        raise BadDefinition(f"<DOM>: the attribute {missing[0]!r} has no domain")
    return found


def _event_types(
    section: Element | None, types: Collection[str], domain_of: Mapping[str, str], by_oid: Mapping[str, str]
) -> dict[str, EventType]:
    found: dict[str, EventType] = {}
    for element in _children(section, "E_TYPE"):
        check_element(element, attributes={"type", "open"}, children={"E_ATTR"})
        name = _required(element, "type")
        if name not in types:
            raise refuse(element, f"<ET> has no event type {name!r}{did_you_mean(nearest(name, types))}")
        if name in found:
            raise refuse(element, f"the event type {name!r} is described twice")
        entries = tuple(read_type_attribute(child, domain_of, by_oid) for child in elements(element))
        found[name] = EventType(name, entries, _OPENNESS.get(element.get("open", "false").strip(), "refused"))
    return found


def read_type_attribute(element: Element, domain_of: Mapping[str, str], by_oid: Mapping[str, str]) -> TypeAttribute:
    """Return one attribute of an event type. As in the thesis's own sample, what is not 'true' is false."""
    check_element(element, attributes={"mandatory", "unique", "domid", "type"})
    name = _required(element, "type")
    if name not in domain_of and name != EVENT_TYPE:
        raise refuse(element, f"there is no attribute {name!r}{did_you_mean(nearest(name, domain_of))}")
    oid = element.get("domid")
    if oid is not None and name in domain_of and by_oid.get(oid) != domain_of[name]:
        raise refuse(element, f"{name!r} has the domain {domain_of[name]!r}, not {oid!r}")
    mandatory = element.get("mandatory", "false").strip() == "true"
    unique = element.get("unique", "true").strip() == "true"
    return TypeAttribute(name, mandatory=mandatory, multiple=not unique)


def _children(section: Element | None, tag: str) -> list[Element]:
    if section is None:
        return []
    check_element(section, children={tag})
    return list(elements(section))


def _required(element: Element, attribute: str) -> str:
    value = element.get(attribute)
    if value is None:
        raise refuse(element, f"{attribute} is missing")
    return value.strip()
