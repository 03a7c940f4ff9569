"""Distinct inputs, their near pairs, and neighbourhoods in which every two are near."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from likewise.explaining.compare_groups import Neighbourhoods, like_points
from likewise.explaining.past import Points


@st.composite
def clouds(draw):
    """Inputs of which some are the same, and a radius that is the distance of two of them."""
    rows = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=2, max_size=40))
    points = np.array(rows, dtype=np.float64)
    apart = np.abs(points[:, None] - points[None]).max(axis=2)
    return points, float(draw(st.sampled_from(sorted(set(apart.ravel()))))) or 1.0, apart


@given(cloud=clouds())
def test_near_rows_are_those_of_one_point_or_of_a_near_pair(cloud):
    points, radius, apart = cloud
    like = like_points(Points(points, None, lw.Rule("linf", radius)))
    near = np.eye(like.count, dtype=bool)
    last = -1
    for later, earlier in like.pairs():
        assert (earlier < later).all() and later[0] > last and (np.diff(later) >= 0).all()
        assert not near[later, earlier].any()
        near[later, earlier] = near[earlier, later] = True
        last = later[-1]
    assert (near[np.ix_(like.point_of, like.point_of)] == (apart <= radius)).all()


@given(cloud=clouds())
def test_every_two_points_of_a_neighbourhood_are_near(cloud):
    points, radius, apart = cloud
    like = like_points(Points(points, None, lw.Rule("linf", radius)))
    parts = Neighbourhoods(np.bincount(like.point_of))
    for later, earlier in like.pairs():
        parts.add(later, earlier)
    part = parts.of_point[like.point_of]
    together = part[:, None] == part[None]
    assert (apart[together] <= radius).all()
    near = like.points.vectors
    assert len(np.unique(part)) <= len(near)
    if (apart <= radius).all():
        assert len(np.unique(part)) == 1  # all near each other: one neighbourhood


def test_points_come_in_the_order_of_coordinates():
    points = np.array([[3.0, 1.0], [1.0, 2.0], [3.0, 0.0], [1.0, 2.0]])
    like = like_points(Points(points, None, lw.Rule("linf", 1.0)))
    assert like.points.vectors.tolist() == [[1.0, 2.0], [3.0, 0.0], [3.0, 1.0]]
    assert like.point_of.tolist() == [2, 0, 1, 0]


def test_chunks_are_bounded(monkeypatch):
    monkeypatch.setattr("likewise.explaining.compare_groups._PAIRS", 2_000)
    points = np.random.default_rng(1).uniform(0, 10, (3_000, 1))
    like = like_points(Points(points, None, lw.Rule("linf", 0.2)))
    sizes = [len(later) for later, _ in like.pairs()]
    apart = np.abs(points - points.T)
    assert sum(sizes) == (np.triu(apart <= 0.2 * (1 + 1e-9), 1)).sum() > 100_000
    assert np.median(sizes) < 4_000


def test_some_points_leave_rows_without_one():
    like = like_points(Points(np.array([[1.0], [2.0], [1.0]]), None, lw.Rule("linf", 1.0)))
    some = like.select(np.array([False, True]))
    assert some.point_of.tolist() == [-1, 0, -1] and some.count == 1
    assert some.select(np.array([False])).point_of.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("open_place", [0, 1])
def test_open_places_match_everything(open_place):
    points = np.array([[0.0, 0.0], [9.0, 9.0], [5.0, 5.0]])
    left_open = np.zeros((3, 2), bool)
    left_open[2, open_place] = True
    points[0, 1 - open_place] = 5.0
    like = like_points(Points(points, left_open, lw.Rule("linf", 1.0)))
    pairs = {
        frozenset((int(a), int(b)))
        for later, earlier in like.pairs()
        for a, b in zip(later, earlier, strict=True)
    }
    assert pairs == {frozenset(like.point_of[[0, 2]].tolist())}
