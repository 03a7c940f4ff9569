"""ONNX models for pictures and texts, each beside a NumPy twin."""

import shutil

import numpy as np
import pytest

import likewise as lw
from likewise import Embedder
from likewise.embedders.embedding_model import FIXED_SENTENCE, fixed_picture
from tests.support.onnx_models import (
    convolution,
    convolved,
    picture_model,
    text_model,
    tokenizer,
    tokens,
)
from tests.support.refusals import raises

pytestmark = pytest.mark.long

RNG = np.random.default_rng(11)
TEXTS = ["like cases", "red", "blue blue red .", "unheard of", "cases should be treated alike."]


@pytest.fixture
def texts(tmp_path):
    """A model of texts: its declaration, and its table."""
    table = text_model(tmp_path / "t.onnx")
    tokenizer(tmp_path / "tokenizer.json")

    def declare(**settings):
        given = {"tokenizer": str(tmp_path / "tokenizer.json"), "pooling": "mean"} | settings
        return Embedder(f"onnx:{tmp_path / 't.onnx'}", **given)

    return declare, table


def close(made, expected):
    return np.allclose(made, expected, rtol=1e-5, atol=1e-5)


def test_pictures_times_a_matrix(tmp_path):
    matrix = picture_model(tmp_path / "m.onnx", (4, 3))
    pictures = RNG.integers(0, 256, (10, 4, 3), dtype=np.uint8)
    made = Embedder(f"onnx:{tmp_path / 'm.onnx'}", scale=1 / 255).embedding.embed_many(
        list(pictures)
    )
    expected = (pictures.reshape(10, -1).astype(float) / 255) @ matrix
    assert made.dtype == np.float32
    assert close(made, expected)


def test_a_convolution_over_prepared_pictures(tmp_path):
    kernel = convolution(tmp_path / "c.onnx")
    mean, std = np.array([0.4, 0.5, 0.6]), np.array([0.2, 0.25, 0.3])
    declared = Embedder(
        f"onnx:{tmp_path / 'c.onnx'}",
        size=(5, 4),
        scale=1 / 255,
        mean=mean,
        std=std,
        layout="channels first",
        normalise=True,
    )
    pictures = RNG.integers(0, 256, (7, 5, 4, 3), dtype=np.uint8)
    for picture, made in zip(pictures, declared.embedding.embed_many(list(pictures)), strict=True):
        ready = ((picture / 255 - mean) / std).transpose(2, 0, 1)
        expected = convolved(kernel, ready)
        assert close(made, expected / np.linalg.norm(expected))


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("UINT8", np.uint8),
        ("DOUBLE", np.float64),
        ("FLOAT16", np.float16),
        ("INT32", np.int32),
    ],
)
def test_a_model_gets_the_type_that_it_takes(tmp_path, kind, dtype):
    matrix = picture_model(tmp_path / "m.onnx", (4,), kind=kind)
    picture = np.array([1, 2, 3, 250], np.uint8)
    made = Embedder(f"onnx:{tmp_path / 'm.onnx'}").embedding.embed_one(picture)
    assert close(made, picture.astype(dtype).astype(float) @ matrix)


def test_the_output_may_be_named(tmp_path):
    path = tmp_path / "m.onnx"
    picture_model(path, (4,))
    first, named = Embedder(f"onnx:{path}"), Embedder(f"onnx:{path}", output="doubled")
    picture = np.array([1, 2, 3, 4], np.uint8)
    assert (named.embedding.embed_one(picture) == 2 * first.embedding.embed_one(picture)).all()
    with raises(lw.errors.BadRule):
        Embedder(f"onnx:{path}", output="z").embedding  # noqa: B018


def test_texts_are_the_mean_of_their_words(texts):
    declare, table = texts
    made = declare().embedding.embed_many(TEXTS)
    assert made.dtype == np.float32
    for text, vector in zip(TEXTS, made, strict=True):
        assert close(vector, table[tokens(text)].astype(float).mean(axis=0)), text


