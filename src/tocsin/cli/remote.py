"""Commands that speak to a running service: login, subscribe, unsubscribe, publish, listen, why.

Where it is and who asks: --url and --token, else TOCSIN_URL and TOCSIN_TOKEN, else what `tocsin login` has kept. That is a
file of this user alone, credentials.json under the user's configuration folder; the service's address -> the token.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from tocsin import plugins
from tocsin.cli.console import JSON_OPTION, print_json, progress, read_lines, warn
from tocsin.errors import EventRejected, FileError, TocsinError

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.documents.events import BatchReceipt

DEFAULT_URL = "http://127.0.0.1:8080"
URL_OPTION = typer.Option(None, "--url", envvar="TOCSIN_URL", help=f"The service.  [{DEFAULT_URL}]")
TOKEN_OPTION = typer.Option(None, "--token", envvar="TOCSIN_TOKEN", help="An API token.  [of tocsin login]")
BATCH = 1_000
_MOST_TOLD = 10  # bad events whose reasons are printed


def login(
    name: str = typer.Argument(help="The account's name."),
    url: str | None = URL_OPTION,
    register: bool = typer.Option(False, help="Make the account first."),
    password_stdin: bool = typer.Option(False, help="Read the password from standard input, and ask nothing."),
) -> None:
    """Log in, and keep a token for the commands that follow."""
    if password_stdin:
        password = sys.stdin.readline().rstrip("\n")
    else:
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=register)
    where = url or DEFAULT_URL
    with connect(where, token="") as client:
        if register:
            client.register(name, password)
        token = client.login(name, password, token_name="tocsin login")  # noqa: S106 - the token's name
    keep_token(where, token)
    warn(f"logged in to {where} as {name}; the token is in {credentials_file()}")


def subscribe(
    expression: str = typer.Argument(help="What to be told of: item where price < 20."),
    lease_seconds: float | None = typer.Option(None, help="For how long, unless it is renewed."),
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Subscribe, and print the subscription's id; `tocsin listen` then prints what matches."""
    with connect(url, token) as client:
        made = client.subscribe(expression, lease_seconds=lease_seconds)
    if json:
        print_json(made)
    else:
        print(made.id)
        asks = f", {made.operator_seconds:g} s of operators an event" if made.operator_seconds else ""
        warn(
            f"until {made.lease_end:%Y-%m-%d %H:%M} UTC; ticket {made.ticket}; it costs {made.price_bytes} bytes{asks}"
        )


def unsubscribe(
    ids: list[int] = typer.Argument(help="Ids of subscriptions."),
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
) -> None:
    """End subscriptions; nothing more is sent for them."""
    with connect(url, token) as client:
        for id in ids:
            client.unsubscribe(id)


