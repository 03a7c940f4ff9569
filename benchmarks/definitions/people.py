"""Decisions about people: the paper's sequences, tables of mixed columns, calibration, slope."""

from __future__ import annotations

import gzip
import importlib.util
import io
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks import oracle, workloads
from benchmarks.contenders import (
    ClemontBrute,
    ClemontFRNNFaiss,
    ClemontFRNNTree,
    ClemontTree,
    Question,
    ScipyMonitor,
    StreamContender,
    has_clemont_frnn,
    installed,
    run_stream,
    warm_up,
)
from benchmarks.harness import Answer, Row, Setting, Skipped, benchmark
from benchmarks.measure import (
    Timing,
    medians,
    percentiles_us,
    single_calls,
    time_in_turns,
    timed,
    wall_us,
)
from benchmarks.workloads import ACS_FILE, PAPER_FILES, SEED

Array = NDArray[Any]
PAPER_NAMES = tuple(
    f"{data}-{model}-P2" for data in ("adult", "compas", "german") for model in ("base", "global")
)
BUDGET_SECONDS = 120.0
RUNS = 5  # the files are small, so likewise is timed before and after each other contender


@benchmark("The paper's decision sequences, L∞ ε=0.16")
def paper(setting: Setting) -> Answer:
    """Are counts exactly those of brute force, and how long does the paper's own tool take?

    Microseconds per decision; one thread each. ratio is the contender's time over that of
    `observe_many`, single_ratio over that of one `observe`; percentiles are of single decisions.

    Clemont's counts are as it reports them; likewise's and SciPy's are asserted.

    A contender that met its time limit was measured on the first rows only, where its history is
    still short: that favours it.
    """
    (folder,) = {setting.data_file(name).parent for name in PAPER_FILES}
    rows: list[Row] = []
    checks = [_one_file(setting, folder, name, rows) for name in PAPER_NAMES]
    total = sum(row["pairs"] for row in rows if row["contender"] == "likewise")
    oracle.require(total > 0, "no file holds a violation")
    return Answer({"contenders": rows}, checks)


def _one_file(setting: Setting, folder: Path, name: str, rows: list[Row]) -> str:
    """Measure all contenders on one file; return what was checked."""
    question = Question("linf", 0.16, slack=1e-9)
    data = workloads.paper(folder, name, question.epsilon)
    whole = len(data.points)
    n = setting.rows(whole)
    points, outputs = data.points[:n], data.outputs[:n]
    warm_up(question, points, outputs)
    times: list[Timing] = []
    verdicts: Any = None
    monitor: Any = None

    def run_likewise() -> None:
        nonlocal verdicts, monitor
        for _ in range(RUNS):
            monitor = question.monitor()
            verdicts, timing = timed(monitor.observe_many, points, outputs, threads=1)
            times.append(timing)

    run_likewise()
    streamed = {}
    budget = BUDGET_SECONDS * max(setting.scale, 0.01)
    for make in _stream_contenders(setting):
        streamed[make] = run_stream(make(question, data.columns, points, outputs), n, budget)
        run_likewise()

    flagged, pairs = int(np.count_nonzero(verdicts.violations)), int(verdicts.pairs)
    if n == whole:
        known = f"{data.flagged:,} flagged and {data.pairs:,} pairs"
        oracle.require(
            (flagged, pairs) == (data.flagged, data.pairs),
            f"{name}: {flagged} flagged and {pairs} pairs, expected {known}",
        )
        checked = f"{name}: {known}, as by brute force"
    else:
        checked = f"{name}, first {n:,} rows: " + oracle.prove(question, points, outputs)
    singles = []
    for _ in range(setting.rounds):
        single = single_calls(question.monitor().observe, points, outputs)
        oracle.require(np.array_equal(single.counts, verdicts.counts), f"{name}: other counts")
        singles.append(single.percentiles())
    one = medians(singles)
    us = wall_us(times, n)
    rows.append(
        {
            "file": name,
            "contender": "likewise",
            "whole": n == whole,
            "rows": n,
            "flagged": flagged,
            "pairs": pairs,
            **us,
            "ratio": 1.0,
            "single_ratio": 1.0,
            **one,
            "bytes_per_decision": float(monitor.explain().bytes_per_decision),
            "note": "observe_many; percentiles of single `observe`",
        }
    )
    for make, run in streamed.items():
        done = len(run.kept)
        mine = verdicts.counts[:done]
        same = np.array_equal(run.counts, mine)
        oracle.require(same or not make.exact, f"{name}: {make.name} and likewise disagree")
        notes = [] if done == n else [f"first {done:,} rows only"]
        if not same:
            notes.append(f"exact: {int((mine > 0).sum()):,} flagged, {int(mine.sum()):,} pairs")
        found = percentiles_us(run.us)
        mean = found.pop("mean_us")
        rows.append(
            {
                "file": name,
                "contender": make.name,
                "whole": done == whole,
                "rows": done,
                "flagged": int(np.count_nonzero(run.counts)),
                "pairs": int(run.counts.sum()),
                "us": mean,
                "ratio": mean / us["us"],
                "single_ratio": mean / one["mean_us"],
                **found,
                "note": "; ".join(notes),
            }
        )
    return checked


