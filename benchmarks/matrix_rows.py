"""The rows of the matrix: every operator and type of the language, each as so many subscriptions and events for it.

A row says how its subscriptions and events are made for a number of subscriptions. Where an operator can be found by
something, domains grow with the number, so that about three subscriptions match an event at every size and only the search
is measured; `beside` rows stand beside an equality that finds them; rows that match much are marked by their matches.
Subscriptions are conditions in the JSON tree of docs/language.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random
from typing import Any

Condition = Any
Event = dict[str, Any]
PER_EVENT = 3  # matches of an event, about
SIZES = [f"s{number}" for number in range(12)]
RANKS = ["novice", "judge", "dealer", "expert"]
START = datetime(2026, 11, 15, tzinfo=UTC)


class Scale:
    """What a row is made from: a random source, and domains that fit so many subscriptions."""

    def __init__(self, subscriptions: int, seed: int) -> None:
        self.random, self.n = Random(seed), subscriptions
        self.values = max(4, subscriptions // PER_EVENT)

    def value(self) -> int:
        """Return a number of which an event meets about three subscriptions."""
        return self.random.randrange(self.values)

    def among(self, times: int) -> int:
        """Return the same from a domain so many times as large, for lists."""
        return self.random.randrange(self.values * times)

    def word(self) -> str:
        """Return a word of a vocabulary that grows with the subscriptions."""
        return words(self.random.randrange(10 * self.values))

    def common(self) -> str:
        """Return one of a hundred words that many texts have."""
        return words(self.random.randrange(100))

    def text(self, count: int = 12) -> str:
        """Return a text of so many words, some of them common ones."""
        return " ".join(self.common() if self.random.random() < 0.3 else self.word() for _ in range(count))

    def instant(self, days: float = 3_650) -> str:
        return (START + timedelta(seconds=int(self.random.random() * days * 86_400))).isoformat()

    def point(self) -> list[float]:
        return [round(self.random.uniform(40, 50), 6), round(self.random.uniform(0, 10), 6)]

    def kind(self) -> Condition:
        """Return the equality that other conditions stand beside."""
        return ["kind", "=", self.value()]


def words(number: int) -> str:
    """Return the word of a number: letters only, five at least."""
    letters = "bcdfghklmnprstvz"
    found = "".join("aeiou"[(number >> shift) % 5] + letters[(number >> shift) % 16] for shift in (0, 4, 8))
    while number:
        number, digit = divmod(number, 16)
        found += letters[digit]
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its name as the language writes it, its group, and how subscriptions and events are made."""

    group: str
    name: str
    condition: Callable[[Scale], Condition]
    event: Callable[[Scale], Event]
    found: bool = True  # whether something finds it, so that it must grow less than linearly


def both(condition: Callable[[Scale], Condition]) -> Callable[[Scale], Condition]:
    """Return a condition beside the equality."""
    return lambda s: {"and": [s.kind(), condition(s)]}


def with_kind(event: Callable[[Scale], Event]) -> Callable[[Scale], Event]:
    return lambda s: {"kind": s.value(), **event(s)}


def number(s: Scale) -> Event:
    return {"n": s.value()}


def wide(s: Scale) -> Event:
    return {"price": s.random.randrange(1_000_000)}


def prices(s: Scale) -> Event:
    estimate = s.random.uniform(100, 1_000)
    return {"price": round(estimate * s.random.uniform(0.5, 1.5), 2), "estimate": round(estimate, 2)}


