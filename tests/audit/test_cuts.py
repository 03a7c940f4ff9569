"""Cuts: whatever is near a row is in its home, and a row has one home."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.auditing.cell_cuts import COPIES, Cut, CutTree, Reach, choose_cuts


def cells_of(cuts, points):
    """For each row its home, and the cells that it is in."""
    homes = np.full(len(points), -1)
    cells = [set() for _ in points]
    for cell, rows, home in cuts.cells_of(points):
        assert (homes[rows[home]] == -1).all(), "a row is at home twice"
        homes[rows[home]] = cell
        for row in rows.tolist():
            cells[row].add(cell)
    assert (homes >= 0).all(), "a row is at home nowhere"
    return homes, cells


def random_cuts(points, reaches, random, cells):
    """Any cuts will do, also through values that points have."""
    cuts = []

    def divide(left):
        if left <= 1:
            divide.cells += 1
            return -divide.cells
        coordinate = int(random.choice([j for j, one in enumerate(reaches) if one is not None]))
        cut = float(random.choice(points[:, coordinate]))
        cuts.append(None)
        number = len(cuts) - 1
        half = int(random.integers(1, left))
        low, high = reaches[coordinate].bounds(cut)
        cuts[number] = Cut(coordinate, cut, low, high, divide(half), divide(left - half))
        return number

    divide.cells = 0
    divide(cells)
    return CutTree(tuple(cuts))


@settings(deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_rows_near_in_every_coordinate_are_in_the_home_of_either(seed, at_random):
    random = np.random.default_rng(seed)
    count, dims = int(random.integers(2, 120)), int(random.integers(1, 4))
    scale = 10.0 ** random.integers(-8, 9)
    points = scale * np.where(
        random.random((count, dims)) < 0.5,
        random.integers(0, 8, (count, dims)) / 4,
        random.random((count, dims)) * 2 + random.integers(0, 2) * 1e6,
    )
    gaps = np.abs(points[:, None] - points[None])
    reach = float(random.choice(gaps[gaps > 0])) if (gaps > 0).any() else 1.0
    reaches = [Reach(reach, reach)] * dims
    if at_random:
        cuts = random_cuts(points, reaches, random, int(random.integers(1, 12)))
    else:
        cuts = choose_cuts(points, reaches, most=max(2, count / 8))
    homes, cells = cells_of(cuts, points)
    near = (gaps <= reach).all(axis=2)
    for i, j in np.argwhere(near).tolist():
        assert homes[i] in cells[j], f"row {j} is near row {i}, and not in its home"


def test_what_must_match_is_cut_without_a_copy():
    points = np.repeat(np.arange(10.0), 30)[:, None]
    cuts = choose_cuts(points, [Reach(None, None)], most=60)
    _, cells = cells_of(cuts, points)
    assert cuts.cells > 4
    assert all(len(one) == 1 for one in cells)


def test_earlier_rows_are_copied_forwards_in_time_and_never_back():
    times = np.arange(100.0)[:, None]
    cuts = choose_cuts(times, [Reach(5.0, None)], most=30)
    assert cuts.cells > 3
    homes, cells = cells_of(cuts, times)
    for later in range(100):
        for earlier in range(max(0, later - 5), later + 1):
            assert homes[later] in cells[earlier]
    assert max(homes[1:] - 0) == cuts.cells - 1
    copies = sum(len(one) for one in cells) - 100
    assert 0 < copies <= 7 * (cuts.cells - 1)


def test_a_cell_of_which_most_would_be_copied_is_left_whole():
    points = np.random.default_rng(1).random((1000, 3))
    assert choose_cuts(points, [Reach(0.5, 0.5)] * 3, most=10).cells == 1
    assert choose_cuts(points, [Reach(0.01, 0.01)] * 3, most=100).cells > 8


def test_points_that_are_all_the_same_are_left_whole():
    assert choose_cuts(np.ones((100, 2)), [Reach(0.1, 0.1)] * 2, most=10).cells == 1


@pytest.mark.parametrize("coordinates", [[None, Reach(0.01, 0.01)], [Reach(0.01, 0.01), None]])
def test_a_coordinate_that_cannot_be_cut_is_not_cut(coordinates):
    points = np.random.default_rng(2).random((500, 2))
    cuts = choose_cuts(points, coordinates, most=50)
    assert cuts.cells > 4
    assert all(coordinates[one.coordinate] is not None for one in cuts.cuts)


def test_cuts_come_back_from_json_as_they_were():
    import msgspec

    points = np.random.default_rng(3).random((500, 2)) / 3
    cuts = choose_cuts(points, [Reach(0.01, 0.01)] * 2, most=50)
    assert msgspec.json.decode(msgspec.json.encode(cuts), type=CutTree) == cuts


@pytest.mark.parametrize("most", [1, 10, 200])
def test_copies_of_all_cells_together_are_bounded(most):
    points = np.random.default_rng(4).random((4000, 6))
    cuts = choose_cuts(points, [Reach(0.1, 0.1)] * 6, most=most)
    assert cuts.cells > 4
    _, cells = cells_of(cuts, points)
    assert sum(map(len, cells)) <= (1 + COPIES) * len(points)


def test_what_copies_nothing_is_cut_also_where_copies_have_come_to_an_end():
    random = np.random.default_rng(5)
    points = np.column_stack([random.random((4000, 6)), random.integers(0, 40, 4000)])
    cuts = choose_cuts(points, [*[Reach(0.1, 0.1)] * 6, Reach(None, None)], most=10)
    assert len({cut.cut for cut in cuts.cuts if cut.coordinate == 6}) == 39
