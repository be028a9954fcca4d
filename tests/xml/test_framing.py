"""Framing: documents are told apart however their bytes come, and what cannot be a document is refused early."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.xml.thesis import sample
from tocsin.xml.daemon import Framer
from tocsin.xml.replies import XmlRefused
from tocsin.xml.safe_xml import MAX_DEPTH

TRICKY = [
    b"<a/>",
    b"<a></a>",
    b"""<a x="/>" y='"</a>'/>""",
    b"<?pi <a/> ?><a><!-- </a> --><![CDATA[</a>]]><b/></a>",
    b"<!-- <a> --><a>]]&gt; > <b>></b></a  >",
    b'<?xml version="1.0"?>\n<!DOCTYPE a SYSTEM "x>y.dtd">\n<a/>',
    sample("add_domain").strip(),
    sample("add_event").strip(),
    "<a>\N{GREEK SMALL LETTER ALPHA}</a>".encode(),
]


@given(
    st.lists(st.sampled_from(TRICKY), max_size=5),
    st.lists(st.integers(1, 40), min_size=1),
    st.sampled_from(["", "\n", " \r\n\t"]),
)
def test_documents_are_told_apart_however_they_are_cut(documents: list[bytes], sizes: list[int], between: str) -> None:
    stream = between.encode().join([b"", *documents, b""])
    framer, found, at, turn = Framer(), list[bytes](), 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        found += framer.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    assert found == documents
    assert framer.empty


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_are_cut_or_refused_and_none_are_lost(data: bytes, size: int) -> None:
    framer, found = Framer(), b""
    try:
        for at in range(0, len(data), size):
            found += b"".join(framer.feed(data[at : at + size]))
    except XmlRefused:
        return
    kept = (found + framer.rest()).replace(b"\xef\xbb\xbf", b"").translate(None, b" \t\r\n")
    assert kept == data.replace(b"\xef\xbb\xbf", b"").translate(None, b" \t\r\n")


@given(st.text(alphabet="<>/!-[]?\"'a= \n", max_size=60), st.integers(1, 7))
def test_markup_is_cut_the_same_however_it_comes(text: str, size: int) -> None:
    def cut(step: int) -> list[bytes] | str:
        framer, found = Framer(), list[bytes]()
        data = text.encode()
        try:
            for at in range(0, len(data), step):
                found += framer.feed(data[at : at + step])
        except XmlRefused as refusal:
            return str(refusal)
        return found

    assert cut(size) == cut(max(1, len(text)))


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400, "does not begin"),
        (b"\xff\xfe<\x00", 400, "does not begin"),
        (b"\x00", 400, "does not begin"),
        (b"<a>" * (MAX_DEPTH + 1), 400, "nested deeper"),
        (b'<!DOCTYPE a [<!ENTITY b "', 400, "declarations inside"),
        (b"<a x='" + b"x" * 2000, 413, "at most"),
        (b"<a>" + b"x" * 2000 + b"</a>", 413, "at most"),
    ],
)
def test_what_cannot_become_a_document_is_refused_before_it_is_complete(data: bytes, status: int, message: str) -> None:
    with pytest.raises(XmlRefused, match=message) as caught:
        Framer(1000).feed(data)
    assert caught.value.status == status


def test_very_many_pieces_are_refused() -> None:
    framer = Framer()
    with pytest.raises(XmlRefused, match="more than 2,000 elements"):
        framer.feed(b"<r>" + b"<a/>" * 100_000)
