"""Flohmarkt, where people sell to people, in German: what it publishes, and how that enters the integrated schema.

`express` plays the site's own software: it says a fact of the market as the site would. flohmarkt.toml is its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from tocsin_examples.integration import Change, Raw, Site, Step, TypeMapping, looked_up, mappings_of, own_schema

NAME = "Flohmarkt"
ZUSTAND = {
    "neu": "new", "neuwertig": "as new", "sehr gut": "very good", "gut": "good", "gebraucht": "fair",
    "schlecht": "poor", "defekt": "for parts",
}  # fmt: skip
RUBRIKEN = {
    "Betten": "bed", "Kleiderschränke": "wardrobe", "Nachttische": "nightstand", "Esstische": "dining table",
    "Stühle": "dining chair", "Anrichten": "sideboard", "Sofas": "sofa", "Sessel": "armchair",
    "Bücherregale": "bookcase", "Kronleuchter": "chandelier", "Stehlampen": "floor lamp", "Garten": "garden",
    "Oldtimer": "classic car", "Sportwagen": "sports car", "Familienautos": "family car", "Motorräder": "motorcycle",
    "Fahrräder": "bicycle", "Münzen": "coins", "Briefmarken": "stamps", "Armbanduhren": "wrist watch",
    "Wanduhren": "wall clock", "Porzellan": "porcelain", "Ölgemälde": "oil painting", "Aquarelle": "watercolour",
    "Skulpturen": "sculpture", "Drucke": "print", "Analogkameras": "film camera", "Digitalkameras": "digital camera",
    "Computer": "computer", "Plattenspieler": "turntable", "Lautsprecher": "loudspeaker", "Surfbretter": "surf-board",
    "Golfschläger": "golf clubs",
}  # fmt: skip
_ZUSTAND_OF = {condition: own for own, condition in ZUSTAND.items()}
_RUBRIK_OF = {category: own for own, category in RUBRIKEN.items()}
_BERLIN = timezone(timedelta(hours=1))

# Most of what this site needs is there already, where another has joined before.
EXTENSIONS: tuple[Change, ...] = (
    {"add_attribute": {"name": "site", "domain": "name"}},
    *({"extend_event_type": {"event_type": name, "attribute": "site"}} for name in ("item", "bid", "sale", "question")),
    {
        "add_event_type": {
            "name": "seller",
            "attributes": [
                {"attribute": "seller.name", "mandatory": True},
                {"attribute": "seller.rating", "mandatory": False},
                {"attribute": "site", "mandatory": True},
                {"attribute": "at", "mandatory": True},
            ],
        }
    },
    {"extend_event_type": {"event_type": "seller", "attribute": "location"}},
)


def _point(place: str) -> list[float]:
    """Return a place such as 'N 52.52, O 13.4' as latitude and longitude."""
    north, east = place.removeprefix("N ").split(", O ")
    return [float(north), float(east)]


_NR = Step("item", "nr", "17 becomes i17", lambda number: f"i{number}")
_TITEL = Step("title", "titel")
_RUBRIK = Step("category", "rubrik", "by a table: Sofas is sofa", looked_up(RUBRIKEN))
_PREIS = Step("price", "preis", "cents to euro", lambda cents: cents / 100)
_GEBOTE = Step("bids", "gebote")
_AM = Step("at", "am")
_VON = Step("seller.name", "von")
_NOTE = Step("seller.rating", "note", "a mark from 1, the best, to 6; to 5 to 0", lambda mark: round(6 - mark, 1))

SITE = Site(
    NAME,
    "flohmarkt",
    own_schema("flohmarkt"),
    EXTENSIONS,
    mappings_of(
        TypeMapping(
            "angebot", "item",
            (
                _NR, _TITEL, _RUBRIK, _PREIS,
                Step("closes", "ende"),
                _VON, _NOTE,
                Step("description", "beschreibung"),
                Step("condition", "zustand", "by a table: neuwertig is as new", looked_up(ZUSTAND)),
                Step("brand", "marke"),
                Step("year", "baujahr"),
                Step("colour", "farben"),
                Step("tags", "merkmale"),
                Step("location", "ort", "text to a point", _point),
                Step("shipping", "versand", "ja is yes", lambda answer: answer == "ja"),
            ),
        ),
        TypeMapping("gebot", "bid", (_NR, _TITEL, _RUBRIK, _PREIS, _GEBOTE, Step("bidder", "bieter"), _AM)),
        TypeMapping("verkauft", "sale", (_NR, _TITEL, _RUBRIK, _PREIS, _GEBOTE, _VON, _NOTE, _AM)),
        TypeMapping("anfrage", "question", (_NR, _TITEL, _RUBRIK, Step("question", "frage"), _AM)),
        TypeMapping(
            "mitglied", "seller", (_VON, _NOTE, Step("location", "ort", "text to a point", _point), _AM)
        ),
    ),
)  # fmt: skip


def express(fact: Mapping[str, Any]) -> Raw:
    """Return a fact of the market as this site says it."""
    seller = fact.get("seller", {})
    said: Raw = {
        "item": lambda: {
            **_named(fact, "angebot"), "preis": _cents(fact), "ende": _local(fact["closes"]), **_member(seller),
            "beschreibung": fact["description"], "zustand": _ZUSTAND_OF[fact["condition"]], "marke": fact["brand"],
            "baujahr": fact["year"], "farben": fact["colour"], "merkmale": fact["tags"],
            "ort": _place(fact["location"]), "versand": "ja" if fact["shipping"] else "nein",
        },
        "bid": lambda: {
            **_named(fact, "gebot"), "preis": _cents(fact), "gebote": fact["bids"], "bieter": fact["bidder"],
            "am": _local(fact["at"]),
        },
        "sale": lambda: {
            **_named(fact, "verkauft"), "preis": _cents(fact), "gebote": fact["bids"], **_member(seller),
            "am": _local(fact["at"]),
        },
        "question": lambda: {**_named(fact, "anfrage"), "frage": fact["question"], "am": _local(fact["at"])},
        "seller": lambda: {
            "event_type": "mitglied", **_member(seller), "ort": _place(fact["location"]), "am": _local(fact["at"]),
        },
    }[fact["event_type"]]()  # fmt: skip
    return said


def _named(fact: Mapping[str, Any], own_type: str) -> Raw:
    return {
        "event_type": own_type,
        "nr": int(fact["item"].removeprefix("i")),
        "titel": fact["title"],
        "rubrik": _RUBRIK_OF[fact["category"]],
    }


def _member(seller: Mapping[str, Any]) -> Raw:
    return {"von": seller["name"], "note": round(6 - seller["rating"], 1)}


def _cents(fact: Mapping[str, Any]) -> int:
    return round(float(fact["price"]) * 100)


def _local(instant: str) -> str:
    return datetime.fromisoformat(instant).astimezone(_BERLIN).isoformat()


def _place(point: list[float]) -> str:
    return f"N {point[0]}, O {point[1]}"
