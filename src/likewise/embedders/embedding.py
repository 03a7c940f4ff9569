"""A loaded model with its cache: a batch of items becomes a matrix of checked vectors.

Items are looked up by a digest of their content; new ones go to the model in batches, each once.
The model must answer with finite vectors, all of one length and type; errors name the item.
Invariant: an item in the cache gets the vector that it got before, to the last bit.
Cost: hashing the content; the cache holds as many vectors as were declared.
"""

import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib import import_module
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from likewise.embedders.declaration import DeclaredEmbedder, embed_error
from likewise.embedders.embedding_model import FIXED_SENTENCE, EmbeddingModel
from likewise.embedders.model_mark import ModelMark
from likewise.embedders.pictures import PictureReader
from likewise.errors import BadDecision, BadRule, UnexpectedValue
from likewise.runtime.forking import register_after_fork
from likewise.tables.normalize import array_of, to_number_array, type_name
from likewise.tables.printing import shorten

Vectors = npt.NDArray[Any]


class ErrorSubject(NamedTuple):
    """The item that an error is about: a name for people, and its place."""

    text: str
    place: int | None = None
    column: str | None = None


ItemNamer = Callable[[int], ErrorSubject]
"""Names an item in an error, by its place in the batch."""

DECLARE_INPUT_ADVICE = (
    "Declare the shape of a picture, Embedder(…, shape=[28, 28]), or let the model take the text"
    f" {FIXED_SENTENCE!r}"
)
_MODEL_CLASSES = {
    "wordllama": "wordllama.WordLlama",
    "sentence-transformers": "sentence_transformers.SentenceTransformers",
    "onnx": "onnx.Onnx",
    "torch": "torch.Torch",
    "python": "function.Function",
}
_SHOWN = 60  # characters of a text in an error
_DIGITS = 9  # of each number of a check vector


def load(declared: DeclaredEmbedder) -> "Embedding":
    """Load a model; raise BadRule if it, or a package that it needs, is missing."""
    module, name = _MODEL_CLASSES[declared.kind].split(".")
    model_class: Any = getattr(import_module(f"likewise.embedders.{module}"), name)
    return Embedding(declared, model_class(declared))


def item_name(i: int) -> ErrorSubject:
    return ErrorSubject("the item", i)


