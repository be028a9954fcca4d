"""What commands share: reading lines and schemas, printing as JSON or for people, progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from tocsin.errors import FileError, SchemaError

if TYPE_CHECKING:
    from tocsin.schema import Schema

T = TypeVar("T")
SCHEMA_OPTION = typer.Option(
    None, "--schema", "-s", help="The schema: a .json, .toml or .xml file, or an example's name."
)
OPERATORS_OPTION = typer.Option(
    "installed",
    envvar="TOCSIN_OPERATORS",
    help="Operators that subscriptions may call: installed, a TOML file, module:function.",
)
PROGRAMS_OPTION = typer.Option(
    None, envvar="TOCSIN_PROGRAMS", help="Programs that offers may call: a TOML or JSON file."
)
JSON_OPTION = typer.Option(False, "--json", help="Print JSON, for programs.")


def load_schema(name: str) -> Schema:
    """Return the schema of a file, or the packaged example of that name."""
    from tocsin.schema import examples, files

    if not Path(name).exists() and name in examples.example_names():
        return examples.load_example(name)
    return files.load(Path(name))


def required_schema(name: str | None) -> Schema:
    if name is None:
        raise SchemaError("name a schema with --schema FILE (or propose one with: tocsin schema infer EVENTS)")
    return load_schema(name)


def read_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a file, or of standard input for '-'."""
    if path == "-":
        yield from sys.stdin.buffer
        return
    try:
        with Path(path).open("rb") as file:
            yield from file
    except OSError as error:
        raise FileError(path, error.strerror or str(error)) from None


def read_json_lines(path: str) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) of a JSONL file; blank lines are passed over."""
    import msgspec

    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            try:
                yield number, msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                raise FileError(path, f"not JSON: {error}", line=number) from None


def print_json(value: object) -> None:
    import msgspec

    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")


def warn(message: str) -> None:
    print(message, file=sys.stderr)


@contextmanager
def progress(title: str, items: Iterable[T], total: int | None = None) -> Iterator[Iterable[T]]:
    """Yield the items; a bar on the terminal shows how far they are, unless the errors go elsewhere."""
    if not sys.stderr.isatty():
        yield items
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield bar.track(items, total=total, description=title)
