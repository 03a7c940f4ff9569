"""An embedder at work: how often the model is asked, what is kept, and what an error leaves."""

import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from likewise import Embedder
from likewise.embedders.embedding_model import FIXED_SENTENCE
from tests.support.looping import each
from tests.support.refusals import raises


class Counting:
    """Embeds texts by their letters, and remembers what it was asked."""

    def __init__(self, dtype=np.float64):
        self.batches = []
        self.dtype = dtype

    def __call__(self, batch):
        self.batches.append(list(batch))
        return np.array([[len(one), *map(one.count, "abc")] for one in batch], self.dtype)

    @property
    def asked(self):
        return [one for batch in self.batches for one in batch]


def vector_of(text):
    return [len(text), *map(text.count, "abc")]


texts = st.lists(st.text("abcd", min_size=1, max_size=3), max_size=12)


@given(calls=st.lists(texts, max_size=4), batch=st.integers(1, 5))
def test_every_content_is_embedded_once_in_batches_and_in_order(calls, batch):
    model = Counting()
    embedding = Embedder(model, batch=batch).embedding
    for items in calls:
        made = embedding.embed_many(items)
        assert made.tolist() == [vector_of(one) for one in items]
    every = list(dict.fromkeys(one for items in calls for one in items))
    assert model.asked == every
    assert all(1 <= len(one) <= batch for one in model.batches)


@given(calls=st.lists(texts, max_size=5), room=st.integers(0, 4))
def test_the_cache_is_bounded_and_the_least_recently_used_goes_first(calls, room):
    """Beside an LRU written the obvious way: a list with the latest at its end."""
    model = Counting()
    embedding = Embedder(model, cache=room).embedding
    kept = []
    for items in calls:
        before = len(model.asked)
        embedding.embed_many(items)
        fresh = [one for one in dict.fromkeys(items) if one not in kept]
        assert model.asked[before:] == fresh
        for one in items:
            if one in kept:
                kept.remove(one)
                kept.append(one)
        kept = (kept + fresh)[-room:] if room else []
        assert len(embedding._cache) == len(kept) <= room


def test_the_cache_does_not_keep_batches_alive():
    wide = 100_000

    def model(batch):
        return np.ones((len(batch), wide))

    embedding = Embedder(model, cache=1).embedding
    embedding.embed_many(["first"])
    tracemalloc.start()
    embedding.embed_many([f"text {i}" for i in range(64)])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 4 * wide * 8, "one vector is kept, not the batch it came with"


def test_a_cached_vector_is_the_same_to_the_last_bit_and_cannot_be_spoilt():
    noise = np.random.default_rng(3)
    embedding = Embedder(lambda batch: noise.normal(size=(len(batch), 5))).embedding
    first = embedding.embed_many(["a", "b"])
    kept = first.copy()
    first[:] = 0
    assert embedding.embed_many(["b", "a"]).tobytes() == kept[::-1].tobytes()
    embedding.embed_one("a")[:] = 7
    assert embedding.embed_one("a").tobytes() == kept[0].tobytes()


def test_what_differs_in_kind_is_not_the_same_content():
    seen = []

    def model(batch):
        seen.extend(batch)
        return [[float(len(seen))]] * len(batch)

    embedding = Embedder(model).embedding
    items = [
        "hello",
        b"hello",
        b"text hello",
        np.frombuffer(b"hello", np.uint8),
        np.frombuffer(b"hello", np.int8),
        np.frombuffer(b"hello!", np.uint8).reshape(2, 3),
        np.frombuffer(b"hello!", np.uint8).reshape(3, 2),
    ]
    for item in items:
        embedding.embed_one(item)
    assert len(seen) == len(items)
    for item in items:
        embedding.embed_one(item)
    assert len(seen) == len(items), "and each is known again"


def test_things_that_only_the_function_knows_are_passed_on():
    asked = []

    def model(batch):
        asked.append(batch)
        return [[one["n"] * 0.5] for one in batch]

    embedding = Embedder(model).embedding
    assert embedding.embed_many([{"n": 1}, {"n": 2}]).tolist() == [[0.5], [1.0]]
    embedding.embed_many([{"n": 1}])
    assert asked == [[{"n": 1}, {"n": 2}], [{"n": 1}]], "what has no content is not cached"


def test_numbers_of_pictures_are_passed_on():
    matrix = np.arange(12.0).reshape(4, 3)
    embedding = Embedder(lambda batch: matrix[np.array(batch)]).embedding
    assert embedding.embed_many([2, 0]).tolist() == matrix[[2, 0]].tolist()


