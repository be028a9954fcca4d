"""Settings: which built-in operators there are and what they work on, from a TOML file.

[spatial]
regions = "map.geojson"          # beside the settings; without it, the packaged outlines of New York
attribute = "location"

[image]
folder = "pictures"

[rules]
traffic = "traffic.lp"

[tables.wanted]
database = "cars.db"
query = "select reason from cars where plate = :plate"
reads = ["plate"]
outputs = { reason = "text" }

[services.weather]
url = "https://weather.example/at?city={city}"
hosts = ["weather.example"]
inputs = ["city"]
outputs = { sky = "text" }
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from tocsin.errors import FileError
from tocsin.language.formula import BOOLEAN, DECIMAL, FLOAT, INT, POINT, TEXT, TIME
from tocsin.operators.operator import Operator
from tocsin.schema import Domain

_DOMAINS: dict[str, Domain] = {each.name: each for each in (BOOLEAN, DECIMAL, FLOAT, INT, POINT, TEXT, TIME)}


class _Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    pass


class Spatial(_Part):
    regions: str | None = None
    attribute: str = "location"


class Text(_Part):
    attribute: str = "text"
    language: str = "english"


class Image(_Part):
    folder: str | None = None
    attribute: str = "image"


class OntologyFile(_Part):
    file: str
    attribute: str = "class"


class Table(_Part):
    database: str
    query: str
    reads: list[str] = []
    inputs: list[str] = []
    outputs: dict[str, str] = {}
    timeout: float = 5.0


class WebService(_Part):
    url: str
    hosts: list[str]
    reads: list[str] = []
    inputs: list[str] = []
    outputs: dict[str, str] = {}
    timeout: float = 5.0


class Settings(_Part):
    spatial: Spatial | None = None
    text: Text | None = None
    image: Image | None = None
    ontology: OntologyFile | None = None
    rules: dict[str, str] = {}
    tables: dict[str, Table] = {}
    services: dict[str, WebService] = {}


def configured_operators(path: Path) -> list[Operator]:
    """Return the operators of a settings file: those of its sections, and no others; raises FileError."""
    try:
        settings = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Settings)
    except OSError as error:
        raise FileError(str(path), error.strerror or str(error)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise FileError(str(path), f"not settings of operators: {error}") from None
    return [*_plain(settings, path.parent), *_logical(settings, path.parent), *_asking(settings, path)]


def _plain(settings: Settings, folder: Path) -> list[Operator]:
    found: list[Operator] = []
    if settings.spatial is not None:
        from tocsin.operators.builtin.spatial import Regions, spatial_operators

        regions = settings.spatial.regions
        map_ = None if regions is None else Regions.of_file(folder / regions)
        found += spatial_operators(map_, settings.spatial.attribute)
    if settings.text is not None:
        from tocsin.operators.builtin.text import text_operators

        found += text_operators(settings.text.attribute, settings.text.language)
    if settings.image is not None:
        from tocsin.operators.builtin.image import image_operators

        pictures = settings.image.folder
        found += image_operators(None if pictures is None else folder / pictures, settings.image.attribute)
    return found


def _logical(settings: Settings, folder: Path) -> list[Operator]:
    from tocsin.operators.builtin.logic import Ontology, ontology_operators, rule_operators

    found: list[Operator] = []
    if settings.ontology is not None:
        found += ontology_operators(Ontology.of_file(folder / settings.ontology.file), settings.ontology.attribute)
    if settings.rules:
        found += rule_operators({name: _program(folder / file) for name, file in settings.rules.items()})
    return found


def _program(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(str(path), error.strerror or str(error)) from None


def _asking(settings: Settings, path: Path) -> list[Operator]:
    from tocsin.operators.builtin.lookup import http_operator, table_operator

    def shared(part: Table | WebService) -> dict[str, Any]:
        return {
            "reads": part.reads,
            "inputs": part.inputs,
            "outputs": {name: _domain(path, kind) for name, kind in part.outputs.items()},
            "timeout": part.timeout,
        }

    tables = [
        table_operator(name, str(path.parent / part.database), part.query, **shared(part))
        for name, part in settings.tables.items()
    ]
    services = [
        http_operator(name, part.url, hosts=part.hosts, **shared(part)) for name, part in settings.services.items()
    ]
    return tables + services


def _domain(path: Path, kind: str) -> Domain:
    if kind not in _DOMAINS:
        raise FileError(str(path), f"an output is one of {', '.join(_DOMAINS)}, not {kind!r}")
    return _DOMAINS[kind]
