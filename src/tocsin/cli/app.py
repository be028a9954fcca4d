"""The tree of commands. Each command lives in a module of its own beside this one, or in another distribution.

Exit codes: 0 it went well; 1 it ran, and some of the input was bad or the answer is no; 2 it could not run.
"""

from __future__ import annotations

import typer

import tocsin
from tocsin.cli import (
    admin,
    db,
    doctor,
    doors,
    explain,
    index_commands,
    match,
    operators,
    parse,
    pipeline,
    schema,
    serve,
)
from tocsin.errors import NotSupported

app = doors.new_app(
    name="tocsin",
    cls=doors.Doors,
    no_args_is_help=True,
    add_completion=True,
)
app.add_typer(schema.app, name="schema")
app.add_typer(db.app, name="db")
app.add_typer(admin.app, name="admin")
app.add_typer(index_commands.app, name="index")
app.add_typer(operators.app, name="operators")
app.add_typer(pipeline.app, name="pipeline")
app.command("parse")(parse.parse)
app.command("match")(match.match)
app.command("explain")(explain.explain)
app.command("serve")(serve.serve)
app.command("doctor")(doctor.doctor)
app.command("warm")(doctor.warm)
doors.add_doors(app)


@app.command("symmetric", hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def symmetric() -> None:
    """Offers are events with rules: `tocsin match` and `tocsin explain` take them, and subscriptions with properties."""
    raise NotSupported("offers are events with rules: use tocsin match, or tocsin explain (docs/offers.md)")


@app.command()
def version() -> None:
    """Print the version."""
    print(tocsin.__version__)


def _print_version(asked: bool) -> None:
    if asked:
        print(tocsin.__version__)
        raise typer.Exit


@app.callback()
def main(
    _: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True, callback=_print_version),
) -> None:
    """Who wants to know about this event? Match events against many standing subscriptions."""
