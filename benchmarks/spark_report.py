"""The report of the Spark benchmarks: plots in docs/spark.svg, and the tables of docs/spark.md, between their marks.

Made from the newest stored results of each kind; what was not measured is left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.results import stored

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PLOT = DOCS / "spark.md", DOCS / "spark.svg"
BEGIN, END = "<!-- {}: written by `python -m benchmarks.spark report` -->", "<!-- end of {} -->"
Row = dict[str, Any]


def report() -> None:
    """Draw and write."""
    rows = newest(stored("spark-throughput"))
    draw(rows)
    text = PAGE.read_text()
    texts = {"throughput": throughput(rows), "growth": growth(rows), "sql": sql(), "latency": latency()}
    for name, content in texts.items():
        text = put_between(text, name, content)
    PAGE.write_text(text)
    print(PAGE, PLOT)


def put_between(text: str, name: str, content: str) -> str:
    """Return the text with what stands between the marks of a name replaced; as it was, where there is nothing new."""
    begin, end = BEGIN.format(name), END.format(name)
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    assert found, f"docs/spark.md lacks {begin}"
    assert closed, f"docs/spark.md lacks {end}"
    return f"{before}{begin}\n{content.strip()}\n{end}{after}" if content else text


def newest(rows: Iterable[Row]) -> list[Row]:
    """Return the last measurement of each part, size, master and size of batches."""
    found = {
        (row["part"], row["subscriptions"], row["master"], row.get("rows_per_batch")): row
        for row in rows
        if "part" in row
    }
    return list(found.values())


def of(rows: list[Row], *parts: str) -> list[Row]:
    return [row for row in rows if row["part"] in parts]


# --- tables -----------------------------------------------------------------------------------------------------------


def table(head: list[str], lines: Iterable[list[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def millions(value: float | None) -> str:
    return "" if value is None else f"{value / 1e6:,.0f} million"


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def throughput(rows: list[Row]) -> str:
    """Return what one size was measured at, beside the bare engine, and where the time of lists goes."""
    if not (found := of(rows, "throughput")):
        return ""
    row = max(found, key=lambda each: each["subscriptions"])
    matches, bare, cores = row["matches_per_event"], row["bare_events_per_second"], row["cores"]

    def line(name: str, key: str, *, ids: bool = True, of_bare: bool = True) -> list[str]:
        rate = row.get(f"{key}_events_per_second")
        found = None if rate is None or not ids else rate * matches
        return [name, number(rate), millions(found), share(rate / bare) if rate and of_bare else ""]

    lines = [
        line(f"bare engine: ids found, {cores} processes at once", "bare", of_bare=False),
        line("bare engine: matches counted", "bare_counting", ids=False, of_bare=False),
        line("Spark's transport of the rows alone", "transport", ids=False, of_bare=False),
        line("**counts on Spark**", "counts", ids=False),
        line("**lists, written by the workers to disk**", "lists"),
        line("lists, written by the workers to a folder in memory", "lists_in_memory"),
        line("lists through the JVM, written nowhere", "lists_through_jvm"),
        ["Arrow's Parquet encoder alone on lists, one core", "",
         millions(row["arrow_parquet_one_core_matches_per_second"]), ""],
    ]  # fmt: skip
    events = f"{number(row['events'])} events ({number(row['lists_events'])} for lists)"
    title = f"{number(row['subscriptions'])} `market` subscriptions, {number(matches)} matches an event, {events}"
    head = [f"{title}, `{row['master']}`, one run", "events/s", "ids/s", "of the bare engine"]
    counted = f"Counts are {share(row['counts_share_of_bare_counting'])} of the engine's own counting"
    passed = f"{share(row['counts_share_of_transport'])} of what Spark's transport allows"
    steps = table(
        ["of an id, on one core without Spark", "found", "packed", "written to disk", "or to memory"],
        [
            [
                "nanoseconds",
                *(f"{row[f'one_core_{step}_ns_per_id']:.2f}" for step in ("match", "pack", "disk", "memory")),
            ]
        ],
    )
    first, *others = row["lists_seconds"]
    cold = f"they took {min(others):.1f} to {max(others):.1f} s, and the first, into memory that the host had to give first, {first:.1f} s"
    middle = row["lists_matches_per_second"] * min(others) / statistics.median(others)
    usual = (
        f"the median of them makes {millions(middle)} ids/s, or {share(middle / (bare * matches))} of the bare engine"
    )
    disk, memory = (row[f"{place}_one_core_bytes_per_second"] / 1e9 for place in ("disk", "memory"))
    return f"""
{table(head, lines)}

{counted}, and {passed}. The first run, in which workers start and map the index, took {row["first_run_seconds"]:.0f} s.

{steps}

