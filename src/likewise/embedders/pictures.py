"""Reads pictures as arrays, and prepares them as a model was trained on them.

A picture is a path in the declared folder (pictures.py), the bytes of a file, a Pillow image,
or an array, which is taken as it is. Pillow decodes files, turns them upright and makes them RGB;
bytes and pixels are limited before that. Only formats of plain pixels are read: EPS is a program.
Invariant: what a model gets depends on the declaration alone, never on the rest of the batch.
"""

import errno
import io
import os
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.embedders.declaration import DeclaredEmbedder
from likewise.errors import BadRule
from likewise.tables import normalize
from likewise.tables.printing import shorten

_LONGEST = 200  # characters of a path in an error
_MACHINE_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)  # not the name's fault
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY  # works without a right to list it
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class PictureFolder:
    """Reads files of a declared folder, which is resolved to a real path once."""

    def __init__(self, declared: str) -> None:
        self._named = Path(declared).absolute()
        self._real = Path(os.path.realpath(self._named))
        if not self._real.is_dir():
            raise BadRule(f"folder is {declared!r}; expected an existing folder", setting="folder")

    def read(self, name: str | os.PathLike[Any], most: int) -> bytes:
        """Return the content of a file; raise ValueError if it may not be opened or is too long."""
        try:
            file = _open_regular_file(self._real, self._steps(Path(os.fsdecode(name))))
        except (OSError, ValueError) as error:
            raise ValueError(f"{_quote_path(name)} {_explain(error)}") from None
        try:
            with os.fdopen(file, "rb") as opened:
                size = os.fstat(file).st_size
                content = opened.read(min(size, most) + 1)
        except OSError as error:
            raise ValueError(f"{_quote_path(name)} cannot be read: {error.strerror}") from None
        if size > most or len(content or b"") > most:
            raise file_too_large_error(_quote_path(name), most)
        return content or b""

    def _steps(self, name: Path) -> tuple[str, ...]:
        """Return the path from the folder to a file without links; raise ValueError if outside."""
        if ".." in name.parts:
            raise ValueError(name)
        if name.is_absolute():
            start = self._named if name.is_relative_to(self._named) else self._real
            name = name.relative_to(start)
        resolved = Path(os.path.realpath(self._real / name))
        steps = resolved.relative_to(self._real).parts
        if not steps:
            raise ValueError(name)
        return steps


def _open_regular_file(folder: Path, steps: tuple[str, ...]) -> int:
    """Return the descriptor of a regular file in the folder; follow no links.

    The steps had no links when they were resolved. If one has become a link since then, the system
    refuses to follow it.
    """
    at = os.open(folder, _FOLDER)
    try:
        for step in steps[:-1]:
            below = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            at, above = below, at
            os.close(above)
        before = os.stat(steps[-1], dir_fd=at, follow_symlinks=False)
        if not stat.S_ISREG(before.st_mode):  # opening a device may have an effect
            raise ValueError(steps[-1])
        file = os.open(steps[-1], _FILE, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(file).st_mode):  # it was replaced in the meantime
        os.close(file)
        raise ValueError(steps[-1])
    return file


def _explain(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS:
        return f"cannot be opened now: {error.strerror}"
    return (
        "is no file that may be opened; expected the path of a regular file in the folder that the"
        " rule declares"
    )


def file_too_large_error(what: str, most: int) -> ValueError:
    return ValueError(f"{what} has more bytes than limit_bytes, {most:,}")


def _quote_path(name: Any) -> str:
    return repr(shorten(os.fsdecode(name), _LONGEST))


FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
"""Formats of files that are decoded, by Pillow's names."""
_DECODE_ERRORS = (  # what decoders raise about broken files, besides Pillow's own errors
    OSError,
    EOFError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RuntimeError,
    Warning,  # where the program turns warnings into errors
    struct.error,
    zlib.error,
)
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
