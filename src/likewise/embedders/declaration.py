"""The declaration of an embedder: its name and settings, checked when it is made.

Invariant: frozen. Whether the model exists is checked when it is loaded.
Not here: loading the model (embedding.py), `Embedder` as users write it (rule/embedder.py).
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from likewise.errors import BadRule
from likewise.tables.known_names import check_one_of
from likewise.tables.setting_checks import check_number, check_whole_number

_PREPARING = ("size", "scale", "mean", "std", "layout")
_FILES = ("folder", "limit_bytes", "limit_pixels")
_SETTINGS: dict[str, tuple[str, ...]] = {
    "wordllama": (),
    "sentence-transformers": (),
    "onnx": ("tokenizer", "pooling", "output", "shape", *_PREPARING, *_FILES),
    "torch": ("shape", *_PREPARING, *_FILES),
    "python": ("shape", *_FILES),
}
_IDENTITY_SETTINGS = (*_PREPARING, "pooling", "output")
_COMMON_SETTINGS = ("normalise", "batch", "cache")
_CHOICES = {"pooling": ("mean", "first"), "layout": ("channels first", "channels last")}
EXPECTED_NAMES = (
    '"wordllama", "sentence-transformers:MODEL", "onnx:PATH", "torch:module:function",'
    ' "python:module:function" or a callable'
)


def embed_error(name: object, problem: str) -> BadRule:
    """Return the error about an embedder of this name; the problem follows it."""
    return BadRule(f"embed is {name!r}{problem}", setting="embed")


@dataclass(frozen=True)
class DeclaredEmbedder:
    """The name and settings of an embedder; `Embedder` explains each of them."""

    name: str | Callable[..., Any]
    normalise: bool | None = None
    batch: int = 64
    cache: int = 10_000
    shape: Sequence[int] | None = None
    size: Sequence[int] | None = None
    scale: float | None = None
    mean: float | Sequence[float] | None = None
    std: float | Sequence[float] | None = None
    layout: str | None = None
    tokenizer: str | None = None
    pooling: str | None = None
    output: str | None = None
    folder: str | os.PathLike[str] | None = None
    limit_bytes: int = 64_000_000
    limit_pixels: int = 64_000_000

    def __post_init__(self) -> None:
        if not callable(self.name) and not isinstance(self.name, str):
            raise embed_error(self.name, f"; expected {EXPECTED_NAMES}")
        kind, _, rest = self.text.partition(":")
        whole = self.text == kind if kind == "wordllama" else rest != ""
        if kind not in _SETTINGS or not whole:
            raise embed_error(self.name, f"; expected {EXPECTED_NAMES}")
        if kind in ("torch", "python") and rest.count(":") != 1 and not callable(self.name):
            raise embed_error(self.name, f"; expected {kind}:module:function")
        allowed = (*_COMMON_SETTINGS, *_SETTINGS[kind])
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if hasattr(value, "tolist"):  # an array of NumPy cannot be compared with the default
                value = value.tolist()
                self._set(field.name, value)
            if value != field.default and field.name not in allowed:
                raise BadRule(
                    f"{field.name} is given, which says nothing for {self.text!r}; expected"
                    f" {', '.join(allowed)}"
                )
        self._check_settings()
        self._check_preprocessing()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_settings(self) -> None:
        for name in ("batch", "cache", "limit_bytes", "limit_pixels"):
            least = 0 if name == "cache" else 1
            self._set(name, check_whole_number(name, getattr(self, name), least))
        if self.folder is not None:
            self._set("folder", _check_folder(self.folder))
        if self.normalise is not None and not isinstance(self.normalise, bool):
            raise BadRule(
                f"normalise is {self.normalise!r}; expected True or False", setting="normalise"
            )
        for name, choices in _CHOICES.items():
            if getattr(self, name) is not None:
                check_one_of(name, getattr(self, name), choices)
        if self.pooling is not None and self.tokenizer is None:
            raise BadRule("pooling is given without a tokenizer; expected both for a text model")

    def _check_preprocessing(self) -> None:
        for name in ("shape", "size"):
            if getattr(self, name) is not None:
                self._set(name, _check_lengths(name, getattr(self, name)))
        if self.size is not None and len(self.size) != 2:
            raise BadRule(f"size is {self.size!r}; expected [height, width]", setting="size")
        for name in ("scale", "mean", "std"):
            value = getattr(self, name)
            if name != "scale" and isinstance(value, list | tuple):
                self._set(name, tuple(check_number(name, number) for number in value))
            elif value is not None:
                self._set(name, check_number(name, value))
        spread = (self.std,) if isinstance(self.std, float) else self.std or ()
        if 0 in spread:
            raise BadRule(f"std is {self.std!r}; expected numbers other than 0", setting="std")
        picture_settings = [getattr(self, name) for name in (*_PREPARING, "folder")]
        if self.tokenizer is not None and any(value is not None for value in picture_settings):
            raise BadRule(
                "a tokenizer, for texts, and settings for pictures are given; expected one or the"
                " other"
            )

    @property
    def text(self) -> str:
        """The name as text; for a callable, the place where it is defined."""
        if isinstance(self.name, str):
            return self.name
        definition = self.name if hasattr(self.name, "__qualname__") else type(self.name)
        return f"python:{definition.__module__}:{definition.__qualname__}"

    @property
    def kind(self) -> str:
        """The part of the name before the first colon."""
        return self.text.partition(":")[0]

    @property
    def location(self) -> str:
        """The part of the name after the first colon."""
        return self.text.partition(":")[2]

    @property
    def unit_length(self) -> bool:
        """Whether vectors are scaled to length 1."""
        if self.normalise is not None:
            return self.normalise
        return self.kind in ("wordllama", "sentence-transformers")

    def settings(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults, without the name."""
        values = ((field, getattr(self, field.name)) for field in fields(self)[1:])
        return {
            field.name: list(value) if isinstance(value, tuple) else value
            for field, value in values
            if value != field.default
        }

    @property
    def preprocessing_text(self) -> str:
        """The settings that change vectors, as text; "" if there are none."""
        settings = self.settings()
        return "".join(
            f" {name}={settings[name]}" for name in _IDENTITY_SETTINGS if name in settings
        )


def _check_folder(given: Any) -> str:
    path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise BadRule(f"folder is {given!r}; expected the path of a folder", setting="folder")
    return path


def _check_lengths(name: str, given: Any) -> tuple[int, ...]:
    try:
        lengths = tuple(given)
    except TypeError:
        lengths = ()
    if not lengths or any(type(length) is not int or length < 1 for length in lengths):
        raise BadRule(
            f"{name} is {given!r}; expected a list of lengths, such as [28, 28]", setting=name
        )
    return lengths