def test_arrays_of_one_shape_come_stacked_and_texts_as_a_list():
    came = []

    def model(batch):
        came.append(batch)
        return np.zeros((len(batch), 2))

    embedding = Embedder(model).embedding
    pictures = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    embedding.embed_many(list(pictures))
    assert isinstance(came[-1], np.ndarray) and came[-1].dtype == np.uint8
    assert came[-1].tolist() == pictures.tolist()
    embedding.embed_one(pictures[0] + 100)
    assert came[-1].shape == (1, 3, 4)
    embedding.embed_many([np.zeros((2, 2)), np.zeros((3, 2))])
    assert type(came[-1]) is list and [one.shape for one in came[-1]] == [(2, 2), (3, 2)]
    embedding.embed_many(["a", "b"])
    assert came[-1] == ["a", "b"] and type(came[-1]) is list


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.uint8, np.uint8),
        (np.int16, np.int16),
        (np.int64, np.int64),
        (np.bool_, np.float32),
    ],
)
def test_vectors_keep_their_type(dtype, kept):
    made = Embedder(Counting(dtype)).embedding.embed_many(["abc", "aab"])
    assert made.dtype == kept
    expected = np.array([vector_of("abc"), vector_of("aab")]).astype(dtype).astype(kept)
    assert made.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_normalised_vectors_have_length_one(dtype):
    made = Embedder(Counting(dtype), normalise=True).embedding.embed_many(["abc", "aab", "d"])
    plain = np.array([vector_of(one) for one in ("abc", "aab", "d")], float)
    exact = plain / np.sqrt((plain * plain).sum(axis=1, keepdims=True))
    kept = {np.float16: np.float32, np.int32: np.float64}.get(dtype, dtype)
    assert made.dtype == kept
    assert made.tolist() == exact.astype(kept).tolist()


