"""DuckDB in our place, for benchmarks/offers.py: one row per subscriber, on all cores, every formulation that we know."""

from __future__ import annotations

from typing import Any

from benchmarks.offers_world import COVERS, PRICE, subscribers

_COLUMNS = (
    "id::integer id, cover::cover_type cover, deductible::smallint deductible, price::smallint price, "
    "age::smallint age, years_ncd::smallint years_ncd, region::region_type region, income, km::integer km"
)
_RULES = (
    "age between age_low and age_high and years_ncd between years_ncd_low and years_ncd_high "
    "and km between km_low and km_high and income >= income_low and (wanted is null or region = wanted)"
)
BATCHES = {  # name: the table of subscribers, whether their deductibles are joined by equality
    "ranges": ("clustered", False),
    "keys": ("clustered", True),
    "kept_ranges": ("computed", False),
    "kept_keys": ("computed", True),
}


class Duck:
    """The tables have the narrowest types and enumerations, which is faster than texts and wide numbers.

    single     a statement an offer, its rules in the text, over the table as it comes (subs)
    clustered  the same over the table in the order of cover and deductible, so that row groups are skipped
    batch      all offers as a table of intervals, joined with the subscribers in one statement: by cover and ranges, or
               by cover and deductible (keys), an offer then having a row for each deductible that it satisfies; over the
               clustered table, or over one that has the program's values as a column, and only the rows whose own bound
               these satisfy (kept). Only offers whose rules are known intervals can be written so.
    """

    def __init__(self, size: int) -> None:
        import duckdb
        import pyarrow as pa

        columns: dict[str, list[Any]] = {}
        for one in subscribers(size):
            row = {
                "id": one["id"], "cover": one["predicates"][0][2], "deductible": one["predicates"][1][2],
                "price": one["predicates"][2][2], **one["with"],
            }  # fmt: skip
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        self.connection = duckdb.connect()
        run = self.connection.execute
        self.connection.register("given", pa.table(columns))
        run(f"create type cover_type as enum {COVERS}")
        run(f"create type region_type as enum {tuple(f'r{number}' for number in range(200))}")
        run(f"create table subs as select {_COLUMNS} from given")
        run("create table clustered as select * from subs order by cover, deductible")
        run(
            f"create table computed as select * from (select *, ({PRICE})::smallint as computed from subs) "
            "where computed <= price order by cover, deductible"
        )
        self.connection.unregister("given")

    def match(self, offer: dict[str, Any], table: str = "subs") -> Any:
        event = offer["event"]
        where = " and ".join(f"({rule})" for rule in offer["rules"])
        return self.connection.execute(
            f"select id, computed from (select id, price, {PRICE} as computed from {table} "
            f"where cover = '{event['cover']}' and deductible >= {event['deductible']} and {where}) where computed <= price"
        ).fetchnumpy()

    def match_clustered(self, offer: dict[str, Any]) -> Any:
        return self.match(offer, "clustered")

    def prepare(self, asked: list[dict[str, Any]]) -> None:
        """Make the tables of offers that batches are joined with."""
        import pyarrow as pa

        run = self.connection.execute
        self.connection.register("asked", pa.Table.from_pylist([intervals(at, one) for at, one in enumerate(asked)]))
        numbers = ", ".join(
            f"{name}_{end}::smallint {name}_{end}" for name in ("age", "years_ncd") for end in ("low", "high")
        )
        run(
            "create or replace temp table offers as select number::smallint number, cover::cover_type cover, "
            f"deductible::smallint deductible, {numbers}, km_low::integer km_low, km_high::integer km_high, income_low, "
            "wanted::region_type wanted from asked"
        )
        run(
            "create or replace temp table offer_keys as select o.*, d.d::smallint d from offers o, "
            "(select unnest(range(0, 2000, 50)) d) d where d.d >= o.deductible"
        )

    def match_batch(self, name: str) -> Any:
        """Return the pairs of the prepared offers, by one of BATCHES."""
        table, by_keys = BATCHES[name]
        join = "offer_keys o join {} s on s.cover = o.cover and s.deductible = o.d" if by_keys else (
            "offers o join {} s on s.cover = o.cover and s.deductible >= o.deductible"
        )  # fmt: skip
        price = "s.computed" if table == "computed" else PRICE
        return self.connection.execute(
            f"select number, id, computed from (select number, id, s.price, {price} as computed "
            f"from {join.format(table)} and {_RULES}) where computed <= price"
        ).fetchnumpy()


def intervals(at: int, offer: dict[str, Any]) -> dict[str, Any]:
    """Return an offer as a row of intervals, for the batch join."""
    row: dict[str, Any] = {"number": at, "cover": offer["event"]["cover"], "deductible": offer["event"]["deductible"]}
    for name in ("age", "years_ncd", "km"):
        most = 10**9 if name == "km" else 30_000
        row |= {f"{name}_low": -most, f"{name}_high": most}
    row |= {"income_low": -1.0, "wanted": None}
    for rule in offer["rules"]:
        match rule.replace("'", "").split():
            case [name, "between", low, "and", high]:
                row |= {f"{name}_low": int(low), f"{name}_high": int(high)}
            case ["income", ">=", low]:
                row["income_low"] = float(low)
            case [name, ">=", low]:
                row[f"{name}_low"] = int(low)
            case [name, "<", high]:
                row[f"{name}_high"] = int(high) - 1
            case ["region", "=", region]:
                row["wanted"] = region
            case _:
                raise AssertionError(rule)
    return row
