"""`tocsin site`: sites of one's account on a running service, to publish as; and their stored mappings."""

from __future__ import annotations

from pathlib import Path

import typer

from tocsin.cli.console import JSON_OPTION, print_json, warn
from tocsin.cli.mapping import mapping_toml, read_documents, read_mapping
from tocsin.cli.remote import TOKEN_OPTION, URL_OPTION, connect

app = typer.Typer(help="Publish as a site of your own: events say where they come from.", no_args_is_help=True)
_NAME = typer.Argument(help="The site's name.")
_CONTACT = typer.Option(None, help="How to reach you: an e-mail address, a telephone number. Everybody sees it.")
_HOME_PAGE = typer.Option(None, help="The site's address, https://…")


@app.command()
def add(
    name: str = _NAME,
    contact: str | None = _CONTACT,
    home_page: str | None = _HOME_PAGE,
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
) -> None:
    """Make a site; then `tocsin publish --site NAME`."""
    with connect(url, token) as client:
        print(client.add_site(name, contact=contact or "", home_page=home_page or "").name)


@app.command("list")
def list_sites(
    own: bool = typer.Option(False, help="Only those of the account."),
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """List sites: name, owner, contact, home page, and the version of the mapping."""
    with connect(url, token) as client:
        cursor: str | None = None
        while True:
            page = client.sites(own=own, cursor=cursor)
            for one in page.items:
                if json:
                    print_json(one)
                else:
                    mapping = "" if one.mapping is None else f"mapping {one.mapping}"
                    print(
                        "  ".join(part for part in (one.name, one.owner, one.contact, one.home_page, mapping) if part)
                    )
            cursor = page.cursor
            if cursor is None:
                return


@app.command()
def change(
    name: str = _NAME,
    contact: str | None = _CONTACT,
    home_page: str | None = _HOME_PAGE,
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
) -> None:
    """Say how to reach a site; events that come from now on tell so."""
    with connect(url, token) as client:
        client.change_site(name, contact=contact, home_page=home_page)


@app.command()
def end(name: str = _NAME, url: str | None = URL_OPTION, token: str | None = TOKEN_OPTION) -> None:
    """Let nobody publish as a site any more; its name stays taken."""
    with connect(url, token) as client:
        client.end_site(name)


@app.command()
def join(
    name: str = _NAME,
    samples: str = typer.Argument(help="The site's documents: .jsonl, .csv."),
    event_type: str | None = typer.Option(None, "--type", help="The event type that its documents become."),
    yes: bool = typer.Option(False, "--yes", help="Do it: extend the schema, and store the mapping."),
    words: str = typer.Option("", help="Why."),
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
) -> None:
    """Propose from samples what the schema needs and the mapping; with --yes, do it. Exit code 1: it waits for an admin."""
    from itertools import islice

    import msgspec

    from tocsin.language.joining import propose_joining
    from tocsin.schema.document import from_document

    with connect(url, token) as client:
        schema = from_document(client.schema())
        found = propose_joining(name, list(islice(read_documents(samples), 10_000)), schema, event_type)
        for line in (*map(str, found.conflicts), *found.notes):
            warn(line)
        if not yes:
            print_json({"changes": found.changes})
            print(mapping_toml(found.mapping), end="")
            return
        if found.changes:
            done = client.extend_schema(found.changes, words=words or f"{name} joins")
            if done.proposal is not None:
                warn(f"the schema waits for an admin's yes, as proposal {done.proposal}; then run this again")
                raise typer.Exit(1)
        stored = client.set_site_mapping(name, msgspec.to_builtins(found.mapping), words=words)
        print(f"{len(found.changes)} extensions, mapping version {stored.version}")


@app.command()
def mapping(
    name: str = _NAME,
    file: Path | None = typer.Argument(None, help="A mapping to store as the next version, .toml or .json."),
    words: str = typer.Option("", help="Why."),
    version: int | None = typer.Option(None, min=1, help="Print this version; without a file, the newest."),
    history: bool = typer.Option(False, help="List all versions: who stored them, when and why."),
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
) -> None:
    """Store a site's mapping, or print what is stored."""
    import msgspec

    from tocsin.language.mapping import MappingDocument

    with connect(url, token) as client:
        if file is not None:
            stored = client.set_site_mapping(name, msgspec.to_builtins(read_mapping(file)), words=words)
            print(f"version {stored.version}")
        elif history:
            for one in client.site_mappings(name).items:
                print(f"{one.version}  {one.at:%Y-%m-%d %H:%M}  {one.who}  {one.words}".rstrip())
        else:
            found = client.site_mapping(name, version=version).mapping
            print(mapping_toml(msgspec.convert(found, MappingDocument)), end="")
