"""The real streams of test_derived_answers.py, exactly, through the embedder interface.

Vectors are precomputed: the embedder looks a text, or a picture's number, up in the matrix. And SMS
texts through a real embedder, WordLlama, beside brute force on its vectors.
"""

import re

import numpy as np
import pytest

import likewise as lw
from likewise import Embedder, Feature
from likewise.embedders.embedding_model import FIXED_SENTENCE
from tests.support.real_texts import FOLDER, HERE, KNOWN, answers, messages

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HERE, reason="the folder of real data is not here"),
]

DECISIONS = ["pred_base", "pred_better"]
PICTURES = [known for known in KNOWN if "imagenet" in known["file"]]


class LookedUp:
    """Texts that begin with their row, as the variants' file has them: the row is looked up.

    A text alone would not do: 18 messages came twice and were embedded a little differently.
    """

    def __init__(self, matrix):
        self.matrix = matrix
        self.asked = 0

    def __call__(self, batch):
        if batch == [FIXED_SENTENCE]:
            return self.matrix[:1]
        self.asked += len(batch)
        return self.matrix[[int(text.split("\t")[0]) for text in batch]]


@pytest.fixture(scope="module")
def sms():
    texts, data = messages()
    return [f"{row}\t{text}" for row, text in enumerate(texts)], data


def counted(verdicts):
    return int(verdicts.violations.sum()), verdicts.pairs


@pytest.mark.parametrize("decisions", DECISIONS)
def test_sms_through_the_embedder_interface(sms, decisions):
    texts, data = sms
    model = LookedUp(data["emb"].astype(float))
    embed = Embedder(model, cache=len(texts))
    expected = answers(decisions)
    assert len(expected) == 4
    for radius, known in expected.items():
        monitor = lw.Monitor(lw.Rule("l2", radius, embed=embed))
        assert counted(monitor.observe_many(texts, data[decisions])) == known, f"radius {radius}"
    assert model.asked == len(texts), "each was embedded once for all radii"


@pytest.mark.parametrize("decisions", DECISIONS)
def test_sms_one_by_one_and_as_a_column_of_a_table(sms, decisions):
    texts, data = sms
    embed = LookedUp(data["emb"].astype(float))
    labels = data[decisions].tolist()
    for radius, known in answers(decisions).items():
        features = {"said": Feature("text", embed=embed, tolerance=radius)}
        table = lw.Monitor(lw.Rule("l2", features=features, output_column="z"))
        rows = [{"said": text, "z": z} for text, z in zip(texts, labels, strict=True)]
        assert counted(table.observe_many(rows)) == known, f"radius {radius}"
    monitor = lw.Monitor(lw.Rule("l2", radius, embed=embed))
    counts = [len(monitor.observe(*one).witnesses) for one in zip(texts, labels, strict=True)]
    assert (sum(count > 0 for count in counts), sum(counts)) == known


def test_sms_through_a_ledger(sms, tmp_path):
    texts, data = sms
    embed = LookedUp(data["emb"].astype(float))
    for radius, known in answers("pred_base").items():
        rule, path = lw.Rule("l2", radius, embed=embed), tmp_path / f"led {radius}"
        with lw.open(path, rule, durability="off") as monitor:
            first = monitor.observe_many(texts[:4_000], data["pred_base"][:4_000])
        with lw.open(path, rule, durability="off") as monitor:
            rest = monitor.observe_many(texts[4_000:], data["pred_base"][4_000:])
        flagged, pairs = zip(counted(first), counted(rest), strict=True)
        assert (sum(flagged), sum(pairs)) == known
        assert lw.replay(path).ok


@pytest.mark.parametrize("known", PICTURES, ids=[known["stream"][:70] for known in PICTURES])
def test_pictures_through_the_embedder_interface(known):
    how, model = re.search(r"then 1000 (\w+) rows.*pred_(\w+)_\*", known["stream"]).groups()
    data = np.load(FOLDER / "imagenet1k_mobilenet_emb.npz")
    matrix = np.concatenate([data["emb_clean"], data[f"emb_{how}"]])
    decisions = np.concatenate([data[f"pred_{model}_clean"], data[f"pred_{model}_{how}"]])
    embed = Embedder(lambda numbers: matrix[np.array(numbers)], batch=100)
    for one in known["result"]:
        monitor = lw.Monitor(lw.Rule("l2", one["eps"], embed=embed))
        found = monitor.observe_many(range(2_000), decisions)
        assert counted(found) == (one["flagged"], one["pairs"]), f"radius {one['eps']}"


def test_every_stream_of_texts_and_pictures_is_there():
    assert len(PICTURES) == 4
    assert [len(known["result"]) for known in PICTURES] == [3] * 4


# A real embedder


def brute_force(vectors, labels, most):
    """All pairs (row, earlier row, distance) at most that far apart with different labels."""
    vectors, labels = vectors.astype(float), np.asarray(labels)
    found = []
    for row in range(1, len(vectors)):
        gaps = vectors[:row] - vectors[row]
        distances = np.sqrt((gaps * gaps).sum(axis=1))
        hit = np.flatnonzero((distances <= most) & (labels[:row] != labels[row]))
        found.append(np.stack([np.full(len(hit), row), hit, distances[hit]], axis=1))
    return np.concatenate(found)


def test_sms_through_wordllama_is_brute_force_on_its_vectors():
    texts, data = messages()
    embed = Embedder("wordllama")
    vectors = embed.embedding.embed_many(texts)
    assert vectors.shape == (6_321, 256)
    labels = data["pred_base"]
    pairs = brute_force(vectors, labels, 1.1)
    nearest = np.sort(pairs[:, 2])
    radii = [float(nearest[nearest > 0][place]) for place in (10, 100, 1_000)]
    for radius in radii:
        mine = pairs[pairs[:, 2] <= radius * (1 + 1e-5)]
        rule = lw.Rule("l2", radius, embed=embed)
        verdicts = lw.Monitor(rule).observe_many(texts, labels)
        owners = np.repeat(np.arange(len(texts)), verdicts.counts)
        assert np.array_equal(owners, mine[:, 0])
        assert np.array_equal(verdicts.witnesses.rows, mine[:, 1])
        assert np.allclose(verdicts.witnesses.input_distances, mine[:, 2], atol=1e-12)
        print(f"wordllama, radius {radius:.4f}: {counted(verdicts)} flagged and pairs")


def test_an_evasion_variant_lies_near_its_message_under_wordllama():
    """A text that was only written otherwise is nearer its origin than a text drawn by chance."""
    texts, data = messages()
    vectors = Embedder("wordllama").embedding.embed_many(texts).astype(float)
    variants = np.arange(5_574, len(texts))
    origin = data["source_row"][variants]
    by_chance = np.random.default_rng(0).integers(0, 5_574, len(variants))
    near = np.linalg.norm(vectors[variants] - vectors[origin], axis=1)
    far = np.linalg.norm(vectors[variants] - vectors[by_chance], axis=1)
    assert np.mean(near < far) > 0.95
