"""docs/benchmarks.md and its plot, and docs/matrix.md, from the stored results: the newest measurement of each kind.

python -m benchmarks.report
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.results import stored

DOCS = Path(__file__).parent.parent / "docs"
HEAD = """\
# How fast

Made by `python -m benchmarks.report` from `benchmarks/results/`; measured by `make bench` (or the commands below). One
thread, answers checked against the definition before timing. Machines differ, and this one is small and shared: read
the figures as ratios, and measure your own files with `tocsin bench match --subscriptions FILE --events FILE`.

The workloads are seeded (`tocsin bench workload NAME`): `topss` is W4 of TOPSS, where a fifth of all subscriptions match
every event, so that writing ids is the work; `fabret` is five equalities over 32 attributes, where almost nothing
matches; `market` is a marketplace with Zipf categories and ranges; `cents` the same with prices in cents; `rein` is the
interval workload of REIN, TAMA and those after them (ten ranges of half a domain of a million over 20 attributes;
`rein-attributes` and `rein-values` are skewed by Zipf); `thesis` and `debs` are those of the thesis and of Liu et al.;
`rules` are detection rules over log events; `news` are word queries over texts of 300 words. [The matrix](matrix.md) has
every operator of the language.
"""


def main() -> None:
    """Write the page."""
    match = _newest("match", "workload", "subscriptions")
    parts = [HEAD, _machine(match), _match(match), _beside(match), _bulk(), _churn(), _cold_start(), _peers()]
    if match:
        _plot(match)
    _write_matrix()
    (DOCS / "benchmarks.md").write_text("\n".join(part for part in parts if part), encoding="utf-8")


BESIDE_RUNS = 3  # earlier ones are likely of other code


def _newest(name: str, *keys: str) -> list[dict[str, Any]]:
    """Return the newest measurement for each combination of these keys, in the order of first appearance."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in stored(name):
        found[tuple(line[key] for key in keys)] = line
    return list(found.values())


def _machine(measurements: list[dict[str, Any]]) -> str:
    if not measurements:
        return ""
    facts = measurements[-1]["machine"]
    return f"Machine: {facts['cpu']}, {facts['cores']} cores; Python {facts['python']}, NumPy {facts['numpy']}, Numba {facts['numba']}, pyarrow {facts['pyarrow']}.\n"


def _match(measurements: list[dict[str, Any]]) -> str:
    rows = [
        "## Matching\n",
        "`python -m benchmarks.match`, batches of events. *Events/s* is the whole path: Arrow columns in, ids out. *Coded* is the",
        "same from events that are coded already: what encoding costs is the difference. A single event comes from a dict,",
        "admission and encoding included.\n",
        "| workload | subscriptions | events/s | coded | matches per event | million matches/s | build s | bytes each | one event, p50 µs | peak MB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in measurements:
        rate, per_event = each["events_per_second_best"], each["matches"] / each["events"]
        rows.append(
            f"| {each['workload']} | {each['subscriptions']:,} | {rate:,.0f} | {_rate(each.get('events_per_second_coded'))} "
            f"| {per_event:,.1f} | {rate * per_event / 1e6:,.0f} | {each['build_seconds']:.2f} "
            f"| {each['bytes_per_subscription']:.1f} | {each['single_p50_us']:.0f} | {each['peak_megabytes']:,.0f} |"
        )
    return "\n".join([*rows, "\n![Events per second over subscriptions](benchmarks.svg)\n"]) if measurements else ""


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}"


def _beside(measurements: list[dict[str, Any]]) -> str:
    compared = [each for each in measurements if each.get("beside")]
    if not compared:
        return ""
    rows = [
        "## Beside the prototype\n",
        "`python -m benchmarks.match --beside COMMAND`: the prototype that the layout was tried out with (integers and coded texts",
        "only), on the same files, by turns with ours; of two runs each, the better one counts. Above 1, we are faster.\n",
        "What each time holds: ours of the *whole path* everything from Arrow columns (int64, plain strings) to one list of ids",
        "for each event; ours *coded* the same without turning values into codes. The prototype is given int32 columns whose texts",
        "are numbered already, turns these into codes of its own within its time, and writes a list for each event and cluster.",
        "So like for like lies between the two ratios. A single ratio is good to about a fifth on a machine that others use too,",
        f"so the table has the median of the last {BESIDE_RUNS} runs at most, and their range.\n",
        "| workload | subscriptions | runs | prototype, best, events/s | whole path | coded |",
        "|---|---|---|---|---|---|",
    ]
    for each in compared:
        runs = [
            run
            for run in stored("match")
            if run.get("beside") and all(run[key] == each[key] for key in ("workload", "subscriptions"))
        ][-BESIDE_RUNS:]
        best = max(max(run["beside"]) for run in runs)
        rows.append(
            f"| {each['workload']} | {each['subscriptions']:,} | {len(runs)} | {best:,.0f} "
            f"| {_ratio(runs, 'events_per_second_best')} | {_ratio(runs, 'events_per_second_coded')} |"
        )
    return "\n".join([*rows, ""])


