"""Commands of other distributions: found by their entry points, loaded when they are used, told of when missing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from tocsin import plugins
from tocsin.cli.app import KNOWN, app
from tocsin.errors import NotInstalled, TocsinError

group = typer.Typer(no_args_is_help=True)


@group.command()
def echo(words: list[str], loud: bool = typer.Option(False, "--loud", "-l"), code: int = 0) -> None:
    """Say it again."""
    typer.echo(" ".join(words).upper() if loud else " ".join(words))
    raise typer.Exit(code)


@group.command()
def fail() -> None:
    """Fail as Tocsin does."""
    raise TocsinError("as it should")


def single(name: str = typer.Option("you")) -> None:
    """Greet."""
    typer.echo(f"hello {name}")


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that somebody else's distribution has."""
    found = {
        "group": EntryPoint("group", f"{__name__}:group", plugins.COMMANDS),
        "single": EntryPoint("single", f"{__name__}:single", plugins.COMMANDS),
        "broken": EntryPoint("broken", "no_such_module:app", plugins.COMMANDS),
    }
    monkeypatch.setattr(plugins, "installed", lambda group: found if group == plugins.COMMANDS else {})


@pytest.mark.usefixtures("others")
def test_options_arguments_and_exit_codes_pass_through_the_door() -> None:
    result = CliRunner().invoke(app, ["group", "echo", "a", "-l", "--code", "3", "--", "--b"])
    assert (result.exit_code, result.output) == (3, "A --B\n")
    assert CliRunner().invoke(app, ["single", "--name", "ada"]).output == "hello ada\n"


@pytest.mark.usefixtures("others")
def test_help_behind_the_door_names_the_whole_command() -> None:
    assert (
        "Usage: tocsin group [OPTIONS] COMMAND"
        in CliRunner().invoke(app, ["group", "--help"], prog_name="tocsin").output
    )
    assert "Usage: tocsin group echo" in CliRunner().invoke(app, ["group", "echo", "--help"], prog_name="tocsin").output
    assert "Greet" in CliRunner().invoke(app, ["single", "--help"]).output


@pytest.mark.usefixtures("others")
def test_wrong_usage_behind_the_door_ends_with_exit_code_2() -> None:
    result = CliRunner().invoke(app, ["group", "echo", "--quiet"])
    assert result.exit_code == 2
    assert "No such option" in result.output


@pytest.mark.usefixtures("others")
def test_errors_behind_the_door_are_those_of_any_command() -> None:
    assert isinstance(CliRunner().invoke(app, ["group", "fail"]).exception, TocsinError)
    broken = CliRunner().invoke(app, ["broken"]).exception
    assert isinstance(broken, TocsinError)
    assert "`tocsin broken` (no_such_module:app) cannot be loaded" in str(broken)


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("name", KNOWN)
def test_known_command_that_is_not_installed_says_in_one_line_what_to_install(name: str) -> None:
    error = CliRunner().invoke(app, [name, "--some", "thing"]).exception
    assert isinstance(error, NotInstalled)
    assert str(error) == f"`tocsin {name}` is not installed here; to have it: pip install {KNOWN[name][0]}"


@pytest.mark.usefixtures("others")
def test_command_that_nobody_has_is_an_error_of_usage() -> None:
    assert CliRunner().invoke(app, ["nobody"]).exit_code == 2


def test_every_known_command_is_installed_here_and_is_listed() -> None:
    assert KNOWN.keys() <= plugins.installed(plugins.COMMANDS).keys()
    listed = CliRunner().invoke(app, ["--help"]).output
    assert all(f"\n  {name} " in listed for name in KNOWN)


def test_help_looks_nothing_up() -> None:
    code = (
        "import sys; sys.argv = ['tocsin', '--help']\n"
        "from tocsin.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name.partition('.')[0] in ('tocsin_lab', 'tocsin_examples') for name in sys.modules)\n"
        "         or 'importlib.metadata' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
