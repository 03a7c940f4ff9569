"""Real embeddings, pictures and measurements: flagged rows and pairs equal brute force.

The data is not part of the project: the folder is LIKEWISE_DATA, else ../shared/data beside the
checkout, and without it these tests say that they were skipped. Its `expected_derived.json` says in
words how each stream is put together; `stream_of` reads those words.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import likewise as lw
from tests.support.oracle import Expected, assert_same_verdict
from tests.support.wide_streams import INDEXES

FOLDER = Path(
    os.environ.get("LIKEWISE_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
EXPECTED = FOLDER / "expected_derived.json"
KNOWN = json.loads(EXPECTED.read_text()) if EXPECTED.is_file() else []
METRICS = {"Linf": "linf", "L2": "l2"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not EXPECTED.is_file(), reason="the folder of real data is not here"),
]

EVERY = [
    pytest.param(known, index, id=f"{known['file']}, {known['stream'][:60]}, {index}")
    for known in KNOWN
    for index in INDEXES[METRICS[known["metric"]]]
]


def stream_of(known: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and decisions as the words of `known` put them together."""
    words = known["stream"]
    data = np.load(FOLDER / known["file"].replace("*", ""))
    if "higgs" in known["file"]:
        columns = int(re.search(r"first (\d+) columns", words)[1])
        low, high, x = (data[name].astype(float) for name in ("lo", "hi", "x"))
        return ((x - low) / (high - low))[:, :columns], data["y"]
    if "sms" in known["file"]:
        return data["emb"].astype(float), data[re.search(r"pred_\w+", words)[0]]
    if "imagenet" in known["file"]:
        how, model = re.search(r"then 1000 (\w+) rows.*pred_(\w+)_\*", words).groups()
        both = ("clean", how)
        return (
            np.concatenate([data[f"emb_{name}"] for name in both]),
            np.concatenate([data[f"pred_{model}_{name}"] for name in both]),
        )
    assert "cifar10_adv" in known["file"], f"no stream for {known['file']}"
    return adversarial()


def adversarial() -> tuple[np.ndarray, np.ndarray]:
    data = np.load(FOLDER / "cifar10_adv500_resnet20.npz")
    return (
        np.concatenate([data["x_clean"], data["x_adv"]]),
        np.concatenate([data["pred_clean"], data["pred_adv"]]),
    )


def test_every_known_stream_is_counted():
    assert len(KNOWN) == 9
    assert sum(len(known["result"]) for known in KNOWN) == 32


@pytest.mark.parametrize(("known", "index"), EVERY)
def test_flagged_rows_and_pairs_equal_brute_force(known, index):
    inputs, outputs = stream_of(known)
    assert len(inputs) == known["n"]
    for one in known["result"]:
        radius = one.get("eps", one.get("eps_levels"))
        rule = lw.Rule(METRICS[known["metric"]], radius)
        verdicts = lw.Monitor(rule, index=index).observe_many(inputs, outputs)
        counted = int(verdicts.violations.sum()), verdicts.pairs
        assert counted == (one["flagged"], one["pairs"]), f"radius {radius}"


@pytest.mark.parametrize("known", KNOWN, ids=[known["stream"][:70] for known in KNOWN])
def test_one_by_one_is_counted_the_same(known):
    inputs, outputs = stream_of(known)
    one = known["result"][-1]
    rule = lw.Rule(METRICS[known["metric"]], one.get("eps", one.get("eps_levels")))
    monitor = lw.Monitor(rule)
    counts = np.array(
        [len(monitor.observe(x, z).witnesses) for x, z in zip(inputs, outputs, strict=True)]
    )
    assert (int((counts > 0).sum()), int(counts.sum())) == (one["flagged"], one["pairs"])


SCALES = {
    "epsilon 8 on uint8": (8, lambda pictures: pictures),
    "epsilon 8/255 on float32": (8 / 255, lambda pictures: (pictures / 255).astype(np.float32)),
    "epsilon 8/255 on float32, divided in float32": (
        8 / 255,
        lambda pictures: pictures.astype(np.float32) / np.float32(255),
    ),
}


@pytest.mark.parametrize("one_by_one", [False, True], ids=["observe_many", "observe"])
@pytest.mark.parametrize("index", ["auto", "live"])
@pytest.mark.parametrize(("epsilon", "scale"), SCALES.values(), ids=SCALES)
def test_all_428_adversarial_pictures_are_found_with_their_originals(
    epsilon, scale, index, one_by_one
):
    pictures, decisions = adversarial()
    pictures = scale(pictures)
    assert pictures.shape[1:] == (32, 32, 3)
    fooled = np.flatnonzero(decisions[:500] != decisions[500:])
    assert len(fooled) == 428
    monitor = lw.Monitor(lw.Rule("linf", epsilon), index=index)
    if one_by_one:
        verdicts = [monitor.observe(x, z) for x, z in zip(pictures, decisions, strict=True)]
    else:
        verdicts = list(monitor.observe_many(pictures, decisions))
    gaps = np.abs(pictures[:500].astype(float) - pictures[500:]).reshape(500, -1).max(axis=1)
    for row, verdict in enumerate(verdicts):
        mine = [row - 500] if row - 500 in fooled else []
        witnesses = Expected(row, np.array(mine, int), gaps[mine], np.ones(len(mine)))
        assert_same_verdict(verdict, witnesses)
    assert monitor.past.inputs(range(1_000)).tobytes() == pictures.tobytes()


@pytest.mark.parametrize("index", INDEXES["l2"])
def test_adversarial_pictures_are_near_in_l2_as_well(index):
    pictures, decisions = adversarial()
    gaps = pictures[:500].astype(float) - pictures[500:]
    distances = np.sqrt((gaps * gaps).reshape(500, -1).sum(axis=1))
    fooled = decisions[:500] != decisions[500:]
    radius = float(np.ceil(distances.max()))
    verdicts = lw.Monitor(lw.Rule("l2", radius), index=index).observe_many(pictures, decisions)
    found = [row - 500 in verdicts[row].witnesses.rows for row in range(500, 1_000)]
    assert found == fooled.tolist()