def _ratio(runs: list[dict[str, Any]], figure: str) -> str:
    """Return the median of a figure over that of the program beside it, and the range where there are several."""
    ratios = sorted(run[figure] / max(run["beside"]) for run in runs if run.get(figure))
    if not ratios:
        return ""
    return f"{median(ratios):.2f}" + (f" ({ratios[0]:.2f} to {ratios[-1]:.2f})" if len(ratios) > 1 else "")


def _cold_start() -> str:
    rows = [
        f"{each['subscriptions']:,} subscriptions on disk: {median(each['beyond_imports']):.2f} s beyond imports (opening "
        f"{median(each['open']):.2f}, first event {median(each['first_event']):.2f}, first batch {median(each['first_batch']):.2f}); "
        f"imports {median(each['imports']):.2f} s.\n"
        for each in _newest("cold_start", "subscriptions")
    ]
    text = "`python -m benchmarks.cold_start`: a new process, kernels in the cache, until its first matches; medians.\n"
    return "\n".join(["## Starting a worker\n", text, *rows]) if rows else ""


def _bulk() -> str:
    newest = _newest("bulk", "subscriptions")
    rows = [
        f"{each['subscriptions']:,} subscriptions with {each['predicates']:,} predicates: {each['seconds']:.1f} s, peak memory "
        f"{each['megabytes_peak']:,.0f} MB.\n"
        for each in newest
    ]
    return (
        "\n".join(
            ["## Loading the bulk form\n", "`python -m benchmarks.bulk`: lines parsed, bound and coded.\n", *rows]
        )
        if rows
        else ""
    )


def _churn() -> str:
    newest = _newest("churn", "subscriptions", "changes")
    rows = [
        f"{each['changes']:,} changes at {each['subscriptions']:,} live: {each['microseconds_per_change']:.0f} µs each; tiers "
        f"{', '.join(f'{size:,}' for size in each['tiers'])} and {each['dead']:,} tombstones left. Events/s before "
        f"{each['events_per_second_before']:,.0f}, with these {each['events_per_second_with_delta']:,.0f}, all merged "
        f"{each['events_per_second_merged']:,.0f}.\n"
        for each in newest
    ]
    return "\n".join(["## Changing while matching\n", "`python -m benchmarks.churn`\n", *rows]) if rows else ""


def _peers() -> str:
    newest = _newest("peers", "workload", "peer", "subscriptions")
    if not newest:
        return ""
    runs = list(dict.fromkeys((each["workload"], each["subscriptions"]) for each in newest))
    found = {(each["peer"], each["workload"], each["subscriptions"]): each for each in newest}
    names = sorted({each["peer"] for each in newest}, key=lambda name: (name == "columnar", name))
    reasons: list[str] = []
    rows = [
        "| peer | " + " | ".join(f"{workload}, {count:,}" for workload, count in runs) + " |",
        "|---" * (len(runs) + 1) + "|",
    ]
    for name in names:
        cells = [_peer_cell(found, name, run, reasons) for run in runs]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    text = (
        "`python -m benchmarks.peers all SUBSCRIPTIONS EVENTS`: events/s on the same files, a sample of the answers checked "
        "against\nthe definition first; and how many times as fast the columnar engine is. Peers take one event at a time, as "
        "they are made\nto; the columnar engine takes batches of up to 1,000. Read [peers](../benchmarks/peers/README.md) for "
        "what each is.\n"
    )
    return "\n".join(["## Peers\n", text, *rows, "", *(f"({at}) {reason}.\n" for at, reason in enumerate(reasons, 1))])


def _peer_cell(
    found: dict[tuple[str, str, int], dict[str, Any]], name: str, run: tuple[str, int], reasons: list[str]
) -> str:
    """Return what a peer did in a run; the reason, where it did nothing, is numbered and kept."""
    each, ours = found.get((name, *run)), found.get(("columnar", *run))
    if each is None:
        return ""
    if "events_per_s" in each:
        times = f" ({ours['events_per_s'] / each['events_per_s']:,.0f}x)" if ours and name != "columnar" else ""
        one = f"; one event {each['single_us']:,.0f} µs" if run[0] == "news" and each.get("single_us") else ""
        return f"{each['events_per_s']:,.0f}{times}{one}"
    outcome = next(key for key in ("skipped", "failed", "wrong") if key in each)
    reason = f"{name}, {run[0]}: {each[outcome].splitlines()[0]}"
    reasons.append(reason)
    return f"{outcome} ({len(reasons)})"


