"""What watching costs beside what the model itself takes, decision by decision."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.answer import TRIAL, Answer, Setting, Skipped, Table
from benchmarks.child import TORCH, call

MODELS = {"LogisticRegression": 4_000, "MLPClassifier": 4_000, "RandomForestClassifier": 400}
"""By name: how many pictures are decided on, fewer by a slow one."""
EMBEDDERS = {"wordllama": (0.7, 1_000), "MiniLM": (0.7, 300)}
"""By name: the radius, at which some messages that are alike got different answers; how many."""
BEFORE = 2_000  # messages in the history when the first is decided on

COLUMNS = {
    "model": "model",
    "decisions": "decisions",
    "violations": "violations",
    "model_us": "model alone, µs",
    "watched_us": "watched, µs",
    "share": "overhead, share of the mean",
    "share_p50": "of the median",
    "p99_us": "p99 later by, µs",
}
OF_IT = {
    "observe_us": "`observe` after a `predict`, µs (median)",
    "tight_us": "`observe` after `observe`, µs (median)",
}
"""What of it is the search: a model's work leaves the processor's caches without the tree."""


def ask(setting: Setting) -> Answer:
    pictures = [
        {"model": name, **_middle(setting, "digits", {"model": name, "rows": setting.rows(rows)})}
        for name, rows in MODELS.items()
    ]
    notes = []
    messages: list[dict[str, Any]] = []
    for name, (epsilon, rows) in EMBEDDERS.items():
        try:
            given = {
                "model": name,
                "epsilon": epsilon,
                "rows": setting.rows(rows, 200),
                "before": BEFORE,
                "folder": str(setting.data_file("SMSSpamCollection.tsv.gz").parent),
            }
            messages.append({"model": name, **_middle(setting, "texts", given)})
        except Skipped as why:
            notes.append(f"{name}: {why}")
    return Answer(
        "What watching costs beside the model",
        {
            "digits": Table(
                {**COLUMNS, **OF_IT},
                pictures,
                "scikit-learn's digits (64 float64 numbers, L∞), one `predict` of a row at a time",
            ),
            "texts": Table(
                COLUMNS,
                messages,
                "SMS messages, each embedded, then judged by a linear model; L2 of the embedding;"
                f" {BEFORE:,} are in the history before the first."
                " The watcher takes the vector that the model's embedder made.",
            ),
        },
        ["watched and unwatched answers are equal", "each stream has violations, and no failures"],
        notes,
    )


def _middle(setting: Setting, what: str, given: dict[str, Any]) -> dict[str, Any]:
    """The round with the median share."""
    where = f"benchmarks.watched:{what}"
    if given["model"] != "MiniLM":
        rounds = [setting.alone(where, given) for _ in range(setting.rounds)]
    elif setting.scale < TRIAL or not TORCH.exists():
        raise Skipped("it needs torch, in the environment that `make test-torch` sets up.")
    else:
        rounds = [call(where, given, str(TORCH)) for _ in range(setting.rounds)]
    middle = statistics.median_low([one["share"] for one in rounds])
    return next(one for one in rounds if one["share"] == middle)
