"""Reading XML that strangers send: bounded, and with no way to reach a file, a socket or an entity.

A first pass (expat) stops at a document type with an internal subset, at an unknown document type, at depth and at sheer numbers,
before anything of it takes effect; only then lxml builds the tree, with entities, DTDs and network off. Used by
schema_form.py for schemas and by requests.py for requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.parsers import expat

from lxml import etree

from tocsin.errors import FileError

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32
MAX_ATTRIBUTES = 64  # of one element
MAX_ELEMENTS = 100_000

Element = etree._Element


def parse(
    document: str | bytes, *, system_ids: Mapping[str, str] | None = None, max_elements: int = MAX_ELEMENTS
) -> Element:
    """Return the root element; raises FileError.

    A document type is refused unless `system_ids` maps its root's name to the file name of its DTD; even then
    nothing is fetched.
    """
    content = document.encode("utf-8", "surrogatepass") if isinstance(document, str) else bytes(document)
    if len(content) > MAX_BYTES:
        raise _error(f"the document has {len(content):,} bytes; at most {MAX_BYTES:,} are read")
    encoding = "utf-8" if isinstance(document, str) else None
    _first_pass(content, encoding, system_ids or {}, max_elements)
    parser = etree.XMLParser(
        encoding=encoding,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
        recover=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise _error(str(error)) from None
    if any(not isinstance(node.tag, str) for node in root.iter()):
        raise _error("entities are not accepted")
    return root


def elements(parent: Element) -> Iterator[Element]:
    """Yield the child elements."""
    yield from parent


def text_of(element: Element) -> str:
    """Return the text of an element that has no children."""
    return element.text or ""


def line_of(element: Element) -> int | None:
    """Return the line on which the element starts."""
    line: object = element.sourceline  # lxml's stubs leave its type open
    return line if isinstance(line, int) else None


def _first_pass(content: bytes, encoding: str | None, system_ids: Mapping[str, str], max_elements: int) -> None:
    parser = expat.ParserCreate(encoding)
    depth = count = 0
    doctype: str | None = None

    def start_doctype(name: str, system_id: str | None, public_id: str | None, has_internal_subset: bool) -> None:
        if has_internal_subset:
            raise _error("declarations inside the document are not accepted", parser.CurrentLineNumber)
        known = system_ids.get(name)
        if known is None or public_id is not None or system_id is None or not _names(system_id, known):
            raise _error(f"the document type {name} {system_id!r} is not known", parser.CurrentLineNumber)
        nonlocal doctype
        doctype = name

    def start_element(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, count
        depth += 1
        count += 1
        if depth == 1 and doctype not in (None, name):
            raise _error(f"the document type is {doctype}, and the root is {name}", parser.CurrentLineNumber)
        if depth > MAX_DEPTH:
            raise _error(f"the document is nested deeper than {MAX_DEPTH}", parser.CurrentLineNumber)
        if count > max_elements:
            raise _error(f"the document has more than {max_elements:,} elements", parser.CurrentLineNumber)
        if len(attributes) > MAX_ATTRIBUTES:
            raise _error(f"an element has more than {MAX_ATTRIBUTES} attributes", parser.CurrentLineNumber)

    def end_element(_name: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartDoctypeDeclHandler = start_doctype
    parser.StartElementHandler = start_element
    parser.EndElementHandler = end_element
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise _error(expat.ErrorString(error.code), error.lineno) from None
    except (LookupError, ValueError) as error:  # an encoding that Python does not have, or not byte by byte
        raise _error(str(error)) from None


def _names(system_id: str, file: str) -> bool:
    """Return whether a system id, which is only compared, ends in that file: 'host:8090/dtds/add_dom.dtd'."""
    return system_id.rpartition("/")[2] == file and not system_id.lower().startswith("file:")


def _error(message: str, line: int | None = None) -> FileError:
    return FileError("<xml>", message, line=line)