MATRIX_HEAD = """\
# The matrix

Made by `python -m benchmarks.report` from `benchmarks/results/matrix.jsonl`; measured by `python -m benchmarks.matrix`
(`--quick` ends in a few minutes, `--beside COMMIT` measures another commit by turns): every operator and type of
[the language](language.md), at several numbers of subscriptions. What is asked grows with the number, so that about three
subscriptions match an event at every size, unless *matches* says otherwise: only the search is measured.

*Events/s* is from Arrow columns to lists of ids, batches of 1,000, one thread; *text ids* the same with texts for ids; *one* is
one event from a dict, at the median. *Growth* is the exponent of time over subscriptions: 0 is constant, 1 linear. Answers,
matches first, are compared with the definition before anything is timed. The machine was shared: single figures may be off by
some times, orders of magnitude are not.

Marked are rows that miss what is wanted at 20,000 subscriptions: **slow** below 50,000 events/s with fewer than ten matches,
**late** where one event takes more than 100 µs, **steep** where time grows faster than the subscriptions, or linearly though
something could find them.

Known, and not mended: comparisons of two attributes that stand alone (`price < 0.5 * estimate`) are decided for every event and
subscription, since the index knows nothing of them; so are regular expressions without a literal, and networks of IPv6.
Decision 0195 mends circles, networks of IPv4, lists of texts and `not between`.
"""


def _write_matrix() -> None:
    """Write docs/matrix.md."""
    newest = _newest("matrix", "row")
    if not newest:
        return
    sizes = sorted({figures["subscriptions"] for each in newest for figures in each["sizes"]})
    head = (
        "| row | "
        + " | ".join(f"{size:,}: matches | events/s | text ids | one, µs" for size in sizes)
        + " | growth | |"
    )
    commits = ", ".join(f"`{commit}`" for commit in dict.fromkeys(each["commit"] for each in newest))
    parts = [MATRIX_HEAD, _machine(newest), f"Measured at {commits}; what came later is not in these figures.\n"]
    for group in dict.fromkeys(each["group"] for each in newest):
        parts += [f"## {group.capitalize()}\n", head, "|---" * (4 * len(sizes) + 3) + "|"]
        parts += [_matrix_row(each, sizes) for each in newest if each["group"] == group] + [""]
    compared = [each for each in newest if each.get("before")]
    if compared:
        parts += [
            "## Beside another commit\n",
            f"By turns in one run, {compared[-1]['beside']} and then; above 1, this is faster.\n",
            "| row | subscriptions | batches | one event |\n|---|---|---|---|",
            *(line for each in compared for line in _matrix_ratios(each)),
            "",
        ]
    (DOCS / "matrix.md").write_text("\n".join(parts), encoding="utf-8")


def _matrix_row(each: dict[str, Any], sizes: list[int]) -> str:
    found = {figures["subscriptions"]: figures for figures in each["sizes"] if "failed" not in figures}
    cells = []
    for size in sizes:
        at = found.get(size)
        cells += (
            ["", "", "", ""]
            if at is None
            else [
                f"{at['matches_per_event']:,.1f}",
                f"{1 / at['seconds_per_event']:,.0f}",
                f"{1 / at['text_seconds_per_event']:,.0f}",
                f"{at['single_us']:,.0f}",
            ]
        )
    growth = each["exponent"]["seconds_per_event"]
    shown = "" if growth is None else f"{growth:.2f}"
    return f"| `{each['row']}` | {' | '.join(cells)} | {shown} | {_missed(each, found)} |"


def _missed(each: dict[str, Any], found: dict[int, dict[str, Any]]) -> str:
    """Return what a row misses of what is wanted."""
    at, growth = found.get(20_000), each["exponent"]["seconds_per_event"]
    missed = []
    if at is not None and at["matches_per_event"] < 10 and at["seconds_per_event"] > 1 / 50_000:
        missed.append("**slow**")
    if at is not None and at["matches_per_event"] < 10 and at["single_us"] > 100:
        missed.append("**late**")
    if growth is not None and growth > (0.9 if each["found"] else 1.15):
        missed.append("**steep**")
    return " ".join(missed)


def _matrix_ratios(each: dict[str, Any]) -> list[str]:
    lines = []
    for ours, before in zip(each["sizes"], each["before"], strict=True):
        if "failed" not in ours and "failed" not in before:
            batch = before["seconds_per_event"] / ours["seconds_per_event"]
            lines.append(
                f"| `{each['row']}` | {ours['subscriptions']:,} | {batch:,.2f} | {before['single_us'] / ours['single_us']:,.2f} |"
            )
    return lines


def _plot(measurements: list[dict[str, Any]]) -> None:
    """Draw events per second over subscriptions, a line per workload."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "tocsin"  # the same figures give the same file
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name in dict.fromkeys(each["workload"] for each in measurements):
        points = sorted(
            (each["subscriptions"], each["events_per_second_best"]) for each in measurements if each["workload"] == name
        )
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="subscriptions", ylabel="events per second")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(DOCS / "benchmarks.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
