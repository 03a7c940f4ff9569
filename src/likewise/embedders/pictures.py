"""Reads pictures as arrays, and prepares them as a model was trained on them.

A picture is a path in the declared folder (folder_files.py), the bytes of a file, a Pillow image,
or an array, which is taken as it is. Pillow decodes files, turns them upright and makes them RGB;
bytes and pixels are limited before that. Only formats of plain pixels are read: EPS is a program.
Invariant: what a model gets depends on the declaration alone, never on the rest of the batch.
"""

import io
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.embedders.declaration import DeclaredEmbedder
from likewise.embedders.folder_files import PictureFolder, file_too_large_error
from likewise.tables import normalize

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
"""Formats of files that are decoded, by Pillow's names."""
# What decoders raise about broken files, besides Pillow's own errors; Warning: where the program
# turns warnings into errors.
_DECODE_ERRORS = (
    OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError,
    AttributeError, RuntimeError, Warning, struct.error, zlib.error,
)  # fmt: skip
_NO_FOLDER = (
    "it is a path, and the rule declares no folder to open files in. Declare one next to the name"
    ' of the embedder, folder = "pictures", or give the bytes of the file or an array'
)
_INSTALL_PILLOW = (
    "needs the package Pillow, which is not installed. Install it with: pip install '.[images]' in"
    " the clone of likewise"
)


class _BadPicture(ValueError):
    """A picture is refused with a message of our own."""


class PictureReader:
    """Reads pictures as a declaration allows; raises ValueError about those that it refuses."""

    def __init__(self, declared: DeclaredEmbedder) -> None:
        self._folder = None if declared.folder is None else PictureFolder(str(declared.folder))
        self._limit_bytes = declared.limit_bytes
        self._limit_pixels = declared.limit_pixels

    def file_bytes(self, picture: Any) -> bytes | None:
        """Return the bytes of a picture that is a path or bytes; None for any other."""
        if isinstance(picture, bytes | bytearray | memoryview):
            if memoryview(picture).nbytes > self._limit_bytes:
                raise file_too_large_error("it", self._limit_bytes)
            return bytes(picture)
        if isinstance(picture, str | os.PathLike):
            if self._folder is None:
                raise _BadPicture(_NO_FOLDER)
            return self._folder.read(picture, self._limit_bytes)
        return None

    def raw_array(self, item: Any) -> npt.NDArray[Any]:
        """Return an array that identifies an item: of a Pillow image all, before any conversion."""
        if _is_pillow_image(item):
            self._check_pixels(item)
            header = (
                f"{item.mode} {item.size} {sorted(item.info.items(), key=str)} {item.getpalette()}"
            )
            return np.frombuffer(header.encode() + item.tobytes(), np.uint8)
        return self.array_of(item)

    def array_of(self, picture: Any) -> npt.NDArray[Any]:
        """Return a picture as an array."""
        content = self.file_bytes(picture)
        if content is not None:
            return self._decode(content)
        if _is_pillow_image(picture):
            self._check_pixels(picture)
            return _upright(picture)
        array = normalize.array_of(picture, "it", "a picture")
        if array.dtype.kind not in "biuf" or array.ndim not in (1, 2, 3) or array.size == 0:
            raise _BadPicture(
                f"it is a {type(picture).__name__} of type {normalize.type_name(array.dtype)} and"
                f" shape {array.shape}; expected a path, bytes, a Pillow image, or an array of"
                " numbers"
            )
        return array

    def _decode(self, content: bytes) -> npt.NDArray[Any]:
        if find_spec("PIL") is None:
            raise _BadPicture(f"reading a file {_INSTALL_PILLOW}")
        from PIL import Image

        Image.init()
        formats = [name for name in FORMATS if name in Image.OPEN]
        try:
            with Image.open(io.BytesIO(content), formats=formats) as image:
                self._check_pixels(image)
                return _upright(image)
        except _BadPicture:
            raise
        except (*_DECODE_ERRORS, Image.DecompressionBombError) as error:
            raise _BadPicture(f"it is no picture that can be read: {error}") from None

    def _check_pixels(self, image: Any) -> None:
        width, height = image.size
        if width * height > self._limit_pixels:
            raise _BadPicture(
                f"it has {width:,} by {height:,} pixels, more than limit_pixels,"
                f" {self._limit_pixels:,}"
            )

    def batches(
        self, items: Iterable[tuple[int, Any]], most: int
    ) -> Iterator[tuple[list[int], list[Any]]]:
        """Yield the places and items of batches: `most` items, or fewer if they are large."""
        places: list[int] = []
        batch: list[Any] = []
        numbers = 0
        for place, item in items:
            size = item.size if isinstance(item, np.ndarray) else 0
            if batch and (len(batch) == most or numbers + size > 3 * self._limit_pixels):
                yield places, batch
                places, batch, numbers = [], [], 0
            places.append(place)
            batch.append(item)
            numbers += size
        if batch:
            yield places, batch


def _is_pillow_image(item: Any) -> bool:
    return hasattr(item, "convert") and hasattr(item, "getbands")


def _upright(image: Any) -> npt.NDArray[Any]:
    from PIL import ImageOps

    return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


class PicturePreprocessor:
    """Resizes, scales and lays out an array for a model."""

    def __init__(self, declared: DeclaredEmbedder) -> None:
        self._size = tuple(declared.size) if declared.size is not None else None
        self._scale = declared.scale
        self._mean = None if declared.mean is None else np.asarray(declared.mean, np.float32)
        self._std = None if declared.std is None else np.asarray(declared.std, np.float32)
        self._layout = declared.layout

    def __call__(self, array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        if self._size is not None and array.shape[:2] != self._size:
            array = _resize(array, self._size)
        values = array.astype(np.float32)
        if self._scale is not None:
            values *= np.float32(self._scale)
        if self._mean is not None:
            values = values - self._mean
        if self._std is not None:
            values = values / self._std
        if self._layout is not None and values.ndim == 2:
            values = values[:, :, None]
        if self._layout == "channels first":
            values = np.moveaxis(values, -1, 0)
        return np.ascontiguousarray(values)

    def preprocess_batch(self, batch: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        """Prepare a batch as one array; raise ValueError if the shapes differ."""
        prepared = list(map(self, batch))
        shapes = {array.shape for array in prepared}
        if len(shapes) > 1:
            raise ValueError(
                f"pictures of different shapes, {', '.join(map(str, sorted(shapes)))}; declare the"
                " size that they are resized to"
            )
        return np.stack(prepared)


def _resize(array: npt.NDArray[Any], size: tuple[int, ...]) -> npt.NDArray[Any]:
    if array.dtype != np.uint8 or array.ndim not in (2, 3):
        raise ValueError(
            f"it is of type {array.dtype} and shape {array.shape}, and only pictures of uint8 can"
            f" be resized to {size}"
        )
    if find_spec("PIL") is None:
        raise ValueError(f"resizing a picture {_INSTALL_PILLOW}")
    from PIL import Image

    squeezed = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    image = Image.fromarray(squeezed).resize((size[1], size[0]), Image.Resampling.BILINEAR)
    resized = np.asarray(image)
    return resized[:, :, None] if array.ndim == 3 and resized.ndim == 2 else resized
