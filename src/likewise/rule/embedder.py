"""The embedder of a rule: a declaration (embedders/declaration.py) that loads its model.

A model is loaded when it is first needed, once for each declaration. Its `ModelMark` says what it
is made of and which vector it makes of a fixed input, so that another model behind the same name is
noticed. Invariant: reading a rule that names code runs nothing; `names_code` says if it does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from likewise.embedders.declaration import EXPECTED_NAMES, DeclaredEmbedder
from likewise.embedders.model_mark import ModelMark
from likewise.errors import BadRule
from likewise.runtime.forking import ForkSafeLock
from likewise.tables.known_names import check_known
from likewise.tables.printing import with_bounded_repr

if TYPE_CHECKING:
    from likewise.embedders.embedding import Embedding  # loads NumPy

_CODE = ("sentence-transformers", "torch", "python")
_loading_lock = ForkSafeLock()  # so that two threads do not load a model twice


@with_bounded_repr
@dataclass(frozen=True)
class Embedder(DeclaredEmbedder):
    """Turns texts or pictures into vectors, with a model that it names.

    name        the model: "wordllama", "sentence-transformers:MODEL", "onnx:PATH",
                "torch:module:function", "python:module:function", or a callable
    normalise   whether vectors are scaled to length 1; if not given, those of wordllama and
                sentence-transformers are
    batch       how many items the model gets at once
    cache       how many vectors are cached, by a digest of their items; 0 for none
    shape       the shape of an array that the model takes: a ledger needs it for a check vector if
                the model cannot say it itself
    size        the [height, width] that pictures are resized to
    scale, mean, std    a picture's values times scale, minus mean, over std (by channel)
    layout      "channels first" or "channels last"
    tokenizer   the path of a tokenizer.json, for an ONNX model that takes texts
    pooling     "mean" over the words of a text, or the "first"; none if the model answers with one
                vector for each text
    output      the name of the ONNX model's output, if not the first
    folder      the folder of picture files: a picture may be given by its path in it, and a file
                elsewhere is never opened; without a folder, none is
    limit_bytes     the most bytes of a picture file
    limit_pixels    the most pixels of a decoded picture, and of several at once

    "wordllama" averages word vectors, and its package has the weights. MODEL is a folder, or a name
    that the hub of Sentence Transformers knows; PATH is that of any ONNX model. "torch:" names a
    function that returns a torch module or a callable, "python:" one that embeds a batch. A
    callable is such a function itself: it gets texts as a list, and arrays of one shape as one
    array with another axis, and returns a vector for each.

    "python:", "torch:" and "sentence-transformers:" name code: loading such a model imports and
    runs it, and a folder of Sentence Transformers can hold Python files and pickles. An ONNX model,
    a tokenizer.json and WordLlama's own weights are data.

    >>> Embedder("onnx:encoder.onnx", size=(224, 224), scale=1 / 255).kind
    'onnx'
    >>> Embedder("word2vec")
    Traceback (most recent call last):
        ...
    likewise.errors.BadRule: embed is 'word2vec'; expected "wordllama", \
"sentence-transformers:MODEL", "onnx:PATH", "torch:module:function", "python:module:function" or \
a callable
    """

    @property
    def names_code(self) -> bool:
        """Whether loading the model runs code that is found by its name.

        A callable is the caller's own code, and no file can hold one.
        """
        return isinstance(self.name, str) and self.kind in _CODE

    @property
    def input_kind(self) -> str:
        """What the model takes: "texts", "pictures", or "anything" for a function."""
        if self.kind == "onnx":
            return "pictures" if self.tokenizer is None else "texts"
        return "texts" if self.kind in ("wordllama", "sentence-transformers") else "anything"

    @property
    def embedding(self) -> "Embedding":
        """The loaded model; it is loaded at the first use."""
        loaded: Embedding | None = self.__dict__.get("_loaded")
        if loaded is None:
            from likewise.embedders.embedding import load  # only now: it loads NumPy

            with _loading_lock.lock:
                loaded = self.__dict__.get("_loaded") or load(self)
                self._set("_loaded", loaded)
        return loaded

    def __call__(self, items: Sequence[Any]) -> Any:
        """Return the vectors of items, one row each, from the cache if they were embedded before.

        A model that embeds its inputs with the embedder of its rule shares this work with it.
        """
        return self.embedding.embed_many(items)

    @property
    def is_loaded(self) -> bool:
        return "_loaded" in self.__dict__

    @property
    def mark(self) -> ModelMark:
        """The mark of the model: the one recorded in a ledger, else that of the loaded model."""
        recorded: ModelMark | None = self.__dict__.get("_recorded")
        return self.embedding.mark if recorded is None else recorded

    def record(self, mark: ModelMark) -> None:
        """Use the mark that a ledger recorded for this embedder."""
        self._set("_recorded", mark)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle all but the model, which is loaded again."""
        return {name: value for name, value in self.__dict__.items() if name != "_loaded"}

    def __hash__(self) -> int:
        return hash(self.text)

    def to_plain(self) -> str | dict[str, Any]:
        """Return the name, or the name and settings, for TOML; `Embedder.of` reads them back."""
        settings = self.settings()
        return {"name": self.text, **settings} if settings else self.text

    @classmethod
    def of(cls, given: Any) -> "Embedder":
        """Make an embedder from any form that a rule may have."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            return cls(given)
        settings = [field.name for field in fields(cls)]
        check_known("embed has an unknown key", given, settings)
        if "name" not in given:
            raise BadRule(f"embed has no name; expected {EXPECTED_NAMES}")
        return cls(**given)
