"""Numbers of the first page are right as often as they say, on generated and bundled data.

A short form of `make evidence` (docs/evidence.md). All random numbers are seeded.
"""

import pytest

from benchmarks.evidence import trials
from benchmarks.evidence.sources import bundled, generated

pytestmark = [pytest.mark.long, pytest.mark.early]


@pytest.fixture(scope="module")
def sources():
    return [*generated(), *bundled()]


def test_index_of_dealt_answers_is_0_on_average_and_spreads_as_the_formula_says(sources):
    found = [trials.deal(one, radius, 60, most=1_000) for one in sources for radius in trials.RADII]
    for one in found:
        assert abs(one.mean) <= 3.5 * one.error, one
    assert 0.93 <= sum(one.within for one in found) / len(found) <= 0.97


def test_intervals_cover_the_mean_index_of_such_files(sources):
    found = [trials.cover(one, 600, 120) for one in sources]
    for one in found:
        assert one.concluded >= 30, one
        assert one.covered >= 0.89 * one.concluded, one
    concluded = sum(one.concluded for one in found)
    assert 0.93 <= sum(one.covered for one in found) / concluded <= 0.98


def test_sides_that_do_not_differ_are_said_to_differ_one_time_in_twenty(sources):
    chosen = [one for one in sources if one.name in ("power law, 20 %", "threshold", "persons")]
    for sides, most in ("halves", 0.1), ("inputs differ", 0.12), ("same cases", 0.1):
        found = [trials.claim(one, sides, 60) for one in chosen]
        assert all(one.concluded == one.trials for one in found)
        assert sum(one.claimed for one in found) <= most * sum(one.trials for one in found)


def test_sides_that_differ_are_said_to(sources):
    chosen = next(one for one in sources if one.name == "threshold")
    found = trials.claim(chosen, "5 % flipped", 10)
    assert found.claimed >= 8
