"""Image operators: colours, edges, shapes, templates and faces, on images given by path or by their bytes.

    dominantColour('red')   edgeDensity(?share) and ?share > 0.2   shapeCount(?n)   templateCount('stop-sign.png', ?n)
    faceCount(?n)

The attribute is a text: a path below the allowed folder, or the bytes as `data:image/png;base64,…`. An image of more
than MAX_PIXELS pixels is refused before it is decoded.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.errors import BadArgument
from tocsin.operators.operator import OPEN, Open, Operator, operator
from tocsin.schema import Event

Pixels = npt.NDArray[np.uint8]
MAX_PIXELS = 16_000_000
MAX_BYTES = 32_000_000
FACE_PIXELS = 400  # of the longer side of what faces are looked for in
_KEPT = 16  # decoded images, since several operators ask about the same one
COLOURS = {
    "black": (0, 0, 0),
    "white": (255, 255, 255),
    "grey": (128, 128, 128),
    "red": (220, 20, 30),
    "orange": (250, 140, 20),
    "yellow": (250, 225, 40),
    "green": (30, 150, 50),
    "blue": (30, 70, 210),
    "purple": (130, 40, 160),
    "brown": (130, 80, 40),
}


def image_operators(folder: Path | None = None, attribute: str = "image") -> list[Operator]:
    """Return the operators over an image attribute; without a folder, images come as bytes only."""
    reads = (f"{attribute}:text",)

    def images(event: Event) -> list[Pixels]:
        found: Sequence[str] = event.values.get(attribute, ())  # type: ignore[assignment]
        return [read_image(image, folder) for image in found]

    def check_colour(name: object) -> None:
        if isinstance(name, str) and name not in COLOURS:
            raise BadArgument(f"there is no colour {name!r}; there are: {', '.join(COLOURS)}")

    def check_template(path: object) -> None:
        try:
            read_image(str(path), folder)
        except (OSError, ValueError) as error:
            raise BadArgument(f"the template cannot be read: {error}") from None

    @operator(name="dominantColour", cost=0.005, timeout=10, reads=reads, check=check_colour)
    def dominant_colour(event: Event, colour: str | Open) -> object:
        """Whether most pixels are nearest to this colour; with a variable, that colour's name."""
        found = [_dominant(pixels) for pixels in images(event)]
        return found if colour is OPEN else colour in found

    @operator(name="edgeDensity", cost=0.02, timeout=10, reads=reads, outputs={"share": float})
    def edge_density(event: Event) -> list[float]:
        """The share of the image's pixels that lie on an edge (Canny)."""
        from skimage.feature import canny

        return [float(canny(grey(pixels), sigma=1.0).mean()) for pixels in images(event)]

    @operator(name="shapeCount", cost=0.02, timeout=10, reads=reads, outputs={"count": int})
    def shape_count(event: Event) -> list[int]:
        """How many separate shapes stand out from the background (Otsu's threshold; specks are left out)."""
        return [_shapes(grey(pixels)) for pixels in images(event)]

    @operator(name="templateCount", cost=0.1, timeout=30, reads=reads, check=check_template, outputs={"count": int})
    def template_count(event: Event, template: str) -> list[int]:
        """How often a small picture, given by path or bytes, occurs in the image."""
        wanted = grey(read_image(template, folder))
        return [_occurrences(grey(pixels), wanted) for pixels in images(event)]

    @operator(name="faceCount", cost=0.2, timeout=30, reads=reads, outputs={"count": int})
    def face_count(event: Event) -> list[int]:
        """How many faces look at the camera, each at least a tenth of the image high (a trained cascade, offline)."""
        return [_faces(pixels) for pixels in images(event)]

    return [dominant_colour, edge_density, shape_count, template_count, face_count]