An id takes {row["lists_bytes_per_id"]:.2f} bytes, with the dictionary. Writing blocks and nothing else runs at {disk:.1f} GB/s into the
disk's cache on one core, and at {memory:.1f} GB/s into a folder in memory. The best of {len(row["lists_seconds"]) - 1} runs counts, each of about
{row["lists_events"] * matches * row["lists_bytes_per_id"] / 1e9:.1f} GB, which the disk's cache takes without waiting: {usual};
{cold}.
A disk that has to take more than its cache holds is slower, and then it is the limit. About 0.3 s of a run is Spark's own,
however few events there are.
"""


def growth(rows: list[Row]) -> str:
    """Return how throughput grows with subscriptions, events per batch, cores and executors."""
    parts = [
        over("subscriptions", of(rows, "throughput", "sizes"), lambda row: number(row["subscriptions"])),
        over("events a batch", of(rows, "batches"), lambda row: number(row["rows_per_batch"])),
        over("master", of(rows, "throughput", "cores", "executors"), lambda row: f"`{row['master']}`"),
    ]
    found = "\n\n".join(part for part in parts if part)
    return (
        f"{found}\n\n![Throughput over subscriptions, events per batch, cores and executors](spark.svg)"
        if found
        else ""
    )


def over(name: str, rows: list[Row], shown: Callable[[Row], str]) -> str:
    """Return rates in the order of a quantity."""
    lines = [
        [shown(row), number(row["counts_events_per_second"]), number(row["lists_events_per_second"]),
         millions(row["lists_matches_per_second"]), share(row.get("lists_share_of_bare"))]
        for row in sorted(rows, key=order)
    ]  # fmt: skip
    return table([name, "counts: events/s", "lists: events/s", "ids/s", "of the bare engine"], lines) if lines else ""


def order(row: Row) -> tuple[Any, ...]:
    return row["subscriptions"], row.get("rows_per_batch", 0), row.get("executors", 0), row.get("cores", 0)


def sql() -> str:
    """Return what Spark SQL's own ways were measured at."""
    if not (rows := list(stored("spark-sql"))):
        return ""
    row = rows[-1]
    ways = {
        "exploded": "exploded predicates, join, group by, count",
        "nested": "broadcast nested-loop join with the whole condition",
        "access": "join on the category, residual condition, nested loops for the rest",
    }
    rate = number(row["tocsin_events_per_second"])
    return table(
        ["what one would write by hand", "events/s", f"Tocsin, {rate} events/s, is faster"],
        [
            [words, number(row[f"{way}_events_per_second"]), f"{number(row[f'times_{way}'])} times"]
            for way, words in ways.items()
        ],
    )


def latency() -> str:
    """Return the newest measurement of latency, beside the floor."""
    if not (rows := list(stored("spark-latency"))):
        return ""
    row = rows[-1]
    parts = row["batch_p50_ms"]
    per = [f"{row[f'p{at}_ms']:,.0f} ms" for at in (50, 90, 99)]
    head = [f"published to stored, {number(row['events'])} events", "p50", "p90", "p99", "a micro-batch"]
    lines = [
        ["the pipeline", *per, f"{parts['triggerExecution']:,.0f} ms"],
        [
            "floor: Spark's rate source, the same trigger and sink, no matching",
            "",
            "",
            "",
            f"{row['floor_p50_ms']:,.0f} ms",
        ],
    ]
    logs = parts.get("walCommit", 0) + parts.get("commitOffsets", 0)
    return f"""
{table(head, lines)}

{number(row["subscriptions"])} live subscriptions, {number(row["rate"])} events/s, {number(row["changes"])} changes of subscriptions/s,
{number(row["matches_per_event"])} notifications an event; {row["checked_events"]} events compared with the definition. Of a micro-batch,
{parts["addBatch"]:,.0f} ms are Spark's job and the store's transaction, {logs:,.0f} the two log files, {parts["queryPlanning"]:,.0f} planning.
"""


# --- plots ------------------------------------------------------------------------------------------------------------


def draw(rows: list[Row]) -> None:
    """Draw throughput over subscriptions, events per batch, cores and executors."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "tocsin"  # the same results give the same file
    from matplotlib import pyplot as plt

    largest = max((row["subscriptions"] for row in of(rows, "throughput")), default=0)
    at_largest = [row for row in rows if row["subscriptions"] == largest]
    panels = [
        ("subscriptions", of(rows, "throughput", "sizes"), "log"),
        ("rows_per_batch", of(at_largest, "batches"), "log"),
        ("cores", of(at_largest, "throughput", "cores"), "linear"),
        ("executors", of(at_largest, "executors"), "linear"),
    ]
    panels = [panel for panel in panels if panel[1]]
    if not panels:
        return
    figure, axes = plt.subplots(-(-len(panels) // 2), 2, figsize=(9, 7), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, (key, found, scale) in zip(axes.flat, panels, strict=False):
        found = sorted(found, key=lambda row: row[key])
        places = [row[key] for row in found]
        axis.plot(places, [row["counts_events_per_second"] for row in found], "-o", label="counts: events/s")
        axis.plot(places, [row["lists_events_per_second"] for row in found], "-s", label="lists: events/s")
        axis.plot(
            places, [row["lists_matches_per_second"] / 1e3 for row in found], "--^", label="lists: thousand ids/s"
        )
        axis.set(xscale=scale, yscale="log", xlabel=key.replace("_", " "))
        if scale == "linear":
            axis.set_xticks(sorted(set(places)) or [1])
        axis.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})


if __name__ == "__main__":
    report()
