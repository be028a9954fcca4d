"""Where one document ends and the next begins, in the bytes of a connection.

The thesis does not say how its daemon knows; its client opens a connection for each request (section 5.5). Here a
document ends with its root element, so a client may close its side after it, as that one, or wait for the reply and
send the next. This module only looks for the end of the root: each byte is looked at once, however the bytes come.
Whether the document is good is for reading.py to say.
"""

from __future__ import annotations

import codecs
import re

from tocsin.xml.problems import refused
from tocsin.xml.reading import MAX_ELEMENTS
from tocsin.xml.safe_xml import MAX_BYTES, MAX_DEPTH

_IN_TAG = re.compile(rb"""[>"'\[]""")
# What an opening is closed by; a tag and a document type by '>', outside quotes.
_CLOSED_BY = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))
_LONGEST_OPENING = len(b"<![CDATA[")
_MOST_PIECES = 6 * MAX_ELEMENTS  # tags, texts, comments of one document
_BLANK = b" \t\r\n"
_OPEN, _SLASH = b"</"


class Framer:
    """Cuts a stream of bytes into documents. After it has raised, the rest of the stream cannot be cut."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held = bytearray()
        self._restart()

    def _restart(self) -> None:
        self._at = 0  # everything before this was looked at
        self._searched = 0  # where looking for the end of what starts at _at goes on
        self._quote = b""  # the quotation mark within which that is
        self._depth = 0
        self._pieces = 0

    @property
    def empty(self) -> bool:
        """Whether nothing of a document was seen since the last one ended."""
        return not self._held.strip(_BLANK)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the documents that are complete with this data; raises XmlRefused where none can follow."""
        self._held += data
        found = []
        while (end := self._end_of_root()) is not None:
            found.append(self._take(end))
        if len(self._held) > self._most_bytes:
            raise refused(413, "too-large", f"a document has at most {self._most_bytes:,} bytes")
        return found

    def rest(self) -> bytes:
        """Return what is held: at the end of the stream, a document that is not complete, or blanks."""
        return bytes(self._held)

    def _take(self, end: int) -> bytes:
        document = bytes(self._held[:end])
        del self._held[:end]
        self._restart()
        if len(document) > self._most_bytes:
            raise refused(413, "too-large", f"a document has at most {self._most_bytes:,} bytes")
        return document

    def _end_of_root(self) -> int | None:
        """Return where the root element ends; None where more is needed."""
        if self._at == 0 and self._searched == 0 and not self._begin():
            return None
        while (end := self._end_of_piece()) is not None:
            held, start = self._held, self._at
            self._at = self._searched = end
            self._pieces += 1
            if self._pieces > _MOST_PIECES:
                raise refused(400, "malformed", f"the document has more than {MAX_ELEMENTS:,} elements")
            if held[start] != _OPEN or held[start + 1] in b"!?":
                continue
            if held[start + 1] == _SLASH:
                self._depth -= 1
            elif held[end - 2] != _SLASH:
                self._depth += 1
                if self._depth > MAX_DEPTH:
                    raise refused(400, "malformed", f"the document is nested deeper than {MAX_DEPTH}")
            if self._depth <= 0:
                return end
        return None

    def _begin(self) -> bool:
        """Drop blanks between documents, for an XML declaration must come first; return whether one begins."""
        held = self._held
        held[:] = held.lstrip(_BLANK)
        if held.startswith(codecs.BOM_UTF8):
            del held[: len(codecs.BOM_UTF8)]
        if not held or codecs.BOM_UTF8.startswith(held):
            return False
        if held[0] != _OPEN:
            raise refused(400, "malformed", "what was sent does not begin with '<'; send XML in UTF-8")
        return True

    def _end_of_piece(self) -> int | None:
        """Return the end of the text, tag, comment or other piece that starts at _at; None where it is not here yet."""
        held, at = self._held, self._at
        if at >= len(held):
            return None
        if held[at] != _OPEN:
            end = held.find(b"<", self._searched)
            self._searched = len(held)
            return end if end >= 0 else None
        if len(held) - at < _LONGEST_OPENING and b">" not in held[at:]:
            return None  # too short to know what it is
        for opening, closing in _CLOSED_BY:
            if held.startswith(opening, at):
                return self._find(closing, at + len(opening))
        return self._end_of_tag()

    def _find(self, closing: bytes, first: int) -> int | None:
        end = self._held.find(closing, max(first, self._searched - len(closing) + 1))
        self._searched = len(self._held)
        return end + len(closing) if end >= 0 else None

    def _end_of_tag(self) -> int | None:
        """Return the end of a tag or document type; a '>' within quotes does not end it."""
        held = self._held
        position = max(self._searched, self._at + 1)
        while position < len(held):
            if self._quote:
                closing = held.find(self._quote, position)
                if closing < 0:
                    break
                self._quote, position = b"", closing + 1
            found = _IN_TAG.search(held, position)
            if found is None:
                break
            mark, position = found[0], found.end()
            if mark == b">":
                return position
            if mark == b"[":
                if held.startswith(b"<!", self._at):
                    raise refused(400, "malformed", "declarations inside the document are not accepted")
            else:
                self._quote = bytes(mark)
        self._searched = len(held)
        return None
