"""Server-sent events, read line by line; no input or output of its own, so that both clients use it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event of a stream."""

    kind: str
    data: str
    id: str | None


class StreamReader:
    """Collects what comes until an event is whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._kind, self._data = "message", list[str]()
        self._id: str | None = None
        self.retry_seconds: float | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Take some bytes; yield the events that they complete.

        Lines end at line feeds only, not at whatever Python takes for a line's end: events may hold U+2028.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if (found := self._line(line.removesuffix(b"\r").decode("utf-8", "replace"))) is not None:
                yield found

    def _line(self, text: str) -> ServerEvent | None:
        if not text:
            return self._whole()
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isdigit():
            self.retry_seconds = int(value) / 1000
        return None

    def _whole(self) -> ServerEvent | None:
        kind, data = self._kind, self._data
        self._kind, self._data = "message", []
        return ServerEvent(kind, "\n".join(data), self._id) if data else None
