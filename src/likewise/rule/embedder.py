"""An embedder: what turns texts or pictures into vectors, as a rule declares it.

    "wordllama"                     averaged word vectors; its package carries the weights
    "sentence-transformers:MODEL"   a folder, or a name that its hub knows
    "onnx:PATH"                     any ONNX model; what is done before it is declared here
    "torch:module:function"         the function makes the model: a torch module, or what calls one
    "python:module:function"        the function itself embeds a batch
    a callable                      the same, as it is

A callable gets texts as a list, and arrays of one shape as one array with an axis more. It answers
with a vector for each.

`python:`, `torch:` and `sentence-transformers:` name code: loading such a model imports and runs
what the name says, and a folder of Sentence Transformers can hold Python files and pickles. Reading
a rule that names code runs nothing, and `names_code` tells. An ONNX model, a tokenizer.json and
WordLlama's own weights are data.

A model is loaded when it is first needed (embedders/), once for each declaration. Its `Mark` says
which model it is: what it is made of, and what it makes of one fixed input. So a model that was
exchanged behind the same name is noticed.

Invariant: a declaration is checked when it is made; whether the model is there, when it is loaded.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from likewise.embedders.model_mark import ModelMark
from likewise.errors import BadRule
from likewise.runtime.forking import ForkSafeLock
from likewise.tables.known_names import check_one_of, did_you_mean
from likewise.tables.printing import with_bounded_repr

if TYPE_CHECKING:
    from likewise.embedders.embedding import Embedding  # loads NumPy

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
_EVERYWHERE = ("normalise", "batch", "cache")
_CHOICES = {"pooling": ("mean", "first"), "layout": ("channels first", "channels last")}
_NAMES = (
    '"wordllama", "sentence-transformers:MODEL", "onnx:PATH", "torch:module:function",'
    ' "python:module:function" or a callable'
)
_CODE = ("sentence-transformers", "torch", "python")
_loading_lock = ForkSafeLock()  # a model is loaded once, whoever asks first


@with_bounded_repr
@dataclass(frozen=True)
class Embedder:
    """What embeds, and how.

    name        "wordllama", "sentence-transformers:MODEL", "onnx:PATH", "torch:module:function",
                "python:module:function", or a function that takes a batch
    normalise   whether vectors are scaled to length 1; if not given, those of wordllama and
                sentence-transformers are
    batch       how many items the model gets at once
    cache       how many vectors are kept, by a digest of what they were made of; 0 keeps none
    shape       of an array that the model takes: needed for a check vector where the model cannot
                say it itself, which a ledger insists on
    size        [height, width] that pictures are brought to
    scale, mean, std    a picture's values times scale, minus mean, over std (by channel)
    layout      "channels first" or "channels last"
    tokenizer   the path of a tokenizer.json: the ONNX model takes texts
    pooling     "mean" over the words of a text, or the "first"; none for one vector as it comes
    output      the name of the ONNX model's output, if not the first
    folder      where files of pictures are: a picture may be given by its path in it, and a file
                elsewhere is never opened; without a folder, none is
    limit_bytes     of a file of a picture, at most
    limit_pixels    of a picture that is decoded, at most, and of several at once

    >>> Embedder("onnx:encoder.onnx", size=(224, 224), scale=1 / 255).kind
    'onnx'
    >>> Embedder("word2vec")
    Traceback (most recent call last):
        ...
    likewise.errors.BadRule: embed is 'word2vec'; expected "wordllama", \
