"""One domain as the thesis's <DOMAIN>, in a schema (schema_form.py) and in a request to add one (requests.py).

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

from collections.abc import Iterable, Set
from typing import Any

from lxml import etree

from tocsin.errors import BadDefinition, did_you_mean, nearest
from tocsin.schema.document import domain_from
from tocsin.schema.domain import Domain, NumericDomain, TextDomain, is_number
from tocsin.schema.enumeration import EnumeratedDomain
from tocsin.schema.hierarchy import HierarchicalDomain
from tocsin.xml.safe_xml import Element, elements, line_of, text_of

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
}
KIND_OF = {
    "numeric": "numeric",
    "string": "text",
    "enum": "enumerated",
    "hierarchical": "hierarchical",
    "boolean": "boolean",
    "time": "time",
    "point": "point",
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
    check_element(element, attributes=ATTRIBUTES, children={"OPER", "VALUE", "LESS"})
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
    pairs = [_pair(child) for child in elements(element) if child.tag == "LESS"]
    return spec | ({"less": pairs} if pairs else {})


def _pair(element: Element) -> tuple[str, str]:
    check_element(element, attributes={"low", "high"})
    return element.get("low", ""), element.get("high", "")


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
