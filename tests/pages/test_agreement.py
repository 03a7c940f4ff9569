"""Agreement of reviewers against numbers from the books, and leases against a clock of our own."""

import pytest

from likewise.pages.leases import MOST_SKIPPED, Leases
from likewise.pages.review_log import measure_reviewer_agreement


def test_cohens_kappa_is_that_of_the_textbook():
    # Two reviewers, 50 cases: both yes 20, both no 15, yes/no 5, no/yes 10. Kappa is 0.4.
    said = [("y", "y")] * 20 + [("n", "n")] * 15 + [("y", "n")] * 5 + [("n", "y")] * 10
    found = measure_reviewer_agreement({"ana": one, "bo": other} for one, other in said)
    assert (found.pairs, found.reviewers, found.method) == (50, 2, "Cohen")
    assert found.share == pytest.approx(0.7) and found.kappa == pytest.approx(0.4)


def test_fleiss_kappa_is_that_of_a_table_worked_out_by_hand():
    # Three reviewers, two cases: (a, a, b) and (b, b, b).
    items = [{"x": "a", "y": "a", "z": "b"}, {"x": "b", "y": "b", "z": "b"}]
    observed = (1 / 3 + 1) / 2
    chance = (2 / 6) ** 2 + (4 / 6) ** 2
    found = measure_reviewer_agreement(items)
    assert found.method == "Fleiss" and found.share == pytest.approx(observed)
    assert found.kappa == pytest.approx((observed - chance) / (1 - chance))


def test_nothing_is_said_where_nothing_can_be():
    assert measure_reviewer_agreement([{"ana": "a"}, {"bo": "b"}]).share is None
    same = measure_reviewer_agreement([{"ana": "a", "bo": "a"}] * 3)
    assert same.share == 1.0 and same.kappa is None


def test_a_lease_ends_and_can_be_renewed():
    now = [0.0]
    leases = Leases(10, lambda: now[0])
    assert leases.claim(1, "ana") and not leases.claim(1, "bo")
    now[0] = 9.0
    assert leases.claim(1, "ana"), "whoever has it keeps it"
    now[0] = 18.0
    assert not leases.claim(1, "bo") and leases.find_holder(1) == "ana"
    now[0] = 19.0
    assert leases.find_row("ana") is None and leases.list_leases() == []
    assert leases.claim(1, "bo") and leases.find_holder(1) == "bo"


def test_a_reviewer_has_one_row_at_a_time():
    leases = Leases()
    assert leases.claim(1, "ana") and leases.claim(2, "ana")
    assert leases.find_holder(1) is None and leases.find_row("ana") == 2
    leases.release(2, "bo")
    assert leases.find_holder(2) == "ana", "only the one who has it gives it back"


def test_what_is_put_aside_has_a_bound():
    leases = Leases()
    for row in range(MOST_SKIPPED + 5):
        leases.skip(row, "ana")
    assert leases.count_skipped("ana") == MOST_SKIPPED
    assert not leases.is_skipped(0, "ana") and leases.is_skipped(MOST_SKIPPED, "ana")
    assert leases.restore_skipped("ana") == MOST_SKIPPED and leases.count_skipped("ana") == 0
