"""News alerts: queries of one to four words over texts of 300 words, which is what percolators are made for.

Of the queries a quarter ask for one word, and the others for several: all of them, any, two near each other in order, or some
and not others. Words of texts are drawn from a vocabulary of 60,000 by Zipf's law, those of queries from the less frequent
ones, as people ask for names and subjects; with 100,000 queries a text satisfies about 300.

    news_queries(100_000, seed=0), news_texts(1_000, seed=1)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np

WORDS, PER_TEXT = 60_000, 300
_FREQUENT, _ASKED = 100, 2_000  # words that queries add to others; from here on, words that are asked for


@lru_cache(maxsize=1)
def vocabulary() -> tuple[str, ...]:
    """Return the words, the most frequent first; frequent ones are short."""
    random = Random(11)
    found: dict[str, None] = {}
    while len(found) < WORDS:
        length = 2 + min(10, int(len(found) ** 0.25)) + random.randrange(-1, 3)
        found["".join(random.choice("etaoinshrdlucmfwypvbgkjqxz") for _ in range(max(2, length)))] = None
    return tuple(found)


def news_texts(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield events with one text each, in sentences."""
    words, rng = vocabulary(), np.random.default_rng(seed)
    weight = 1 / np.arange(1, WORDS + 1)
    cumulative = np.cumsum(weight / weight.sum())
    for _ in range(count):
        drawn = [words[at] for at in np.searchsorted(cumulative, rng.random(PER_TEXT)).tolist()]
        for at in range(0, PER_TEXT, 15):
            drawn[at] = drawn[at].capitalize()
            drawn[min(at + 14, PER_TEXT - 1)] += "."
        yield {"text": " ".join(drawn)}


def news_queries(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield subscriptions in the bulk form."""
    random = Random(seed)
    for number in range(count):
        yield {"id": number, "predicates": [["text", *_query(random)]]}


def _query(random: Random) -> tuple[str, Any]:
    shape, words = random.random(), [_word(random) for _ in range(random.randint(2, 4))]
    if shape < 0.25:
        return "contains", words[0]
    if shape < 0.5:
        return "contains all", [*words[:-1], _frequent(random)]
    if shape < 0.65:
        return "contains any", words
    if shape < 0.85:
        return "contains", {"words": {"near": [words[0], [0, random.choice([2, 5, 10])], _frequent(random)]}}
    return "contains", {"words": {"and": [words[0], {"not": words[1]}]}}


def _word(random: Random) -> str:
    """Return a word to ask for: a name or a subject, none of the most frequent ones."""
    return vocabulary()[int(_ASKED * (WORDS / _ASKED) ** random.random())]


def _frequent(random: Random) -> str:
    return vocabulary()[int(_FREQUENT ** random.random())]
