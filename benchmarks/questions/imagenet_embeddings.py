"""1,000 photographs' embeddings, clean and then corrupted: exact counts, with times.

Two corruptions, two classifiers, three radii. `observe` and `observe_many` must both report what
brute force gave for these files, once as they are (uint8) and once as float32.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.contenders import Question, explained, warm_up
from benchmarks.measure import Timing, medians, rss_bytes, single_calls, timed, wall_us

Array = NDArray[Any]
FILE, EXPECTED = "imagenet1k_mobilenet_emb.npz", "expected_derived.json"
CORRUPTIONS, CLASSIFIERS = ("brightness", "jpeg25"), ("v1s", "v2")

COLUMNS = {
    "corruption": "corruption",
    "classifier": "classifier",
    "storage": "kept as",
    "question": "near",
    "rows": "rows",
    "flagged": "flagged",
    "pairs": "pairs",
    "mean_us": "`observe`, mean",
    "p50_us": "p50",
    "p99_us": "p99",
    "max_us": "max",
    "us": "`observe_many`",
    "explained_bytes": "bytes per decision",
    "rss_mb": "process, MB",
}


def ask(setting: Setting) -> Answer:
    path, expected = setting.data_file(FILE), setting.data_file(EXPECTED)
    rows = []
    for corruption, classifier, known in _known(expected):
        points, outputs = _stream(path, corruption, classifier)
        for storage in ("uint8", "float32"):
            for one in known:
                row = _row(setting, points.astype(storage), outputs, one)
                rows.append({"corruption": corruption, "classifier": classifier, **row})
    oracle.require(len(rows) == 24, f"{len(rows)} cases of 24 are in {EXPECTED}")
    return Answer(
        "ImageNet embeddings, 1,000 × 1,024 clean, then corrupted",
        {"embeddings": Table(COLUMNS, rows, "Microseconds per decision, one thread.")},
        [f"all {len(rows)} runs have the flagged rows and pairs that brute force gave"],
        ["The history grows from nothing to 2,000 decisions."],
    )


def _known(expected: Path) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Each corruption and classifier, with what brute force gave at each radius."""
    for entry in json.loads(expected.read_text(encoding="utf-8")):
        if not entry["file"].startswith("imagenet1k_mobilenet_emb"):
            continue
        (corruption,) = (name for name in CORRUPTIONS if f"{name} rows" in entry["stream"])
        (classifier,) = (name for name in CLASSIFIERS if f"pred_{name}_" in entry["stream"])
        yield corruption, classifier, entry["result"]


def _stream(path: Path, corruption: str, classifier: str) -> tuple[Array, Array]:
    with np.load(path, allow_pickle=False) as file:
        points = np.concatenate([file["emb_clean"], file[f"emb_{corruption}"]])
        names = (f"pred_{classifier}_clean", f"pred_{classifier}_{corruption}")
        return points, np.concatenate([file[name] for name in names]).astype(np.int64)


def _row(setting: Setting, points: Array, outputs: Array, known: dict[str, Any]) -> dict[str, Any]:
    question = Question("l2", float(known["eps"]), 0.0 if points.dtype == np.uint8 else 1e-5)
    warm_up(question, points, outputs)
    many: list[Timing] = []
    singles = []
    monitor: Any = None
    verdicts: Any = None
    for _ in range(setting.rounds):
        monitor = question.monitor()
        verdicts, timing = timed(monitor.observe_many, points, outputs, threads=1)
        many.append(timing)
        run = single_calls(question.monitor().observe, points, outputs)
        oracle.require(np.array_equal(run.counts, verdicts.counts), "other counts by observe")
        singles.append(run.percentiles())
    found = (int(np.count_nonzero(verdicts.violations)), int(verdicts.pairs))
    told = f"{question.label}: {found} flagged and pairs, expected {known}"
    oracle.require(found == (known["flagged"], known["pairs"]), told)
    return {
        "storage": points.dtype.name,
        "question": question.label,
        "epsilon": question.epsilon,
        "rows": len(points),
        "flagged": found[0],
        "pairs": found[1],
        **wall_us(many, len(points)),
        **medians(singles),
        **explained(monitor),
        "rss_mb": rss_bytes() / 1e6,
    }
