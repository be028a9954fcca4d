"""`tocsin serve`: the broker over HTTP.

`tocsin admin`: what the operator does on the machine: reset a password, make an admin, read the audit trail.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tocsin.cli.console import JSON_OPTION, print_json, warn

if TYPE_CHECKING:
    from tocsin.store import Store


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
    from tocsin.service.app import run
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


# `tocsin admin`.


app = typer.Typer(help="Lead back who is locked out: passwords, admins, the audit trail.", no_args_is_help=True)
STORE = typer.Argument(help="The store: a SQLite file, or postgresql://user@host/database.")
NAME = typer.Argument(help="The account's name.")


@app.command("reset-password")
def reset_password(
    store: str = STORE, name: str = NAME, ask: bool = typer.Option(False, help="Ask for the password.")
) -> None:
    """Give an account another password, and print it once; its sessions and tokens end."""
    from tocsin.service.account_upkeep import reset_password as run

    given = typer.prompt("New password", hide_input=True, confirmation_prompt=True) if ask else None
    with _opened(store) as opened:
        chosen = run(opened, name, given)
    print("done" if ask else chosen)


@app.command("make-admin")
def make_admin(store: str = STORE, name: str = NAME) -> None:
    """Make an account an admin, and enable it; it is made where there is none of that name."""
    from tocsin.service.account_upkeep import make_admin as run

    with _opened(store) as opened:
        without = run(opened, name)
    print(f"{name} is an admin" + (f"; now: tocsin admin reset-password {store} {name}" if without else ""))


@app.command("list")
def admins(store: str = STORE, json: bool = JSON_OPTION) -> None:
    """List the admins who are not disabled."""
    from tocsin.service.account_upkeep import admins as run

    with _opened(store) as opened:
        names = [one.name for one in run(opened)]
    if json:
        print_json(names)
    else:
        print("\n".join(names) or "there is none: tocsin admin make-admin STORE NAME")


@app.command()
def audit(
    store: str = STORE,
    account: str | None = typer.Option(None, help="Of one account only."),
    limit: int = typer.Option(100, min=1, help="How many lines."),
    json: bool = JSON_OPTION,
) -> None:
    """Show who did what with accounts, credentials, webhooks and the schema, the newest first."""
    from tocsin.service.account_upkeep import trail
    from tocsin.store.store import instant

    with _opened(store) as opened:
        found = trail(opened, limit, account)
    rows = [
        {"at": instant(one.at_us).isoformat(), "who": one.who, "action": one.action, "subject": one.subject,
         "address": one.address, "credential": one.credential}
        for one in found
    ]  # fmt: skip
    if json:
        print_json(rows)
    else:
        for row in rows:
            print(f"{row['at']}  {row['who']:<16} {row['action']:<18} {row['subject']}  {row['address']}")


@contextmanager
def _opened(store: str) -> Iterator[Store]:
    from tocsin.errors import StoreError
    from tocsin.store import Store

    if "://" not in store and not Path(store).exists():
        raise StoreError(f"there is no store {store}")
    opened = Store.open(store)
    try:
        yield opened
    finally:
        opened.close()