class Embedding:
    """A loaded model, with its cache."""

    def __init__(self, declared: DeclaredEmbedder, model: EmbeddingModel) -> None:
        self._declared = declared
        self._model = model
        self.pictures = PictureReader(declared)
        self._cache: dict[bytes, Vectors] = {}
        self._lock = Lock()
        self._vector_type: np.dtype[Any] | None = None  # of all vectors, with their length
        self._mark: ModelMark | None = None
        register_after_fork(self)

    def _after_fork(self) -> None:
        self._lock = Lock()

    def require_model(self, name: ItemNamer) -> None:
        """Raise BadDecision about the first item if there is no model (rule/without_models.py)."""

    def embed_one(self, item: Any) -> Vectors:
        """Return the vector of a single item."""
        vector: Vectors = self.embed_many([item], lambda _: ErrorSubject("the input"))[0]
        return vector

    def embed_many(self, items: Sequence[Any], name: ItemNamer = item_name) -> Vectors:
        """Return the vectors of items, one row each; raise BadDecision about the first bad item."""
        with self._lock:
            vectors: list[Vectors | None] = [None] * len(items)
            new_places: dict[bytes | int, list[int]] = {}
            for i, item in enumerate(items):
                key = self._key(item, i, name)
                vectors[i] = self._find_cached(key)
                if vectors[i] is None:
                    new_places.setdefault(key, []).append(i)
            vector_type = self._vector_type
            new_items = (
                (at[0], self._read(items[at[0]], at[0], name)) for at in new_places.values()
            )
            for places, batch in self.pictures.batches(new_items, self._declared.batch):
                answer = self._embed_batch(batch, places, name)
                vector_type = self._check_vector_type(vector_type, answer, places[0], name)
                for i, vector in zip(places, answer, strict=True):
                    vectors[i] = vector
            self._vector_type = vector_type  # only now, so that an error changes nothing
            for key, at in new_places.items():
                for i in at[1:]:
                    vectors[i] = vectors[at[0]]
                self._cache_vector(key, vectors[at[0]])
        if not vectors:
            return np.empty(0, self._vector_type or np.dtype((np.float64, (0,))))
        return np.stack(vectors)  # type: ignore[arg-type]

    # The cache

    def _key(self, item: Any, i: int, name: ItemNamer) -> bytes | int:
        """Return a digest of an item's content, or its place if the content cannot be read.

        Raises BadDecision if the model does not take such an item.
        """
        digest = blake2b(digest_size=16)
        if isinstance(item, str) and self._model.input_kind != "pictures":
            digest.update(b"text ")
            digest.update(item.encode("utf-8", "surrogatepass"))
        elif self._model.input_kind == "texts":
            raise self._make_refusal(name(i), f"is {_describe_item(item)}; expected a text")
        else:
            pictures, by_path = self._model.input_kind == "pictures", isinstance(item, os.PathLike)
            try:
                content, prefix = self.pictures.file_bytes(item), "file "
                if content is None:
                    read = self.pictures.array_of if pictures else self.pictures.raw_array
                    array = read(item)
                    prefix = f"array {array.dtype.str} {array.shape} "
                    content = np.ascontiguousarray(array).tobytes()
            except (OSError, ValueError, TypeError) as error:
                if pictures or (by_path and self._declared.folder is not None):
                    raise self._make_refusal(name(i), f"is no picture: {error}") from None
                return i  # the function may take it all the same
            digest.update(prefix.encode())
            digest.update(content)
        return digest.digest()

    def _find_cached(self, key: bytes | int) -> Vectors | None:
        vector = self._cache.pop(key, None) if isinstance(key, bytes) else None
        if vector is not None and isinstance(key, bytes):
            self._cache[key] = vector  # at the end: the first in the cache is dropped first
        return vector

    def _cache_vector(self, key: bytes | int, vector: Any) -> None:
        if isinstance(key, int) or not self._declared.cache:
            return
        while len(self._cache) >= self._declared.cache:
            del self._cache[next(iter(self._cache))]
        self._cache[key] = vector.copy()  # a view would keep its whole batch in memory

    # The model

    def _read(self, item: Any, i: int, name: ItemNamer) -> Any:
        """Return a picture as an array; anything else as it is."""
        if self._model.input_kind != "pictures":
            return item
        try:
            return self.pictures.array_of(item)
        except (OSError, ValueError) as error:
            raise self._make_refusal(name(i), f"is no picture: {error}") from None

    def _embed_batch(self, batch: list[Any], places: list[int], name: ItemNamer) -> Vectors:
        try:
            answer = self._model.embed(batch)
        except Exception as error:
            raise self._find_failing_item(batch, places, name, error) from error
        return self._check_vectors(answer, batch, places, name)

    def _find_failing_item(
        self, batch: list[Any], places: list[int], name: ItemNamer, error: Exception
    ) -> BadDecision:
        """Return an error about the item that a model failed on."""
        for item, i in zip(batch, places, strict=True):
            try:
                if len(batch) > 1:
                    self._model.embed([item])
                    continue
            except Exception as own:
                error = own
            return self._make_refusal(
                name(i), f"is {_describe_item(item)}, and the model failed: {error!r}"
            )
        first, last = name(places[0]), name(places[-1])
        until = last.text if last.place is None else f"that of row {last.place}"
        subject = first._replace(text=f"{first.text} to {until}")
        return self._make_refusal(
            subject, f"make the model fail, though each alone does not: {error!r}"
        )

    def _check_vectors(
        self, answer: Any, batch: list[Any], places: list[int], name: ItemNamer
    ) -> Vectors:
        try:
            vectors = array_of(answer, "the answer", "vectors")
        except BadDecision as error:
            at = _first_of_another_length(answer) if len(batch) > 1 else 0
            why = f"became something that is no vector like others: {error.problem}"
            raise self._make_refusal(name(places[at]), why) from None
        if vectors.dtype.kind not in "biuf" or vectors.ndim < 2 or len(vectors) != len(batch):
            raise self._make_refusal(
                name(places[0]),
                f"and {len(batch) - 1} more were embedded as a {type(answer).__name__} of type"
                f" {type_name(vectors.dtype)} and shape {vectors.shape}; expected {len(batch)}"
                " vectors",
            )
        vectors = vectors.reshape(len(vectors), -1)
        for vector, i in zip(vectors, places, strict=True) if vectors.dtype.kind in "iu" else ():
            try:
                to_number_array(vector, "its vector")
            except BadDecision as error:
                raise self._make_refusal(name(i), f"cannot be compared: {error.problem}") from None
        if vectors.dtype in (np.float16, np.bool_):
            vectors = vectors.astype(np.float32)
        if vectors.dtype == np.int64 and not isinstance(answer, np.ndarray):
            vectors = vectors.astype(np.float64)  # [1, 2] is of the type of [1.5, 2]
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            self._refuse_first(finite, batch, places, name, "NaN or infinity: it is broken")
        if self._declared.unit_length:
            with np.errstate(over="ignore"):
                lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
            good = (lengths[:, 0] > 0) & np.isfinite(lengths[:, 0])
            if not good.all():
                why = "a vector without direction: it contains nothing that the model knows"
                self._refuse_first(good, batch, places, name, why)
            dtype = vectors.dtype if vectors.dtype.kind == "f" else np.float64
            vectors = (vectors / lengths).astype(dtype)
        return vectors

    def _refuse_first(
        self, good: Any, batch: list[Any], places: list[int], name: ItemNamer, why: str
    ) -> None:
        """Raise UnexpectedValue about the first item that is not good."""
        i = int(np.flatnonzero(~good)[0])
        what = f"is {_describe_item(batch[i])}, of which the model makes {why}"
        raise self._make_refusal(name(places[i]), what)

    def _check_vector_type(
        self, expected: np.dtype[Any] | None, vectors: Vectors, i: int, name: ItemNamer
    ) -> np.dtype[Any]:
        """Return the type and length of vectors; raise UnexpectedValue unless it is as expected."""
        own = np.dtype((vectors.dtype, vectors.shape[1:]))
        if expected is not None and own != expected:
            raise self._make_refusal(
                name(i),
                f"became {vectors.shape[1]} numbers of {vectors.dtype}, and others before it"
                f" {expected.shape[0]} of {expected.base}; expected vectors of one length and type",
            )
        return own

    def _make_refusal(self, subject: ErrorSubject, what: str) -> BadDecision:
        problem = f"{subject.text} {what} (embedder {self._declared.text!r})."
        return UnexpectedValue(problem, place=subject.place, column=subject.column)

    # Which model it is

    @property
    def mark(self) -> ModelMark:
        """The model's identity, and its vector of a fixed input."""
        if self._mark is None:
            vector = self._embed_probe()
            numbers = [] if vector is None else vector.astype(np.float64).tolist()
            check = tuple(float(f"{number:.{_DIGITS}g}") for number in numbers)
            unit = " normalised" if self._declared.unit_length else ""
            self._mark = ModelMark(self._model.identity + unit, check)
        return self._mark

    def _embed_probe(self) -> Vectors | None:
        """Return the vector of a fixed input; None if no input is known that the model takes."""
        probe = self._model.make_probe()
        if probe is None:
            return None
        try:
            with self._lock:
                item = self._read(probe, 0, _name_probe)
                vector: Vectors = self._embed_batch([item], [0], _name_probe)[0]
                return vector
        except BadDecision as error:
            if self._model.input_kind == "anything" and self._declared.shape is None:
                return None
            raise BadRule(
                f"a check vector cannot be made: {error.reason}", setting="embed"
            ) from None

    def find_vector_type(self) -> np.dtype[Any]:
        """Find the type and length of vectors before there is an input.

        Raises BadRule if no input is known to try the model with.
        """
        vector = self._embed_probe()
        if vector is None:
            what = f", and no input is known to try it with. {DECLARE_INPUT_ADVICE}"
            raise embed_error(self._declared.text, what)
        with self._lock:
            self._vector_type = self._check_vector_type(
                self._vector_type, vector[None], 0, _name_probe
            )
            return self._vector_type


def _name_probe(_: int) -> ErrorSubject:
    return ErrorSubject("the fixed input")


def _first_of_another_length(answer: Any) -> int:
    lengths = list(map(np.size, answer)) if isinstance(answer, list | tuple) else []
    return next((i for i, length in enumerate(lengths) if length != lengths[0]), 0)


def _describe_item(item: Any) -> str:
    if isinstance(item, str):
        return repr(shorten(item, _SHOWN))
    if isinstance(item, np.ndarray):
        return f"an array of shape {item.shape}"
    return f"a {type(item).__name__}"
