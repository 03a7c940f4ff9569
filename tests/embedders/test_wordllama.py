"""WordLlama itself, from the weights that its package carries."""

import numpy as np
import pytest

import likewise as lw
from likewise import Embedder
from tests.support.refusals import raises

TEXTS = [
    "Your loan was approved.",
    "The bank has granted your loan.",
    "How do I bake bread at home?",
    "What is the best way of baking bread?",
    "URGENT! You have won a prize, call now",
    "a",
    "word " * 600,
    "ünïcödé 漢字 🙂",
]


@pytest.fixture(scope="module")
def declared():
    return Embedder("wordllama", cache=0)


def test_vectors_are_of_length_one_in_float32(declared):
    made = declared.embedding.embed_many(TEXTS)
    assert (made.shape, made.dtype) == ((len(TEXTS), 256), np.float32)
    assert np.allclose(np.linalg.norm(made.astype(float), axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 2, 3, 64])
def test_a_text_alone_is_a_text_in_a_batch_to_the_last_bit(declared, batch):
    alone = np.stack([declared.embedding.embed_one(text) for text in TEXTS])
    together = Embedder("wordllama", cache=0, batch=batch).embedding.embed_many(TEXTS)
    assert together.tobytes() == alone.tobytes()
    backwards = declared.embedding.embed_many(TEXTS[::-1])[::-1]
    assert backwards.tobytes() == alone.tobytes()


def test_a_text_in_other_words_is_near_and_another_text_is_far(declared):
    loan, granted, bake, baking, *_ = declared.embedding.embed_many(TEXTS).astype(float)
    near = np.linalg.norm(loan - granted), np.linalg.norm(bake - baking)
    far = [np.linalg.norm(a - b) for a in (loan, granted) for b in (bake, baking)]
    assert max(near) < min(far)


def test_a_monitor_finds_the_text_in_other_words():
    monitor = lw.Monitor(lw.Rule("cosine", 0.5, embed="wordllama"))
    monitor.observe_many(TEXTS[:3], ["yes", "yes", "no"])
    assert monitor.check(TEXTS[3], "yes").witnesses.rows.tolist() == [2]
    assert monitor.check("The loan was granted by your bank.", "no").witnesses.rows.tolist() == [
        0,
        1,
    ]


def test_an_empty_text_is_refused_and_its_place_is_named():
    monitor = lw.Monitor(lw.Rule("cosine", 0.5, embed="wordllama"))
    with raises(lw.errors.UnexpectedValue, place=1):
        monitor.observe_many(["a text", "", "b"], [1, 2, 3])
    with raises(lw.errors.UnexpectedValue):
        monitor.observe("", 1)
    assert len(monitor) == 0


def test_its_mark_is_of_its_weights(declared):
    name, digest, normalised = declared.mark.identity.split()
    assert (name, len(digest), normalised) == ("wordllama", 16, "normalised")
    assert len(declared.mark.check) == 256
    assert declared.mark == Embedder("wordllama").mark