"sentence-transformers:MODEL", "onnx:PATH", "torch:module:function", "python:module:function" or \
a callable
    """

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
            raise BadRule(f"embed is {self.name!r}; expected {_NAMES}", setting="embed")
        kind, _, rest = self.text.partition(":")
        whole = self.text == kind if kind == "wordllama" else rest != ""
        if kind not in _SETTINGS or not whole:
            raise BadRule(f"embed is {self.name!r}; expected {_NAMES}", setting="embed")
        if kind in ("torch", "python") and rest.count(":") != 1 and not callable(self.name):
            raise BadRule(
                f"embed is {self.name!r}; expected {kind}:module:function", setting="embed"
            )
        for field in fields(self)[1:]:
            allowed = (*_EVERYWHERE, *_SETTINGS[kind])
            given = getattr(self, field.name)
            if hasattr(given, "tolist"):  # NumPy's, which compares one by one
                object.__setattr__(self, field.name, given := given.tolist())
            if given != field.default and field.name not in allowed:
                raise BadRule(
                    f"{field.name} is given, which says nothing for {self.text!r}; expected"
                    f" {', '.join(allowed)}"
                )
        self._check_settings()
        self._check_preprocessing()

    def _check_settings(self) -> None:
        for name in ("batch", "cache", "limit_bytes", "limit_pixels"):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int) or given < (name != "cache"):
                raise BadRule(f"{name} is {given!r}; expected a whole number", setting=name)
        if self.folder is not None:
            object.__setattr__(self, "folder", _folder(self.folder))
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
        put = object.__setattr__
        for name in ("shape", "size"):
            if getattr(self, name) is not None:
                put(self, name, _lengths(name, getattr(self, name)))
        if self.size is not None and len(self.size) != 2:
            raise BadRule(f"size is {self.size!r}; expected [height, width]", setting="size")
        if self.scale is not None:
            put(self, "scale", _number("scale", self.scale))
        for name in ("mean", "std"):
            given = getattr(self, name)
            if isinstance(given, Sequence) and not isinstance(given, str):
                put(self, name, tuple(_number(name, one) for one in given))
            elif given is not None:
                put(self, name, _number(name, given))
        spread = (self.std,) if isinstance(self.std, float) else self.std or ()
        if 0 in spread:
            raise BadRule(f"std is {self.std!r}; expected numbers other than 0", setting="std")
        pictures = [getattr(self, name) for name in (*_PREPARING, "folder")]
        if self.tokenizer is not None and any(one is not None for one in pictures):
            raise BadRule(
                "a tokenizer is given, for texts, and how pictures are prepared, or where they are;"
                " not both"
            )

    @property
    def text(self) -> str:
        """The name as text; a callable's is where it is defined."""
        if isinstance(self.name, str):
            return self.name
        named = self.name if hasattr(self.name, "__qualname__") else type(self.name)
        return f"python:{named.__module__}:{named.__qualname__}"

    @property
    def kind(self) -> str:
        """What stands before the first colon."""
        return self.text.partition(":")[0]

    @property
    def location(self) -> str:
        """What stands behind it."""
        return self.text.partition(":")[2]

    @property
    def names_code(self) -> bool:
        """Whether loading the model runs code that is found by its name.

        A callable is code too, but the caller's own: no file can hold one.
        """
        return isinstance(self.name, str) and self.kind in _CODE

    @property
    def input_kind(self) -> str:
        """texts, pictures, or anything: what a function takes, it alone knows."""
        if self.kind == "onnx":
            return "pictures" if self.tokenizer is None else "texts"
        return "texts" if self.kind in ("wordllama", "sentence-transformers") else "anything"

    @property
    def unit_length(self) -> bool:
        """Whether vectors are scaled to length 1."""
        if self.normalise is not None:
            return self.normalise
        return self.kind in ("wordllama", "sentence-transformers")

    @property
    def embedding(self) -> "Embedding":
        """The model, loaded when first asked for."""
        found: Embedding | None = self.__dict__.get("_loaded")
        if found is None:
            from likewise.embedders.loading import load  # when a model is asked for

            with _loading_lock.lock:
                found = self.__dict__.get("_loaded") or load(self)
                object.__setattr__(self, "_loaded", found)
        return found

    def __call__(self, items: Sequence[Any]) -> Any:
        """The vectors of items, one row each; what was embedded before is not embedded again.

        A model that embeds its inputs with the embedder of its rule has that done once for both.
        """
        return self.embedding.embed_many(items)

    @property
    def is_loaded(self) -> bool:
        return "_loaded" in self.__dict__

    @property
    def mark(self) -> ModelMark:
        """Which model it is: as a ledger has it, else as it is found, loaded for that."""
        recorded: ModelMark | None = self.__dict__.get("_recorded")
        return self.embedding.mark if recorded is None else recorded

    def record(self, mark: ModelMark) -> None:
        """This was written under that mark."""
        object.__setattr__(self, "_recorded", mark)

    def __getstate__(self) -> dict[str, Any]:
        """Without the model, which whoever gets it loads again."""
        return {name: value for name, value in self.__dict__.items() if name != "_loaded"}

    def __hash__(self) -> int:
        return hash(self.text)

    def settings(self) -> dict[str, Any]:
        """What is not as it is by default, but for the name."""
        given = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        default = {field.name: field.default for field in fields(self)[1:]}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
            if value != default[name]
        }

    @property
    def preprocessing_text(self) -> str:
        """How inputs and answers are prepared, as text; nothing if they are not."""
        settings = self.settings()
        return "".join(
            f" {name}={settings[name]}" for name in _IDENTITY_SETTINGS if name in settings
        )

    def to_plain(self) -> str | dict[str, Any]:
        """For TOML: the name alone, or with settings; `Embedder.of` gives it back."""
        settings = self.settings()
        return {"name": self.text, **settings} if settings else self.text

    @classmethod
    def of(cls, given: Any) -> "Embedder":
        """From whatever a rule may say."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            return cls(given)
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise BadRule(
                    f"embed has an unknown key {name!r}; expected {', '.join(known)}"
                    + did_you_mean(name, known)
                )
        if "name" not in given:
            raise BadRule(f"embed has no name; expected {_NAMES}")
        return cls(**given)


def _folder(given: Any) -> str:
    path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise BadRule(f"folder is {given!r}; expected the path of a folder", setting="folder")
    return path


def _lengths(name: str, given: Any) -> tuple[int, ...]:
    try:
        lengths = tuple(given)
    except TypeError:
        lengths = ()
    if not lengths or any(type(one) is not int or one < 1 for one in lengths):
        raise BadRule(
            f"{name} is {given!r}; expected a list of lengths, such as [28, 28]", setting=name
        )
    return lengths


def _number(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise BadRule(f"{name} is {given!r}; expected a number", setting=name)
    return float(given)
