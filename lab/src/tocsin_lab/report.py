"""The report: for each experiment the papers' claims, their figures where their text gives them, and ours.

Made from stored results alone (results.py), as Markdown and as one HTML page beside the pictures.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path

from tocsin.errors import FileError
from tocsin_lab.experiments import Claim, Experiment, Plot, experiments
from tocsin_lab.plots import draw
from tocsin_lab.results import Results, stored

VERDICTS = {True: "holds", False: "**does not hold**", None: "cannot be told"}
INTRODUCTION = """\
Every claim of the papers about matching that can be measured, beside what was measured here. Made by `tocsin lab report`
from stored raw results (here: `results/`); `docs/lab.md` tells how to run it again. Answers were compared with an oracle before
anything was timed; ratios are within one run. Engines run in one thread, and their times are the CPU time of that
thread, best of several passes; databases have threads and processes of their own and are timed on the wall. Claims
are decided by order and ratio, because single figures depend on how busy the machine is (`load before` says).

Liu et al. (overlapping subscriptions) and offers have reports of their own: `docs/operators-evaluation.md` and
`docs/offers.md`.
"""


def write_report(results_folder: Path, folder: Path) -> list[Path]:
    """Write the report as Markdown and HTML, and the pictures; return what was written."""
    found = {results.circumstances.experiment: results for results in stored(results_folder)}
    if not found:
        raise FileError(str(results_folder), "there are no results; run: tocsin lab run all --quick")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    parts = ["# The papers' experiments, again", INTRODUCTION, _summary(found)]
    for name, experiment in experiments().items():
        if name in found:
            parts.append(_section(experiment, found[name], folder, written))
    markdown = "\n\n".join(part.strip() for part in parts) + "\n"
    (folder / "report.md").write_text(markdown, encoding="utf-8")
    (folder / "report.html").write_text(page(markdown), encoding="utf-8")
    return [folder / "report.md", folder / "report.html", *written]


def _summary(found: Mapping[str, Results]) -> str:
    rows = ["| experiment | scale | seconds | claims that hold |", "|---|---|---|---|"]
    for name, experiment in experiments().items():
        if name in found:
            claims = experiment.claims(found[name])
            held = sum(claim.holds is True for claim in claims)
            where = found[name].circumstances
            rows.append(
                f"| [{experiment.title}](#{anchor(experiment.title)}) | {where.scale} | {where.seconds:,.0f} | {held} of {len(claims)} |"
            )
    first = next(iter(found.values())).circumstances
    machine = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in first.machine.items())
    versions = ", ".join(f"{name} {value}" for name, value in first.versions.items())
    return "\n".join(rows) + f"\n\nMachine: {machine}.\n\nVersions: {versions}."


def _section(experiment: Experiment, results: Results, folder: Path, written: list[Path]) -> str:
    claims = experiment.claims(results)
    parts = [
        f"## {experiment.title}",
        f"*{experiment.paper}.* `tocsin lab run {experiment.name}`, {results.circumstances.started}",
        experiment.about,
        _claims_table(claims),
    ]
    for number, plot in enumerate(experiment.plots, 1):
        path = folder / f"{experiment.name}-{number}.svg"
        if draw(plot, results, path):
            written.append(path)
            parts.append(f"![{plot.figure} over {plot.x_label}]({path.name})")
        parts.append(_figures_table(plot, results))
    if not experiment.plots:
        figures = dict.fromkeys(row.figure for row in results.rows)
        parts += [_figures_table(Plot(figure, "subscriptions", figure), results) for figure in figures]
    notes = [f"{row.series}: {row.note}" for row in results.rows if row.note]
    if notes:
        parts.append("Notes: " + "; ".join(notes) + ".")
    return "\n\n".join(parts)


def _claims_table(claims: list[Claim]) -> str:
    rows = ["| the paper says | its figures | here | verdict |", "|---|---|---|---|"]
    for claim in claims:
        why = f": {claim.why}" if claim.why and claim.holds is False else ""
        rows.append(f"| {claim.says} | {claim.paper} | {claim.ours} | {VERDICTS[claim.holds]}{why} |")
    return "\n".join(rows)


def _figures_table(plot: Plot, results: Results) -> str:
    """Return the figures as a table, a line per x; the paper's columns last."""
    series = results.series(plot.figure)
    ours = {name: results.points(name, plot.figure) for name in series}
    xs = sorted({x for points in ours.values() for x in points})
    if len(xs) > 12 and len(series) > 3:
        return (
            f"The {len(xs)} times {len(series)} figures are in the results, `{results.circumstances.experiment}.jsonl`."
        )
    columns = {**ours, **plot.paper}
    rows = [f"| {plot.x_label} | " + " | ".join(columns) + " |", "|---:" * (len(columns) + 1) + "|"]
    for x in xs:
        rows.append(f"| {x:,.0f} | " + " | ".join(_shown(points.get(x)) for points in columns.values()) + " |")
    return f"{plot.figure}:\n\n" + "\n".join(rows)


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


# --- HTML -------------------------------------------------------------------------------------------------------------

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;font-size:.85rem;display:block;overflow-x:auto}"
    "td,th{border:1px solid #ccc;padding:.25rem .5rem;text-align:left;vertical-align:top}"
    "img{max-width:100%}code{background:#f3f3f3;padding:0 .2rem}h2{margin-top:3rem}"
)


def anchor(title: str) -> str:
    """Return the anchor of a heading, as Markdown viewers make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def page(markdown: str) -> str:
    """Return the report as HTML; knows the Markdown that the report uses, and no more."""
    body: list[str] = []
    for block in re.split(r"\n{2,}", markdown.strip()):
        lines = block.split("\n")
        if block.startswith("#"):
            level = len(block) - len(block.lstrip("#"))
            title = block.lstrip("# ")
            body.append(f'<h{level} id="{anchor(title)}">{_inline(title)}</h{level}>')
        elif lines[0].startswith("|"):
            body.append(_table(lines))
        else:
            body.append(f"<p>{_inline(' '.join(lines))}</p>")
    head = f'<meta charset="utf-8"><title>Laboratory report</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"


def _table(lines: list[str]) -> str:
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    head = "".join(f"<th>{_inline(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in row) + "</tr>\n" for row in rows[2:])
    return f"<table><tr>{head}</tr>\n{body}</table>"


def _inline(text: str) -> str:
    text = html.escape(text, quote=False)
    text = re.sub(r"!\[([^\]]*)\]\(([^)]*)\)", r'<img alt="\1" src="\2">', text)
    text = re.sub(r"\[([^\]]*)\]\(([^)]*)\)", r'<a href="\2">\1</a>', text)
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]*)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", text)
