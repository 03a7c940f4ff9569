"""The rows that are measured on: seeded, the same on every machine, float32 unless a file says.

`Mix` makes as many HIGGS-like rows as wanted out of a few real ones, `Texts` embeddings; `acs`
and `paper` read files. The folder comes from LIKEWISE_DATA, else ../shared/data beside the
repository.

Invariant: the first n rows of a longer stream are the stream of n rows.
Not here: sizes and radii. The definitions choose those.
"""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
SEED = 20250
STREAM, FRESH = 0, 1  # two parts that never share a random number
CHUNK_ROWS = 100_000
HIGGS_FILE, SMS_FILE, ACS_FILE = "higgs_35k.npz", "sms_minilm_f16.npz", "acs_ma_2015_2017.npz"
PAPER_FILES = "certifair_P2_base_global.zip", "certifair_expected.json"
TEXT_WIDTH = 384
TEXT_CHUNK_ROWS = 4_096
TEXTS = 20  # a part of the random numbers that nothing else draws from
FLIPPED = 0.02
DRIFT_RANGES = 10.0  # the columns are scaled to about [0, 1], so 10 is ten whole ranges


def data_folder() -> Path | None:
    """LIKEWISE_DATA, else ../shared/data beside the repository, else None."""
    named = os.environ.get("LIKEWISE_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


@dataclass(frozen=True)
class Mix:
    """Rows between two real rows: t a + (1-t) b + N(0, .01), t in [1/2, 1], with a's label."""

    name: str
    base: Array  # (k, columns) float64, scaled to [0, 1]
    labels: Array

    def rows(self, n: int, columns: int, part: int = STREAM) -> tuple[Array, Array]:
        """`n` inputs of the first `columns` columns (float32), and their labels."""
        points = np.empty((n, columns), np.float32)
        outputs = np.empty(n, np.int64)
        for chunk, start in enumerate(range(0, n, CHUNK_ROWS)):
            size = min(CHUNK_ROWS, n - start)
            rng = np.random.default_rng([SEED, part, chunk])
            # Always a whole chunk and every column, so that neither size changes the rows.
            near, other = rng.integers(0, len(self.base), (2, CHUNK_ROWS))[:, :size]
            share = rng.uniform(0.5, 1.0, CHUNK_ROWS)[:size, None]
            jitter = rng.normal(0.0, 0.01, (size, self.base.shape[1]))[:, :columns]
            kept = self.base[:, :columns]
            points[start : start + size] = share * kept[near] + (1 - share) * kept[other] + jitter
            outputs[start : start + size] = self.labels[near]
        return points, outputs


def higgs(folder: Path) -> Mix:
    """The real HIGGS rows, min-max scaled, as the source of a mix."""
    with np.load(folder / HIGGS_FILE, allow_pickle=False) as file:
        low, high = file["lo"].astype(np.float64), file["hi"].astype(np.float64)
        return Mix("HIGGS-like", (file["x"] - low) / (high - low), file["y"].astype(np.int64))


def mix_of(folder: str | None) -> Mix:
    """Return the real rows of that folder as a source; without one, made-up rows."""
    return generated() if folder is None else higgs(Path(folder))


def generated() -> Mix:
    """Made-up rows for a machine without data: few sources, each with both labels, so that
    near rows that differ are common."""
    base = np.random.default_rng(SEED).random((30, 28))
    return Mix("generated", np.vstack([base, base]), np.repeat([0, 1], len(base)))


def acs(path: Path) -> tuple[Array, Array]:
    """American Community Survey, all 16 columns min-max scaled, with a real model's decisions."""
    with np.load(path, allow_pickle=False) as file:
        points, outputs = file["x"].astype(np.float64), file["pred"].astype(np.int64)
    low, high = points.min(axis=0), points.max(axis=0)
    return ((points - low) / np.where(high > low, high - low, 1.0)).astype(np.float32), outputs


@dataclass(frozen=True)
class Paper:
    """One decision sequence of the paper, and what is exactly right at one radius."""

    name: str
    columns: list[str]  # the decision first, then the coordinates
    points: Array  # float64: every column but the decision
    outputs: Array
    flagged: int
    pairs: int


def paper(folder: Path, name: str, epsilon: float) -> Paper:
    """Read one file of the archive, such as `adult-base-P2`, in order."""
    archive, expected = (folder / file for file in PAPER_FILES)
    with zipfile.ZipFile(archive) as files:
        text = files.read(f"{name}-combined.csv").decode()
    header, *lines = csv.reader(io.StringIO(text))
    values = np.array(lines, dtype=np.float64)
    if header[0] != "prediction":
        raise ValueError(f"{name}: the first column is {header[0]!r}, not 'prediction'")
    (known,) = (
        entry
        for entry in json.loads(expected.read_text())
        if Path(entry["file"]).name == f"{name}-combined.csv" and entry["eps"] == epsilon
    )
    points, outputs = np.ascontiguousarray(values[:, 1:]), values[:, 0].astype(np.int64)
    return Paper(name, header, points, outputs, known["flagged"], known["pairs"])


def drifting(points: Array) -> Array:
    """The same rows, moved by i/n of the drift in every coordinate."""
    steps = np.linspace(0.0, DRIFT_RANGES, len(points))[:, None]
    return (points + steps).astype(np.float32)


def sorted_line(n: int, columns: int, step: float) -> Array:
    """Points on the diagonal, exactly in order, each `step` beyond the last."""
    line = (np.arange(n) * step).astype(np.float32)
    return np.repeat(line[:, None], columns, axis=1)


def shuffled(points: Array) -> Array:
    """The same rows in a seeded random order."""
    return np.ascontiguousarray(np.random.default_rng(SEED).permutation(points, axis=0))


def many_labels(outputs: Array, labels: int) -> Array:
    """One of `labels` labels for each row, seeded by nothing but its place."""
    return np.random.default_rng([SEED, labels]).integers(0, labels, len(outputs))


@dataclass(frozen=True)
class Texts:
    """Sentence embeddings of length 1 (float32): real ones, and more made of them.

    Every third row is a real one, until they are used up. The others are a real row a little off
    (0.05 to 0.6 away, so some are near and some are not) or a mix of two, with the decision of the
    row they are closest to. Some real rows are taken far more often than others, as some messages
    are sent to many; a few of the rows a little off get the other decision.
    """

    name: str
    base: Array
    decisions: Array

    def rows(self, n: int) -> tuple[Array, Array]:
        """Return the first `n` rows (float32), and their decisions."""
        chunks = [self._chunk(k) for k in range(-(-n // TEXT_CHUNK_ROWS))]
        points, decisions = (np.concatenate(part)[:n] for part in zip(*chunks, strict=True))
        return points, decisions

    def _chunk(self, k: int) -> tuple[Array, Array]:
        rng = np.random.default_rng([SEED, TEXTS, k])
        row = np.arange(k * TEXT_CHUNK_ROWS, (k + 1) * TEXT_CHUNK_ROWS)
        near, other = (len(self.base) * rng.random((2, TEXT_CHUNK_ROWS)) ** 2).astype(np.int64)
        share = rng.uniform(0.5, 1.0, (TEXT_CHUNK_ROWS, 1))
        off = rng.normal(0.0, 1.0, (TEXT_CHUNK_ROWS, self.base.shape[1]))
        off *= rng.uniform(0.05, 0.6, (TEXT_CHUNK_ROWS, 1)) / np.sqrt(self.base.shape[1])
        flip = rng.random(TEXT_CHUNK_ROWS) < FLIPPED
        mixed = share * self.base[near] + (1 - share) * self.base[other]
        moved = self.base[near] + off
        points = np.where((row % 3 == 1)[:, None], moved, mixed)
        points /= np.sqrt(np.square(points).sum(axis=1, keepdims=True))
        decisions = np.where(flip & (row % 3 == 1), 1 - self.decisions[near], self.decisions[near])
        real = (row % 3 == 0) & (row // 3 < len(self.base))
        points[real] = self.base[row[real] // 3]
        decisions[real] = self.decisions[row[real] // 3]
        return points.astype(np.float32), decisions


def texts(folder: str | None) -> Texts:
    """The real embeddings of that folder; without one, made-up ones of the same width."""
    if folder is None:
        rng = np.random.default_rng([SEED, TEXTS])
        few = rng.normal(0.0, 1.0, (300, 40)) @ rng.normal(0.0, 1.0, (40, TEXT_WIDTH))
        few /= np.linalg.norm(few, axis=1, keepdims=True)
        return Texts("generated", few.astype(np.float32), rng.integers(0, 2, len(few)))
    with np.load(Path(folder) / SMS_FILE, allow_pickle=False) as file:
        return Texts("SMS", file["emb"].astype(np.float32), file["pred_base"].astype(np.int64))
