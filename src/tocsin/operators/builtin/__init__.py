"""The built-in operators, one module a subject; each imports its heavy packages when it is first called.

spatial   named regions (spatial.py), distances on the ellipsoid, nearest places
text      stems, proximity, similarity of meaning
image     colours, edges, shapes, templates
logic     class membership by inference, answer set programs
lookup    database tables, web services
settings  which of them there are, by a file
"""

from __future__ import annotations

from tocsin.operators.operator import Operator


def builtin_operators() -> list[Operator]:
    """Return the built-in operators that need no settings: spatial over the packaged map, text, image by bytes."""
    from tocsin.operators.builtin.image import image_operators
    from tocsin.operators.builtin.spatial import spatial_operators
    from tocsin.operators.builtin.text import text_operators

    return [*spatial_operators(), *text_operators(), *image_operators()]