def _stream_contenders(setting: Setting) -> Iterator[type[StreamContender]]:
    if any(peer.package == "scipy" for peer in setting.peers):
        yield ScipyMonitor
    if setting.with_clemont and installed("clemont"):
        yield from (ClemontTree, ClemontBrute)
        if has_clemont_frnn():
            yield from (ClemontFRNNTree, ClemontFRNNFaiss)


CENSUS_FILE = "census_kdd_299k.npz"
CENSUS_TOLERANCES = {
    "age": 5,
    "wage_per_hour": 200,
    "capital_gains": 1_000,
    "capital_losses": 500,
    "dividends": 500,
    "num_persons_employer": 1,
    "weeks_worked": 4,
}


@dataclass(frozen=True)
class People:
    """A table as structured rows, its rule, and how many columns it has.

    Numbers are near within a tenth of their usual spread, ages within 5 years; every category must
    match, protected ones are ignored.
    """

    name: str
    table: Array
    outputs: Array
    rule: lw.Rule
    columns: int


def _people(
    name: str,
    columns: dict[str, Array],
    outputs: Array,
    output_column: str,
    tolerances: dict[str, int],
    protected: tuple[str, ...],
) -> People:
    table = np.empty(len(outputs), dtype=[(name, column.dtype) for name, column in columns.items()])
    features: dict[str, Any] = {}
    for column, values in columns.items():
        table[column] = values
        if column in tolerances:
            features[column] = {"kind": "number", "tolerance": tolerances[column]}
        else:
            features[column] = {"kind": "protected" if column in protected else "category"}
    rule = lw.Rule(features=features, output_column=output_column)
    return People(name, table, outputs, rule, len(columns))


def _both_tables(setting: Setting) -> Iterator[People]:
    """Read Census-Income, then the American Community Survey."""
    with np.load(setting.data_file(CENSUS_FILE), allow_pickle=False) as file:
        columns = dict(zip(file["num_cols"].tolist(), file["num"].T, strict=True))
        columns |= dict(zip(file["cat_cols"].tolist(), file["cat"].T, strict=True))
        outputs, protected = file["y"].astype(np.int64), ("sex", "race", "hispanic")
    yield _people("Census-Income", columns, outputs, "y", CENSUS_TOLERANCES, protected)
    with np.load(setting.data_file(ACS_FILE), allow_pickle=False) as file:
        columns = dict(zip(file["columns"].tolist(), file["x"].T, strict=True))
        outputs, tolerances = file["pred"].astype(np.int64), {"AGEP": 5, "SCHL": 2}
    name = "American Community Survey"
    yield _people(name, columns, outputs, "pred", tolerances, ("SEX", "RAC1P"))


TABLES = ("Census-Income", "American Community Survey")