def test_lists_of_whole_and_of_broken_numbers_are_of_one_type():
    """What comes as Python numbers has no type of its own to be held to."""
    embedding = Embedder(lambda batch: [[len(one) / 2, 1] for one in batch]).embedding
    assert embedding.embed_many(["ab"]).tolist() == [[1.0, 1.0]]
    whole = Embedder(lambda batch: [[len(one) // 2 if len(one) % 2 == 0 else 0.5] for one in batch])
    assert whole.embedding.embed_many(["ab"]).tolist() == [[1.0]]
    assert whole.embedding.embed_many(["a"]).tolist() == [[0.5]]


def test_no_items_are_no_vectors():
    embedding = Embedder(Counting()).embedding
    assert embedding.embed_many([]).shape[0] == 0
    embedding.embed_one("a")
    assert embedding.embed_many([]).shape == (0, 4)


# Errors


class Stubborn:
    """As a tensor with a gradient is."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array of me")


def picky(batch):
    """Fails on "bad", breaks on "nan", knows nothing of "zero", is odd on others."""
    rows = []
    for one in batch:
        if one == "bad":
            raise RuntimeError("a word too many")
        rows.append(
            {"nan": [np.nan, 1], "inf": [1, np.inf], "zero": [0, 0]}.get(one, [len(one), 1])
        )
    if "few" in batch:
        rows.pop()
    if "wide" in batch:
        rows = [[*row, 1] for row in rows]
    if "flat" in batch:
        return np.ones(len(batch))
    if "ragged" in batch:
        rows[-1] = [1]
    if "words" in batch:
        return [["a", "b"]] * len(batch)
    if "stubborn" in batch:
        return Stubborn()
    if "nothing" in batch:
        return None
    return np.array(rows, float) if "ragged" not in batch else rows


ERRORS = ["bad", "nan", "inf", "zero", "few", "flat", "ragged", "stubborn", "words", "nothing"]


@each("wrong", ERRORS)
def test_an_error_names_the_item_and_changes_nothing(wrong):
    embedding = Embedder(picky, normalise=wrong == "zero").embedding
    with raises(lw.errors.UnexpectedValue):
        embedding.embed_many(["good", "better", wrong, "best"])
    assert not embedding._cache
    assert embedding.embed_many(["good"]).shape == (1, 2)


def test_the_item_is_named_by_its_place_among_all_batches():
    embedding = Embedder(picky, batch=2).embedding
    with raises(lw.errors.UnexpectedValue, place=5):
        embedding.embed_many(["a", "b", "a", "c", "d", "bad", "bad"])
    assert not embedding._cache, "the first batches went well, and are not kept either"


def test_another_width_later_is_refused():
    embedding = Embedder(picky, batch=2).embedding
    with raises(lw.errors.UnexpectedValue, place=2):
        embedding.embed_many(["a", "b", "wide"])
    assert embedding.embed_many(["wide"]).shape == (1, 3), "a refused call has settled nothing"
    with raises(lw.errors.UnexpectedValue, place=0):
        embedding.embed_many(["a"])


def test_another_type_later_is_refused():
    model = Counting(np.float32)
    embedding = Embedder(model).embedding
    embedding.embed_one("a")
    model.dtype = np.float64
    with raises(lw.errors.UnexpectedValue):
        embedding.embed_one("b")


def test_a_batch_that_fails_only_together_says_so():
    def alone(batch):
        if len(batch) > 1:
            raise MemoryError("too many")
        return [[1.0]]

    with raises(lw.errors.UnexpectedValue, place=0):
        Embedder(alone).embedding.embed_many(["a", "b", "c"])
    assert Embedder(alone, batch=1).embedding.embed_many(["a", "b", "c"]).tolist() == [[1.0]] * 3


def test_a_single_item_is_called_the_input():
    with raises(lw.errors.UnexpectedValue):
        Embedder(picky).embedding.embed_one("bad")


def test_a_long_text_is_shown_in_short():
    with raises(lw.errors.UnexpectedValue) as error:
        Embedder(lambda batch: 1 / 0).embedding.embed_one("word " * 1000)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("item", [None, 7, b"bytes", ["a"], np.nan, np.zeros(3)], ids=repr)
def test_a_model_of_texts_takes_texts_alone(item):
    with raises(lw.errors.UnexpectedValue, place=1):
        Embedder("wordllama").embedding.embed_many(["a text", item])


def test_a_length_beyond_numbers_is_no_direction():
    """Squares of 1e200 overflow: dividing by infinity would make a vector of zeros."""
    embedding = Embedder(lambda batch: np.full((len(batch), 2), 1e200), normalise=True).embedding
    with raises(lw.errors.UnexpectedValue):
        embedding.embed_one("a")


def test_lone_surrogates_are_texts_too():
    assert Embedder(Counting()).embedding.embed_one("\ud800a").tolist() == [2, 1, 0, 0]


# Marks


def test_a_function_that_takes_no_text_has_no_check_vector_without_a_shape():
    def pictures(batch):
        return batch.reshape(len(batch), -1)[:, :2].astype(float)

    assert Embedder(pictures).mark.check == ()
    assert len(Embedder(pictures, shape=[4, 4]).mark.check) == 2
    with raises(lw.errors.BadRule, setting="embed"):
        Embedder(lambda batch: 1 / 0, shape=[4, 4]).mark  # noqa: B018


def test_a_mark_is_made_of_the_fixed_text_and_spoils_no_count():
    model = Counting()
    declared = Embedder(model)
    assert declared.mark.check == tuple(map(float, vector_of(FIXED_SENTENCE)))
    assert declared.mark.identity == "python"
    assert declared.mark is declared.mark
    assert model.asked == [FIXED_SENTENCE]
    declared.embedding.embed_many(["a"])
    assert model.asked == [FIXED_SENTENCE, "a"]


def test_normalising_is_part_of_the_mark():
    plain, unit = Embedder(Counting()), Embedder(Counting(), normalise=True)
    assert unit.mark.identity == f"{plain.mark.identity} normalised"
    assert unit.mark.describe_difference(plain.mark)


# Threads


def test_threads_share_one_model_and_one_cache():
    model = Counting()
    declared = Embedder(model, batch=3, cache=1000)
    items = [f"{'abc' * (i % 7)}{i}" for i in range(60)]
    truth = np.array([vector_of(one) for one in items], float)
    ready = threading.Barrier(8)

    def work(seed):
        order = np.random.default_rng(seed).permutation(len(items))
        ready.wait()
        made = declared.embedding.embed_many([items[i] for i in order])
        return bool((made == truth[order]).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert sorted(model.asked) == sorted(items), "each once, whoever asked first"


def test_a_model_is_loaded_once_whoever_asks_first(tmp_path, monkeypatch):
    (tmp_path / "slowly_loaded.py").write_text(
        "import time\ntime.sleep(0.2)\n"
        "def embed(batch):\n    return [[len(one)] for one in batch]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    declared = Embedder("python:slowly_loaded:embed")
    ready = threading.Barrier(6)

    def load(_):
        ready.wait()
        return declared.embedding

    with ThreadPoolExecutor(6) as pool:
        assert len({id(one) for one in pool.map(load, range(6))}) == 1
