"""`tocsin db`: upgrade, check, back up and restore a store."""

from __future__ import annotations

from pathlib import Path

import typer

from tocsin.cli.console import JSON_OPTION, print_json

app = typer.Typer(help="Look after a store: upgrade, check, backup, restore.", no_args_is_help=True)
STORE = typer.Argument(help="The store: a SQLite file, or postgresql://user@host/database.")


@app.command()
def upgrade(store: str = STORE, json: bool = JSON_OPTION) -> None:
    """Make the tables of a store, or bring them to this version."""
    from tocsin.store.upgrade import upgrade as run

    before, after = run(store)
    if json:
        print_json({"before": before, "after": after})
    else:
        print(f"version {after}" + ("" if before == after else f", was {before or 'empty'}"))


@app.command()
def check(store: str = STORE, json: bool = JSON_OPTION) -> None:
    """Check everything that should hold in a store. Exit code 1: something does not."""
    from tocsin.errors import StoreError
    from tocsin.store import Store
    from tocsin.store.check import check as run

    if "://" not in store and not Path(store).exists():
        raise StoreError(f"there is no store {store}")
    opened = Store.open(store)
    try:
        problems = run(opened)
        seq = opened.meta().seq
    finally:
        opened.close()
    if json:
        print_json({"seq": seq, "problems": problems})
    else:
        print("\n".join(problems) or f"all is well, up to seq {seq}")
    if problems:
        raise typer.Exit(1)


@app.command()
def backup(
    store: str = STORE,
    file: Path = typer.Argument(help="The file to write; it must not exist."),
    json: bool = JSON_OPTION,
) -> None:
    """Back a store up into one file, from one moment, while it is in use."""
    from tocsin.store.backup import backup as run

    _report(run(store, file), str(file), json)


@app.command()
def restore(
    store: str = STORE, file: Path = typer.Argument(help="A backup, of either database."), json: bool = JSON_OPTION
) -> None:
    """Make a store out of a backup, where there is none yet."""
    from tocsin.store.backup import restore as run

    _report(run(store, file), store, json)


def _report(seq: int, where: str, json: bool) -> None:
    if json:
        print_json({"seq": seq, "written": where})
    else:
        print(f"{where}: everything up to seq {seq}")
