"""Where compiled kernels are kept: where Numba finds a place, else in a temporary folder of this user, else nowhere.

Numba's places are NUMBA_CACHE_DIR, the folder of the source, and the user's cache folder. A process without any of them
(packages that cannot be written to, no home) could not even import a kernel: Numba refuses to decorate it.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Return the function, to be compiled at its first call and kept where there is a place."""
    import numba  # a second; whoever only wants to know the folder does without

    if not _has_stray_home(function):
        with suppress(RuntimeError):  # Numba has no place
            return numba.njit(cache=True, **options)(function)
    folder = _chosen_folder()
    if folder is not None:
        with suppress(RuntimeError), _numba_keeps_in(folder):
            return numba.njit(cache=True, **options)(function)
    return numba.njit(**options)(function)


def _has_stray_home(function: Callable[..., Any]) -> bool:
    """Return whether Numba would make a folder `~` in the current one, taking it for the home that nobody knows."""
    if _settings().CACHE_DIR or os.environ.get("XDG_CACHE_HOME"):
        return False
    if os.access(Path(function.__code__.co_filename).parent, os.W_OK):
        return False
    try:
        Path.home()
    except RuntimeError:  # neither HOME nor the list of users tells
        return True
    return False


@cache
def _chosen_folder() -> str | None:
    """Return the folder that takes the place of Numba's, and say so, once."""
    folder = temporary_folder()
    where = "are compiled anew by each process, which takes a minute" if folder is None else f"are kept in {folder}"
    log.warning(
        "compiled kernels cannot be kept beside their source nor in a home folder, so they %s; "
        "set NUMBA_CACHE_DIR to a folder that can be written to",
        where,
    )
    return folder


def temporary_folder() -> str | None:
    """Return a folder among the temporary ones that is this user's alone, the same each time; None where there is none.

    What is kept there is code that will be run: a folder that somebody else may write to is not taken.
    """
    user = os.getuid() if hasattr(os, "getuid") else "user"
    try:
        folder = Path(tempfile.gettempdir()) / f"tocsin-kernels-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or (os.name == "posix" and (found.st_uid != user or found.st_mode & 0o022)):
            return None
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return str(folder)


@contextmanager
def _numba_keeps_in(folder: str) -> Iterator[None]:
    """Let Numba keep what is decorated meanwhile in this folder; other packages' functions go where they always do."""
    settings = _settings()
    before = settings.CACHE_DIR
    settings.CACHE_DIR = folder
    try:
        yield
    finally:
        settings.CACHE_DIR = before


def _settings() -> Any:
    """Return Numba's settings, which have no types."""
    from numba import config

    return config
