"""The report: one page a paper, made from stored results alone (results.py), as Markdown and HTML beside the pictures.

Every page has the paper's claims as rows: where the paper says it, its number, ours with intervals, the verdict by the rule of
verdicts.py, the reason where it does not hold, and how to get it again. The overview counts them, states the rule, names
machine and versions, and what changed since the run before.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tocsin.errors import FileError
from tocsin_lab.claims import Claim, rule
from tocsin_lab.compare import comparison
from tocsin_lab.experiments import PAPERS, Experiment, Plot, experiments
from tocsin_lab.plots import draw
from tocsin_lab.results import PREVIOUS, Results, stored
from tocsin_lab.verdicts import Verdict, placed

INTRODUCTION = """\
Every claim of the papers' evaluations, beside what was measured here; a page for each paper. Made by `tocsin lab report`
from stored raw results; `docs/lab.md` tells how to run it again. Answers were compared with an oracle before
anything was timed. Engines run in one thread, and their times are the CPU time of that thread; where databases
take part all are timed on the wall. Claims of our own are not among those counted.
"""
ORDER = (Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED, Verdict.UNMEASURED)


def write_report(results_folder: Path, folder: Path) -> list[Path]:
    """Write the pages as Markdown and HTML, and the pictures; return what was written."""
    found = by_experiment(results_folder)
    if not found:
        raise FileError(str(results_folder), "there are no results; run: tocsin lab run all --quick")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    _write(folder / "report", _overview(found, by_experiment(results_folder / PREVIOUS)), written)
    for paper in PAPERS:
        of_paper = [each for each in experiments().values() if each.paper == paper]
        if any(each.name in found for each in of_paper):
            _write(folder / page_name(paper), _paper_page(paper, of_paper, found, folder, written), written)
    return written


def by_experiment(folder: Path) -> dict[str, Results]:
    """Return the stored results of a folder by experiment."""
    return {results.circumstances.experiment: results for results in stored(folder)}


def page_name(paper: str) -> str:
    """Return the file name of a paper's page, without its ending."""
    return anchor(paper)


def _write(path: Path, markdown: str, written: list[Path]) -> None:
    for file, text in ((path.with_suffix(".md"), markdown), (path.with_suffix(".html"), page(markdown))):
        file.write_text(text, encoding="utf-8")
        written.append(file)


def _overview(found: Mapping[str, Results], before: Mapping[str, Results]) -> str:
    header = " | ".join(ORDER)
    rows = [f"| paper | {header} | claims |", "|---" + "|---:" * (len(ORDER) + 1) + "|"]
    undecided = []
    for paper, title in PAPERS.items():
        claims = [
            (each.name, statement.judge(found.get(each.name)))
            for each in experiments().values()
            if each.paper == paper
            for statement in each.statements
        ]
        counts = Counter(claim.verdict for _, claim in claims)
        cells = " | ".join(str(counts[verdict]) for verdict in ORDER)
        rows.append(f"| [{title}]({page_name(paper)}.md) | {cells} | {len(claims)} |")
        undecided += [f"- {name}: {claim.says}" for name, claim in claims if claim.verdict is Verdict.UNDECIDED]
    first = next(iter(found.values())).circumstances
    machine = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in first.machine.items())
    versions = ", ".join(f"{name} {value}" for name, value in first.versions.items())
    seconds = sum(results.circumstances.seconds for results in found.values())
    parts = [
        "# The papers' experiments, again", INTRODUCTION, "\n".join(rows), "## The rule", rule(),
        "## This run", f"Scale {first.scale}, {seconds / 60:,.1f} minutes. Machine: {machine}.", f"Versions: {versions}.",
        "## Undecided", "\n".join(undecided) or "Nothing.",
        "## Since the run before", _changes(found, before),
    ]  # fmt: skip
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _changes(found: Mapping[str, Results], before: Mapping[str, Results]) -> str:
    if not before:
        return "There is no earlier run beside these results."
    lines = comparison(before, found)
    return "\n".join(f"- {line}" for line in lines) or "Nothing changed beyond noise, and no verdict."


def _paper_page(
    paper: str, of_paper: list[Experiment], found: Mapping[str, Results], folder: Path, written: list[Path]
) -> str:
    parts = [f"# {PAPERS[paper]}", "[All papers](report.md)"]
    for experiment in of_paper:
        parts.append(_section(experiment, found.get(experiment.name), folder, written))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _section(experiment: Experiment, results: Results | None, folder: Path, written: list[Path]) -> str:
    claims = [statement.judge(results) for statement in experiment.statements]
    parts = [f"## {experiment.title}", experiment.about, _claims_table(experiment, claims)]
    if results is None:
        return "\n\n".join(parts)
    parts.insert(1, f"`tocsin lab run {experiment.name}`, {results.circumstances.started}")
    for number, plot in enumerate(experiment.plots, 1):
        path = folder / f"{experiment.name}-{number}.svg"
        if draw(plot, results, path):
            written.append(path)
            parts.append(f"![{plot.figure} over {plot.x_label}]({path.name})")
            parts.append(_figures_table(plot, results))
    details = [f"- {claim.says}: at {line}" for claim in claims for line in claim.details()]
    if details:
        parts += ["Every comparison:", "\n".join(details)]
    notes = [f"{row.series}: {row.note}" for row in results.rows if row.note]
    if notes:
        parts.append("Notes: " + "; ".join(notes) + ".")
    return "\n\n".join(parts)


def _claims_table(experiment: Experiment, claims: list[Claim]) -> str:
    rows = ["| the paper says | where | its figures | here | verdict | again |", "|---|---|---|---|---|---|"]
    for claim in claims:
        verdict = f"**{claim.verdict}**" if claim.verdict is not Verdict.HOLDS else str(claim.verdict)
        why = f": {claim.reason}" if claim.reason else ""
        again = "" if claim.verdict is Verdict.UNMEASURED else f"`tocsin lab run {experiment.name}`"
        statement = claim.statement
        rows.append(
            f"| {claim.says} | {statement.place} | {statement.paper} | {claim.ours} | {verdict}{why} | {again} |"
        )
    return "\n".join(rows)


def _figures_table(plot: Plot, results: Results) -> str:
    """Return the figures as a table, a line per x; the paper's columns last."""
    series = results.series(plot.figure)
    ours = {name: results.samples(name, plot.figure) for name in series}
    xs = sorted({x for samples in ours.values() for x in samples})
    rows = [f"| {plot.x_label} | " + " | ".join([*ours, *plot.paper]) + " |"]
    rows.append("|---:" * (len(ours) + len(plot.paper) + 1) + "|")
    for x in xs:
        cells = [str(samples[x].interval) if x in samples else "" for samples in ours.values()]
        cells += [f"{points[x]:,g}" if x in points else "" for points in plot.paper.values()]
        rows.append(f"| {placed(x)} | " + " | ".join(cells) + " |")
    return f"{plot.figure}, medians with intervals:\n\n" + "\n".join(rows)


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
        elif lines[0].startswith("- "):
            items = (_inline(line.removeprefix("- ")) for line in lines)
            body.append("<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>")
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
    text = re.sub(r"\[([^\]]*)\]\(([^)]*)\)", _link, text)
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]*)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", text)


def _link(found: re.Match[str]) -> str:
    """Return a link; from page to page it leads to the page of the same kind."""
    target = re.sub(r"^([\w-]+)\.md$", r"\1.html", found[2])
    return f'<a href="{target}">{found[1]}</a>'