def test_texts_are_their_first_word(texts):
    declare, table = texts
    made = declare(pooling="first").embedding.embed_many(TEXTS)
    assert made.tolist() == [table[tokens(text)[0]].tolist() for text in TEXTS]


@pytest.mark.parametrize("inputs", [("input_ids",), ("token_type_ids", "input_ids")])
def test_a_model_may_want_less_or_more(tmp_path, inputs):
    table = text_model(tmp_path / "t.onnx", inputs=inputs)
    made = tokenizer(tmp_path / "k.json")
    declared = Embedder(f"onnx:{tmp_path / 't.onnx'}", tokenizer=str(made), pooling="mean")
    for text, vector in zip(TEXTS, declared.embedding.embed_many(TEXTS), strict=True):
        assert close(vector, table[tokens(text)].astype(float).mean(axis=0))


def test_a_model_that_pools_itself_is_taken_as_it_comes(tmp_path):
    table = text_model(tmp_path / "t.onnx", pooled=True, inputs=("input_ids",))
    made = Embedder(
        f"onnx:{tmp_path / 't.onnx'}", tokenizer=str(tokenizer(tmp_path / "k.json"))
    ).embedding.embed_one("red blue")
    assert made.tolist() == table[tokens("red blue")].max(axis=0).tolist()


def test_a_vector_for_each_word_wants_pooling(texts):
    declare, _ = texts
    with raises(lw.errors.BadDecision):
        declare(pooling=None).embedding.embed_one("red")


def test_a_model_that_wants_something_else_says_what(tmp_path):
    text_model(tmp_path / "t.onnx", inputs=("input_ids", "positions"))
    made = Embedder(
        f"onnx:{tmp_path / 't.onnx'}",
        tokenizer=str(tokenizer(tmp_path / "k.json")),
        pooling="mean",
    )
    with raises(lw.errors.BadDecision):
        made.embedding.embed_one("red")


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_a_text_has_one_vector_whatever_stands_beside_it(texts, batch):
    """Padding to the longest of a batch must not be seen."""
    declare, _ = texts
    alone = np.stack([declare(cache=0).embedding.embed_one(text) for text in TEXTS])
    together = declare(cache=0, batch=batch).embedding.embed_many(TEXTS)
    assert close(together, alone)


def test_pictures_in_a_batch_are_pictures_one_by_one(tmp_path):
    convolution(tmp_path / "c.onnx")
    declared = Embedder(f"onnx:{tmp_path / 'c.onnx'}", layout="channels first", cache=0)
    pictures = list(RNG.integers(0, 256, (9, 5, 4, 3), dtype=np.uint8))
    assert close(
        declared.embedding.embed_many(pictures),
        [declared.embedding.embed_one(one) for one in pictures],
    )


def test_an_empty_text_is_a_vector_of_nothing(texts):
    declare, _ = texts
    assert declare().embedding.embed_one("").tolist() == [0.0] * 6
    with raises(lw.errors.BadDecision):
        declare(normalise=True).embedding.embed_many(["red", ""])


# Which model it is


def test_the_check_vector_comes_from_the_models_own_shape(tmp_path):
    matrix = picture_model(tmp_path / "m.onnx", (4, 3))
    check = Embedder(f"onnx:{tmp_path / 'm.onnx'}").mark.check
    assert close(check, fixed_picture((4, 3)).reshape(-1).astype(float) @ matrix)


def test_the_check_vector_of_channels_first(tmp_path):
    picture_model(tmp_path / "m.onnx", (3, 4, 5))
    declared = Embedder(f"onnx:{tmp_path / 'm.onnx'}", layout="channels first")
    expected = declared.embedding.embed_one(fixed_picture((4, 5, 3)))
    assert close(declared.mark.check, expected)


