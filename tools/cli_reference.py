"""Write docs/reference/cli.md, from the commands themselves: `python -m tools.cli_reference`. A test holds that it is current."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
HEAD = """# Commands

Made from the commands themselves. `tocsin` is also `python -m tocsin`; `tocsin --install-completion` teaches your shell its
words. Exit codes: 0 it went well; 1 it ran, and some of the input was bad or the answer is no; 2 it could not run.
Results go to standard output, everything else to standard error; `NO_COLOR` is respected.
"""


def page() -> str:
    """Return the whole page."""
    from tocsin.cli.app import app

    return "\n".join([HEAD, *_sections(typer.main.get_command(app), "tocsin")]) + "\n"


def _sections(command: Any, path: str) -> Iterator[str]:
    """Yield the lines about a command, and about those under it."""
    under = getattr(command, "commands", None)
    if under is None:
        yield f"## `{path}`\n"
        yield f"{_words(command)}\n"
        rows = [row for each in command.params if (row := _row(each)) is not None]
        if rows:
            yield from ("| option | |", "|---|---|", *rows, "")
        return
    for name, found in sorted(under.items()):
        if not found.hidden:
            yield from _sections(found, f"{path} {name}")


def _words(command: Any) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))


def _row(option: Any) -> str | None:
    if option.name == "help" or getattr(option, "hidden", False):
        return None
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    shown = f"`{option.name.upper()}`" if option.param_type_name == "argument" else names
    variable = f" (`{option.envvar}`)" if getattr(option, "envvar", None) else ""
    return f"| {shown} | {' '.join((option.help or '').split())}{variable} |".replace("[", "\\[")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
