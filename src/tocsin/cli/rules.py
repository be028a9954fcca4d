"""Subscriptions as code: `tocsin export`, `tocsin apply` and `tocsin test`, over a file of named subscriptions.

    schema = "schema.toml"                                # for `tocsin test`: a file beside this one, or an example's name

    [subscriptions.cheap-clocks]
    text = "sale where price < 50 and category kind of 'clocks'"
    matches = [{ event_type = "sale", price = 20, … }]    # events that it must match
    rejects = [{ event_type = "sale", price = 90, … }]    # events that it must not match

TOML, or the same as JSON. `apply` compares it with what the account has, says what it would do, and does it. A
subscription whose text is there already is left alone. Which id a name has is kept beside the file (FILE.ids.json), so that
one whose text has changed keeps its id; without that file it is a new one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from tocsin.cli.console import JSON_OPTION, OPERATORS_OPTION, load_schema, print_json, warn
from tocsin.cli.remote import TOKEN_OPTION, URL_OPTION, connect
from tocsin.errors import EventRejected, FileError, LanguageError, SchemaError

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.documents.subscriptions import SubscriptionView
    from tocsin.operators.registry import Registry
    from tocsin.schema import Schema

_FIELDS = {"text", "lease_seconds", "matches", "rejects"}
FILE = typer.Argument(help="A file of named subscriptions: TOML, or JSON.")


class Rule(NamedTuple):
    """A named subscription of a file."""

    name: str
    text: str
    lease_seconds: float | None
    matches: list[dict[str, Any]]
    rejects: list[dict[str, Any]]


class RuleChange(NamedTuple):
    """What is to be done about a name: add, replace, keep or remove."""

    verb: str
    name: str
    text: str
    id: int | None = None
    before: str | None = None
    lease_seconds: float | None = None


def export(
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Print the account's subscriptions as a file that `tocsin apply` takes; names are made up of their ids."""
    with connect(url, token) as client:
        found = {f"s{one.id}": {"text": one.text} for one in all_subscriptions(client)}
    if json:
        print_json({"subscriptions": found})
        return
    for name, fields in found.items():
        print(f"[subscriptions.{name}]\ntext = {_quoted(fields['text'])}\n")


