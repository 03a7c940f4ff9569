"""Cells find the pairs that one monitor finds, and that the oracle does: all, once, to the bit."""

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import likewise as lw
from likewise.auditing import cells, ordering, spreading
from likewise.auditing.cell_folder import AuditFolder, read_json, write_json
from likewise.auditing.spreading import CellPlan, ChunkLoader, plan_cells
from likewise.sources.protocol import Chunk
from tests.audit.cells import audited, job_over, judged_by_one, parts_of, vectors
from tests.audit.test_cuts import random_cuts
from tests.support.lazily import polars as pl
from tests.support.oracle import Oracle, input_distances

METRICS = ("linf", "l1", "l2", "cosine")
seeds = st.integers(0, 2**32)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Chunks, pieces, stretches and batches have a few rows here, elsewhere thousands."""
    monkeypatch.setattr(spreading, "CHUNK", 61)
    monkeypatch.setattr(spreading, "BUFFER", 9_000)
    monkeypatch.setattr(spreading, "SAMPLE", 60)
    monkeypatch.setattr(ordering, "STRETCH", 40)
    monkeypatch.setattr(cells, "TOGETHER", 32)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # nobody pulls the plug here


def cloud(random):
    """Points with ties, duplicates and clusters, none of them 0."""
    count, dims = int(random.integers(2, 150)), int(random.integers(1, 5))
    kind = random.choice(["grid", "clusters", "uniform", "copies"])
    if kind == "grid":
        x = random.integers(0, 5, (count, dims)) / 4
    elif kind == "clusters":
        x = random.random((6, dims))[random.integers(0, 6, count)]
        x = x + random.normal(0, 0.02, (count, dims))
    elif kind == "copies":
        x = random.random((8, dims))[random.integers(0, 8, count)]
    else:
        x = random.random((count, dims))
    return x * 10.0 ** random.integers(-3, 4) + np.eye(1, dims)[0] * 1e-3


def drawn_rule(random, x, metric, **more):
    """Epsilon is the distance of two of the points: some pair is exactly on the boundary."""
    weights = None
    if random.random() < 0.3:
        weights = tuple((random.integers(0, 4, x.shape[1]) / 2 + np.eye(1, x.shape[1])[0]).tolist())
    rule = lw.Rule(metric=metric, epsilon=1.0, weights=weights, **more)
    apart = np.sort(input_distances(rule, x, x[random.integers(0, len(x))]))
    near = apart[apart > 1e-12][: max(2, len(x) // 12)]
    epsilon = float(random.choice(near)) if len(near) else 0.1
    return lw.Rule(metric=metric, epsilon=epsilon, weights=weights, **more)


def cut_anyhow(job, random):
    """Have a job use cuts that nobody would choose."""
    folder = AuditFolder(job.folder)
    with folder.lock():
        folder.begin(job)
        plan_cells(job, folder)
    frame = pl.concat([pl.read_parquet(one) for one in job.files])
    prober = ChunkLoader(job)
    loaded = prober.load(Chunk(frame, np.arange(frame.height)))
    points = prober.points(loaded)
    cuts = random_cuts(points, prober.space.reaches(loaded.probe), random, 8)
    plan = replace(read_json(folder.look, CellPlan), cuts=cuts)
    write_json(folder.look, plan)
    assert read_json(folder.look, CellPlan) == plan


@pytest.mark.long
@pytest.mark.parametrize("metric", METRICS)
def test_cells_find_what_the_oracle_finds(metric, tmp_path):
    met = {"pairs": 0, "cells": 0}

    @settings(max_examples=settings.default.max_examples // 8, deadline=None)
    @given(seeds)
    def holds(seed):
        random = np.random.default_rng(seed)
        x = cloud(random)
        number = random.random() < 0.3
        rule = drawn_rule(random, x, metric, output="number" if number else "label", delta=0.0)
        z = random.integers(0, 3, len(x)) / 2 if number else random.choice(["a", "b"], len(x))
        job = job_over(
            tmp_path, rule, parts_of(vectors(x, z), random), cell_rows=int(random.integers(10, 50))
        )
        if random.random() < 0.5 and any(one > 0 for one in rule.weights or (1.0,)):
            cut_anyhow(job, random)
        done, found = audited(job)
        oracle = Oracle(rule, comparable=True)
        expected, comparable = set(), 0
        for one, output in zip(x, z.tolist(), strict=True):
            verdict = oracle.observe(one, output)
            comparable += bool(verdict.comparable)
            distances = verdict.input_distances.tolist(), verdict.output_distances.tolist()
            rows = verdict.rows.tolist()
            expected |= {(verdict.row, *pair) for pair in zip(rows, *distances, strict=True)}
        assert found == expected
        assert done.finished.totals.comparable == comparable
        assert done.finished.totals.pairs == len(expected)
        met["pairs"] += len(expected)
        met["cells"] += len(done.cells)

    holds()
    assert met["pairs"] > 20
    assert met["cells"] > 6  # more than one for each example


@pytest.mark.long
@pytest.mark.parametrize("within", [None, "3 days"])
def test_the_order_of_time_decides_whatever_the_order_of_lines(within, tmp_path):
    @settings(max_examples=settings.default.max_examples // 8, deadline=None)
    @given(seeds)
    def holds(seed):
        random = np.random.default_rng(seed)
        x = cloud(random)
        rule = drawn_rule(random, x, "linf")
        days = random.integers(0, 12, len(x))  # with many ties
        kind = random.choice(["as they come", "oldest first", "newest first"])
        if kind != "as they come":
            days = np.sort(days)[:: 1 if kind == "oldest first" else -1]
        times = np.datetime64("2024-01-01", "us") + days * np.timedelta64(1, "D")
        frame = vectors(x, random.choice(["a", "b"], len(x))).with_columns(day=pl.Series(times))
        job = job_over(
            tmp_path,
            rule,
            parts_of(frame, random),
            beside=("day",),
            cell_rows=int(random.integers(10, 50)),
            time_column="day",
            within=within,
        )
        rises, falls = (np.diff(days) > 0).any(), (np.diff(days) < 0).any()
        order = np.arange(len(x))
        if falls:
            order = np.argsort(days, kind="stable") if rises else order[::-1]
        frame, times = frame[order], times[order]
        expected, comparable = judged_by_one(rule, frame, ("day",), within=within, times=times)
        done, found = audited(job)
        assert found == expected
        assert done.finished.totals.comparable == comparable
        assert done.order.ties == len(x) - len(np.unique(days))

    holds()


FEATURES = {
    "id": lw.Feature("key"),
    "age": lw.Feature("number", tolerance=3),
    "pay": lw.Feature("number", tolerance="20%", missing="mismatch"),
    "job": lw.Feature("category", missing="mismatch"),
    "town": lw.Feature("category", values=["a", "b", "c"], mismatch=0.6),
    "size": lw.Feature("ordinal", order=["s", "m", "l"], tolerance=1, missing="match"),
    "sex": lw.Feature("protected", missing="mismatch"),
    "who": lw.Feature("person", missing="mismatch"),
    "note": lw.Feature("ignore"),
}


def people(random):
    count = int(random.integers(5, 250))

    def some(values, missing=0.1):
        drawn = random.choice(values, count).tolist()
        return [None if random.random() < missing else one for one in drawn]

    return pl.DataFrame(
        {
            "id": [f"p{i}" for i in range(count)],
            "age": random.integers(20, 40, count),
            "pay": some(np.array([-100.0, 0.0, 100.0, 115.0, 130.0, 200.0])),
            "job": some(["nurse", "cook", "smith", "clerk"]),
            "town": some(["a", "b", "c"], 0),
            "size": some(["s", "m", "l"]),
            "sex": some(["f", "m"]),
            "who": some([f"w{i}" for i in range(20)], 0.5),
            "note": some(["x", "y"]),
            "model": some(["one", "two"], 0.2),
            "z": random.choice(["yes", "no"], count),
        },
        schema_overrides={"pay": pl.Float64},
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("metric", "compare"),
    [
        (metric, compare)
        for metric in ("linf", "l1", "l2")
        for compare in ("all", "within", "across")
    ],
)
def test_rules_with_features_find_what_one_monitor_finds(metric, compare, tmp_path):
    met = {"pairs": 0, "cells": 0}

    @settings(max_examples=settings.default.max_examples // 12, deadline=None)
    @given(seeds)
    def holds(seed):
        random = np.random.default_rng(seed)
        frame = people(random)
        rule = lw.Rule(
            metric,
            features=FEATURES,
            output_column="z",
            favourable="yes",
            compare=compare,
            protected_must_differ=bool(random.random() < 0.3),
        )
        job = job_over(
            tmp_path,
            rule,
            parts_of(frame, random),
            beside=("model",),
            cell_rows=int(random.integers(15, 60)),
            model_column="model",
        )
        expected, comparable = judged_by_one(
            rule, frame, ("model",), models=frame["model"].to_list()
        )
        done, found = audited(job)
        assert found == expected
        assert done.finished.totals.comparable == comparable
        met["pairs"] += len(expected)
        met["cells"] += len(done.cells)

    holds()
    assert met["cells"] > 4


def test_a_cell_that_cannot_be_cut_is_judged_in_blocks_of_time(tmp_path):
    random = np.random.default_rng(7)
    x = np.concatenate([np.zeros((150, 2)), random.random((100, 2)) / 50]) + 1
    x = x[random.permutation(len(x))]
    rule = lw.Rule(metric="linf", epsilon=0.1)
    frame = vectors(x, random.choice(["a", "b", "c"], len(x)))
    expected, comparable = judged_by_one(rule, frame)
    done, found = audited(job_over(tmp_path, rule, parts_of(frame, random), cell_rows=40))
    assert len(done.cells) == 1
    assert done.cells[0].rows > 2 * 40
    assert found == expected
    assert len(found) > 10_000
    assert done.finished.totals.comparable == comparable


def test_float32_inputs_are_compared_as_the_rule_stores_them(tmp_path):
    random = np.random.default_rng(8)
    x = (random.integers(0, 256, (300, 3)) / 255).astype(np.float32)
    rule = lw.Rule(metric="linf", epsilon=8 / 255, storage="float32")
    frame = vectors(x, random.choice(["a", "b"], len(x)))
    expected, _ = judged_by_one(rule, frame)
    done, found = audited(job_over(tmp_path, rule, parts_of(frame, random), cell_rows=50))
    assert len(done.cells) > 1
    assert expected
    assert found == expected


def test_groups_are_compared_within_models_where_no_like_pair_is_of_one_model(tmp_path):
    features = {"age": lw.Feature("number", tolerance=1), "sex": lw.Feature("protected")}
    rule = lw.Rule(features=features, output_column="z", favourable="yes", compare="within")
    frame = pl.DataFrame(
        {"age": [30, 31], "sex": ["f", "m"], "model": ["one", "two"], "z": ["yes", "no"]}
    )
    job = job_over(tmp_path, rule, [frame], beside=("model",), model_column="model")
    done, found = audited(job)
    assert found == set()
    assert [one.column for one in done.finished.together["groups"]] == ["sex"]
