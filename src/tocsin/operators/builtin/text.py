"""Text operators: words by their stems, words near each other, and texts that mean something alike.

hasStems('chasing cars')   stemsNear('police car', 5)   similarTo('a car chase', ?score) and ?score > 0.6
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from tocsin.errors import BadArgument
from tocsin.operators.operator import Operator, operator
from tocsin.schema import Event

if TYPE_CHECKING:
    import numpy as np

_WORD = re.compile(r"\w+")
_KEPT = 10_000  # texts whose stems or vectors are kept


def text_operators(attribute: str = "text", language: str = "english") -> list[Operator]:
    """Return the operators over a text attribute, in a language that the Snowball stemmer knows."""
    reads = (f"{attribute}:text",)

    def texts(event: Event) -> Sequence[str]:
        return event.values.get(attribute, ())  # type: ignore[return-value]

    def check(words: object, *_: object) -> None:
        if not _WORD.search(str(words)):
            raise BadArgument("there is no word in this text")

    @operator(name="hasStems", cost=0.0001, reads=reads, check=check)
    def has_stems(event: Event, words: str) -> bool:
        """Whether all these words occur in the text, in any form: 'chasing' finds chased."""
        wanted = set(stems(words, language))
        return any(wanted <= set(stems(text, language)) for text in texts(event))

    @operator(name="stemsNear", cost=0.0001, reads=reads, check=check)
    def stems_near(event: Event, words: str, gap: int) -> bool:
        """Whether all these words, in any form and order, occur with at most so many other words among them."""
        wanted = frozenset(stems(words, language))
        return any(_are_near(stems(text, language), wanted, gap) for text in texts(event))

    @operator(name="similarTo", cost=0.0005, reads=reads, check=check, outputs={"score": float})
    def similar_to(event: Event, text: str) -> list[float]:
        """How alike in meaning the text is to this one, from -1 to 1, by a small model of word vectors."""
        wanted = vector(text)
        return [float(wanted @ vector(found)) for found in texts(event)]

    return [has_stems, stems_near, similar_to]


@lru_cache(_KEPT)
def stems(text: str, language: str) -> tuple[str, ...]:
    """Return the stems of the words of a text, in order."""
    return tuple(_stemmer(language).stemWords(_WORD.findall(text.lower())))


@lru_cache(_KEPT)
def vector(text: str) -> np.ndarray[Any, Any]:
    """Return the text's vector, of length 1 (0 where the model knows no word of it)."""
    import numpy as np

    found = _model().embed([text])[0].astype(np.float64)
    length = float(np.linalg.norm(found))
    scaled: np.ndarray[Any, Any] = found / length if length else found
    return scaled


@cache
def _stemmer(language: str) -> Any:
    import Stemmer

    return Stemmer.Stemmer(language)


@cache
def _model() -> Any:
    """Return the model that comes with the package; nothing is downloaded."""
    from pathlib import Path

    import wordllama

    # The package looks for its tokenizer under another name than it has; as a cache the folder is found.
    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


def _are_near(found: tuple[str, ...], wanted: frozenset[str], gap: int) -> bool:
    """Return whether a window of the words has all the wanted ones and at most `gap` others."""
    last: dict[str, int] = {}
    for at, stem in enumerate(found):
        if stem in wanted:
            last[stem] = at
            if len(last) == len(wanted) and at - min(last.values()) + 1 - len(wanted) <= gap:
                return True
    return False
