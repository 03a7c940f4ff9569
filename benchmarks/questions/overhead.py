"""What watching costs beside what the model itself takes, decision by decision."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.answer import TRIAL, Answer, Setting, Skipped, Table
from benchmarks.child import TORCH, call

DIGITS = 3_000
TEXTS = 3_000
MODELS = ("LogisticRegression", "MLPClassifier", "RandomForestClassifier")
EMBEDDERS = {"wordllama": 0.6, "MiniLM": 0.6}
"""By name: the radius, at which some messages that are alike got different answers."""

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


def ask(setting: Setting) -> Answer:
    pictures = [
        {"model": name, **_middle(setting, "digits", {"model": name, "rows": setting.rows(DIGITS)})}
        for name in MODELS
    ]
    notes = []
    messages: list[dict[str, Any]] = []
    for name, epsilon in EMBEDDERS.items():
        try:
            given = {
                "model": name,
                "epsilon": epsilon,
                "rows": setting.rows(TEXTS, 1_000),
                "folder": str(setting.data_file("SMSSpamCollection.tsv.gz").parent),
            }
            messages.append({"model": name, **_middle(setting, "texts", given)})
        except Skipped as why:
            notes.append(f"{name}: {why}")
    return Answer(
        "What watching costs beside the model",
        {
            "digits": Table(
                COLUMNS,
                pictures,
                "scikit-learn's digits (64 float64 numbers, L∞), one `predict` of a row at a time",
            ),
            "texts": Table(
                COLUMNS,
                messages,
                "SMS messages, each embedded, then judged by a linear model; L2 of the embedding."
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
