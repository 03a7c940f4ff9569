"""The clearest pairs come first: one answer against many, then nearer inputs."""

import numpy as np

import likewise as lw
from likewise.reports.clearest import measure_lopsidedness
from likewise.reports.findings import Tally
from likewise.reports.totals import wilson_bounds


def test_lopsidedness_is_the_lower_limit_of_the_larger_share_in_tenths():
    rng = np.random.default_rng(2)
    near = rng.integers(1, 200, 500)
    agree = (near * rng.random(500)).astype(np.int64)
    expected = [
        int(10 * wilson_bounds(max(some, of - some), of)[0])
        for of, some in zip(near.tolist(), agree.tolist(), strict=True)
    ]
    assert measure_lopsidedness(near, agree).tolist() == expected
    assert measure_lopsidedness(np.array([-1, 0]), np.array([-1, 0])).tolist() == [0, 0]


def first_pair(*, support):
    """One outlier among 30 cases at 0.5, and one against one at 50, which are the same."""
    monitor = lw.Monitor(lw.Rule(epsilon=1), support=support)
    tally = Tally(monitor)
    x = [[50.0], [50.0], *[[0.0]] * 30, [0.5]]
    z = ["yes", "no", *["yes"] * 30, "no"]
    for start in range(0, len(x), 5):
        tally.add(monitor.observe_many(x[start : start + 5], z[start : start + 5]))
    return tally.findings(source="").worst[0].pair


def test_a_lone_outlier_among_many_comes_before_one_against_one():
    pair = first_pair(support=True)
    assert (pair.row, pair.support) == (32, (30, 0))


def test_without_support_the_nearest_pair_comes_first():
    pair = first_pair(support=False)
    assert (pair.row, pair.witness.row, pair.support) == (1, 0, None)
