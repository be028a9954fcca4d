"""Rules of Sigma in all shapes of its specification, beside an evaluator that reads the rule itself, not what a parser made of it."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

import pytest

from tocsin.language import bind, evaluate
from tocsin.language.imports import import_rules
from tocsin.schema import Schema

yaml = pytest.importorskip("yaml", reason="needs the extra sigma")
pytest.importorskip("sigma.collection", reason="needs the extra sigma")

EVENTS: list[dict[str, Any]] = [
    {"image": "C:\\Windows\\CMD.exe", "line": "cmd -enc HTTP://x", "user": "SYSTEM", "n": 4624, "ip": "10.1.2.3"},
    {"image": "C:\\Temp\\a.dll", "line": "cmd /enc \u2013x http", "user": "ann", "other": "ann", "n": 5},
    {"line": f"run {base64.b64encode(b'xhttp://y').decode()} now", "user": "bob", "other": "Bob", "ip": "2001:db8::7"},
    {"line": f"run {base64.b64encode(b'http://').decode()}", "image": "a*b?c", "n": 0, "ok": True},
    {"line": "first\nSecond line", "user": "", "ok": False, "n": 4.5},
    {},
]
SCHEMA = Schema.infer([{**each, "event_type": "log"} for each in EVENTS if each] + [{"event_type": "log"}])
DASHES = "-/\u2013\u2014\u2015"

# field with its modifiers -> value or values
FIELDS: dict[str, Any] = {
    "image|endswith": "\\cmd.exe",
    "image|startswith": ["c:\\temp", "d:\\"],
    "image|contains": "win*ws",
    "image": ["*.DLL", "a\\*b\\?c"],
    "image|cased|contains": "CMD",
    "line|contains|all": ["cmd", "http"],
    "line|windash|contains": [" -enc ", " -x"],
    "line|windash|contains|all": ["cmd -", " -enc"],
    "line|base64offset|contains": "http://",
    "line|base64|contains": "http://",
    "line|re": "^cmd [-/]enc",
    "line|re|i": "http://X$",
    "line|re|m": "^Second",
    "line|re|s": "first.Second",
    "line|re|i|m|s": "FIRST.^second",
    "ip|cidr": ["10.0.0.0/8", "2001:db8::/32"],
    "n": [5, 4624],
    "n|gt": 4,
    "n|lte": 5,
    "user": None,
    "user|exists": True,
    "other|exists": False,
    "user|fieldref": "other",
    "ok": True,
    "user|contains": "",
}
SHAPES: list[tuple[dict[str, Any], str]] = [
    *(({"sel": {field: value}}, "sel") for field, value in FIELDS.items()),
    *(({"sel": {field: value}}, "not sel") for field, value in FIELDS.items()),
    *(
        ({"sel": {one: FIELDS[one], other: FIELDS[other]}, "fil": {third: FIELDS[third]}}, "sel and not fil")
        for one, other, third in [
            ("line|contains|all", "n", "user"), ("image|endswith", "ip|cidr", "ok"), ("n|gt", "user|exists", "image"),
            ("line|re|i", "n|lte", "user|fieldref"), ("line|windash|contains", "other|exists", "n|gt"),
        ]
    ),
    *(
        ({"a_1": {"user": "ann"}, "a_2": {"n|gt": 4}, "b": {"ok": True}}, condition)
        for condition in (
            "1 of a_*", "all of a_*", "1 of them", "all of them", "not 1 of a_*", "b or all of a_*",
            "not (a_1 or b) and 1 of a_*", "(a_1 and a_2) or not b",
        )
    ),
    ({"sel": [{"user": "ann"}, {"n": 0, "ok": True}]}, "sel"),
    ({"sel": ["HTTP:", "c?d /enc"]}, "sel"),
    ({"sel": {"|all": ["cmd", "http"]}}, "sel"),
    ({"sel": ["temp"], "fil": {"user": ["a*", "system"]}}, "sel and not fil"),
]  # fmt: skip


# --- the evaluator ----------------------------------------------------------------------------------------------------


def holds(detections: Mapping[str, Any], condition: str, event: Mapping[str, Any]) -> bool:
    """Return whether a rule holds: the condition is rewritten as Python's over the answers of its detections."""
    found = {name: detected(detection, event) for name, detection in detections.items()}

    def several(match: re.Match[str]) -> str:
        names = [name for name in found if match[2] == "them" or fnmatchcase(name, match[2])]
        return str((all if match[1] == "all" else any)(found[name] for name in names))

    words = re.sub(r"\b(1|all) of ([\w*]+)", several, condition)
    words = re.sub(r"[a-z]\w*", lambda match: str(found.get(match[0], match[0])), words)
    return bool(eval(words))  # noqa: S307  (True, False, and, or, not)


