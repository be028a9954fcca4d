"""The `tocsin` command. Commands import what they need when they run, so that `--help` answers at once."""

from __future__ import annotations

import sys
from collections.abc import Callable


def main() -> None:
    """Run the command line; errors that Tocsin raises on purpose end in a message and exit code 2."""
    from tocsin import plugins
    from tocsin.errors import TocsinError

    try:
        plugins.require("cli")
        from tocsin.cli.app import app

        _run(app)
    except TocsinError as error:
        message = str(error)  # one that shows the place starts on a line of its own
        print(f"tocsin:{chr(10) if chr(10) in message else ' '}{message}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # `tocsin match … | head` is no error
        sys.stderr.close()
        sys.exit(0)


def _run(app: Callable[[], object]) -> None:
    """Run the commands; what one of them cannot import is told by the extra that has it."""
    from tocsin import plugins

    try:
        app()
    except ModuleNotFoundError as error:
        found = plugins.missing(error)
        if found is None:
            raise
        raise found from None
