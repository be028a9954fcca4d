"""The extra `tocsin[xml]`: everything else works without it, and what needs it says so in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.service.world import World, play
from tests.xml.thesis import SAMPLES
from tocsin.cli.app import app
from tocsin.errors import NotInstalled
from tocsin.schema import files
from tocsin.schema.examples import example_names, load_example
from tocsin.service.app import run as serve
from tocsin.service.settings import ServiceSettings

MESSAGE = "the thesis's XML is not installed here; to have it: pip install 'tocsin[xml]'"


@pytest.fixture
def without_lxml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let imports find no lxml, and nothing that was loaded with it."""
    for name in list(sys.modules):
        if name.split(".")[0] == "lxml" or name.startswith("tocsin.xml"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "lxml", None)
    monkeypatch.delattr("tocsin.xml", raising=False)


def test_nothing_but_the_extra_imports_lxml() -> None:
    code = (
        "import importlib, pkgutil, sys; sys.modules['lxml'] = None\n"
        "import tocsin\n"
        "for found in pkgutil.walk_packages(tocsin.__path__, 'tocsin.', onerror=lambda name: None):\n"
        "    if not found.name.startswith(('tocsin.xml', 'tocsin.store.migrations', 'tocsin.pipeline.worker_daemon')):\n"
        "        importlib.import_module(found.name)\n"
        "assert not any(name.startswith('tocsin.xml') for name in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("without_lxml")
def test_every_example_loads_without_the_extra() -> None:
    assert {"auction", "thesis"} <= set(example_names())
    for name in example_names():
        load_example(name)


@pytest.mark.usefixtures("without_lxml")
def test_a_schema_in_xml_says_what_to_install() -> None:
    with pytest.raises(NotInstalled) as reading:
        files.load(SAMPLES / "thesis.xml")
    assert (str(reading.value), reading.value.install) == (MESSAGE, "tocsin[xml]")
    with pytest.raises(NotInstalled):
        files.dumps(load_example("auction"), "xml")


@pytest.mark.usefixtures("without_lxml")
@pytest.mark.parametrize(
    "arguments",
    [
        ("schema", "show", "thesis", "--format", "xml"),
        ("schema", "show", "thesis", "--format", "dtd:ADD_EVENT"),
        ("schema", "extend", "thesis", "--request", str(SAMPLES / "add_domain.xml")),
        ("schema", "check", str(SAMPLES / "thesis.xml")),
    ],
)
def test_a_command_that_needs_xml_says_what_to_install(arguments: tuple[str, ...]) -> None:
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, NotInstalled)
    assert str(error) == MESSAGE


@pytest.mark.usefixtures("without_lxml")
def test_a_port_for_xml_is_refused_before_anything_is_begun(tmp_path: Path) -> None:
    settings = ServiceSettings(store=str(tmp_path / "tocsin.db"), xml_port=0)
    with pytest.raises(NotInstalled, match="to have it"):
        serve(settings, tell=print, warn=print)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_lxml")
def test_the_service_runs_without_the_extra_and_answers_501_where_it_would_need_it(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.subscribe("ada")
        await world.publish(50)
        assert len(await world.notifications("ada")) == 1
        client = world.client("ada")
        for answer in (
            await client.post("/v1/xml", content=b"<IESCHEMA/>", headers={"content-type": "application/xml"}),
            await client.get("/v1/schema", params={"format": "xml"}),
            await client.get("/v1/schema/dtd/ADD_EVENT"),
        ):
            assert answer.status_code == 501, answer.text
            assert answer.json()["type"] == "/problems/not-installed"
            assert answer.json()["detail"] == MESSAGE

    play(tmp_path, scenario)