def narrow(s: Scale) -> list[int]:
    low = s.random.randrange(1_000_000)
    return [low, low + 2 * PER_EVENT * 1_000_000 // s.n // 2]


def label(s: Scale) -> Event:
    return {"label": f"Item-{words(s.value())}-x"}


def path(s: Scale) -> Event:
    return {"path": f"C:\\Users\\{s.common()}\\{words(s.value())}\\{words(s.value())}.exe -{s.common()}"}


def title(s: Scale) -> Event:
    return {"title": s.text()}


def tags(s: Scale) -> Event:
    return {"tags": sorted({words(s.among(4)) for _ in range(4)})}


def bids(s: Scale) -> Event:
    return {"bids": sorted({s.random.randrange(1_000_000) for _ in range(4)})}


def category(s: Scale) -> Event:
    return {"category": f"leaf{s.value()}.{s.random.randrange(4)}"}


def when(s: Scale) -> Event:
    return {"closes": s.instant()}


def place(s: Scale) -> Event:
    latitude, longitude = s.point()
    return {"position": {"lat": latitude, "lon": longitude}}


def radius(s: Scale) -> float:
    """Return the kilometres of a circle that three points of so many subscriptions' share have in common."""
    return float((PER_EVENT / s.n * 10 * 111 * 10 * 78 / 3.14) ** 0.5)


def box(s: Scale) -> list[float]:
    latitude, longitude = s.point()
    side = 10 * (PER_EVENT / s.n) ** 0.5 / 2
    return [latitude - side, longitude - side, latitude + side, longitude + side]


def circle(s: Scale) -> Condition:
    return ["position", "within", {"amount": radius(s), "unit": "km", "of": {"point": s.point()}}]


def address(s: Scale) -> Event:
    return {"ip": f"10.{s.random.randrange(256)}.{s.random.randrange(256)}.{s.random.randrange(256)}"}


def attribute(name: str) -> dict[str, str]:
    return {"attribute": name}


def large_tree(s: Scale) -> Condition:
    """Return alternatives of alternatives whose normal form has more than 64 conjunctions."""
    groups = [
        {"or": [["n", "=", s.among(3)], ["label", "=", f"Item-{words(s.among(3))}-x"], ["kind", "=", s.among(3)]]}
        for _ in range(2)
    ]
    rest = [
        {
            "or": [
                ["price", "<", s.random.randrange(1_000_000)],
                ["size", "=", s.random.choice(SIZES)],
                ["sold", "=", True],
            ]
        },
        {
            "or": [
                ["estimate", "<", s.random.randrange(1_000)],
                ["rank", ">", s.random.choice(RANKS)],
                ["o1", "is present"],
            ]
        },
        {"or": [["o2", "<", s.random.randrange(100)], ["o3", "<", s.random.randrange(100)], ["o4", "is absent"]]},
    ]
    return {"and": [*groups, *rest]}


def everything(s: Scale) -> Event:
    return {
        **number(s),
        **label(s),
        **wide(s),
        "size": s.random.choice(SIZES),
        "sold": s.random.random() < 0.5,
        "kind": s.value(),
    }


def some_of(s: Scale) -> Condition:
    parts = [
        ["n", "=", s.value()],
        ["label", "=", f"Item-{words(s.value())}-x"],
        ["kind", "=", s.value()],
        ["sold", "=", True],
    ]
    return {"at_least": 2, "of": parts}


def optional(s: Scale) -> Event:
    return {f"o{s.random.randrange(64)}": 1, "kind": s.value()}


def texts(*keys: str, case: bool = False, every: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"all" if every else "any": list(keys)}
    return {**found, "ignoring_case": True} if case else found


ROWS: tuple[Row, ...] = (
    Row("numbers", "n = 17", lambda s: ["n", "=", s.value()], number),
    Row("numbers", "kind = 1 and n != 17", both(lambda s: ["n", "!=", s.value()]), with_kind(number)),
    Row("numbers", "n != 17", lambda s: ["n", "!=", s.value()], number, found=False),
    Row("numbers", "kind = 1 and price < 500", both(lambda s: ["price", "<", s.random.randrange(1_000_000)]), with_kind(wide)),
    Row("numbers", "price < 500", lambda s: ["price", "<", s.random.randrange(1_000_000)], wide, found=False),
    Row("numbers", "price between 5 and 9 (narrow)", lambda s: ["price", "between", narrow(s)], wide),
    Row("numbers", "kind = 1 and price not between 5 and 9", both(lambda s: {"not": ["price", "between", narrow(s)]}), with_kind(wide)),
    Row("numbers", "n in (20 values)", lambda s: ["n", "in", sorted({s.among(20) for _ in range(20)})], lambda s: {"n": s.among(20)}),
    Row("numbers", "kind = 1 and n not in (20 values)", both(lambda s: {"not": ["n", "in", sorted({s.among(20) for _ in range(20)})]}), with_kind(lambda s: {"n": s.among(20)})),
    Row("text", "label = 'a'", lambda s: ["label", "=", label(s)["label"]], label),
    Row("text", "label = 'a' ignoring case", lambda s: ["label", "like", texts(label(s)["label"].upper(), case=True)], label),
    Row("text", "label in (20 texts)", lambda s: ["label", "in", sorted({f"Item-{words(s.among(20))}-x" for _ in range(20)})], lambda s: {"label": f"Item-{words(s.among(20))}-x"}),
    Row("text", "label in (20 texts) ignoring case", lambda s: ["label", "like", texts(*sorted({f"ITEM-{words(s.among(20))}-x" for _ in range(20)}), case=True)], lambda s: {"label": f"Item-{words(s.among(20))}-x"}),
    Row("text", "kind = 1 and label < 'm'", both(lambda s: ["label", "<", label(s)["label"]]), with_kind(label)),
    Row("text", "kind = 1 and label is not 'a'", both(lambda s: {"or": [["label", "is absent"], ["label", "!=", label(s)["label"]]]}), with_kind(label)),
    Row("patterns", "label starts with 'a'", lambda s: ["label", "starts with", f"Item-{words(s.value())}"], label),
    Row("patterns", "label ends with 'a'", lambda s: ["label", "ends with", f"{words(s.value())}-x"], label),
    Row("patterns", "path contains text 'a'", lambda s: ["path", "contains text", f"\\{words(s.among(2))}\\"], path),
    Row("patterns", "path contains text 'a' ignoring case", lambda s: ["path", "contains text", texts(f"\\{words(s.among(2)).upper()}\\", case=True)], path),
    Row("patterns", "path contains text any (5)", lambda s: ["path", "contains text", texts(*(f"\\{words(s.among(10))}\\" for _ in range(5)))], path),
    Row("patterns", "path contains text all (2)", lambda s: ["path", "contains text", texts(f"\\{words(s.among(2))}\\", ".exe", every=True)], path),
    Row("patterns", "path ends with any (5)", lambda s: ["path", "ends with", texts(*(f"{words(s.among(10))}.exe -{s.common()}" for _ in range(5)))], path),
    Row("patterns", "path like 'a%b_c%'", lambda s: ["path", "like", f"C:%{words(s.among(2))}_exe%"], path),
    Row("patterns", "kind = 1 and path not like '%a%'", both(lambda s: {"not": ["path", "like", f"%{words(s.value())}%"]}), with_kind(path)),
    Row("patterns", "path matches 'a[0-9]*b'", lambda s: ["path", "matches", f"{words(s.among(2))}\\.(exe|dll) -[a-z]+"], path),
    Row("patterns", "ip in network '10.1.2.0/24'", lambda s: ["ip", "in network", f"10.{s.random.randrange(256)}.{s.random.randrange(256)}.0/24"], address),
    Row("patterns", "ip in network any (2 × /20)", lambda s: ["ip", "in network", texts(*(f"10.{s.random.randrange(256)}.{16 * s.random.randrange(16)}.0/20" for _ in range(2)))], address),
    Row("patterns", "any attribute contains text 'a'", lambda s: {"or": [[name, "contains text", words(s.among(3)) + "."] for name in ("label", "path", "title")]}, lambda s: {**label(s), **path(s), **title(s)}),
    Row("words", "title contains 'a'", lambda s: ["title", "contains", s.word()], title),
    Row("words", "title contains 'a b'", lambda s: ["title", "contains", f"{s.word()} {s.common()}"], title),
    Row("words", "title contains any (5)", lambda s: ["title", "contains any", [s.word() for _ in range(5)]], title),
    Row("words", "title contains all (2)", lambda s: ["title", "contains all", [s.word(), s.common()]], title),
    Row("words", "title contains ('a' near[0..8] 'b')", lambda s: ["title", "contains", {"words": {"near": [s.word(), [0, 8], s.common()]}}], title),
    Row("words", "title contains ('a' and not 'b')", lambda s: ["title", "contains", {"words": {"and": [s.word(), {"not": s.common()}]}}], title),
    Row("words", "kind = 1 and title not contains 'a'", both(lambda s: {"not": ["title", "contains", s.common()]}), with_kind(title)),
    Row("several values", "tags contains 'a'", lambda s: ["tags", "contains", words(s.among(4))], tags),
    Row("several values", "tags contains any (5)", lambda s: ["tags", "contains any", [words(s.among(4)) for _ in range(5)]], tags),
    Row("several values", "kind = 1 and tags contains all (2)", both(lambda s: ["tags", "contains all", [words(s.among(4)), words(s.among(4))]]), with_kind(tags)),
    Row("several values", "kind = 1 and tags != 'a'", both(lambda s: ["tags", "!=", words(s.among(4))]), with_kind(tags)),
    Row("several values", "bids between 5 and 9 (narrow)", lambda s: ["bids", "between", narrow(s)], bids),
    Row("several values", "kind = 1 and bids > 5 and bids < 9", both(lambda s: {"and": [["bids", ">", s.random.randrange(1_000_000)], ["bids", "<", s.random.randrange(1_000_000)]]}), with_kind(bids)),
    Row("several values", "tags contains text 'a'", lambda s: ["tags", "contains text", words(s.among(4)) + "x"], lambda s: {"tags": [tag + "xy" for tag in tags(s)["tags"]]}),
    Row("other types", "kind = 1 and sold = true", both(lambda s: ["sold", "=", s.random.random() < 0.5]), with_kind(lambda s: {"sold": s.random.random() < 0.5})),
    Row("other types", "kind = 1 and size >= 'M'", both(lambda s: ["size", ">=", s.random.choice(SIZES)]), with_kind(lambda s: {"size": s.random.choice(SIZES)})),
    Row("other types", "kind = 1 and rank > 'judge'", both(lambda s: ["rank", ">", s.random.choice(RANKS)]), with_kind(lambda s: {"rank": s.random.choice(RANKS)})),
    Row("other types", "category kind of 'a'", lambda s: ["category", "kind of", f"inner{s.value()}"], category),
    Row("other types", "category < 'a'", lambda s: ["category", "<", f"inner{s.value()}"], category),
    Row("other types", "category >= 'a'", lambda s: ["category", ">=", f"leaf{s.value()}.0"], lambda s: {"category": f"inner{s.value()}"}),
    Row("other types", "closes within 30 minutes of t", lambda s: ["closes", "within", {"amount": PER_EVENT * 3_650 * 43_200 // s.n, "unit": "seconds", "of": {"time": s.instant()}}], when),
    Row("other types", "kind = 1 and closes < t", both(lambda s: ["closes", "<", {"time": s.instant()}]), with_kind(when)),
    Row("other types", "position within 5 km of p", circle, place),
    Row("other types", "position in box", lambda s: ["position", "in box", box(s)], place),
    Row("other types", "kind = 1 and position not within 5 km of p", both(lambda s: {"not": circle(s)}), with_kind(place)),
    Row("presence", "kind = 1 and o1 is present", both(lambda s: [f"o{s.random.randrange(8)}", "is present"]), optional),
    Row("presence", "kind = 1 and o1 is absent", both(lambda s: [f"o{s.random.randrange(64)}", "is absent"]), optional),
    Row("presence", "o1 is present", lambda s: [f"o{s.random.randrange(64)}", "is present"], optional, found=False),
    Row("presence", "o1 is absent", lambda s: [f"o{s.random.randrange(64)}", "is absent"], optional, found=False),
    Row("formulas", "kind = 1 and price < 0.8 * estimate", both(lambda s: {"compare": [attribute("price"), "<", {"*": [round(s.random.uniform(0.5, 1.5), 3), attribute("estimate")]}]}), with_kind(prices)),
    Row("formulas", "price < 0.5 * estimate", lambda s: {"compare": [attribute("price"), "<", {"*": [0.5 + 2 * PER_EVENT / s.n * s.random.random(), attribute("estimate")]}]}, prices),
    Row("formulas", "price + 20 < estimate (few)", lambda s: {"compare": [{"+": [attribute("price"), round(s.random.uniform(0.99, 1) * 500, 3)]}, "<", attribute("estimate")]}, prices),
    Row("formulas", "kind = 1 and price * 1.2 - 5 > estimate", both(lambda s: {"compare": [{"-": [{"*": [attribute("price"), round(s.random.uniform(0.5, 1.5), 3)]}, 5]}, ">", attribute("estimate")]}), with_kind(prices)),
    Row("connectives", "n = 17 or label = 'a'", lambda s: {"or": [["n", "=", s.among(2)], ["label", "=", f"Item-{words(s.among(2))}-x"]]}, lambda s: {"n": s.among(2), "label": f"Item-{words(s.among(2))}-x"}),
    Row("connectives", "kind = 1 and not (n = 2 or sold = true)", both(lambda s: {"not": {"or": [["n", "=", s.value()], ["sold", "=", True]]}}), with_kind(lambda s: {**number(s), "sold": s.random.random() < 0.5})),
    Row("connectives", "at least 2 of (4)", some_of, everything),
    Row("connectives", "a large tree (more than 64 conjunctions)", large_tree, everything),
    Row("connectives", "not (n = 2 or n = 3)", lambda s: {"not": {"or": [["n", "=", s.value()], ["n", "=", s.value()]]}}, number, found=False),
)  # fmt: skip


@lru_cache(maxsize=2)
def schema_document(subscriptions: int) -> dict[str, Any]:
    """Return the schema, as JSON, in which rows of that size are asked."""
    s = Scale(subscriptions, 0)
    tree = {f"group{g}": {f"inner{i}": [f"leaf{i}.{leaf}" for leaf in range(4)] for i in range(g, s.values, 50)} for g in range(min(50, s.values))}  # fmt: skip
    kinds = {
        "n": "number", "kind": "number", "price": "number", "estimate": "number", "label": "text", "path": "text",
        "title": "text", "tags": "text", "bids": "number", "sold": "flag", "size": "size", "rank": "rank",
        "category": "category", "closes": "time", "position": "place", "ip": "text",
        **{f"o{number}": "number" for number in range(64)},
    }  # fmt: skip
    order = [["novice", "judge"], ["novice", "dealer"], ["judge", "expert"], ["dealer", "expert"]]
    several = ("tags", "bids")
    return {
        "domains": {
            "number": {"kind": "numeric"}, "text": {"kind": "text"}, "flag": {"kind": "boolean"},
            "size": {"kind": "enumerated", "values": SIZES, "order": "total"}, "time": {"kind": "time"},
            "rank": {"kind": "enumerated", "values": RANKS, "order": "partial", "less": order},
            "place": {"kind": "point"}, "category": {"kind": "hierarchical", "tree": tree},
        },
        "attributes": kinds,
        "event_types": {"event": {name: "optional multiple" if name in several else "optional" for name in kinds}},
    }  # fmt: skip
