"""The quantitative monitor beside its authors' way: ever more of the nearest neighbours.

Their algorithm asks for the k nearest past inputs and stops when no farther one could be steeper,
given how far apart outputs can be at all; else it asks for twice as many. Here it stands on FAISS's
flat index, which needs no rebuilding. Their own QuantitativeMonitor is not on the package index; it
takes part where a checkout of their repository is given (`make bench CLEMONT=folder`).
"""

from __future__ import annotations

import gzip
import importlib.util
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Skipped, Table
from benchmarks.contenders import has_clemont_frnn
from benchmarks.measure import timed

Array = NDArray[Any]
FILE = "clemont_example_adult_proba.csv.gz"
FIRST_K = 8
SAMPLE = 1_000  # decisions of the long stream that the other way is timed on
COLUMNS = {
    "workload": "workload",
    "rows": "rows",
    "steepest": "steepest slope",
    "us": "likewise, one `observe`",
    "batch_us": "in a batch, one thread",
    "doubling_us": "doubling k, on FAISS",
    "clemont_us": "Clemont's QuantitativeMonitor",
    "ratio": "doubling ÷ `observe`",
    "clemont_ratio": "Clemont ÷ `observe`",
    "batch_ratio": "doubling ÷ batch",
}


def ask(setting: Setting) -> Answer:
    if importlib.util.find_spec("faiss") is None:
        raise Skipped("FAISS is not installed.")
    points, outputs = _adult(setting.data_file(FILE))
    higgs, _ = setting.rows_source().rows(setting.rows(100_000), 12)
    scores = 1.0 / (1.0 + np.exp(-4.0 * (higgs[:, :4].sum(axis=1) - 2.0)))
    jitter = np.random.default_rng(0).normal(0.0, 0.05, len(scores))
    adult = _row("Adult, probability of the model", points, outputs, 0)
    if setting.with_clemont and has_clemont_frnn():
        adult |= _clemont(points, outputs, adult["us"])
    rows = [
        adult,
        _row("HIGGS-like × 12, made-up score", higgs.astype(np.float64), scores + jitter, SAMPLE),
    ]
    return Answer(
        "Slope: the steepest past pair",
        {"slope": Table(COLUMNS, rows, "Microseconds per decision, L2.")},
        ["both ways name the same slopes, up to the rounding of FAISS"],
        ["On the long stream the other way answers the last thousand decisions only."],
    )


def _adult(path: Path) -> tuple[Array, Array]:
    text = gzip.decompress(path.read_bytes()).decode()
    values = np.genfromtxt(io.StringIO(text), delimiter=",", skip_header=1)
    return np.ascontiguousarray(values[:, 4:]), values[:, 2]


class Doubling:
    """k nearest, then 2k, until no farther one can be steeper."""

    def __init__(self, width: int, spread: float) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self._index = faiss.IndexFlatL2(width)
        self._outputs: list[float] = []
        self._spread = spread

    def add(self, points: Array, outputs: Array) -> None:
        self._index.add(points.astype(np.float32))
        self._outputs += outputs.tolist()

    def steepest(self, x: Array, z: float) -> float:
        total, k = len(self._outputs), FIRST_K
        query, past = x[None].astype(np.float32), np.array(self._outputs)
        while total:
            k = min(k, total)
            squares, rows = self._index.search(query, k)
            near = np.sqrt(np.maximum(squares[0], 0.0))
            far = np.abs(past[rows[0]] - z)
            with np.errstate(divide="ignore", invalid="ignore"):
                slopes = np.where(far > 0, far / near, 0.0)
            best = float(slopes.max())
            if k == total or best >= self._spread / max(float(near[-1]), 1e-30):
                return best
            k *= 2
        return 0.0


def _clemont(points: Array, outputs: Array, us: float) -> dict[str, float]:
    """Time their monitor on the same decisions, and require that it finds the same slopes.

    It adds 1e-6 to the distance between inputs, and keeps recent ones in float32.
    """
    from clemont.frnn import KdTreeFRNN
    from clemont.quantitative_monitor import QuantitativeMonitor

    monitor = QuantitativeMonitor(lambda: KdTreeFRNN(metric="l2", bf_threads=1))
    answers = np.column_stack([outputs, 1.0 - outputs])
    theirs, timing = timed(
        lambda: [monitor.observe(x, z).max_ratio for x, z in zip(points, answers, strict=True)]
    )
    mine = lw.Monitor(lw.Rule("l2", 1.0, output="number"), slope=True).observe_many(points, outputs)
    some = mine.counts > 0  # the others have no past output that differs
    distances = mine.input_distances[some]
    expected = mine.slopes[some] * distances / (distances + 1e-6)
    close = np.isclose(expected, np.array(theirs)[some], rtol=1e-6)
    oracle.require(bool(close.all() and some.sum() > len(points) / 2), "Clemont's slopes differ")
    clemont_us = timing.wall / len(points) * 1e6
    return {"clemont_us": clemont_us, "clemont_ratio": clemont_us / us}


def _row(name: str, points: Array, outputs: Array, sample: int) -> dict[str, Any]:
    rule = lw.Rule("l2", 1.0, output="number")
    first = len(points) - sample if sample else 0
    spread = float(np.ptp(outputs))
    warm = lw.Monitor(rule, slope=True)
    for x, z in zip(points[:200], outputs[:200].tolist(), strict=True):
        warm.observe(x, z)
    monitor = lw.Monitor(rule, slope=True)
    if first:
        monitor.observe_many(points[:first], outputs[:first], threads=1)
    tail = list(zip(points[first:], outputs[first:].tolist(), strict=True))
    mine, timing = timed(lambda: [monitor.observe(x, z).slope for x, z in tail])
    batch, whole = timed(lw.Monitor(rule, slope=True).observe_many, points, outputs, threads=1)
    other = Doubling(points.shape[1], spread)
    other.add(points[:first], outputs[:first])

    def doubling() -> list[float]:
        found = []
        for x, z in tail:
            found.append(other.steepest(x, z))
            other.add(x[None], np.array([z]))
        return found

    theirs, slow = timed(doubling)
    oracle.require(np.array_equal(batch.slopes[first:], mine), f"{name}: batches differ")
    # FAISS computes near distances with little precision: compare where inputs are apart.
    apart = batch.input_distances[first:] > 1e-2
    close = np.isclose(np.array(mine)[apart], np.array(theirs)[apart], rtol=1e-2)
    oracle.require(bool(close.mean() > 0.99 and apart.any()), f"{name}: slopes differ")
    us, doubling_us = (one.wall / len(tail) * 1e6 for one in (timing, slow))
    batch_us = whole.wall / len(points) * 1e6
    return {
        "workload": name,
        "rows": len(points),
        "steepest": float(np.max(batch.slopes[np.isfinite(batch.slopes)])),
        "us": us,
        "batch_us": batch_us,
        "doubling_us": doubling_us,
        "ratio": doubling_us / us,
        "batch_ratio": doubling_us / batch_us,
    }
