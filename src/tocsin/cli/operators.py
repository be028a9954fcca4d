"""`tocsin operators`: the operators that subscriptions may call: which there are, what they say, and a demo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tocsin.cli.console import JSON_OPTION, SCHEMA_OPTION, print_json, required_schema
from tocsin.errors import FileError

if TYPE_CHECKING:
    from tocsin.operators.registry import Registry

app = typer.Typer(help="Expensive operators: which there are, and what they say.", no_args_is_help=True)
SETTINGS_OPTION = typer.Option(
    None, "--settings", help="A TOML file that says which built-in operators there are, and on what they work."
)


def _registry(settings: Path | None) -> Registry:
    from tocsin.operators.registry import Registry

    return Registry.installed(settings)


@app.command("list")
def list_operators(settings: Path | None = SETTINGS_OPTION, json: bool = JSON_OPTION) -> None:
    """List the operators, with their arguments."""
    found = list(_registry(settings))
    if json:
        print_json([each.as_document() for each in found])
        return
    width = max((len(each.signature) for each in found), default=0)
    for each in found:
        print(f"{each.signature:{width}}  {each.help.splitlines()[0] if each.help else ''}")


@app.command()
def show(
    name: str = typer.Argument(help="The operator's name."),
    settings: Path | None = SETTINGS_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Show all that is declared of one operator."""
    found = _registry(settings).get(name)
    if json:
        print_json(found.as_document())
        return
    roles = {"input": "a constant", "open": "a constant or a variable", "output": "found by the operator"}
    print(found.signature)
    print(f"  {found.help}" if found.help else "  (no help)")
    for entry in found.parameters:
        print(f"  {entry.name}: {entry.domain.name}, {roles[entry.role]}")
    print(f"  reads: {', '.join(found.reads) or 'nothing in particular'}")
    limit = "none" if found.timeout is None else f"{found.timeout:g} s"
    batches = "yes" if found.evaluate_batch else "no"
    print(f"  cost: {found.cost:g} s; time-out: {limit}; runs: {found.runs}; pure: {found.pure}; batches: {batches}")


@app.command("try")
def try_expression(
    expression: str = typer.Argument(help="A subscription, such as: locIn('Bronx') and nearest(2, ?place)."),
    event: str = typer.Argument(help="An event as JSON; - for standard input."),
    schema: str | None = SCHEMA_OPTION,
    settings: Path | None = SETTINGS_OPTION,
    json: bool = JSON_OPTION,
) -> None:
    """Evaluate a subscription on one event, and say what each operator found. Exit code 1: no match."""
    import msgspec

    from tocsin.language import bind
    from tocsin.language.explain import plain_values
    from tocsin.language.semantics import decide

    loaded = required_schema(schema)
    try:
        raw = msgspec.json.decode(sys.stdin.read() if event == "-" else event)
    except msgspec.DecodeError as error:
        raise FileError("the event", f"not JSON: {error}") from None
    registry = _registry(settings)
    verdict = decide(bind(expression, loaded, operators=registry), loaded.admit(raw), registry)
    counts = registry.runner.counts
    answer: dict[str, Any] = {
        "matched": verdict.matched,
        "bindings": [plain_values(each) for each in verdict.bindings],
        "operators": {
            name: {"calls": each.calls, "seconds": round(each.seconds, 6), "failure": each.last_failure}
            for name, each in counts.items()
        },
    }
    if json:
        print_json(answer)
    else:
        print("matches" if answer["matched"] else "does not match")
        for each in verdict.bindings:
            print("  " + ", ".join(f"?{name} = {value}" for name, value in each.items()))
        for name, count in counts.items():
            failed = f"; failed: {count.last_failure}" if count.last_failure else ""
            print(
                f"  {name}: {count.calls} call{'' if count.calls == 1 else 's'}, {1000 * count.seconds:.2f} ms{failed}"
            )
    if not answer["matched"]:
        raise typer.Exit(1)
