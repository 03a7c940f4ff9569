"""Arrays become pictures on a page: PNG inside the page itself, pixel for pixel.

A picture is grey (height, width) or in colour (height, width, 3), as uint8, or as floats from 0
(black) to 1 (full), which are rounded to 8 bits here and nowhere else. Anything else is refused:
a picture that was scaled in silence would show something that the model never saw.

Cost: small pictures take about a kilobyte each; enlarging them is left to the browser.
"""

import base64
import io
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.verdict.html import escape_html

Pixels = npt.NDArray[np.uint8]

_SMALL = 64  # up to so many pixels a side, enlarging keeps them square; beyond, it smooths
_PAPER = np.array([246.0, 245.0, 243.0])  # no change
_MORE = np.array([168.0, 67.0, 29.0])
_LESS = np.array([24.0, 90.0, 157.0])


def pixels_of(array: Any) -> Pixels:
    """The picture in 8 bits, if it is one.

    >>> pixels_of([[0.0, 0.5], [1.0, 0.25]]).tolist()
    [[0, 128], [255, 64]]
    """
    given = np.asarray(array)
    height_width = given.shape[:2]
    if given.ndim not in (2, 3) or 0 in height_width or given.shape[2:] not in ((), (3,)):
        raise ValueError(
            f"the picture has shape {given.shape}; expected (height, width) for grey or (height,"
            " width, 3) for colours. Reshape it, or leave other channels out."
        )
    if given.dtype == np.uint8:
        return given
    if given.dtype.kind != "f":
        raise ValueError(
            f"the picture holds {given.dtype}; expected uint8, or floats from 0 to 1. Divide by"
            " its largest level."
        )
    low, high = float(given.min()), float(given.max())
    if not (low >= 0 and high <= 1):  # NaN is neither
        raise ValueError(
            f"the picture holds values from {low:g} to {high:g}; expected floats from 0 to 1, or"
            " uint8. Divide by its largest level."
        )
    return np.rint(given.astype(np.float64) * 255).astype(np.uint8)


def difference(left: Any, right: Any) -> tuple[Pixels, float]:
    """Where the right picture is brighter (rust) or darker (blue), and the largest such change.

    The largest change has the full colour. Of a coloured pixel, the channel that changed most.
    """
    scaled = []
    for one in (left, right):
        given = np.asarray(one)
        pixels_of(given)
        scaled.append(given / 255.0 if given.dtype == np.uint8 else given.astype(np.float64))
    if scaled[0].shape != scaled[1].shape:
        raise ValueError(
            f"the pictures have shapes {scaled[0].shape} and {scaled[1].shape}; expected the same"
            " for a difference. Show them without one: difference=False."
        )
    change = scaled[1] - scaled[0]
    if change.ndim == 3:
        most = np.abs(change).argmax(axis=2)[..., None]
        change = np.take_along_axis(change, most, axis=2)[..., 0]
    largest = float(np.abs(change).max())
    share = np.abs(change)[..., None] / (largest or 1.0)
    full = np.where(change[..., None] > 0, _MORE, _LESS)
    return np.rint(_PAPER + share * (full - _PAPER)).astype(np.uint8), largest


def image(pixels: Pixels, words: str) -> str:
    """The element that holds a picture and says in words what it is."""
    height, width = pixels.shape[:2]
    kind = ' class="pixels"' if max(height, width) <= _SMALL else ""
    carried = base64.b64encode(_png(pixels)).decode("ascii")
    return (
        f'<img{kind} src="data:image/png;base64,{carried}" width="{width}" height="{height}"'
        f' alt="{escape_html(words)}">'
    )


def _png(pixels: Pixels) -> bytes:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError(
            "pictures on a page need Pillow, which is not installed:"
            " pip install '.[images]' in the clone of likewise"
        ) from None
    written = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(written, format="PNG", optimize=True)
    return written.getvalue()
