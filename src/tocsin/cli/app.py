"""The tree of commands. Each command lives in a module of its own beside this one, or in another distribution.

Exit codes: 0 it went well; 1 it ran, and some of the input was bad or the answer is no; 2 it could not run.

Commands of other distributions: each is loaded when it is called.

A command is an entry point of the group tocsin.commands that leads to a Typer app or to a function. `tocsin --help` lists
those that are known here, installed or not; one that is not says what to install. Which others there are is looked up
only when such a name is asked for: reading what is installed takes as long as all the rest of `--help`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

import tocsin
from tocsin import plugins
from tocsin.cli import db, doctor, mapping, match, operators, pipeline, remote, rules, schema, serve, site

# Name -> the distribution that has it, and what it is.
KNOWN = {
    "demo": ("tocsin-examples", "The auction house, with its pages, on local Spark; or flights; or cameras."),
    "load": ("tocsin-examples", "Ask a running service at random; print rates and latencies."),
    "lab": ("tocsin-lab", "Compare the papers' matching algorithms: experiments, a report, advice, pictures."),
    "bench": ("tocsin-lab", "Measure matching, on your own files or on seeded workloads."),
}
_ALL_ARE_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


class CommandGroup(TyperGroup):
    """Commands, those included that other distributions have and nobody here knows."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in plugins.installed(plugins.COMMANDS):
            app = new_app()
            add_plugin_command(app, cmd_name, "")
            found = typer.main.get_command(app)
        return found


def new_app(**settings: Any) -> typer.Typer:
    """Return an app that looks as all of ours do."""
    settings = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None, **settings}
    return typer.Typer(**settings)


def add_plugin_commands(app: typer.Typer) -> None:
    """Add the commands that are known to be elsewhere."""
    for name, (_, words) in KNOWN.items():
        add_plugin_command(app, name, words)


def add_plugin_command(app: typer.Typer, name: str, words: str) -> None:
    """Add a command that loads the one of that name, and passes everything on to it."""

    def go_through(context: typer.Context) -> None:
        homes = {known: home for known, (home, _) in KNOWN.items()}
        found = plugins.load(plugins.COMMANDS, name, f"`tocsin {name}`", homes)
        path, _, _ = context.command_path.rpartition(" ")
        code = typer.main.get_command(_alone(name, found))([name, *context.args], prog_name=path, standalone_mode=False)
        if isinstance(code, int) and code:
            raise typer.Exit(code)

    app.command(name, help=words, add_help_option=False, context_settings=_ALL_ARE_PASSED_ON)(go_through)


def _alone(name: str, found: typer.Typer | Callable[..., Any]) -> typer.Typer:
    """Return an app that has this command and no other."""
    app = new_app(callback=lambda: None)  # with a callback it takes the command's name also where it is a function
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)
    return app


# The tree of commands.


app = new_app(
    name="tocsin",
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=True,
)
app.add_typer(schema.app, name="schema")
app.add_typer(mapping.app, name="mapping")
app.add_typer(site.app, name="site")
app.add_typer(db.app, name="db")
app.add_typer(serve.app, name="admin")
app.add_typer(db.index_app, name="index")
app.add_typer(operators.app, name="operators")
app.add_typer(pipeline.app, name="pipeline")
app.command("parse")(match.parse)
app.command("match")(match.match)
app.command("import")(match.import_rules)
app.command("explain")(match.explain)
app.command("serve")(serve.serve)
app.command("login")(remote.login)
app.command("subscribe")(remote.subscribe)
app.command("unsubscribe")(remote.unsubscribe)
app.command("publish")(remote.publish)
app.command("listen")(remote.listen)
app.command("why")(remote.why)
app.command("export")(rules.export)
app.command("apply")(rules.apply)
app.command("test")(rules.hold)
app.command("capacity")(doctor.capacity)
app.command("doctor")(doctor.doctor)
app.command("warm")(doctor.warm)
add_plugin_commands(app)


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
