"""Renders a Helm chart as far as ours needs it: values, if, else, range, define, include, and five functions.

Where helm is installed, test_deploy.py holds this against it. What is not known here raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

_TAG = re.compile(r"(\s*)\{\{-(.*?)(-?)\}\}(\s*)|\{\{(.*?)(-?)\}\}(\s*)", re.DOTALL)
Nodes = list[Any]


def render(chart: Path, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the documents of a chart for a release named `release`."""
    values = _merged(yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8")), given)
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    scope = {
        "Values": values, "Release": {"Name": "release"},
        "Chart": {name[0].upper() + name[1:]: value for name, value in about.items()},
    }  # fmt: skip
    named: dict[str, Nodes] = {}
    _run(_parse(_tokens((chart / "templates" / "_helpers.tpl").read_text(encoding="utf-8"))), scope, {}, named)
    found = []
    for file in sorted((chart / "templates").glob("*.yaml")):
        text = _run(_parse(_tokens(file.read_text(encoding="utf-8"))), scope, {}, named)
        found += [one for one in yaml.safe_load_all(text) if one]
    return found


def _merged(first: Any, second: Any) -> Any:
    if not isinstance(first, dict) or not isinstance(second, Mapping):
        return second
    return {**first, **{key: _merged(first.get(key), value) for key, value in second.items()}}


def _tokens(text: str) -> list[tuple[str, str]]:
    """Return texts and tags in turn; `-` eats the space beside it."""
    found, at = [], 0
    for tag in _TAG.finditer(text):
        _, eaten, end_eaten, after, plain, end_plain, rest = tag.groups()
        found.append(("text", text[at : tag.start()]))
        found.append(("tag", (eaten if eaten is not None else plain).strip()))
        trims = (end_eaten if eaten is not None else end_plain) == "-"
        space = after if eaten is not None else rest
        at = tag.end() if trims else tag.end() - len(space)
    found.append(("text", text[at:]))
    return found


def _parse(tokens: list[tuple[str, str]]) -> Nodes:
    nodes, rest = _block(tokens, 0)
    assert rest == len(tokens), "an end too many"
    return nodes


def _block(tokens: list[tuple[str, str]], at: int) -> tuple[Nodes, int]:
    nodes: Nodes = []
    while at < len(tokens):
        kind, content = tokens[at]
        word = content.split(" ", 1)[0]
        if kind == "tag" and word in ("end", "else"):
            return nodes, at
        if kind == "tag" and word in ("if", "range", "define"):
            inner, at = _block(tokens, at + 1)
            other: Nodes = []
            if tokens[at][1] == "else":
                other, at = _block(tokens, at + 1)
            nodes.append((word, content.split(" ", 1)[1], inner, other))
        else:
            nodes.append((kind, content))
        at += 1
    return nodes, at


def _run(nodes: Nodes, scope: Any, variables: dict[str, Any], named: dict[str, Nodes]) -> str:
    out = []
    for node in nodes:
        match node:
            case ("text", text):
                out.append(text)
            case ("tag", expression):
                found = _value(expression, scope, variables, named)
                out.append("" if found is None else str(found))
            case ("define", name, inner, _):
                named[name.strip('"')] = inner
            case ("if", condition, inner, other):
                out.append(
                    _run(inner if _value(condition, scope, variables, named) else other, scope, variables, named)
                )
            case ("range", over, inner, _):
                names, _, expression = over.partition(":=")
                key, value = (one.strip() for one in names.split(","))
                for each, one in sorted(_value(expression.strip(), scope, variables, named).items()):
                    out.append(_run(inner, scope, {**variables, key: each, value: one}, named))
    return "".join(out)


def _value(expression: str, scope: Any, variables: dict[str, Any], named: dict[str, Nodes]) -> Any:
    first, *pipes = (part.strip() for part in expression.split("|"))
    found = _operand(first, scope, variables, named)
    for pipe in pipes:
        name, *arguments = pipe.split()
        given = [_operand(one, scope, variables, named) for one in arguments]
        found = _FUNCTIONS[name](*given, found)
    return found


def _operand(text: str, scope: Any, variables: dict[str, Any], named: dict[str, Nodes]) -> Any:
    word, _, rest = text.partition(" ")
    if word == "include":
        name, _, _ = rest.partition(" ")
        return _run(named[name.strip('"')], scope, variables, named)
    if word in _FUNCTIONS:
        return _FUNCTIONS[word](*(_operand(one, scope, variables, named) for one in rest.split()))
    if text.startswith("$"):
        return variables[text]
    if text.startswith("."):
        found = scope
        for part in text[1:].split("."):
            found = found[part]
        return found
    return int(text) if text.isdigit() else text.strip('"')


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quote": lambda value: '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"',
    "default": lambda fallback, value: value or fallback,
    "nindent": lambda depth, text: "".join(f"\n{' ' * depth}{line}" for line in text.splitlines()),
    "toYaml": lambda value: yaml.safe_dump(value).rstrip("\n"),
}
