"""An embedder at work: a batch of items becomes a matrix of vectors, each checked.

Items are read (a text must be one; a picture becomes an array), looked up by a digest of their
content, and what is new goes to the model, each item once, in batches. What the model answers must
be a finite vector for each, all of one length and type. An error names the item that it is about.

Invariant: an item that is in the cache gets the vector that it got before, to the last bit.
Cost: hashing the content; the cache holds as many vectors as were declared.
"""

import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from likewise.embedders.declaration import DeclaredEmbedder
from likewise.embedders.embedding_model import FIXED_SENTENCE, EmbeddingModel
from likewise.embedders.model_mark import ModelMark
from likewise.embedders.pictures import PictureReader
from likewise.errors import BadDecision, BadRule, UnexpectedValue
from likewise.runtime.forking import register_after_fork
from likewise.tables.normalize import array_of, to_number_array, type_name

Vectors = npt.NDArray[Any]


class ErrorSubject(NamedTuple):
    """What an error is about: a name for people, and where it stands."""

    text: str
    place: int | None = None
    column: str | None = None


ItemNamer = Callable[[int], ErrorSubject]
"""What an item is called in an error, by its place in the batch."""

DECLARE_INPUT_ADVICE = (
    "Say what a picture looks like, Embedder(…, shape=[28, 28]), or have it take the text"
    f" {FIXED_SENTENCE!r}"
)
_SHOWN = 60  # characters of a text in an error
_DIGITS = 9  # of a check vector


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
        self._settled: np.dtype[Any] | None = None  # of a vector, with its length
        self._mark: ModelMark | None = None
        register_after_fork(self)

    def _after_fork(self) -> None:
        self._lock = Lock()

    def require_model(self, name: ItemNamer) -> None:
        """Raise BadDecision, about the first item, where there is no model (standing_in.py)."""

    def embed_one(self, item: Any) -> Vectors:
        """The vector of a single item."""
        vector: Vectors = self.embed_many([item], lambda _: ErrorSubject("the input"))[0]
        return vector

    def embed_many(self, items: Sequence[Any], name: ItemNamer = item_name) -> Vectors:
        """The vectors of items, one row each; raise BadDecision, naming the first it is about."""
        with self._lock:
            found: list[Vectors | None] = [None] * len(items)
            wanted: dict[bytes | int, list[int]] = {}
            for i, item in enumerate(items):
                key = self._key(item, i, name)
                known = self._find_cached(key)
                if known is None:
                    wanted.setdefault(key, []).append(i)
                else:
                    found[i] = known
            places = list(wanted.values())
            settled = self._settled
            new = ((at[0], self._read(items[at[0]], at[0], name)) for at in places)
            for firsts, batch in self.pictures.batches(new, self._declared.batch):
                made = self._embed_batch(batch, firsts, name)
                settled = self._check_vector_type(settled, made, firsts[0], name)
                for i, vector in zip(firsts, made, strict=True):
                    found[i] = vector
            for at in places:
                for i in at[1:]:
                    found[i] = found[at[0]]
            self._settled = settled  # only now: an error before it has changed nothing
            for key, at in wanted.items():
                self._cache_vector(key, found[at[0]])
        if not found:
            return np.empty(0, self._settled or np.dtype((np.float64, (0,))))
        return np.stack(found)  # type: ignore[arg-type]

    # The cache

    def _key(self, item: Any, i: int, name: ItemNamer) -> bytes | int:
        """A digest of an item's content, or its place if that is not known.

        Raises BadDecision if it is not what the model takes.
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
                content, about = self.pictures.file_bytes(item), "file "
                if content is None:
                    read = self.pictures.array_of if pictures else self.pictures.raw_array
                    array = read(item)
                    about = f"array {array.dtype.str} {array.shape} "
                    content = np.ascontiguousarray(array).tobytes()
            except (OSError, ValueError, TypeError) as error:
                if pictures or (by_path and self._declared.folder is not None):
                    raise self._make_refusal(name(i), f"is no picture: {error}") from None
                return i  # whatever it is, the function may know
            digest.update(about.encode())
            digest.update(content)
        return digest.digest()

    def _find_cached(self, key: bytes | int) -> Vectors | None:
        vector = self._cache.pop(key, None) if isinstance(key, bytes) else None
        if vector is not None and isinstance(key, bytes):
            self._cache[key] = vector  # the latest used is the last to go
        return vector

    def _cache_vector(self, key: bytes | int, vector: Any) -> None:
        if isinstance(key, int) or not self._declared.cache:
            return
        while len(self._cache) >= self._declared.cache:
            del self._cache[next(iter(self._cache))]
        self._cache[key] = vector.copy()  # not a view, which would keep all of its batch

    # The model

    def _read(self, item: Any, i: int, name: ItemNamer) -> Any:
        """A picture as an array; anything else as it is."""
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
            raise self._culprit(batch, places, name, error) from error
        return self._check_vectors(answer, batch, places, name)

    def _culprit(
        self, batch: list[Any], places: list[int], name: ItemNamer, error: Exception
    ) -> BadDecision:
        """Which item a model failed on."""
        for item, i in zip(batch, places, strict=True) if len(batch) > 1 else ():
            try:
                self._model.embed([item])
            except Exception as own:
                return self._make_refusal(
                    name(i), f"is {_describe_item(item)}, and the model failed: {own!r}"
                )
        if len(batch) == 1:
            return self._make_refusal(
                name(places[0]), f"is {_describe_item(batch[0])}, and the model failed: {error!r}"
            )
        first, last = name(places[0]), name(places[-1])
        until = last.text if last.place is None else f"that of row {last.place}"
        about = first._replace(text=f"{first.text} to {until}")
        return self._make_refusal(
            about, f"make the model fail, though each alone does not: {error!r}"
        )

    def _check_vectors(
        self, answer: Any, batch: list[Any], places: list[int], name: ItemNamer
    ) -> Vectors:
        try:
            vectors = array_of(answer, "the answer", "vectors")
        except BadDecision as error:
            at = _first_of_another_length(answer) if len(batch) > 1 else 0
            why = f"became something that is no vector as others are: {error.problem}"
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
            self._refuse_one(finite, batch, places, name, "NaN or infinity: it is broken")
        if self._declared.unit_length:
            with np.errstate(over="ignore"):
                lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
            good = (lengths[:, 0] > 0) & np.isfinite(lengths[:, 0])
            if not good.all():
                why = "a vector without direction: nothing that it knows is in it"
                self._refuse_one(good, batch, places, name, why)
            kept = vectors.dtype if vectors.dtype.kind == "f" else np.float64
            vectors = (vectors / lengths).astype(kept)
        return vectors

    def _refuse_one(
        self, good: Any, batch: list[Any], places: list[int], name: ItemNamer, why: str
    ) -> None:
        i = int(np.flatnonzero(~good)[0])
        what = f"is {_describe_item(batch[i])}, of which the model makes {why}"
        raise self._make_refusal(name(places[i]), what)

    def _check_vector_type(
        self, settled: np.dtype[Any] | None, vectors: Vectors, i: int, name: ItemNamer
    ) -> np.dtype[Any]:
        """The length and type of vectors, which the first settle for all."""
        own = np.dtype((vectors.dtype, vectors.shape[1:]))
        if settled is not None and own != settled:
            raise self._make_refusal(
                name(i),
                f"became {vectors.shape[1]} numbers of {vectors.dtype}, and others before it"
                f" {settled.shape[0]} of {settled.base}; expected vectors of one length and type",
            )
        return own

    def _make_refusal(self, which: ErrorSubject, what: str) -> BadDecision:
        problem = f"{which.text} {what} (embedder {self._declared.text!r})."
        return UnexpectedValue(problem, place=which.place, column=which.column)

    # Which model it is

    @property
    def mark(self) -> ModelMark:
        """Its identity, and its vector of a fixed input."""
        if self._mark is None:
            vector = self._embed_probe()
            check = () if vector is None else vector.astype(np.float64).tolist()
            unit = " normalised" if self._declared.unit_length else ""
            self._mark = ModelMark(
                self._model.identity + unit, tuple(float(f"{one:.{_DIGITS}g}") for one in check)
            )
        return self._mark

    def _embed_probe(self) -> Vectors | None:
        """The vector of a fixed input; None where none is known that the model takes."""
        probe = self._model.make_probe()
        if probe is None:
            return None
        try:
            with self._lock:
                item = self._read(probe, 0, _fixed_input)
                vector: Vectors = self._embed_batch([item], [0], _fixed_input)[0]
                return vector
        except BadDecision as error:
            if self._model.input_kind == "anything" and self._declared.shape is None:
                return None
            raise BadRule(
                f"a check vector cannot be made: {error.reason}", setting="embed"
            ) from None

    def find_vector_type(self) -> np.dtype[Any]:
        """The type of a vector, with its length, found out before an input comes.

        Raises BadRule where that cannot be.
        """
        vector = self._embed_probe()
        if vector is None:
            raise BadRule(
                f"embed is {self._declared.text!r}, and no input is known to try it with."
                f" {DECLARE_INPUT_ADVICE}",
                setting="embed",
            )
        with self._lock:
            self._settled = self._check_vector_type(self._settled, vector[None], 0, _fixed_input)
            return self._settled


def _fixed_input(_: int) -> ErrorSubject:
    return ErrorSubject("the fixed input")


def _first_of_another_length(answer: Any) -> int:
    lengths = [np.size(one) for one in answer] if isinstance(answer, list | tuple) else []
    return next((i for i, length in enumerate(lengths) if length != lengths[0]), 0)


def _describe_item(item: Any) -> str:
    if isinstance(item, str):
        return repr(item if len(item) <= _SHOWN else f"{item[: _SHOWN - 1]}…")
    if isinstance(item, np.ndarray):
        return f"an array of shape {item.shape}"
    return f"a {type(item).__name__}"
