"""The tree of commands. Each command lives in a module of its own beside this one.

Exit codes: 0 it went well; 1 it ran, and some of the input was bad or the answer is no; 2 it could not run.
"""

from __future__ import annotations

import typer

from tocsin.cli import (
    admin,
    bench,
    db,
    demo,
    explain,
    index_commands,
    lab,
    load,
    match,
    operators,
    parse,
    pipeline,
    schema,
    serve,
    symmetric,
)

app = typer.Typer(
    name="tocsin",
    help="Who wants to know about this event? Match events against many standing subscriptions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(schema.app, name="schema")
app.add_typer(db.app, name="db")
app.add_typer(admin.app, name="admin")
app.add_typer(index_commands.app, name="index")
app.add_typer(bench.app, name="bench")
app.add_typer(lab.app, name="lab")
app.add_typer(operators.app, name="operators")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(symmetric.app, name="symmetric")
app.command("parse")(parse.parse)
app.command("match")(match.match)
app.command("explain")(explain.explain)
app.command("demo")(demo.demo)
app.command("serve")(serve.serve)
app.command("load")(load.load)


@app.command()
def version() -> None:
    """Print the version."""
    import tocsin

    print(tocsin.__version__)
