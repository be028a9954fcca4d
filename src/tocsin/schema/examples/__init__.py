"""Schemas to start from: `thesis` (the sample of the Event Notification System thesis), `auction` and `cameras` (demos)."""

from __future__ import annotations

from pathlib import Path

from tocsin.errors import FileError, did_you_mean, nearest
from tocsin.schema.files import FORMATS, load
from tocsin.schema.schema import Schema


def example_names() -> tuple[str, ...]:
    """Return the names of the examples."""
    return tuple(sorted(path.stem for path in _files()))


def example_path(name: str) -> Path:
    """Return the file of an example."""
    for path in _files():
        if path.stem == name:
            return path
    hint = did_you_mean(nearest(name, example_names())) or f"; there are: {', '.join(example_names())}"
    raise FileError(name, f"there is no example of that name{hint}")


def load_example(name: str) -> Schema:
    """Return the schema of an example."""
    return load(example_path(name))


def _files() -> list[Path]:
    return [path for path in Path(__file__).parent.iterdir() if path.suffix.removeprefix(".") in FORMATS]
