"""The decision sequences of the paper's table, each with its rule and what is known of it.

The three fairness data sets are the authors' own files. The paper's pictures and embeddings are not
public as sequences; what stands in for them is said in `what`.

Invariant: rows come in the order of the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks import workloads

Array = NDArray[Any]
FILES = tuple(
    f"{data}-{model}-P2" for data in ("german", "adult", "compas") for model in ("base", "global")
)
EPSILON = 0.16
BLIND = ("label", "sex", "race")
"""Columns that individual fairness leaves out of the distance."""
FAIR = tuple(f"fair {name}" for name in FILES)
UNSEEN = tuple(f"blind {name}" for name in FILES)
PICTURES = ("cifar adversarial", "cifar clean")
EMBEDDINGS = (
    *(f"imagenet {how} {model}" for how in ("brightness", "jpeg25") for model in ("v1s", "v2")),
    "sms base",
    "sms better",
)


@dataclass(frozen=True)
class Stream:
    """Inputs and outputs in order, and when they are near."""

    what: str
    points: Array
    outputs: Array
    rule: lw.Rule
    known: tuple[int, int] | None
    """Flagged rows and pairs, by brute force."""


def stream(name: str, folder: Path) -> Stream:
    kind, *words = name.split()
    if kind in ("fair", "blind"):
        return _people(words[0], folder, blind=kind == "blind")
    if kind == "cifar":
        return _pictures(words[0], folder)
    return _photographs(*words, folder) if kind == "imagenet" else _messages(words[0], folder)


def radii(name: str, folder: Path) -> list[tuple[float, int, int]]:
    """Every radius for which the answer is known: with flagged rows and pairs."""
    entries = json.loads((folder / "certifair_expected.json").read_text())
    return [
        (entry["eps"], entry["flagged"], entry["pairs"])
        for entry in entries
        if Path(entry["file"]).name == f"{name}-combined.csv"
    ]


def _people(name: str, folder: Path, *, blind: bool) -> Stream:
    file = workloads.paper(folder, name, EPSILON)
    weights = [float(not (blind and column in BLIND)) for column in file.columns[1:]]
    rule = lw.Rule("linf", EPSILON, weights=weights if blind else None)
    known = None if blind else (file.flagged, file.pairs)
    return Stream(name, file.points, file.outputs, rule, known)


def _known(folder: Path, file: str, words: str, epsilon: float) -> tuple[int, int]:
    (answer,) = (
        (one["flagged"], one["pairs"])
        for entry in json.loads((folder / "expected_derived.json").read_text())
        if entry["file"].startswith(file) and words in entry["stream"]
        for one in entry["result"]
        if one.get("eps", one.get("eps_levels")) == epsilon
    )
    return answer


def _pictures(which: str, folder: Path) -> Stream:
    rule = lw.Rule("linf", 8)
    if which == "clean":
        with np.load(folder / "cifar10_test3000_jpeg.npz", allow_pickle=False) as file:
            what = "CIFAR-10 test pictures as they are (JPEG), ResNet-20"
            return Stream(what, file["x"], file["pred_resnet20"].astype(np.int64), rule, None)
    with np.load(folder / "cifar10_adv500_resnet20.npz", allow_pickle=False) as file:
        points = np.concatenate([file["x_clean"], file["x_adv"]])
        outputs = np.concatenate([file["pred_clean"], file["pred_adv"]]).astype(np.int64)
    known = _known(folder, "cifar10_adv500", "x_adv", 8)
    return Stream("CIFAR-10, 500 clean, then 500 PGD, ResNet-20", points, outputs, rule, known)


def _photographs(how: str, model: str, folder: Path) -> Stream:
    with np.load(folder / "imagenet1k_mobilenet_emb.npz", allow_pickle=False) as file:
        points = np.concatenate([file["emb_clean"], file[f"emb_{how}"]])
        names = (f"pred_{model}_clean", f"pred_{model}_{how}")
        outputs = np.concatenate([file[one] for one in names]).astype(np.int64)
        unit = 0.0235285
    words = {"v1s": "weak classifier", "v2": "strong classifier"}[model]
    known = _known(
        folder,
        "imagenet1k",
        f"{how} rows, raw uint8 embedding as integers (x{unit} = "
        f"real units); decision=pred_{model}_",
        600,
    )
    what = f"ImageNet, 1,000 photographs, then with {how}; MobileNet embeddings, {words}"
    return Stream(what, points, outputs, lw.Rule("l2", 600), known)


def _messages(model: str, folder: Path) -> Stream:
    with np.load(folder / "sms_minilm_f16.npz", allow_pickle=False) as file:
        points, outputs = file["emb"].astype(np.float64), file[f"pred_{model}"].astype(np.int64)
    words = {"base": "weak filter", "better": "better filter"}[model]
    known = _known(folder, "sms", f"decision=pred_{model}", 0.8)
    what = f"SMS spam with evasions, MiniLM embeddings, {words}"
    return Stream(what, points, outputs, lw.Rule("l2", 0.8), known)
