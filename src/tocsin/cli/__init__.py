"""The `tocsin` command. Commands import what they need when they run, so that `--help` answers at once."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; errors that Tocsin raises on purpose end in a message and exit code 2."""
    from tocsin.cli.app import app
    from tocsin.errors import TocsinError

    try:
        app()
    except TocsinError as error:
        message = str(error)  # one that shows the place starts on a line of its own
        print(f"tocsin:{chr(10) if chr(10) in message else ' '}{message}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # `tocsin match … | head` is no error
        sys.stderr.close()
        sys.exit(0)
