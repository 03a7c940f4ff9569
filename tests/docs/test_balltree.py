"""The example of somebody else's index runs, says what is so, and misses nothing."""

import ast
import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from tests.support.oracle import Oracle, assert_same_verdicts
from tests.support.play import VERBS, play, radius_on_an_edge
from tests.support.strategies import CLOUDS, METRICS, Tally, inputs, out_of_reach, prove, streams

pytestmark = pytest.mark.pairwise

PATH = Path(__file__).resolve().parents[2] / "examples" / "balltree.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("balltree", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_example_prints_what_live_finds(example):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PATH)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    X, Z = example.applications(1_000)
    verdicts = lw.Monitor(lw.Rule("linf", 0.02), index="live").observe_many(X, Z)
    found = [verdict for verdict in verdicts if verdict.violation]
    assert 20 < len(found) < 500
    lines = []
    for verdict in found[:3]:
        row, other = verdict.row, int(verdict.witnesses.rows[0])
        lines.append(f"Decision {row}, {X[row].tolist()}, was {Z[row]},")
        lines.append(f"but decision {other}, {X[other].tolist()}, was {Z[other]}.")
    lines.append(f"{len(found)} of 1,000 decisions contradict an earlier one close by.")
    assert done.stdout.splitlines() == lines


def test_example_index_is_at_most_twenty_lines():
    (found,) = (node for node in ast.parse(PATH.read_text()).body if isinstance(node, ast.ClassDef))
    assert found.name == "BallTreeIndex"
    assert found.end_lineno - found.lineno < 20


@pytest.mark.parametrize("metric", METRICS)
def test_example_index_says_what_the_oracle_says(example, metric):
    tally = Tally()
    steps = st.lists(
        st.tuples(st.sampled_from(VERBS), st.integers(1, 60), st.integers(0, 99)), max_size=6
    )

    @prove(
        8,
        stream=streams(metric, most=120, widths=(1, 2, 3, 8)),
        steps=steps,
        tau=st.sampled_from((1, 7, 64, "auto")),
    )
    def holds(stream, steps, tau):
        index = lw.Periodic(example.BallTreeIndex, tau)
        whole = [*steps, ("observe", 15, 1), ("observe_many", 15, 1)]
        monitor = lw.Monitor(stream.rule, index=index)
        tally.note(play(monitor, Oracle(stream.rule), stream.X, stream.Z, whole))

    tally.assert_enough()


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("metric", METRICS)
def test_example_index_equals_live(example, metric, cloud):
    rng = np.random.default_rng(CLOUDS.index(cloud))
    X = inputs(rng, cloud, 200, 4, np.dtype(np.float64), metric)
    Z = rng.integers(20, size=len(X)).tolist()
    rule = lw.Rule(metric, 1.0, slack=0)
    if metric == "cosine":
        X[out_of_reach(rule, X)] = 1
    rule = replace(rule, epsilon=radius_on_an_edge(rule, X, Z, 2))
    live = lw.Monitor(rule, index="live").observe_many(X, Z)
    assert live.pairs > 0
    expected = Oracle(rule).observe_many(X, Z)
    assert_same_verdicts(live, expected)
    monitor = lw.Monitor(rule, index=lw.Periodic(example.BallTreeIndex, tau=50))
    assert_same_verdicts(monitor.observe_many(X, Z), expected)