def test_the_check_vector_comes_from_a_declared_shape_or_size(tmp_path):
    picture_model(tmp_path / "m.onnx", (6, 4, 3), fixed=False)
    name = f"onnx:{tmp_path / 'm.onnx'}"
    assert Embedder(name).mark.check == ()
    expected = Embedder(name).embedding.embed_one(fixed_picture((6, 4, 3)))
    assert close(Embedder(name, shape=(6, 4, 3)).mark.check, expected)
    assert close(Embedder(name, size=(6, 4)).mark.check, expected)
    with raises(lw.errors.BadRule):
        Embedder(name, shape=(5, 4, 3)).mark  # noqa: B018


def test_the_check_vector_of_texts_is_that_of_the_fixed_text(texts):
    declare, table = texts
    assert close(declare().mark.check, table[tokens(FIXED_SENTENCE)].astype(float).mean(axis=0))


def test_the_identity_follows_the_weights_and_not_the_place(tmp_path):
    first, moved, other = (tmp_path / name for name in ("a.onnx", "b.onnx", "c.onnx"))
    picture_model(first, (4, 3))
    shutil.copy(first, moved)
    picture_model(other, (4, 3), seed=1)
    marks = [Embedder(f"onnx:{path}").mark for path in (first, moved, other)]
    assert marks[0] == marks[1]
    assert marks[0].identity != marks[2].identity
    assert marks[0].describe_difference(marks[2])


def test_the_identity_follows_what_is_declared(tmp_path):
    path = tmp_path / "m.onnx"
    picture_model(path, (4, 4, 3))
    declared = [
        {},
        {"scale": 0.5},
        {"mean": 0.5},
        {"mean": [0.5]},
        {"std": 0.5},
        {"size": (4, 4)},
        {"layout": "channels last"},
        {"output": "doubled"},
        {"normalise": True},
    ]
    marks = [Embedder(f"onnx:{path}", **one).mark for one in declared]
    assert len({mark.identity for mark in marks}) == len(declared)
    for indifferent in ({"batch": 3}, {"cache": 7}, {"shape": (4, 4, 3)}):
        assert Embedder(f"onnx:{path}", **indifferent).mark == marks[0]


def test_the_identity_follows_the_tokenizer(texts, tmp_path):
    declare, _ = texts
    before = declare().mark
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace('"red"', '"rot"'))
    assert declare().mark.identity != before.identity


# Files that are none


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x07" * 40])
def test_a_file_that_is_no_model_is_refused(tmp_path, content):
    (tmp_path / "m.onnx").write_bytes(content)
    with raises(lw.errors.BadRule):
        lw.Monitor(lw.Rule("l2", 1, embed=f"onnx:{tmp_path / 'm.onnx'}"))


@pytest.mark.parametrize("name", ["gone.onnx", "."])
def test_a_file_that_is_not_there_is_refused(tmp_path, name):
    with raises(lw.errors.BadRule):
        Embedder(f"onnx:{tmp_path / name}").embedding  # noqa: B018


@pytest.mark.parametrize("content", [None, "", "{}", "words"])
def test_a_tokenizer_that_is_none_is_refused(texts, tmp_path, content):
    declare, _ = texts
    wrong = tmp_path / "other.json"
    if content is not None:
        wrong.write_text(content)
    with raises(lw.errors.BadRule):
        declare(tokenizer=str(wrong)).embedding  # noqa: B018


def test_a_model_for_one_picture_at_a_time_gets_one_at_a_time(tmp_path):
    matrix = picture_model(tmp_path / "one.onnx", (4, 3), many=1)
    pictures = np.random.default_rng(3).random((5, 4, 3), dtype=np.float32)
    close(Embedder(f"onnx:{tmp_path / 'one.onnx'}")(pictures), pictures.reshape(5, -1) @ matrix)


def test_a_model_for_a_fixed_number_of_pictures_is_refused(tmp_path):
    picture_model(tmp_path / "eight.onnx", (4, 3), many=8)
    with raises(lw.errors.BadRule):
        _ = Embedder(f"onnx:{tmp_path / 'eight.onnx'}").embedding
