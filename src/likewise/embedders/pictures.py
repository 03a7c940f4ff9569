"""Pictures as arrays, whatever they come as, and prepared as a model was trained on them.

A picture is a path, the bytes of a file, a Pillow image, or an array: height by width, with three
(or four, or one) channels last or none. Files are decoded by Pillow; they and its images are turned
upright as their camera says, and become RGB. An array is taken as it is.

Invariant: what a model gets is decided by the declaration alone, never by the batch around it.
"""

import io
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise import plain
from likewise.embedder import Embedder


def file_bytes(picture: Any) -> bytes | None:
    """The bytes of a picture that is a file, or was one; None if it is none.

    Raises OSError.
    """
    if isinstance(picture, bytes | bytearray | memoryview):
        return bytes(picture)
    if isinstance(picture, str | os.PathLike):
        return Path(picture).read_bytes()
    return None


def raw_array(item: Any) -> npt.NDArray[Any]:
    """Whatever tells an item from others: all of a Pillow image, not what becomes of it."""
    if hasattr(item, "convert") and hasattr(item, "getbands"):
        about = f"{item.mode} {item.size} {sorted(item.info.items(), key=str)} {item.getpalette()}"
        return np.frombuffer(about.encode() + item.tobytes(), np.uint8)
    return array_of(item)


def array_of(picture: Any) -> npt.NDArray[Any]:
    """A picture as an array; raise ValueError if it is none."""
    content = file_bytes(picture)
    if content is not None:
        return _decoded(content)
    if hasattr(picture, "convert") and hasattr(picture, "getbands"):  # Pillow's own
        return _upright(picture)
    array = plain.array_of(picture, "it", "a picture")
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2, 3) or array.size == 0:
        raise ValueError(
            f"it is a {type(picture).__name__} of type {array.dtype} and shape {array.shape};"
            " expected a path, bytes, a Pillow image, or an array of numbers"
        )
    return array


def _decoded(content: bytes) -> npt.NDArray[Any]:
    if find_spec("PIL") is None:
        raise ValueError(
            "files of pictures need the package Pillow, which is not installed. Install it with:"
            " pip install 'likewise[images]'"
        )
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content)) as image:
            return _upright(image)
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError) as error:
        raise ValueError(f"it is no picture that can be read: {error}") from None


def _upright(image: Any) -> npt.NDArray[Any]:
    from PIL import ImageOps

    return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


class Preparing:
    """What is done with an array before a model sees it."""

    def __init__(self, declared: Embedder) -> None:
        self._size = tuple(declared.size) if declared.size is not None else None
        self._scale = declared.scale
        self._mean = None if declared.mean is None else np.asarray(declared.mean, np.float32)
        self._std = None if declared.std is None else np.asarray(declared.std, np.float32)
        self._first = declared.layout == "channels first"
        self._channels = declared.layout is not None

    def __call__(self, array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        if self._size is not None and array.shape[:2] != self._size:
            array = _resized(array, self._size)
        values = array.astype(np.float32)
        if self._scale is not None:
            values *= np.float32(self._scale)
        if self._mean is not None:
            values = values - self._mean
        if self._std is not None:
            values = values / self._std
        if self._channels and values.ndim == 2:
            values = values[:, :, None]
        return np.ascontiguousarray(np.moveaxis(values, -1, 0) if self._first else values)

    def all(self, batch: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        """A batch as one array; raise ValueError if their shapes differ."""
        prepared = [self(one) for one in batch]
        shapes = {one.shape for one in prepared}
        if len(shapes) > 1:
            raise ValueError(
                f"pictures of different shapes, {', '.join(map(str, sorted(shapes)))}; declare the"
                " size that they are brought to"
            )
        return np.stack(prepared)


def _resized(array: npt.NDArray[Any], size: tuple[int, ...]) -> npt.NDArray[Any]:
    if array.dtype != np.uint8 or array.ndim not in (2, 3):
        raise ValueError(
            f"it is of type {array.dtype} and shape {array.shape}, and only pictures of uint8 can"
            f" be brought to size {size}"
        )
    if find_spec("PIL") is None:
        raise ValueError(
            "changing the size of pictures needs the package Pillow, which is not installed."
            " Install it with: pip install 'likewise[images]'"
        )
    from PIL import Image

    squeezed = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    image = Image.fromarray(squeezed).resize((size[1], size[0]), Image.Resampling.BILINEAR)
    resized = np.asarray(image)
    return resized[:, :, None] if array.ndim == 3 and resized.ndim == 2 else resized
