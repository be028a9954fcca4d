"""`tocsin lab`: the papers' algorithms compared: run experiments, report, advise, show."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tocsin.cli.console import JSON_OPTION, SCHEMA_OPTION, load_schema, print_json, read_json_lines, read_lines, warn
from tocsin.errors import FileError

if TYPE_CHECKING:
    from tocsin.schema import Event, Schema
    from tocsin_lab.advise import Advice, Held

app = typer.Typer(help="Compare the papers' matching algorithms: experiments, a report, advice, pictures.")
RESULTS_OPTION = typer.Option(Path("lab-results"), help="The folder of the raw results.")
QUICK_OPTION = typer.Option(True, "--quick/--full", help="In five minutes, or in the papers' sizes within an hour.")
MOST_EVENTS = 20_000


@app.command("run")
def run(
    experiment: str = typer.Argument(..., help="An experiment's name, or all; `tocsin lab list` names them."),
    quick: bool = QUICK_OPTION,
    results: Path = RESULTS_OPTION,
) -> None:
    """Run experiments and store their raw results, one file each; the run before is kept for comparison."""
    from tocsin_lab.rounds import Bench, Scale
    from tocsin_lab.run import run as run_experiments

    run_experiments(experiment, Bench(Scale.QUICK if quick else Scale.FULL), results, print)


@app.command("list")
def list_experiments() -> None:
    """Print the names of the experiments, and what each is about."""
    from tocsin_lab.experiments import experiments

    for name, experiment in experiments().items():
        print(f"{name:<26}{experiment.title}")


@app.command("report")
def report(
    results: Path = RESULTS_OPTION,
    output: Path = typer.Option(Path("lab-report"), help="The folder to write the report to."),
) -> None:
    """Write the report of stored results as Markdown, HTML and pictures."""
    from tocsin_lab.report import write_report

    for path in write_report(results, output):
        print(path)


@app.command("reproduce")
def reproduce(
    quick: bool = QUICK_OPTION,
    output: Path = typer.Option(
        Path("lab-report"), help="The folder of the report; raw results in its folder results."
    ),
) -> None:
    """Run all experiments and write the report: everything that docs/lab has, in one command."""
    run("all", quick=quick, results=output / "results")
    report(results=output / "results", output=output)


@app.command("compare")
def compare(
    before: Path = typer.Argument(..., help="The folder of the raw results of one run."),
    after: Path = typer.Argument(..., help="The folder of another."),
) -> None:
    """Print which figures and verdicts changed beyond noise between two runs; exit code 1 where verdicts contradict."""
    from tocsin_lab.compare import comparison, turned
    from tocsin_lab.report import by_experiment

    old, new = by_experiment(before), by_experiment(after)
    for line in comparison(old, new) or ["nothing changed beyond noise, and no verdict"]:
        print(line)
    if any(each.settled for each in turned(old, new)):
        raise typer.Exit(1)


@app.command("advise")
def advise(
    subscriptions: str = typer.Option(..., help="Subscriptions, a JSON document a line."),
    events: str = typer.Option(..., help="Events, JSONL; some thousand are enough."),
    schema: str | None = SCHEMA_OPTION,
    seconds: float = typer.Option(60.0, min=1.0, help="About how long the trial may take."),
    changes: float = typer.Option(0.0, min=0.0, help="How many subscriptions change per event."),
    json: bool = JSON_OPTION,
) -> None:
    """Try the engines on your own data and recommend one, with reasons."""
    from tocsin_lab.advise import advise as try_engines

    loaded = _schema(schema, events)
    held, bad = _subscriptions(loaded, subscriptions)
    advice = try_engines(loaded, held, _events(loaded, events), budget_seconds=seconds, changes_per_event=changes)
    if json:
        import dataclasses

        print_json(dataclasses.asdict(advice))
    else:
        _print_advice(advice)
    if bad:
        warn(f"{bad} bad subscriptions were left out")
        raise typer.Exit(1)


@app.command("show")
def show(
    engine: str = typer.Argument(..., help="An engine's name, such as counting or matching-tree."),
    subscriptions: str = typer.Option(..., help="A few subscriptions, a JSON document a line."),
    schema: str = typer.Option(..., "--schema", "-s", help="The schema: a file, or an example's name."),
    event: str | None = typer.Option(None, help="An event, JSON: show what it does in the structure."),
) -> None:
    """Draw the structure that an engine makes of a few subscriptions."""
    import msgspec

    from tocsin.matching import engine_of
    from tocsin_lab.show import show as drawn

    loaded = load_schema(schema)
    matcher = engine_of(engine)(loaded)
    held, bad = _subscriptions(loaded, subscriptions)
    for id, bound in held:
        matcher.add(id, bound)
    print(drawn(matcher, None if event is None else loaded.admit(msgspec.json.decode(event))), end="")
    if bad:
        raise typer.Exit(1)


def _schema(name: str | None, events: str) -> Schema:
    if name is not None:
        return load_schema(name)

    return Schema.infer(event for _, event in read_json_lines(events))


def _subscriptions(schema: Schema, path: str) -> tuple[list[Held], int]:
    from tocsin.language.documents import BadLine
    from tocsin.language.documents import read_lines as read_documents

    held: list[Held] = []
    bad = 0
    for found in read_documents(read_lines(path), schema):
        if isinstance(found, BadLine):
            warn(f"{path}: {found}")
            bad += 1
        else:
            held.append(found)
    return held, bad


def _events(schema: Schema, path: str) -> list[Event]:
    found = [schema.admit(raw) for _, raw in islice(read_json_lines(path), MOST_EVENTS)]
    if not found:
        raise FileError(path, "there are no events")
    return found


def _print_advice(advice: Advice) -> None:
    print(f"{'engine':<20}{'ms/event':>12}{'in a batch':>12}{'ms/change':>12}{'growth ×4':>11}")
    for trial in sorted(advice.trials, key=lambda trial: (bool(trial.problem), trial.batch_ms)):
        if trial.problem:
            print(f"{trial.engine:<20}{trial.problem}")
        else:
            figures = f"{trial.single_ms:>12.4f}{trial.batch_ms:>12.4f}{trial.change_ms:>12.3f}{trial.growth:>11.1f}"
            print(f"{trial.engine:<20}{figures}")
    print(f"\nTake {advice.recommended}:")
    for reason in advice.reasons:
        print(f"  - {reason}")
