"""The built-in operators, on inputs whose answers are known."""

from __future__ import annotations

import base64
import io
import json
import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tocsin.errors import BadArgument, BadDefinition, FileError
from tocsin.language.units import distance_metres
from tocsin.operators.builtin.image import image_operators
from tocsin.operators.builtin.logic import Ontology, conclusions, ontology_operators, rule_operators
from tocsin.operators.builtin.lookup import http_operator, table_operator
from tocsin.operators.builtin.spatial import Regions, spatial_operators
from tocsin.operators.builtin.text import text_operators
from tocsin.operators.operator import OPEN, CallPattern, Operator
from tocsin.operators.registry import Registry, Runner
from tocsin.schema import Event, Value

BRONX = (40.85, -73.88)


def named(operators: list[Operator]) -> dict[str, Operator]:
    return {each.name: each for each in operators}


def event(**values: Value) -> Event:
    return Event({"event_type": ("x",), **{name: (value,) for name, value in values.items()}})


# --- spatial ----------------------------------------------------------------------------------------------------------

SPATIAL = named(spatial_operators())


def test_regions_are_found_by_name_and_by_place() -> None:
    assert SPATIAL["locIn"](event(location=BRONX), "Bronx") is True
    assert SPATIAL["locIn"](event(location=BRONX), "Queens") is False
    assert SPATIAL["locIn"](event(location=(40.78, -73.965)), OPEN) == ["Manhattan", "Central Park"]
    assert SPATIAL["locIn"](event(), "Bronx") is False
    assert SPATIAL["locIn"].evaluate_batch is not None
    assert SPATIAL["locIn"].evaluate_batch([event(location=BRONX), event()], "Bronx") == [True, False]


def test_distances_are_those_of_the_ellipsoid() -> None:
    (metres,) = SPATIAL["distanceFrom"](event(location=(40.7580, -73.9855)), "Statue of Liberty")
    assert metres == pytest.approx(distance_metres((40.6892, -74.0445), (40.7580, -73.9855)), rel=0.005)
    assert metres != distance_metres((40.6892, -74.0445), (40.7580, -73.9855))  # which is that of a sphere
    assert SPATIAL["distanceFrom"](event(location=BRONX), "Bronx") == [0.0]
    (north,) = SPATIAL["distanceFrom"](event(location=(40.925, -73.91)), "Bronx")
    assert north == pytest.approx(1_110, abs=5)  # a hundredth of a degree of latitude
    assert SPATIAL["locWithin"](event(location=(40.76, -73.98)), "Times Square", 1000) is True
    assert SPATIAL["locWithin"](event(location=BRONX), "Times Square", 1000) is False


def test_the_nearest_places_come_first() -> None:
    found = SPATIAL["nearest"](event(location=(40.7575, -73.9860)), 3)
    assert found[0] == "Manhattan"  # inside
    assert set(found[1:]) == {"Times Square", "Grand Central Terminal"}


def test_a_place_that_is_not_on_the_map_is_refused() -> None:
    assert SPATIAL["locIn"].check is not None
    with pytest.raises(BadArgument, match="there is no place 'Bronks' on the map; did you mean Bronx"):
        SPATIAL["locIn"].check("Bronks")


@pytest.mark.parametrize("text", ["[]", "{", '{"features": [{"properties": {}}]}'])
def test_a_map_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(FileError, match="GeoJSON"):
        Regions.of_geojson(text)


# --- text -------------------------------------------------------------------------------------------------------------

TEXT = named(text_operators())
CHASE = event(text="Police cars were seen chasing a red van along the highway")


def test_words_are_found_by_their_stems() -> None:
    assert TEXT["hasStems"](CHASE, "chased car") is True
    assert TEXT["hasStems"](CHASE, "chased boat") is False


def test_words_may_be_asked_to_stand_near_each_other() -> None:
    assert TEXT["stemsNear"](CHASE, "chase cars", 2) is True
    assert TEXT["stemsNear"](CHASE, "chase cars", 1) is False
    assert TEXT["stemsNear"](CHASE, "highways van", 2) is True


def test_what_means_something_alike_scores_higher() -> None:
    (alike,) = TEXT["similarTo"](CHASE, "patrol vehicle in pursuit of a truck on the road")
    (other,) = TEXT["similarTo"](CHASE, "recipe for a cheese cake with lemon")
    assert -1 <= other < alike <= 1.000001
    assert alike - other > 0.2


# --- image ------------------------------------------------------------------------------------------------------------


def png(pixels: Any) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(out, "PNG")
    return out.getvalue()


def data_uri(pixels: Any) -> str:
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()


def squares(count: int) -> Any:
    pixels = np.zeros((40, 120, 3), np.uint8)
    for at in range(count):
        pixels[10:20, 10 + 20 * at : 20 + 20 * at] = 250
    return pixels


