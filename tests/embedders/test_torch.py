"""Torch models that a function makes: `torch:module:function`."""

import sys

import numpy as np
import pytest

import likewise as lw
from likewise import Embedder
from tests.support.refusals import raises

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

MODULE = """
import torch

class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed({seed})
        self.drop = torch.nn.Dropout(0.5)
        self.norm = torch.nn.BatchNorm1d(12)
        self.line = torch.nn.Linear(12, 5)

    def forward(self, batch):
        return self.line(self.norm(self.drop(batch.reshape(len(batch), -1))))

def small():
    return Small()

def half():
    return Small().half().to(torch.bfloat16)

def of_texts():
    table = torch.nn.EmbeddingBag(256, 4)
    torch.nn.init.normal_(table.weight, generator=torch.Generator().manual_seed(3))
    def embed(texts):
        assert type(texts) is list
        return torch.stack([table(torch.tensor([list(text.encode())]))[0] for text in texts])
    return embed

def in_numpy():
    return lambda batch: batch.numpy().reshape(len(batch), -1)[:, :3]

def fails():
    raise RuntimeError("no weights here")

nothing = 3
"""

RNG = np.random.default_rng(4)
PICTURES = RNG.integers(0, 256, (9, 4, 3), dtype=np.uint8)


@pytest.fixture
def declared(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(seed=0):
        sys.modules.pop("torch_models_of_this_test", None)
        (tmp_path / "torch_models_of_this_test.py").write_text(MODULE.replace("{seed}", str(seed)))

    def declare(function, **settings):
        return Embedder(f"torch:torch_models_of_this_test:{function}", **settings)

    write()
    declare.write = write
    yield declare
    sys.modules.pop("torch_models_of_this_test", None)


def close(made, expected):
    return np.allclose(made, expected, rtol=1e-4, atol=1e-5)


def test_a_module_is_put_into_evaluation_and_beside_numpy(declared):
    embed = declared("small", scale=1 / 255)
    made = embed.embedding.embed_many(list(PICTURES))
    assert (made.shape, made.dtype) == ((9, 5), np.float32)
    model = embed.embedding._model._model
    assert not model.training
    flat = PICTURES.reshape(9, -1) / 255 / np.sqrt(1 + 1e-5)  # a new norm only divides by that
    weight, bias = (one.detach().numpy().astype(float) for one in model.line.parameters())
    assert close(made, flat @ weight.T + bias)
    assert not any(one.grad is not None for one in model.parameters())


def test_a_batch_is_one_by_one(declared):
    embed = declared("small", cache=0)
    together = embed.embedding.embed_many(list(PICTURES))
    assert close(together, [embed.embedding.embed_one(one) for one in PICTURES])


def test_texts_come_as_a_list(declared):
    embed = declared("of_texts")
    made = embed.embedding.embed_many(["abc", "abd"])
    assert made.shape == (2, 4)
    assert len(embed.mark.check) == 4
    monitor = lw.Monitor(lw.Rule("l2", 1e-6, embed=embed))
    monitor.observe("abc", 1)
    assert monitor.observe("cab", 2).witnesses.rows.tolist() == [0], "a bag has no order"


def test_what_answers_in_numpy_is_taken_too(declared):
    made = declared("in_numpy").embedding.embed_many(list(PICTURES))
    assert made.tolist() == PICTURES.reshape(9, -1)[:, :3].astype(float).tolist()


def test_pictures_are_prepared_as_declared(declared):
    made = declared("in_numpy", mean=1.0, std=2.0).embedding.embed_one(PICTURES[0])
    assert made.tolist() == ((PICTURES[0].reshape(-1)[:3].astype(np.float32) - 1) / 2).tolist()


def test_other_weights_are_another_model(declared, tmp_path):
    settings = {"shape": [4, 3]}
    first = declared("small", **settings).mark
    declared.write()
    assert declared("small", **settings).mark == first
    rule = lw.Rule("l2", 1, embed=declared("small", **settings))
    with lw.open(tmp_path / "led", rule) as monitor:
        monitor.observe(PICTURES[0], 1)
    declared.write(seed=1)
    other = declared("small", **settings).mark
    assert other.identity != first.identity and other.describe_difference(first)
    with raises(lw.errors.BadRule):
        lw.open(tmp_path / "led", models=True)


def test_weights_of_any_type_have_a_digest(declared):
    """NumPy has no bfloat16."""
    embed = declared("half")
    assert len(embed.embedding._model.identity.split()[-1]) == 16


@pytest.mark.parametrize(
    "function",
    [
        "fails",
        "absent",
        "nothing",
    ],
)
def test_a_model_that_cannot_be_made_is_refused(declared, function):
    with raises(lw.errors.BadRule):
        lw.Monitor(lw.Rule("l2", 1, embed=declared(function)))


def test_an_error_names_the_picture(declared):
    with raises(lw.errors.BadDecision):
        declared("small", batch=1).embedding.embed_many(
            [PICTURES[0], PICTURES[1], np.zeros((3, 3))]
        )
