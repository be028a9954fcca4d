"""Registries by name: what a setting, an option or a worker of Spark says, and the registry that it stands for.

installed                       the built-in operators, and those that packages offer
operators.toml                  the same, with a settings file (builtin/settings.py)
package.module:function         what a function without arguments returns
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tocsin.errors import NotSupported
from tocsin.operators.registry import Registry

INSTALLED = "installed"


def open_registry(given: Registry | str | Path | None) -> Registry:
    """Return the registry that is given or named; none is one without operators. Raises NotSupported, FileError."""
    if given is None:
        return Registry()
    if isinstance(given, Registry):
        return given
    if given == INSTALLED:
        return Registry.installed()
    module, colon, name = str(given).partition(":")
    if colon and not Path(given).exists() and not str(given).endswith(".toml"):
        return _made(str(given), module, name)
    return Registry.installed(Path(given))


def _made(reference: str, module: str, name: str) -> Registry:
    """Return what the function of that name makes."""
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise NotSupported(f"{reference!r} does not lead to a function that makes a registry: {error}") from None
    made = found()
    if not isinstance(made, Registry):
        raise NotSupported(f"{reference!r} returns {type(made).__name__}, not a Registry")
    return made