def detected(detection: Any, event: Mapping[str, Any]) -> bool:
    if isinstance(detection, list):
        return any(detected(each, event) if isinstance(each, dict) else keyword(each, event) for each in detection)
    return all(field_holds(field, value, event) for field, value in detection.items())


def keyword(word: str, event: Mapping[str, Any]) -> bool:
    return any(wild(f"*{word}*")(value) for value in event.values() if isinstance(value, str))


def field_holds(key: str, given: Any, event: Mapping[str, Any]) -> bool:
    name, *modifiers = key.split("|")
    values = given if isinstance(given, list) else [given]
    joined = all if "all" in modifiers else any
    if not name:
        return joined(keyword(value, event) for value in values)
    if "exists" in modifiers:
        return (name in event) is given
    if "fieldref" in modifiers:
        return name in event and event[name] == event.get(given)
    return joined(
        name not in event if value is None else value_holds(value, modifiers, event.get(name)) for value in values
    )


def value_holds(value: Any, modifiers: list[str], actual: Any) -> bool:
    if actual is None:
        return False
    for name, test in COMPARED.items():
        if name in modifiers:
            return test(actual, value)
    if isinstance(value, bool) or not isinstance(value, str):
        return type(actual) is type(value) and actual == value if isinstance(value, bool) else actual == value
    if "re" in modifiers:
        flags = sum(
            {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}[each] for each in modifiers if each in "ims"
        )
        return re.search(value, actual, flags) is not None
    if "cidr" in modifiers:
        return ipaddress.ip_address(actual) in ipaddress.ip_network(value)
    texts = [value]
    if "windash" in modifiers:
        texts = spelled(value)
    if "base64" in modifiers:
        texts = [base64.b64encode(value.encode()).decode()]
    if "base64offset" in modifiers:
        texts = [offset(value, at) for at in range(3)]
    before = "*" if {"contains", "endswith"} & set(modifiers) else ""
    after = "*" if {"contains", "startswith"} & set(modifiers) else ""
    return any(wild(f"{before}{text}{after}", cased="cased" in modifiers)(str(actual)) for text in texts)


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "gte": lambda a, b: a >= b, "gt": lambda a, b: a > b, "lte": lambda a, b: a <= b, "lt": lambda a, b: a < b,
}  # fmt: skip


def spelled(value: str) -> list[str]:
    """Return a value with each dash or slash before a word as any of the dashes that Windows takes."""
    parts = re.split(r"(?:(?<=\s)|(?<=^))[-/](?=\w)", value) if re.search(r"\B[-/]\b", value) else [value]
    return [
        "".join(part + dash for part, dash in zip(parts, (*dashes, ""), strict=True))
        for dashes in product(DASHES, repeat=len(parts) - 1)
    ]


def offset(value: str, at: int) -> str:
    """Return the part of a base64 text that is the same whatever stands around the value, which begins at this byte of three."""
    encoded = base64.b64encode(b" " * at + value.encode()).decode()
    return encoded[(0, 2, 3)[at] : (None, -3, -2)[(at + len(value.encode())) % 3]]


def wild(pattern: str, *, cased: bool = False) -> Callable[[str], bool]:
    """Return the test of a text by * and ?; a backslash before one of these, or another backslash, is no part of the text."""
    parts = re.findall(r"\\[*?\\]|.", pattern, re.DOTALL)
    regex = "".join({"*": ".*", "?": "."}.get(part) or re.escape(part[-1]) for part in parts)
    found = re.compile(regex, re.DOTALL | (0 if cased else re.IGNORECASE))
    return lambda text: found.fullmatch(text) is not None


# --- beside what is imported ------------------------------------------------------------------------------------------


def test_rules_of_all_shapes_load_and_mean_what_they_say() -> None:
    wrong = []
    events = [SCHEMA.admit({**event, "event_type": "log"}) for event in EVENTS]
    for detections, condition in SHAPES:
        rule = {"title": "t", "logsource": {"category": "x"}, "detection": {**detections, "condition": condition}}
        (found,) = import_rules("sigma", yaml.safe_dump(rule), schema=SCHEMA)
        if found.subscription is None:
            wrong.append(f"{detections} {condition}: {found.reason}")
            continue
        bound = bind(found.subscription, SCHEMA)
        told = [evaluate(bound, event) for event in events]
        if told != (right := [holds(detections, condition, event) for event in EVENTS]):
            wrong.append(f"{detections} {condition}: {told}, and it is {right}")
    assert not wrong, "\n".join(wrong)


def test_the_evaluator_tells_the_events_apart() -> None:
    for field, value in FIELDS.items():
        answers = {field_holds(field, value, event) for event in EVENTS}
        assert answers == {True, False}, field
