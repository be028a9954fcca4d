"""`tocsin index`: build, merge and check the index of a store, and its figures."""

from __future__ import annotations

from pathlib import Path

import typer

from tocsin.cli.console import JSON_OPTION, print_json

app = typer.Typer(help="Look after the index of a store; a running broker does so by itself.", no_args_is_help=True)
STORE = typer.Argument(help="The store: a SQLite file, or postgresql://user@host/database.")
FOLDER = typer.Option(None, "--index", help="The folder of the index; beside the file by default.")


@app.command()
def build(store: str = STORE, index: Path | None = FOLDER, json: bool = JSON_OPTION) -> None:
    """Build the index anew from the store."""
    from tocsin.broker.upkeep import build_index

    _show(build_index(store, index), json)


@app.command()
def merge(store: str = STORE, index: Path | None = FOLDER, json: bool = JSON_OPTION) -> None:
    """Catch up with the store and merge all segments into one."""
    from tocsin.broker.upkeep import merge_index

    _show(merge_index(store, index), json)


@app.command()
def stats(store: str = STORE, index: Path | None = FOLDER, json: bool = JSON_OPTION) -> None:
    """Show figures of the index as it lies on disk."""
    from tocsin.broker.upkeep import index_stats

    _show(index_stats(store, index), json)


@app.command()
def check(store: str = STORE, index: Path | None = FOLDER, json: bool = JSON_OPTION) -> None:
    """Check the index: its files, its structure, and that it holds what the store says. Exit code 1: it does not."""
    from tocsin.broker.upkeep import check_index

    problems = check_index(store, index)
    if json:
        print_json({"problems": problems})
    else:
        print("\n".join(problems) or "all is well")
    if problems:
        raise typer.Exit(1)


def _show(figures: dict[str, object], json: bool) -> None:
    if json:
        print_json(figures)
        return
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):16}{value}")