def test_images_are_read_from_bytes_and_from_the_allowed_folder_only(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(png(squares(3)))
    (tmp_path / "secret.png").write_bytes(png(squares(1)))
    count = named(image_operators(tmp_path / "in"))["shapeCount"]
    assert count(event(image="a.png")) == [3]
    assert count(event(image=data_uri(squares(5)))) == [5]
    for wrong in ("../secret.png", str(tmp_path / "secret.png")):
        with pytest.raises(ValueError, match="out of the allowed folder"):
            count(event(image=wrong))
    with pytest.raises(ValueError, match="none is set"):
        named(image_operators())["shapeCount"](event(image="a.png"))


def test_an_image_with_too_many_pixels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.operators.builtin.image.MAX_PIXELS", 100)
    outcome = Runner().run(
        CallPattern(named(image_operators())["dominantColour"], (("str", "red"),)),
        event(image=data_uri(np.zeros((11, 10, 3)))),
    )
    assert "110 pixels" in str(outcome.failure)


def test_colours_edges_and_templates() -> None:
    operators = named(image_operators())
    red = np.full((20, 20, 3), (200, 30, 40), np.uint8)
    assert operators["dominantColour"](event(image=data_uri(red)), OPEN) == ["red"]
    assert operators["dominantColour"](event(image=data_uri(red)), "blue") is False
    assert operators["edgeDensity"](event(image=data_uri(red))) == [0.0]
    assert operators["edgeDensity"](event(image=data_uri(squares(4))))[0] > 0.02
    template = squares(1)[5:25, 5:25]
    assert operators["templateCount"](event(image=data_uri(squares(4))), data_uri(template)) == [4]


def test_faces_are_counted_in_a_photograph() -> None:
    from skimage.data import astronaut, coffee

    count = named(image_operators())["faceCount"]
    one: Any = astronaut()
    assert count(event(image=data_uri(one))) == [1]
    assert count(event(image=data_uri(np.concatenate([one, one], axis=1)))) == [2]
    assert count(event(image=data_uri(coffee()))) == [0]
    assert count(event(image=data_uri(np.zeros((10, 10, 3))))) == [0]


# --- logic ------------------------------------------------------------------------------------------------------------

TURTLE = """
@prefix : <http://example.org/city#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
:Vehicle a owl:Class . :Car rdfs:subClassOf :Vehicle . :PoliceCar rdfs:subClassOf :Car .
:Cruiser owl:equivalentClass :PoliceCar . :Boat rdfs:subClassOf :Vehicle .
"""


def test_classes_are_inferred(tmp_path: Path) -> None:
    (tmp_path / "city.ttl").write_text(TURTLE)
    operators = named(ontology_operators(Ontology.of_file(tmp_path / "city.ttl")))
    is_a = operators["isA"]
    assert is_a(event(**{"class": "PoliceCar"}), "Vehicle") is True
    assert is_a(event(**{"class": "http://example.org/city#Cruiser"}), "Car") is True
    assert is_a(event(**{"class": "Boat"}), "Car") is False
    assert {"Car", "Vehicle"} <= set(is_a(event(**{"class": "Car"}), OPEN))
    assert is_a.check is not None
    with pytest.raises(BadArgument, match="did you mean Vehicle"):
        is_a.check("Vehikle")


RULES = """
fast :- value("speed", S), S > 80.
conclusion("speeding") :- fast.
conclusion("chase") :- fast, value("sees", "policeCar").
"""


def test_rules_conclude_from_the_values_of_the_event() -> None:
    operators = named(rule_operators({"traffic": RULES}))
    assert operators["concludes"](event(speed=90.5, sees="policeCar"), "traffic") == ["chase", "speeding"]
    assert operators["concludes"](event(speed=80), "traffic") == []
    assert conclusions('conclusion(X) :- value("name", X).', event(name='O"Brien\\')) == ['O"Brien\\']


def test_a_program_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.operators.builtin.logic.MAX_SECONDS", 0.05)
    pigeons = "1 { at(P, H) : H = 1..11 } 1 :- P = 1..12. :- at(P, H), at(Q, H), P < Q."
    with pytest.raises(TimeoutError, match="no answer set within"):
        conclusions(pigeons, event())


# --- lookups ----------------------------------------------------------------------------------------------------------


def test_a_table_is_looked_up_for_reading_only(tmp_path: Path) -> None:
    path = tmp_path / "cars.db"
    with sqlite3.connect(path) as made:
        made.execute("create table cars (plate text, reason text)")
        made.execute("insert into cars values ('A1', 'stolen'), ('A1', 'unpaid')")
    made.close()
    query = "select reason from cars where plate = :plate"
    wanted = table_operator("wanted", str(path), query, reads=["plate"], outputs={"reason": str})
    runner = Runner()
    assert wanted.signature == "wanted(?reason: text)"
    assert wanted(event(plate="A1")) == [("stolen",), ("unpaid",)]
    assert wanted(event(plate="B2")) == []
    known = table_operator("known", str(path), f"{query} and reason = :why", reads=["plate"], inputs=["why"])
    assert runner.run(CallPattern(known, (("str", "unpaid"),)), event(plate="A1")).rows == ((),)
    spoil = table_operator("spoil", str(path), "delete from cars")
    assert "readonly" in str(runner.run(CallPattern(spoil, ()), event()).failure)
    runner.close()


class _Service(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/away"):
            self.send_response(302)
            self.send_header("Location", "http://elsewhere.example/")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"sky": "clear over " + self.path}).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), _Service)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_service_is_asked_at_allowed_hosts_only(port: int) -> None:
    url = f"http://127.0.0.1:{port}/at/{{city}}"
    weather = http_operator("weather", url, hosts=["127.0.0.1"], inputs=["city"], outputs={"sky": str})
    assert weather(event(), "New York/../x") == [("clear over /at/New%20York%2F..%2Fx",)]
    assert not weather.pure
    away = http_operator("away", f"http://127.0.0.1:{port}/away", hosts=["127.0.0.1"])
    runner = Runner()
    assert "302" in str(runner.run(CallPattern(away, ()), event()).failure)
    runner.close()
    with pytest.raises(BadDefinition, match="not among the allowed"):
        http_operator("elsewhere", "https://elsewhere.example/", hosts=["127.0.0.1"])
    with pytest.raises(BadDefinition, match="fixed host"):
        http_operator("any", "https://{host}/", hosts=["x"], inputs=["host"])


def test_installed_operators_have_help_and_import_nothing_heavy() -> None:
    registry = Registry.installed()
    assert {"locIn", "distanceFrom", "similarTo", "shapeCount"} <= {each.name for each in registry}
    assert all(each.help for each in registry)
