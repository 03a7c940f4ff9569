"""Sentence embeddings: the real ones of SMS messages, and as many more as wanted made of them.

Every third row is a real one, until they are used up. The others are a real row a little off
(0.05 to 0.6 away, so some are near and some are not) or a mix of two, all of length 1, with the
decision of the row they are closest to. Some real rows are taken far more often than others, as
some messages are sent to many; a few of the rows a little off get the other decision.

Invariant: the first n rows of a longer stream are the stream of n rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.workloads import SEED

Array = NDArray[Any]
SMS_FILE = "sms_minilm_f16.npz"
WIDTH = 384
CHUNK_ROWS = 4_096
TEXTS = 20  # a part of the random numbers that nothing else draws from
FLIPPED = 0.02


@dataclass(frozen=True)
class Texts:
    """Given embeddings of length 1 (float32) with decisions 0 or 1."""

    name: str
    base: Array
    decisions: Array

    def rows(self, n: int) -> tuple[Array, Array]:
        """The first `n` rows (float32), and their decisions."""
        chunks = [self._chunk(k) for k in range(-(-n // CHUNK_ROWS))]
        points, decisions = (np.concatenate(part)[:n] for part in zip(*chunks, strict=True))
        return points, decisions

    def _chunk(self, k: int) -> tuple[Array, Array]:
        rng = np.random.default_rng([SEED, TEXTS, k])
        row = np.arange(k * CHUNK_ROWS, (k + 1) * CHUNK_ROWS)
        near, other = (len(self.base) * rng.random((2, CHUNK_ROWS)) ** 2).astype(np.int64)
        share = rng.uniform(0.5, 1.0, (CHUNK_ROWS, 1))
        off = rng.normal(0.0, 1.0, (CHUNK_ROWS, self.base.shape[1]))
        off *= rng.uniform(0.05, 0.6, (CHUNK_ROWS, 1)) / np.sqrt(self.base.shape[1])
        flip = rng.random(CHUNK_ROWS) < FLIPPED
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
        few = rng.normal(0.0, 1.0, (300, 40)) @ rng.normal(0.0, 1.0, (40, WIDTH))
        few /= np.linalg.norm(few, axis=1, keepdims=True)
        return Texts("generated", few.astype(np.float32), rng.integers(0, 2, len(few)))
    with np.load(Path(folder) / SMS_FILE, allow_pickle=False) as file:
        return Texts("SMS", file["emb"].astype(np.float32), file["pred_base"].astype(np.int64))
