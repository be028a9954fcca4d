"""`tocsin serve`: the broker over HTTP."""

from __future__ import annotations

import sys

import typer

from tocsin.cli.console import warn


def serve(
    store: str | None = typer.Option(None, help="The store: a path (SQLite) or postgresql://…  [tocsin.db]"),
    schema: str | None = typer.Option(None, help="For a new store: a schema's file, or an example's name.  [auction]"),
    host: str | None = typer.Option(None, help="The address to listen on.  [127.0.0.1]"),
    port: int | None = typer.Option(None, help="The port; 0 takes a free one.  [8080]"),
    xml_port: int | None = typer.Option(None, help="Also take the thesis's XML requests on this plain TCP port."),
    pipeline: str | None = typer.Option(None, help="Who matches: inline (this process), or spark.  [inline]"),
    guests: str | None = typer.Option(None, help="What guests may do: none, read or publish.  [read]"),
    log_level: str | None = typer.Option(None, help="debug, info, warning or error.  [info]"),
) -> None:
    """Serve HTTP, until stopped (Ctrl-C, SIGTERM).

    Settings also come from the environment: TOCSIN_PORT=8080. The first start makes an account `admin` and prints its API token, once.
    """
    from tocsin.service.serve import run
    from tocsin.service.settings import read_settings

    settings = read_settings(
        store=store, schema=schema, host=host, port=port, xml_port=xml_port, pipeline=pipeline, guests=guests,
        log_level=log_level,
    )  # fmt: skip
    run(settings, tell=_tell, warn=warn)


def _tell(line: str) -> None:
    """Print at once: whoever started us may be reading from a pipe."""
    print(line, flush=True)
    sys.stdout.flush()
