"""How does a decision's time grow with the number of coordinates, from 4 to 65,536?

The paper's Figure 5, on made-up square pictures from 2 × 2 to 256 × 256, L∞ within 4 of 255. Every
point of the curve has a process of its own: likewise on uint8 and on float32, FAISS, SciPy.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks import oracle
from benchmarks.answer import TRIAL, Answer, Setting, Table
from benchmarks.neighbours import same_nearest
from benchmarks.planted import EVERY, radius_of
from benchmarks.widths import LEVELS, TIMED

SIDES, TRIAL_SIDES = (2, 4, 8, 16, 32, 64, 128, 256), 4
FULL, BUDGET_BYTES = 100_000, 4_000_000_000
PEER_QUERIES = EVERY  # one of them is planted
SCIPY_SECONDS = 20.0, 5.0  # a build or a query slower than this is the last
STORAGES = ("uint8", "float32")

COLUMNS = {
    "width": "coordinates",
    "uint8_rows": "rows",
    "uint8_us": "likewise, uint8",
    "uint8_p99_us": "p99",
    "uint8_fresh_us": "fresh memory",
    "float32_rows": "rows of the others",
    "float32_us": "likewise, float32",
    "float32_p99_us": "p99",
    "float32_fresh_us": "fresh memory",
    "faiss_us": "FAISS flat, nearest",
    "scipy_us": "SciPy cKDTree",
    "neighbours": "neighbours, mean",
}
MEMORY_COLUMNS = {
    "width": "coordinates",
    "uint8_rss_mb": "likewise, uint8",
    "float32_rss_mb": "likewise, float32",
    "faiss_rss_mb": "FAISS flat",
    "scipy_rss_mb": "SciPy cKDTree",
    "scipy_build_seconds": "SciPy's build, seconds",
}
STEP_CAPTION = (
    "From one width to the next, the ratio of the times over the ratio of the widths:"
    " 1 is linear, less is better."
)
STEP_COLUMNS = {
    "from": "from",
    "to": "to coordinates",
    "uint8_step": "uint8",
    "float32_step": "float32",
}


def ask(setting: Setting) -> Answer:
    scipy = any(peer.package == "scipy" for peer in setting.peers)
    rows: list[dict[str, Any]] = []
    checked = 0
    for side in SIDES[:TRIAL_SIDES] if setting.scale < TRIAL else SIDES:
        row: dict[str, Any] = {"width": side * side}
        near: list[list[int]] = []
        for storage in STORAGES:
            given = given_of(setting, side, storage)
            one = setting.alone("benchmarks.widths:run", given)
            near, checked = one.pop("near"), checked + one["checked"]
            row["neighbours"] = one.pop("neighbours")
            row.update({f"{storage}_{key}": value for key, value in one.items()})
        given = given_of(setting, side, "float32")  # the peers have the same rows as that one
        if "pinned" in setting.faiss:
            row.update(_faiss(setting, given, near))
        if scipy:
            one = setting.alone("benchmarks.widths:tree", given)
            oracle.require(one.pop("near") == near, f"{side}: SciPy and likewise disagree")
            row.update({f"scipy_{key}": value for key, value in one.items()})
            scipy = one["build_seconds"] < SCIPY_SECONDS[0] and one["us"] < SCIPY_SECONDS[1] * 1e6
            scipy = scipy and 4 * given["rows"] * side * side * 8 <= BUDGET_BYTES
        rows.append(row)
    return Answer(
        "Dimensions, 4 to 65,536 coordinates, L∞ within 4 of 255",
        {
            "curve": Table(COLUMNS, rows, "Microseconds of one decision or query."),
            "memory": Table(MEMORY_COLUMNS, rows, "Resident memory of each process, MB."),
            "steps": Table(STEP_COLUMNS, _steps(rows), STEP_CAPTION),
        },
        [
            f"{checked:,} fresh rows have the near rows that looking at every row gives, over all"
            " widths; FAISS and SciPy agree on theirs"
        ],
        [
            "Made-up square pictures, grey: 32 scenes of smooth waves (a wave twice as fine is half"
            " as strong), shifted, faded, with noise of 3 levels; every 20th is an earlier one"
            f" within {LEVELS} levels with another decision.",
            f"likewise has {FULL:,} rows where they fit into 4 GB, else as many as fit; the time is"
            f" the mean of {TIMED:,} `observe` after the index has settled, the median of the"
            " rounds. FAISS (the pinned release, the faster one here) and SciPy have as many rows"
            " as likewise has of float32. FAISS looks for the nearest row, SciPy for all within the"
            " radius, one fresh row at a time; SciPy keeps float64 and stops where a build, a query"
            " or its memory gets too large.",
            "Fresh memory is the time of writing one such row where the process has not written"
            " before, and nothing else: a part of likewise's time that no index can save.",
        ],
    )


def given_of(setting: Setting, side: int, storage: str) -> dict[str, Any]:
    fits = BUDGET_BYTES // (side * side * np.dtype(storage).itemsize)
    n = min(setting.rows(FULL, least=1_000), fits)
    shape = {"kind": "scenes", "levels": LEVELS, "side": side, "channels": 1, "rows": n}
    return {**shape, "queries": PEER_QUERIES, "storage": storage, "rounds": setting.rounds}


def _faiss(setting: Setting, given: dict[str, Any], near: list[list[int]]) -> dict[str, Any]:
    radius = radius_of(LEVELS, "float32") * (1 + 1e-5)
    flat = {"metric": "linf", "radius": radius, "batch": 1, "rounds": 1, "answers": PEER_QUERIES}
    one = setting.beside({**flat, "source": given}, only="pinned")["pinned"]
    same_nearest(near, one["found"], radius)
    return {"faiss_us": one["us"], "faiss_rss_mb": one["rss_mb"], "faiss_best": one["best"]}


def _steps(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Between neighbouring widths: ratio of times over ratio of widths."""
    found = []
    for a, b in itertools.pairwise(rows):
        step = {"from": a["width"], "to": b["width"]}
        for storage in STORAGES:
            times = b[f"{storage}_us"] / a[f"{storage}_us"]
            step[f"{storage}_step"] = times / (b["width"] / a["width"])
        found.append(step)
    return found
