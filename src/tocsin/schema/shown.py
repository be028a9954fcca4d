"""How schemas, matchers, explanations and plans show themselves: as a table in a notebook, and where rich prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import RenderableType


class ShownTable(NamedTuple):
    """A title, the names of columns, and rows of texts; leading spaces of the first column are kept."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class Shown:
    """What has a table to show. `as_table` says which; notebooks and rich call the rest."""

    __slots__ = ()

    def as_table(self) -> ShownTable:
        """Return what is shown."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        title, header, rows = self.as_table()
        head = "".join(f"<th style='text-align:left'>{escape(one)}</th>" for one in header)
        body = "".join(
            "<tr>" + "".join(f"<td style='text-align:left;white-space:pre'>{escape(one)}</td>" for one in row) + "</tr>"
            for row in rows
        )
        return f"<p><b>{escape(title)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __rich_console__(self, *_: Any) -> Iterator[RenderableType]:
        from rich.table import Table
        from rich.text import Text

        title, header, rows = self.as_table()
        table = Table(*header, title=Text(title), title_justify="left")
        for row in rows:
            table.add_row(*(Text(one) for one in row))
        yield table