@lru_cache(_KEPT)
def read_image(image: str, folder: Path | None = None) -> Pixels:
    """Return the pixels [height, width, 3] of an image given by path or bytes; raises OSError, ValueError."""
    from PIL import Image

    source = io.BytesIO(_decoded(image)) if image.startswith("data:") else _allowed(image, folder)
    with Image.open(source) as opened:
        width, height = opened.size
        if width * height > MAX_PIXELS:
            raise ValueError(f"the image has {width * height:,} pixels; at most {MAX_PIXELS:,} are allowed")
        pixels = np.asarray(opened.convert("RGB"))
    pixels.setflags(write=False)
    return pixels


def _decoded(uri: str) -> bytes:
    head, _, body = uri.partition(",")
    if not head.endswith(";base64"):
        raise ValueError("bytes of an image are written as data:image/png;base64,…")
    if len(body) > MAX_BYTES:
        raise ValueError(f"the image has more than {MAX_BYTES:,} bytes")
    return base64.b64decode(body, validate=True)


def _allowed(path: str, folder: Path | None) -> Path:
    """Return the path of an image below the allowed folder, links followed."""
    if folder is None:
        raise ValueError("images by path need an allowed folder, and none is set")
    root = folder.resolve()
    found = (root / path).resolve()
    if not found.is_relative_to(root):
        raise ValueError("the path leads out of the allowed folder")
    return found


def grey(pixels: Pixels) -> npt.NDArray[np.float64]:
    """Return the brightness of each pixel, 0 .. 1."""
    brightness: npt.NDArray[np.float64] = pixels @ np.array([0.2125, 0.7154, 0.0721]) / 255.0
    return brightness


def _dominant(pixels: Pixels) -> str:
    from skimage.color import rgb2lab

    step = max(1, int((pixels.shape[0] * pixels.shape[1] / 40_000) ** 0.5))  # some 40,000 pixels tell
    found: Any = rgb2lab(pixels[::step, ::step].astype(np.float64) / 255.0).reshape(-1, 1, 3)
    palette: Any = rgb2lab(np.array([list(COLOURS.values())], np.float64) / 255.0)
    nearest = np.square(found - palette).sum(axis=2).argmin(axis=1)
    return list(COLOURS)[int(np.bincount(nearest).argmax())]


def _shapes(brightness: npt.NDArray[np.float64]) -> int:
    from skimage.filters import threshold_otsu
    from skimage.measure import label

    if np.ptp(brightness) < 0.05:
        return 0
    bright = brightness > threshold_otsu(brightness)
    if bright.mean() > 0.5:  # the background is what there is more of
        bright = ~bright
    sizes = np.bincount(label(bright, connectivity=2).ravel())[1:]
    return int((sizes >= max(4, brightness.size // 10_000)).sum())


def _faces(pixels: Pixels) -> int:
    from PIL import Image

    shrunk = Image.fromarray(pixels)
    shrunk.thumbnail((FACE_PIXELS, FACE_PIXELS))
    image = np.asarray(shrunk)
    height, width = image.shape[:2]
    least = max(24, height // 10)
    if min(height, width) < least:
        return 0
    found = _face_detector().detect_multi_scale(
        img=image, scale_factor=1.2, step_ratio=1, min_size=(least, least), max_size=(height, width)
    )
    return len(found)


@lru_cache(1)
def _face_detector() -> Any:
    """Return the detector that scikit-image comes with: local binary patterns, trained on frontal faces."""
    from skimage.data import lbp_frontal_face_cascade_filename
    from skimage.feature import Cascade

    return Cascade(lbp_frontal_face_cascade_filename())


def _occurrences(brightness: npt.NDArray[np.float64], template: npt.NDArray[np.float64]) -> int:
    from skimage.feature import match_template, peak_local_max

    if any(small > large for small, large in zip(template.shape, brightness.shape, strict=True)):
        return 0
    alike = match_template(brightness, template)
    apart = max(1, min(template.shape) // 2)
    return len(peak_local_max(alike, min_distance=apart, threshold_abs=0.9, exclude_border=False))