def publish(
    events: str = typer.Argument(
        "-",
        help="Events, JSONL; - for standard input; or kafka:SERVERS/TOPICS, nats:SERVER/SUBJECT, redis:SERVER/STREAM, "
        "postgres:ADDRESS/TABLE, which are read until Ctrl-C.",
    ),
    atomic: bool = typer.Option(False, help="All of a batch or none; otherwise bad events become dead letters."),
    batch: int = typer.Option(BATCH, min=1, max=100_000, help="Events in a request."),
    event_type: str = typer.Option("event", help="Of events of a message system that name none."),
    until_idle: bool = typer.Option(False, help="End when a message system has no more."),
    mapping: Path | None = typer.Option(
        None, help="A mapping, .toml or .json: the events are a site's documents (.jsonl, .csv)."
    ),
    site: str | None = typer.Option(
        None,
        help="A site of yours: events say that they come from it; its stored mapping translates documents (.jsonl, .csv).",
    ),
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Publish events in batches, as fast as the service takes them. Exit code 1: some were bad, and are dead letters."""
    accepted = rejected = 0
    bad: list[str] = []  # documents that cannot be translated
    reasons: list[str] = []  # why the first bad events are bad
    with connect(url, token) as client, ExitStack() as opened:
        from tocsin.cli.mapping import read_documents
        from tocsin.client import connectors

        if connectors.is_address(events):
            source = opened.enter_context(connectors.open_source(events))
            batches = connectors.bring(source, client, event_type=event_type, size=batch, until_idle=until_idle)
        elif mapping is not None:
            translated = _translated(client, mapping, events, bad, batch, site)
            which: Any = None if site is None else "none"
            batches = client.publish_many(translated, size=batch, atomic=atomic, site=site, mapping=which)
        elif site is not None and events.endswith(".csv"):
            batches = client.publish_many(
                read_documents(events), size=batch, atomic=atomic, receipts=not atomic, site=site
            )
        else:
            lines = (line.strip() for line in read_lines(events) if line.strip())
            batches = client.publish_many(lines, size=batch, atomic=atomic, receipts=not atomic, site=site)
        with progress("publishing", batches) as shown, suppress(KeyboardInterrupt):
            for one in shown:
                reasons += _reasons(one, accepted + rejected + 1)[: _MOST_TOLD - len(reasons)]
                accepted, rejected = accepted + one.accepted, rejected + one.rejected
    for line in reasons:
        warn(line)
    if rejected > len(reasons) > 0:
        warn(f"and {rejected - len(reasons)} more")
    rejected += len(bad)
    for line in bad:
        warn(line)
    if json:
        print_json({"accepted": accepted, "rejected": rejected})
    else:
        print(f"{accepted} accepted, {rejected} rejected")
    if rejected:
        raise typer.Exit(1)


def _reasons(batch: BatchReceipt, first: int) -> list[str]:
    """Return why events of a batch are bad, a line each; they are counted from `first`."""
    return [
        f"event {number}: {'; '.join(each.message for each in one.violations)}"
        for number, one in enumerate(batch.items, first)
        if not one.accepted
    ]


def _translated(
    client: Client, path: Path, events: str, bad: list[str], size: int, as_site: str | None
) -> Iterator[bytes]:
    """Yield a site's documents as events of the service's schema, and add to `bad` what cannot be translated.

    Published as a site, they say which document they come from.
    """
    import msgspec

    from tocsin.cli.mapping import read_documents, read_mapping
    from tocsin.language.mapping import SiteMapping
    from tocsin.language.mapping_columns import translate_batch
    from tocsin.schema.document import from_document
    from tocsin.schema.sources import ID, LINK

    site = SiteMapping(read_mapping(path), from_document(client.schema()))
    documents, number = read_documents(events), 0
    while batch := list(islice(documents, size)):
        for document, event in zip(batch, translate_batch(site, batch), strict=True):
            number += 1
            if isinstance(event, EventRejected):
                bad.append(f"{events}, document {number}: {event}")
                continue
            if as_site is not None:
                named = zip((ID, LINK), site.identity(document), strict=True)
                event |= {name: value for name, value in named if value is not None}
            yield msgspec.json.encode(event)


def listen(
    count: int | None = typer.Option(None, min=1, help="End after so many."),
    start: str = typer.Option("acknowledged", help="Where to begin: acknowledged, oldest or now."),
    consumer: str = typer.Option("default", help="Who listens: each consumer has its own place."),
    acknowledge: bool = typer.Option(True, help="Say of each that it was taken, once it is printed."),
    to: str | None = typer.Option(
        None,
        help="Write them to kafka:SERVERS/TOPIC, nats:SERVER/SUBJECT, redis:SERVER/STREAM or postgres:ADDRESS/TABLE.",
    ),
    until_idle: bool = typer.Option(False, help="With --to: end when there are no more."),
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
) -> None:
    """Print notifications as they come, a JSON document a line; goes on over restarts of the service."""
    if start not in ("acknowledged", "oldest", "now"):
        raise typer.BadParameter("acknowledged, oldest or now")
    place = cast("Literal['acknowledged', 'oldest', 'now']", start)
    with connect(url, token) as client:
        if to is not None:
            _carry(client, to, consumer, until_idle)
            return
        for number, one in enumerate(client.listen(consumer=consumer, start=place), 1):
            print_json(one)
            sys.stdout.flush()
            if acknowledge:
                client.acknowledge(one.cursor, consumer=consumer)
            if number == count:
                return


def _carry(client: Client, to: str, consumer: str, until_idle: bool) -> None:
    """Write notifications to a message system, from where the consumer's last run ended."""
    from tocsin.client import connectors

    written = 0
    with connectors.open_sink(to) as sink, suppress(KeyboardInterrupt):
        for some in connectors.carry(client, sink, consumer=consumer, until_idle=until_idle):
            written += some
    warn(f"{written} written to {to}")


def why(
    cursor: str = typer.Argument(help="A notification's cursor, as `tocsin listen` prints it."),
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Say why a notification came: each condition of its subscription, with the actual values."""
    with connect(url, token) as client:
        found = client.why(cursor)
    if json:
        print_json(found)
        return
    print(found.text)
    for line in outcome_lines(found.outcome, 1):
        print(line)


def outcome_lines(outcome: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Yield a condition, and those that it consists of, with the actual values."""
    mark = "✓" if outcome["held"] else "✗"
    actual = outcome.get("actual")
    note = f"   ({outcome['attribute']} is {', '.join(map(str, actual))})" if actual else ""
    yield f"{'  ' * depth}{mark} {outcome['condition']}{note}"
    for part in outcome.get("parts", ()):
        yield from outcome_lines(part, depth + 1)


# --- where, and who ---------------------------------------------------------------------------------------------------


def connect(url: str | None = None, token: str | None = None) -> Client:
    """Return a client of the service that is meant; raises NotInstalled, TocsinError where nobody is logged in."""
    plugins.require("client")
    from tocsin.client import Client

    where = url or DEFAULT_URL
    if token is None and (token := kept_tokens().get(where)) is None:
        raise TocsinError(f"nobody is logged in to {where}: tocsin login NAME, or set TOCSIN_TOKEN")
    return Client(where, token or None)


def credentials_file() -> Path:
    """Return where tokens are kept."""
    given = os.environ.get("XDG_CONFIG_HOME")
    try:
        return (Path(given) if given else Path.home() / ".config") / "tocsin" / "credentials.json"
    except RuntimeError:
        raise TocsinError("this user has no home to keep a token in: set XDG_CONFIG_HOME, or TOCSIN_TOKEN") from None


def kept_tokens() -> dict[str, str]:
    """Return the tokens that were kept, by service."""
    import msgspec

    file = credentials_file()
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise FileError(str(file), str(error)) from None


def keep_token(url: str, token: str) -> None:
    """Keep a token, in a file that nobody else can read."""
    import msgspec

    file = credentials_file()
    kept = kept_tokens() | {url: token}
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = file.with_suffix(".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(msgspec.json.encode(kept))
        new.replace(file)
    except OSError as error:
        raise FileError(str(file), error.strerror or str(error)) from None