@benchmark("People: tables of mixed columns")
def people(setting: Setting) -> Answer:
    """How does reading and comparing a table compare with a ball tree of its vectors?

    Microseconds per decision or query, one thread: us is the table read, compared and kept,
    vectors_us its vectors compared.

    The ball tree is built over the same vectors (Chebyshev) and only answers queries.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise Skipped("scikit-learn is not installed.")
    rows, checks = [], []
    for one in _both_tables(setting):
        rows.append(_beside_ball_tree(setting, one))
        checks.append(f"{one.name}: the ball tree names the same witnesses for the rows asked")
    return Answer({"people": rows}, checks)


def _beside_ball_tree(setting: Setting, people: People) -> Row:
    from sklearn.neighbors import BallTree

    n = setting.rows(len(people.table))
    table, outputs = people.table[:n], people.outputs[:n]
    warm = lw.Monitor(people.rule)
    warm.observe_many(table[:1_000], outputs[:1_000], threads=1)
    runs: dict[str, list[Timing]] = {"us": [], "vectors_us": []}
    for _ in range(setting.rounds):
        monitor: Any = lw.Monitor(people.rule)
        verdicts, timing = timed(monitor.observe_many, table, outputs, threads=1)
        runs["us"].append(timing)
        vectors = monitor.core.engine.history.rows[:n].copy()
        plain = lw.Monitor(monitor.core.reader.vector_rule)
        same, timing = timed(plain.observe_many, vectors, outputs, threads=1)
        runs["vectors_us"].append(timing)
        oracle.require(same.pairs == verdicts.pairs > 0, "vectors and tables differ")
    scaled = vectors * np.array(monitor.core.reader.vector_rule.weights)
    tree = BallTree(scaled, metric="chebyshev")
    drawn = np.random.default_rng(SEED).choice(n, min(300, n), replace=False)
    near, timing = timed(
        lambda: [tree.query_radius(scaled[i : i + 1], 1.0 + 1e-9)[0] for i in drawn]
    )
    for i, found in zip(drawn.tolist(), near, strict=True):
        expected = np.sort(found[(found < i) & (outputs[found] != outputs[i])])
        same = np.array_equal(expected, verdicts[i].witnesses.rows)
        oracle.require(same, f"row {i}: the ball tree differs")
    us = {name: wall_us(times, n)["us"] for name, times in runs.items()}
    balltree = timing.wall / len(drawn) * 1e6
    return {
        "who": people.name,
        "rows": n,
        "columns": people.columns,
        "coordinates": vectors.shape[1],
        "flagged": int(verdicts.violations.sum()),
        "pairs": verdicts.pairs,
        **us,
        "balltree_us": balltree,
        "ratio": balltree / us["us"],
    }


@benchmark("Comparable: was there a like case at all?")
def comparable(setting: Setting) -> Answer:
    """What does it cost to say whether a decision could be compared at all?

    Microseconds per decision, one thread; `asked` is with `comparable=True`.

    `observe_many` of the table, which is read and kept too, and of the vectors that its rows
    become; `observe` of vectors, against half of the history.
    """
    rows, checks = [], []
    for one in _both_tables(setting):
        rows.append(_with_and_without(setting, one))
        checks.append(f"{one.name}: all distances say the same of the rows looked at")
    return Answer({"comparable": rows}, checks)


def _with_and_without(setting: Setting, people: People) -> Row:
    n = setting.rows(len(people.table))
    table, outputs = people.table[:n], people.outputs[:n]
    before: Any = lw.Monitor(people.rule)
    before.load(table, outputs)
    vectors, plain = before.core.engine.history.rows[:n].copy(), before.core.reader.vector_rule
    said: dict[str, lw.Verdicts] = {}

    def judge(rule: lw.Rule, rows: Any, asked: bool) -> lw.Verdicts:
        return lw.Monitor(rule, comparable=asked).observe_many(rows, outputs, threads=1)

    runs = {
        "us": partial(judge, people.rule, table, False),
        "asked_us": partial(judge, people.rule, table, True),
        "vectors_us": partial(judge, plain, vectors, False),
        "vectors_asked_us": partial(judge, plain, vectors, True),
    }
    times = time_in_turns(runs, setting.rounds, said.__setitem__)
    us = {name: wall_us(timings, n)["us"] for name, timings in times.items()}
    comparable = said["asked_us"].comparable
    assert comparable is not None
    alike = np.array_equal(comparable, said["vectors_asked_us"].comparable)
    oracle.require(alike, "vectors and tables differ")
    oracle.require(said["us"].pairs == said["asked_us"].pairs > 0, "asking changes witnesses")
    us |= _one_by_one(setting, plain, vectors, outputs)
    drawn = np.random.default_rng(SEED).choice(n, min(200, n), replace=False)
    weights = np.array(plain.weights)
    for i in drawn.tolist():
        gaps = np.where(weights > 0, np.abs(vectors[:i] - vectors[i]), 0.0) * weights
        near = bool((gaps.max(axis=1, initial=0.0) <= plain.epsilon * (1.0 + 1e-9)).any())
        oracle.require(near == comparable[i], f"row {i}: all distances say otherwise")
    return {
        "who": people.name,
        "rows": n,
        "comparable": int(comparable.sum()),
        "flagged": int(said["asked_us"].violations.sum()),
        **us,
        "ratio": us["asked_us"] / us["us"],
        "vectors_ratio": us["vectors_asked_us"] / us["vectors_us"],
    }


@benchmark("Support: how many like cases agree?")
def support(setting: Setting) -> Answer:
    """What does it cost to count similar cases, beside saying whether there was one?

    Microseconds per decision of `observe_many`, one thread; near: like cases of a decision, on
    average; per_near_ns: what counting costs for each of them, in nanoseconds.
    """
    rows = [_counted(setting, one) for one in _both_tables(setting)]
    return Answer({"support": rows}, ["all distances count the same near rows of those looked at"])


def _counted(setting: Setting, people: People) -> Row:
    n = setting.rows(len(people.table))
    table, outputs = people.table[:n], people.outputs[:n]
    said: dict[str, lw.Verdicts] = {}

    def judge(support: bool) -> lw.Verdicts:
        monitor = lw.Monitor(people.rule, comparable=True, support=support)
        return monitor.observe_many(table, outputs, threads=1)

    runs = {"us": partial(judge, False), "asked_us": partial(judge, True)}
    times = time_in_turns(runs, setting.rounds, said.__setitem__)
    us = {name: wall_us(timings, n)["us"] for name, timings in times.items()}
    near = said["asked_us"].near
    assert near is not None
    oracle.require(said["us"].pairs == said["asked_us"].pairs > 0, "asking changes witnesses")
    before: Any = lw.Monitor(people.rule)
    before.load(table, outputs)
    vectors, plain = before.core.engine.history.rows[:n], before.core.reader.vector_rule
    weights = np.array(plain.weights)
    drawn = np.random.default_rng(SEED).choice(n, min(200, n), replace=False)
    for i in drawn.tolist():
        gaps = np.where(weights > 0, np.abs(vectors[:i] - vectors[i]), 0.0) * weights
        count = (gaps.max(axis=1, initial=0.0) <= plain.epsilon * (1.0 + 1e-9)).sum()
        oracle.require(count == near[i], f"row {i}: all distances say otherwise")
    return {
        "who": people.name,
        "rows": n,
        "near": float(near.mean()),
        **us,
        "per_near_ns": 1e3 * (us["asked_us"] - us["us"]) / float(near.mean()),
        "ratio": us["asked_us"] / us["us"],
    }


def _one_by_one(
    setting: Setting, rule: lw.Rule, vectors: Array, outputs: Array
) -> dict[str, float]:
    """Time decisions one by one, against the first half of the history."""
    half = len(vectors) // 2
    count = min(20_000, len(vectors) - half)
    labels = outputs[half : half + count].tolist()
    times: dict[str, list[Timing]] = {"single_us": [], "single_asked_us": []}

    def observe(monitor: lw.Monitor) -> None:
        for x, z in zip(vectors[half : half + count], labels, strict=True):
            monitor.observe(x, z)

    for _ in range(setting.rounds):
        for name, timings in times.items():
            monitor = lw.Monitor(rule, comparable=name == "single_asked_us")
            monitor.load(vectors[:half], outputs[:half])
            timings.append(timed(observe, monitor)[1])
    return {name: wall_us(timings, count)["us"] for name, timings in times.items()}


@benchmark("Calibration: every radius at once")
def calibrate(setting: Setting) -> Answer:
    """How long is one pass that answers for every radius, beside one monitoring run?

    Seconds, all threads, medians.
    """
    higgs = setting.rows_source()
    points, outputs = workloads.acs(setting.data_file(ACS_FILE))
    count = setting.rows(len(points))
    return Answer(
        {
            "calibrate": [
                _calibrate(setting, "ACS × 16", points[:count], outputs[:count]),
                _calibrate(setting, "HIGGS-like × 12", *higgs.rows(setting.rows(1_000_000), 12)),
            ]
        },
        ["at the median radius, the rate is the share that a monitor flags"],
    )


def _calibrate(setting: Setting, name: str, points: Array, outputs: Array) -> Row:
    rule = lw.Rule("linf", 0.05)
    lw.calibrate(rule, points[:1_000], outputs[:1_000])
    times: dict[str, list[float]] = {"monitor_s": [], "calibrate_s": []}
    for _ in range(setting.rounds):
        found, timing = timed(lw.calibrate, rule, points, outputs)
        times["calibrate_s"].append(timing.wall)
        known = found.distances[(found.distances > 0) & np.isfinite(found.distances)]
        epsilon = float(np.median(known))
        verdicts, timing = timed(lw.Monitor(lw.Rule("linf", epsilon)).observe_many, points, outputs)
        times["monitor_s"].append(timing.wall)
        flagged = int(verdicts.violations.sum())
        same = flagged == round(found.rate(epsilon) * len(points)) > 0
        oracle.require(same, f"{name}: rates differ")
    seconds = {key: statistics.median(some) for key, some in times.items()}
    return {
        "workload": name,
        "rows": len(points),
        "epsilon": epsilon,
        "flagged": flagged,
        **seconds,
        "ratio": seconds["calibrate_s"] / seconds["monitor_s"],
    }


SLOPE_FILE = "clemont_example_adult_proba.csv.gz"
ADULT_SLOPE, HIGGS_SLOPE = "Adult, probability of the model", "HIGGS-like × 12, made-up score"
FIRST_K = 8


@benchmark("Slope: the steepest past pair")
def slope(setting: Setting) -> Answer:
    """How does the quantitative monitor compare with its authors' way, on FAISS's flat index?

    Their algorithm asks for the k nearest past inputs and stops when no farther one could be
    steeper, given how far apart outputs can be at all; else it asks for twice as many. Their own
    QuantitativeMonitor is not on the package index; it takes part where a checkout of their
    repository is given (`make bench CLEMONT=folder`).

    Microseconds per decision, L2: one `observe`, in a batch on one thread, doubling k on FAISS,
    Clemont's QuantitativeMonitor.

    On the long stream the other way answers the last thousand decisions only.
    """
    if importlib.util.find_spec("faiss") is None:
        raise Skipped("FAISS is not installed.")
    text = gzip.decompress(setting.data_file(SLOPE_FILE).read_bytes()).decode()
    values = np.genfromtxt(io.StringIO(text), delimiter=",", skip_header=1)
    points, outputs = np.ascontiguousarray(values[:, 4:]), values[:, 2]
    higgs, _ = setting.rows_source().rows(setting.rows(100_000), 12)
    scores = 1.0 / (1.0 + np.exp(-4.0 * (higgs[:, :4].sum(axis=1) - 2.0)))
    scores += np.random.default_rng(0).normal(0.0, 0.05, len(scores))
    adult = _slope(ADULT_SLOPE, points, outputs, len(points))
    if setting.with_clemont and has_clemont_frnn():
        adult |= _slope_of_clemont(points, outputs, adult["us"])
    return Answer(
        {"slope": [adult, _slope(HIGGS_SLOPE, higgs.astype(np.float64), scores, 1_000)]},
        ["both ways name the same slopes, up to the rounding of FAISS"],
    )


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

    def find_steepest(self, x: Array, z: float) -> float:
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


def _slope_of_clemont(points: Array, outputs: Array, us: float) -> dict[str, float]:
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
    distances = _distances(mine)[some]
    expected = mine.slopes[some] * distances / (distances + 1e-6)
    close = np.isclose(expected, np.array(theirs)[some], rtol=1e-6)
    oracle.require(bool(close.all() and some.sum() > len(points) / 2), "Clemont's slopes differ")
    clemont_us = timing.wall / len(points) * 1e6
    return {"clemont_us": clemont_us, "clemont_ratio": clemont_us / us}


def _distances(verdicts: lw.Verdicts) -> Array:
    """Return how far each decision is from its only witness; 0 where there is none."""
    distances = np.zeros(len(verdicts))
    distances[verdicts.owners] = verdicts.witnesses.input_distances
    return distances


def _slope(name: str, points: Array, outputs: Array, sample: int) -> Row:
    """Measure both ways on the last `sample` decisions of a stream."""
    rule, first = lw.Rule("l2", 1.0, output="number"), len(points) - sample
    warm = lw.Monitor(rule, slope=True)
    for x, z in zip(points[:200], outputs[:200].tolist(), strict=True):
        warm.observe(x, z)
    monitor = lw.Monitor(rule, slope=True)
    if first:
        monitor.observe_many(points[:first], outputs[:first], threads=1)
    tail = list(zip(points[first:], outputs[first:].tolist(), strict=True))
    mine, timing = timed(lambda: [monitor.observe(x, z).slope for x, z in tail])
    batch, whole = timed(lw.Monitor(rule, slope=True).observe_many, points, outputs, threads=1)
    other = Doubling(points.shape[1], float(np.ptp(outputs)))
    other.add(points[:first], outputs[:first])

    def double() -> list[float]:
        found = []
        for x, z in tail:
            found.append(other.find_steepest(x, z))
            other.add(x[None], np.array([z]))
        return found

    theirs, slow = timed(double)
    oracle.require(np.array_equal(batch.slopes[first:], mine), f"{name}: batches differ")
    # FAISS computes near distances with little precision: compare where inputs are apart.
    apart = _distances(batch)[first:] > 1e-2
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
