"""`tocsin db`: upgrade, check, audit, back up and restore a store.

`tocsin index`: build, merge and check the index of a store, and its figures.
"""

from __future__ import annotations

from pathlib import Path

import typer

from tocsin.cli.console import JSON_OPTION, print_json

app = typer.Typer(help="Look after a store: upgrade, downgrade, check, backup, restore.", no_args_is_help=True)
STORE = typer.Argument(help="The store: a SQLite file, or postgresql://user@host/database.")


@app.command()
def upgrade(store: str = STORE, json: bool = JSON_OPTION) -> None:
    """Make the tables of a store, or bring them to this version."""
    from tocsin.store.database import upgrade as run

    before, after = run(store)
    if json:
        print_json({"before": before, "after": after})
    else:
        print(f"version {after}" + ("" if before == after else f", was {before or 'empty'}"))


@app.command()
def downgrade(
    store: str = STORE,
    version: str = typer.Argument(help="The version of before, as `tocsin db upgrade` printed it: 0007."),
    json: bool = JSON_OPTION,
) -> None:
    """Take the tables of a store back to an earlier version, before that is installed again; nothing acknowledged is lost."""
    from tocsin.store.database import downgrade as run

    _exists(store)
    before, after = run(store, version)
    if json:
        print_json({"before": before, "after": after})
    else:
        print(f"version {after}, was {before}")


@app.command()
def check(
    store: str = STORE,
    head: list[str] = typer.Option([], help="A head that was kept elsewhere, SEQ:DIGITS; again for more."),
    json: bool = JSON_OPTION,
) -> None:
    """Check everything that should hold in a store. Exit code 1: something does not."""
    from tocsin.store import Store
    from tocsin.store.seals import check as run

    _exists(store)
    opened = Store.open(store)
    try:
        problems = run(opened, [_head(one) for one in head])
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


@app.command()
def head(store: str = STORE, json: bool = JSON_OPTION) -> None:
    """Seal the log and print the head of its chain, to be kept elsewhere: `check --head` holds the store against it."""
    from tocsin.store import Store
    from tocsin.store.seals import newest, seal

    _exists(store)
    opened = Store.open(store)
    try:
        seal(opened)
        with opened.read() as connection:
            last = newest(connection)
    finally:
        opened.close()
    if json:
        print_json(None if last is None else {"seq": last.through_seq, "head": last.head.hex()})
    else:
        print("nothing was published yet" if last is None else f"{last.through_seq}:{last.head.hex()}")


@app.command()
def audit(
    store: str = STORE,
    events: int = typer.Option(1000, min=1, help="How many events, drawn at random."),
    subscriptions: int = typer.Option(1000, min=1, help="How many subscriptions, drawn at random."),
    everything: bool = typer.Option(False, "--all", help="All events, and all subscriptions."),
    seed: int = typer.Option(0, help="Of the random draw."),
    json: bool = JSON_OPTION,
) -> None:
    """Match the log again, by the definition, and compare with what is stored. Exit code 1: there is a difference."""
    from tocsin.broker.upkeep import MOST_TOLD
    from tocsin.broker.upkeep import audit as run
    from tocsin.store import Store

    _exists(store)
    opened = Store.open(store)
    try:
        found = run(
            opened,
            most_events=None if everything else events,
            most_subscriptions=None if everything else subscriptions,
            seed=seed,
        )
    finally:
        opened.close()
    told = {
        "events": found.events, "subscriptions": found.subscriptions, "pairs": found.pairs, "left_out": found.left_out,
        "missing": found.missing[:MOST_TOLD], "invented": found.invented[:MOST_TOLD],
        "unreadable": found.unreadable[:MOST_TOLD],
    }  # fmt: skip
    if json:
        print_json(told)
    else:
        print(f"{found.pairs} pairs of {found.events} events and {found.subscriptions} subscriptions; "
              f"{found.left_out} left out: operators and offers")  # fmt: skip
        for what in ("missing", "invented"):
            for seq, id in told[what]:  # type: ignore[attr-defined]
                print(f"{what}: event {seq}, subscription {id}")
        print("\n".join(found.unreadable[:MOST_TOLD]) or "no difference" if found.is_well else "they differ")
    if not found.is_well:
        raise typer.Exit(1)


def _exists(store: str) -> None:
    from tocsin.errors import StoreError

    if "://" not in store and not Path(store).exists():
        raise StoreError(f"there is no store {store}")


def _head(text: str) -> tuple[int, str]:
    seq, colon, digits = text.partition(":")
    if not colon or not seq.isdigit():
        raise typer.BadParameter("a head is SEQ:DIGITS, as `tocsin db head` prints it")
    return int(seq), digits


def _report(seq: int, where: str, json: bool) -> None:
    if json:
        print_json({"seq": seq, "written": where})
    else:
        print(f"{where}: everything up to seq {seq}")


index_app = typer.Typer(
    help="Look after the index of a store; a running broker does so by itself.", no_args_is_help=True
)
FOLDER = typer.Option(None, "--index", help="The folder of the index; beside the file by default.")


@index_app.command("build")
def index_build(store: str = STORE, index: Path | None = FOLDER, json: bool = JSON_OPTION) -> None:
    """Build the index anew from the store."""
    from tocsin.broker.upkeep import build_index

    _show(build_index(store, index), json)


@index_app.command("merge")
def index_merge(store: str = STORE, index: Path | None = FOLDER, json: bool = JSON_OPTION) -> None:
    """Catch up with the store and merge all segments into one."""
    from tocsin.broker.upkeep import merge_index

    _show(merge_index(store, index), json)


@index_app.command("stats")
def index_stats(store: str = STORE, index: Path | None = FOLDER, json: bool = JSON_OPTION) -> None:
    """Show figures of the index as it lies on disk."""
    from tocsin.broker.upkeep import index_stats

    _show(index_stats(store, index), json)


@index_app.command("check")
def index_check(store: str = STORE, index: Path | None = FOLDER, json: bool = JSON_OPTION) -> None:
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