def apply(
    file: Path = FILE,
    dry_run: bool = typer.Option(False, help="Only say what would be done. Exit code 1: something would."),
    prune: bool = typer.Option(False, help="End the account's subscriptions that the file does not name."),
    url: str | None = URL_OPTION,
    token: str | None = TOKEN_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Make a file of named subscriptions true: add what is missing, change what differs; with a diff."""
    rules, _ = read_rules(file)
    with connect(url, token) as client:
        changes = list(plan_changes(client, rules, _read_ids(file), prune=prune))
        if json:
            print_json([one._asdict() for one in changes])
        else:
            _print_diff(changes)
        to_do = [one for one in changes if one.verb != "keep"]
        if dry_run:
            raise typer.Exit(1 if to_do else 0)
        _write_ids(file, {one.name: _carry_out(client, one) for one in changes if one.verb != "remove"})
        for one in changes:
            if one.verb == "remove" and one.id is not None:
                client.unsubscribe(one.id)
    warn(f"{len(to_do)} changed, {len(changes) - len(to_do)} as they were")


def hold(
    file: Path = FILE,
    schema: str | None = typer.Option(None, "--schema", "-s", help="Instead of the one that the file names."),
    operators: str = OPERATORS_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Hold each subscription against its example events, here, without a service. Exit code 1: some failed."""
    from tocsin.operators.registry import open_registry

    rules, named = read_rules(file)
    found = list(check_rules(rules, _schema(file, schema or named, rules), open_registry(operators)))
    failed = [(name, what, reason) for name, what, reason in found if reason is not None]
    if json:
        print_json([{"name": name, "what": what, "failed": reason} for name, what, reason in found])
    else:
        for name, what, reason in failed:
            print(f"✗ {name}: {what}\n{_indented(str(reason))}")
        print(f"{len(rules)} subscriptions, {len(found)} checks, {len(failed)} failed")
    if failed:
        raise typer.Exit(1)


# --- the file ---------------------------------------------------------------------------------------------------------


def read_rules(file: Path) -> tuple[list[Rule], str | None]:
    """Return the subscriptions of a file, and the schema that it names; raises FileError."""
    import msgspec

    try:
        content = file.read_bytes()
        document = msgspec.json.decode(content) if file.suffix == ".json" else tomllib.loads(content.decode())
    except OSError as error:
        raise FileError(str(file), error.strerror or str(error)) from None
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(str(file), str(error)) from None
    given = document.get("subscriptions") if isinstance(document, dict) else None
    if not isinstance(given, dict):
        raise FileError(str(file), "it has no table [subscriptions.NAME]")
    return [_rule(file, name, fields) for name, fields in given.items()], document.get("schema")


def _rule(file: Path, name: str, fields: Any) -> Rule:
    if not isinstance(fields, dict) or not isinstance(fields.get("text"), str):
        raise FileError(str(file), f"{name} has no text")
    if unknown := sorted(set(fields) - _FIELDS):
        raise FileError(str(file), f"{name}: there is no {', '.join(unknown)}; there are {', '.join(sorted(_FIELDS))}")
    return Rule(
        name, fields["text"], fields.get("lease_seconds"), fields.get("matches") or [], fields.get("rejects") or []
    )


def _ids_file(file: Path) -> Path:
    return file.with_name(f"{file.name}.ids.json")


def _read_ids(file: Path) -> dict[str, int]:
    import msgspec

    try:
        return msgspec.json.decode(_ids_file(file).read_bytes(), type=dict[str, int])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise FileError(str(_ids_file(file)), str(error)) from None


def _write_ids(file: Path, ids: Mapping[str, int]) -> None:
    import msgspec

    _ids_file(file).write_bytes(msgspec.json.format(msgspec.json.encode(ids)) + b"\n")


def _quoted(text: str) -> str:
    """Return a text as TOML has it: its basic strings escape as JSON's do."""
    import msgspec

    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


# --- apply ------------------------------------------------------------------------------------------------------------


def all_subscriptions(client: Client) -> Iterator[SubscriptionView]:
    """Yield the account's live subscriptions, page by page."""
    page = client.subscriptions(limit=1000)
    yield from page.items
    while page.cursor is not None:
        page = client.subscriptions(cursor=page.cursor, limit=1000)
        yield from page.items


def plan_changes(
    client: Client, rules: list[Rule], ids: Mapping[str, int], *, prune: bool = False
) -> Iterator[RuleChange]:
    """Yield what makes the rules true; raises ServiceRefused for one that is wrong, before anything is done."""
    from tocsin.language import parse, render

    there = {one.id: render(parse(one.text)) for one in all_subscriptions(client)}
    for rule in rules:
        client.plan(rule.text)
    wanted = [(rule, render(parse(rule.text))) for rule in rules]
    taken: set[int] = set()
    chosen: dict[str, int] = {}
    for rule, text in wanted:  # those that are as they should be come first, so that no other name takes their id
        known = ids.get(rule.name)
        same = [known] if known is not None and there.get(known) == text else []
        same += [id for id, found in there.items() if found == text and id not in ids.values()]
        if free := [id for id in same if id not in taken]:
            chosen[rule.name] = free[0]
            taken.add(free[0])
    for rule, text in wanted:
        known = ids.get(rule.name)
        if rule.name in chosen:
            yield RuleChange("keep", rule.name, text, chosen[rule.name])
        elif known is not None and known in there and known not in taken:
            taken.add(known)
            yield RuleChange("replace", rule.name, text, known, there[known])
        else:
            yield RuleChange("add", rule.name, text, lease_seconds=rule.lease_seconds)
    names = {id: name for name, id in ids.items()}
    for id, text in there.items():
        if id not in taken and (prune or id in names):
            yield RuleChange("remove", names.get(id, f"s{id}"), text, id)


def _carry_out(client: Client, change: RuleChange) -> int:
    """Add or replace; return the id under which it is."""
    if change.verb == "add" or change.id is None:
        return client.subscribe(change.text, lease_seconds=change.lease_seconds).id
    if change.verb == "replace":
        client.replace(change.id, change.text)
    return change.id


def _print_diff(changes: list[RuleChange]) -> None:
    for one in changes:
        if one.verb == "add":
            print(f"+ {one.name}: {one.text}")
        elif one.verb == "remove":
            print(f"- {one.name}: {one.text}")
        elif one.verb == "replace":
            print(f"~ {one.name}\n  - {one.before}\n  + {one.text}")


# --- test -------------------------------------------------------------------------------------------------------------


def check_rules(rules: list[Rule], schema: Schema, operators: Registry) -> Iterator[tuple[str, str, str | None]]:
    """Yield (name, what was checked, why it failed or None): that it is right, and each of its examples."""
    from tocsin.language import bind, explain

    for rule in rules:
        try:
            bound = bind(rule.text, schema, operators=operators)
        except LanguageError as error:
            yield rule.name, "its text", str(error)
            continue
        yield rule.name, "its text", None
        for wanted, examples in ((True, rule.matches), (False, rule.rejects)):
            for number, event in enumerate(examples, 1):
                what = f"example {number} that it {'must' if wanted else 'must not'} match"
                try:
                    found = explain(bound, schema.admit(event), operators)
                    yield rule.name, what, None if found.matched is wanted else str(found)
                except EventRejected as error:
                    yield rule.name, what, f"it is no event: {error}"


def _schema(file: Path, name: str | None, rules: list[Rule]) -> Schema:
    """Return the schema that is named, beside the file or as it is; else one proposed from the examples."""
    if name is not None:
        beside = file.parent / name
        return load_schema(str(beside) if beside.exists() else name)
    from tocsin.schema import Schema

    examples = [event for rule in rules for event in (*rule.matches, *rule.rejects)]
    if not examples:
        raise SchemaError('name a schema: schema = "FILE" in the file, or --schema FILE')
    return Schema.infer(examples)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
