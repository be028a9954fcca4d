"""A workload of detection rules: substrings, suffixes and negations over the text attributes of log events.

Shaped like public collections of such rules: of the rules about 60% ask for substrings, 50% for suffixes, 20% exclude
something, 3% have a regular expression, and 3% are large trees of alternatives over several attributes. An event has 20
text attributes, 2 KB in all; its values are put together from the parts that rules ask for and from much else, so that
few rules match.

    rules(3_500, seed=0), log_events(10_000, seed=1)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Any

PATHS = ("image", "parent_image", "current_directory", "original_file_name", "loaded_image", "target_file")
LINES = ("command_line", "parent_command_line", "script", "details", "message")
SHORT = ("user", "host", "product", "company", "service", "channel", "integrity", "hashes", "protocol")
ATTRIBUTES = (*PATHS, *LINES, *SHORT)
_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
_ENDINGS = (".exe", ".dll", ".ps1", ".bat", ".vbs", ".tmp", ".log", ".dat", ".sys", ".hta")
_FOLDERS = ("Windows", "System32", "Users", "Public", "Temp", "AppData", "Local", "Roaming", "Program Files", "Tasks")


@lru_cache(maxsize=1)
def _vocabulary() -> tuple[str, ...]:
    """Return words that look like names of programs and options; the first are the frequent ones."""
    random = Random(7)
    return tuple(
        "".join(random.choice(_LETTERS[: random.randint(8, 26)]) for _ in range(random.randint(4, 11)))
        for _ in range(30_000)
    )


def _word(random: Random, *, rare: bool) -> str:
    words = _vocabulary()
    if rare:
        return words[random.randrange(200, len(words))]
    return words[min(int(random.paretovariate(0.6)) - 1, len(words) - 1)]


# --- events -----------------------------------------------------------------------------------------------------------


def log_events(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield events with 20 text attributes, about 2 KB each."""
    random = Random(seed)
    for _ in range(count):
        event = {name: _path(random) for name in PATHS}
        event.update((name, _line(random, random.randint(15, 40))) for name in LINES)
        event.update((name, _line(random, random.randint(2, 9))) for name in SHORT)
        yield event


def _path(random: Random) -> str:
    folders = "\\".join(random.choice(_FOLDERS) for _ in range(random.randint(2, 4)))
    name = _word(random, rare=random.random() < 0.3)
    return f"C:\\{folders}\\{name.capitalize()}{random.choice(_ENDINGS)}"


def _line(random: Random, words: int) -> str:
    found = []
    for _ in range(words):
        word = _word(random, rare=random.random() < 0.3)
        shape = random.random()
        if shape < 0.1:
            word = f"-{word}"
        elif shape < 0.15:
            word = f"{word}={random.randrange(10**6)}"
        elif shape < 0.2:
            word = f"{word.capitalize()}{random.choice(_ENDINGS)}"
        found.append(word)
    return " ".join(found)


# --- rules ------------------------------------------------------------------------------------------------------------


def rules(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield rules as subscriptions in the text form."""
    random = Random(seed)
    for number in range(count):
        yield {"id": f"rule-{number}", "text": _rule(random)}


def _rule(random: Random) -> str:
    if random.random() < 0.03:
        return _tree(random)
    parts = []
    if random.random() < 0.5:
        parts.append(_suffix(random, random.choice(PATHS)))
    if random.random() < 0.6:
        parts.append(_substring(random, random.choice(LINES)))
    if random.random() < 0.03:
        parts.append(_regex(random, random.choice(LINES)))
    if not parts:
        parts.append(f"{random.choice(SHORT)} = {_quoted(_word(random, rare=True))} ignoring case")
    if random.random() < 0.2:
        excluded = _suffix(random, random.choice(PATHS)) if random.random() < 0.5 else _substring(random, "user")
        parts.append(f"not ({excluded})")
    return " and ".join(parts)


def _suffix(random: Random, attribute: str) -> str:
    ends = [f"\\{_word(random, rare=True)}{random.choice(_ENDINGS)}" for _ in range(random.choice([1, 1, 1, 2, 4, 12]))]
    return f"{attribute} ends with {_listed(ends)} ignoring case"


def _substring(random: Random, attribute: str) -> str:
    count = random.choice([1, 1, 1, 2, 3, 8])
    shapes = ("{}", " -{} ", "{}=", "\\{}", "{}.exe")
    texts = [random.choice(shapes).format(_word(random, rare=random.random() < 0.97)) for _ in range(count)]
    every = count in (2, 3) and random.random() < 0.4
    return f"{attribute} contains text {_listed(texts, every=every)} ignoring case"


def _regex(random: Random, attribute: str) -> str:
    shape = random.choice((r"{}\.(exe|dll)\s+-[a-z]+", r"-{}\s+[0-9]{{3,}}", r"(^|\s){}=\d+", r"{}.{{1,20}}{}"))
    return (
        f"{attribute} matches {_quoted(shape.format(_word(random, rare=True), _word(random, rare=True)))} ignoring case"
    )


def _tree(random: Random) -> str:
    """Return a condition whose alternatives are over several attributes, so that its normal form is large."""
    groups = []
    for _ in range(random.randint(4, 8)):
        alternatives = [
            _suffix(random, path) if random.random() < 0.5 else _substring(random, line)
            for path, line in zip(random.sample(PATHS, 3), random.sample(LINES, 3), strict=True)
        ]
        groups.append(f"({' or '.join(alternatives)})")
    return " and ".join(groups)


def _listed(texts: list[str], *, every: bool = False) -> str:
    if len(texts) == 1:
        return _quoted(texts[0])
    return f"{'all' if every else 'any'} ({', '.join(map(_quoted, texts))})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
