"""The example of somebody else's index runs and is short. That it misses nothing is tested with
every other index (tests/support/index_cases.py).
"""

import ast

import pytest

import likewise as lw
from tests.support.index_cases import BALL_TREE, load_ball_tree
from tests.support.programs import run_python


@pytest.mark.long
def test_example_prints_what_live_finds():
    done = run_python("-W", "error", BALL_TREE)
    X, Z = load_ball_tree().applications(1_000)
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
    (found,) = (
        node for node in ast.parse(BALL_TREE.read_text()).body if isinstance(node, ast.ClassDef)
    )
    assert found.name == "BallTreeIndex"
    assert found.end_lineno - found.lineno < 20
