"""Hammer & Sons, a house of salerooms: what it publishes, and how that enters the integrated schema.

`express` plays the site's own software: it says a fact of the market as the site would. hammer.toml is its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tocsin_examples.integration import Change, Raw, Site, Step, TypeMapping, looked_up, mappings_of, own_schema

NAME = "Hammer & Sons"
EURO_A_POUND = 1.17
SALEROOMS = ("London", "Edinburgh", "Leeds", "Bath")
GRADES = {
    "A": "new", "B": "as new", "C": "very good", "D": "good", "E": "fair", "F": "poor", "G": "for parts",
}  # fmt: skip
SECTIONS = {
    "Beds": "bed", "Wardrobes": "wardrobe", "Night tables": "nightstand", "Dining tables": "dining table",
    "Dining chairs": "dining chair", "Sideboards": "sideboard", "Settees": "sofa", "Easy chairs": "armchair",
    "Bookcases": "bookcase", "Chandeliers": "chandelier", "Standard lamps": "floor lamp", "Garden ornament": "garden",
    "Classic motor cars": "classic car", "Sports motor cars": "sports car", "Saloons": "family car",
    "Motorcycles": "motorcycle", "Cycles": "bicycle", "Coins and medals": "coins", "Stamps": "stamps",
    "Watches": "wrist watch", "Clocks": "wall clock", "Ceramics": "porcelain", "Oils": "oil painting",
    "Watercolours": "watercolour", "Prints": "print", "Sculpture": "sculpture", "Film cameras": "film camera",
    "Digital cameras": "digital camera", "Computers": "computer", "Gramophones": "turntable",
    "Loudspeakers": "loudspeaker", "Surfing": "surf-board", "Golf": "golf clubs",
}  # fmt: skip
_GRADE_OF = {condition: grade for grade, condition in GRADES.items()}
_SECTION_OF = {category: section for section, category in SECTIONS.items()}

# What the integrated schema lacks for this site. `site` and `seller` serve those who join later, too.
EXTENSIONS: tuple[Change, ...] = (
    {"add_domain": {"name": "saleroom", "kind": "enumerated", "values": list(SALEROOMS)}},
    {"add_attribute": {"name": "saleroom", "domain": "saleroom"}},
    {"add_attribute": {"name": "site", "domain": "name"}},
    {"extend_event_type": {"event_type": "item", "attribute": "saleroom"}},
    *({"extend_event_type": {"event_type": name, "attribute": "site"}} for name in ("item", "bid", "sale", "question")),
    {
        "add_event_type": {
            "name": "seller",
            "attributes": [
                {"attribute": "seller.name", "mandatory": True},
                {"attribute": "seller.rating", "mandatory": False},
                {"attribute": "site", "mandatory": True},
                {"attribute": "at", "mandatory": True},
                {"attribute": "saleroom", "mandatory": False},
            ],
        }
    },
)


def _instant(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _euro(pence: int) -> float:
    return round(pence * EURO_A_POUND / 100, 2)


_LOT = Step("item", "lot", "17 becomes i17", lambda number: f"i{number}")
_HEADLINE = Step("title", "headline")
_SECTION = Step("category", "section", "by a table: Settees is sofa", looked_up(SECTIONS))
_TIME = Step("at", "time", "seconds since 1970, to an instant", _instant)
_CONSIGNOR = Step("seller.name", "consignor")
_APPROVAL = Step("seller.rating", "approval", "per cent to 0 to 5", lambda percent: percent / 20)
_PENCE = f"pence to euro, at {EURO_A_POUND}"

SITE = Site(
    NAME,
    "hammer",
    own_schema("hammer"),
    EXTENSIONS,
    mappings_of(
        TypeMapping(
            "lot", "item",
            (
                _LOT, _HEADLINE, _SECTION,
                Step("price", "estimate", _PENCE, _euro),
                Step("closes", "ends", "seconds since 1970, to an instant", _instant),
                _CONSIGNOR, _APPROVAL,
                Step("description", "note"),
                Step("condition", "grade", "by a table: A is new, G is for parts", looked_up(GRADES)),
                Step("brand", "maker"),
                Step("year", "circa"),
                Step("colour", "colours"),
                Step("tags", "marks"),
                Step("saleroom", "saleroom"),
            ),
        ),
        TypeMapping(
            "paddle", "bid",
            (_LOT, _HEADLINE, _SECTION, Step("price", "bid", _PENCE, _euro), Step("bids", "bid_number"),
             Step("bidder", "paddle"), _TIME),
        ),
        TypeMapping(
            "fall", "sale",
            (_LOT, _HEADLINE, _SECTION, Step("price", "hammer", _PENCE, _euro), Step("bids", "bid_number"), _CONSIGNOR,
             _APPROVAL, _TIME),
        ),
        TypeMapping("enquiry", "question", (_LOT, _HEADLINE, _SECTION, Step("question", "words"), _TIME)),
        TypeMapping("consignor", "seller", (_CONSIGNOR, _APPROVAL, Step("saleroom", "saleroom"), _TIME)),
    ),
)  # fmt: skip


def express(fact: Mapping[str, Any]) -> Raw:
    """Return a fact of the market as this site says it."""
    seller = fact.get("seller", {})
    said: Raw = {
        "item": lambda: {
            **_named(fact, "lot"), "estimate": _pence(fact), "ends": _seconds(fact["closes"]), **_consignor(seller),
            "note": fact["description"], "grade": _GRADE_OF[fact["condition"]], "maker": fact["brand"],
            "circa": fact["year"], "colours": fact["colour"], "marks": fact["tags"], "saleroom": _room(seller["name"]),
        },
        "bid": lambda: {
            **_named(fact, "paddle"), "bid": _pence(fact), "bid_number": fact["bids"], "paddle": fact["bidder"],
            "time": _seconds(fact["at"]),
        },
        "sale": lambda: {
            **_named(fact, "fall"), "hammer": _pence(fact), "bid_number": fact["bids"], **_consignor(seller),
            "time": _seconds(fact["at"]),
        },
        "question": lambda: {**_named(fact, "enquiry"), "words": fact["question"], "time": _seconds(fact["at"])},
        "seller": lambda: {
            "event_type": "consignor", **_consignor(seller), "saleroom": _room(seller["name"]),
            "time": _seconds(fact["at"]),
        },
    }[fact["event_type"]]()  # fmt: skip
    return said


def _named(fact: Mapping[str, Any], own_type: str) -> Raw:
    return {
        "event_type": own_type,
        "lot": int(fact["item"].removeprefix("i")),
        "headline": fact["title"],
        "section": _SECTION_OF[fact["category"]],
    }


def _consignor(seller: Mapping[str, Any]) -> Raw:
    return {"consignor": seller["name"], "approval": round(seller["rating"] * 20)}


def _pence(fact: Mapping[str, Any]) -> int:
    return round(float(fact["price"]) / EURO_A_POUND * 100)


def _seconds(instant: str) -> int:
    return int(datetime.fromisoformat(instant).timestamp())


def _room(seller: str) -> str:
    """Return where a seller consigns: always in the same room."""
    return SALEROOMS[sum(map(ord, seller)) % len(SALEROOMS)]
