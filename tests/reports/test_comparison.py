"""Two histories compared: counts by a look at all pairs, intervals by their formulas.

Planted cases lie far from each other but for the two of a pair, so what is new, gone or persists is
known; random ones are compared with a plain recomputation.
"""

import math

import numpy as np
import pytest

import likewise as lw
from likewise.reports.compare_page import compare_page
from likewise.reports.compare_words import describe_comparison
from likewise.reports.comparison import compare
from likewise.reports.evidence import Evidence, build_provenance
from likewise.reports.judged_history import HistoryTally
from likewise.reports.totals import wilson
from tests.support.looping import each
from tests.support.strict_html import read_strictly

FEATURES = {"x": {"kind": "number", "tolerance": 2}, "sex": {"kind": "protected"}}
KEYED = {**FEATURES, "id": {"kind": "key"}}


def history(name, rows, *, keyed, places=None, batches=3):
    rule = lw.Rule(features=KEYED if keyed else FEATURES, output_column="z", favourable="yes")
    monitor, tally = lw.Monitor(rule, comparable=True), HistoryTally()
    places = np.arange(2, len(rows) + 2) if places is None else np.array(places)
    for part in np.array_split(np.arange(len(rows)), batches):
        if len(part):
            tally.add(monitor.observe_many([rows[i] for i in part.tolist()]), places[part])
    keys = [row["id"] for row in rows] if keyed else None
    return tally.history(
        name,
        monitor.past,
        build_provenance(Evidence(name), monitor.rule, monitor.explain(), None),
        keys=keys,
    )


def row(key, x, z, *, keyed=True, sex="f"):
    return {"x": x, "sex": sex, "z": z, **({"id": key} if keyed else {})}


def planted(answers, *, keyed=True, first=0):
    """Two similar cases for each word of two letters: y or n for each; far from all others."""
    rows = []
    for i, (one, two) in enumerate(answers, first):
        for j, answer in enumerate((one, two)):
            z = "yes" if answer == "y" else "no"
            rows.append(row(f"{i}.{j}", 100 * i + j, z, keyed=keyed, sex="fm"[j]))
    return rows


BEFORE = ["yn"] * 5 + ["yy"] * 7 + ["yn"] * 3 + ["yy"] * 11
AFTER = ["yn"] * 5 + ["yn"] * 7 + ["nn"] * 3 + ["yy"] * 11


@pytest.mark.parametrize("keyed", [True, False])
def test_planted_pairs_are_new_gone_and_persisting(keyed):
    one, other = (
        history(name, planted(answers, keyed=keyed), keyed=keyed)
        for name, answers in (("before", BEFORE), ("after", AFTER))
    )
    found = compare(one, other)
    assert (found.new.count, found.gone.count, found.persisting.count) == (7, 3, 5)
    assert (found.new.of_common, found.gone.of_common, found.common) == (7, 3, 52)
    assert found.matched_by == ("keys" if keyed else "places and values")
    assert (found.one.comparable, found.one.violations) == (26, 8)
    assert (found.other.comparable, found.other.violations) == (26, 12)
    assert (found.one.in_any_pair.count, found.other.in_any_pair.count) == (16, 24)
    shown = found.new.shown[0].pair.pair
    assert shown.mine["z in before"] == shown.other["z in before"] == "yes"
    assert {len(found.new.shown), len(found.gone.shown), len(found.persisting.shown)} == {6, 3, 5}


def test_pairs_persist_whatever_the_order_of_their_cases():
    rows = planted(BEFORE)
    turned = compare(history("a", rows, keyed=True), history("b", rows[::-1], keyed=True))
    assert (turned.new.count, turned.gone.count, turned.persisting.count) == (0, 0, 8)


def test_pairs_of_cases_that_one_history_has_are_counted_apart():
    extra = planted(["yn"] * 4, first=900)
    one = history("a", planted(BEFORE), keyed=True)
    other = history("b", [*extra, *planted(AFTER)[8:]], keyed=True)
    found = compare(one, other)
    assert (found.new.count, found.new.of_common) == (7 + 4, 7)
    assert (found.gone.count, found.gone.of_common) == (3 + 4, 3)
    assert found.persisting.count == 1
    assert all("z in a" in one.pair.pair.mine for one in found.new.shown)
    words = " ".join(describe_comparison(found))
    assert "4 more are new because a case of theirs is only in b" in words


def test_without_keys_other_values_in_the_same_place_are_another_case():
    before = planted(BEFORE, keyed=False)
    after = [dict(one, x=one["x"] + 0.25) for one in before]
    found = compare(history("a", before, keyed=False), history("b", after, keyed=False))
    assert (found.common, found.persisting.count) == (0, 0)
    assert (found.new.count, found.gone.count) == (8, 8)
    assert "No case is in both" in " ".join(describe_comparison(found))


def test_without_keys_the_same_values_in_another_place_are_another_case():
    before = planted(BEFORE, keyed=False)
    places = np.arange(2, len(before) + 2) + 1000
    found = compare(
        history("a", before, keyed=False), history("b", before, keyed=False, places=places)
    )
    assert found.common == 0


def test_the_longer_history_is_cut_and_verdicts_are_those_of_the_first_alone():
    rows, fewer = planted(BEFORE), planted(AFTER)[:30]
    found = compare(history("a", rows, keyed=True), history("b", fewer, keyed=True))
    again = compare(history("a", rows[:30], keyed=True), history("b", fewer, keyed=True))
    assert (found.one.decisions, found.one.compared, found.other.compared) == (52, 30, 30)
    for side in ("one", "other"):
        mine, theirs = getattr(found, side), getattr(again, side)
        for number in ("comparable", "violations", "share", "in_any_pair", "pairs", "groups"):
            assert getattr(mine, number) == getattr(theirs, number)
    assert (found.new.count, found.gone.count, found.persisting.count) == (7, 3, 5)
    words = " ".join(describe_comparison(found))
    assert "the first 30 decisions of each" in words and "The last 22 of a are left out" in words


def test_nothing_comparable_on_one_side_says_that_nothing_follows():
    alone = [row(f"s{i}", 1000 * i, "yes") for i in range(52)]
    found = compare(history("a", alone, keyed=True), history("b", planted(AFTER), keyed=True))
    assert found.compared.beyond_chance is None
    assert [side.name for side in found.nothing_compared] == ["a"]
    assert describe_comparison(found)[0].startswith("Nothing could be compared in a, so nothing")
    page = compare_page(found)
    read_strictly(page, more=("a", "script"))
    assert "no agreement index" in page and 'class="hero nothing"' in page


# Random histories against a look at all pairs


@each("keyed", [True, False])
@each("seed", range(4))
def test_counts_equal_a_look_at_all_pairs(seed, keyed):
    rng = np.random.default_rng(seed)
    cases = [(f"c{i}", float(rng.integers(0, 150))) for i in range(160)]
    sides = []
    for many in (150, 130):
        chosen = np.sort(rng.permutation(160)[:many])
        z = rng.random(many) < 0.8
        rows = [
            row(cases[c][0], cases[c][1], "yes" if good else "no", keyed=keyed)
            for c, good in zip(chosen.tolist(), z.tolist(), strict=True)
        ]
        sides.append((rows, chosen))
    one, other = (
        history(name, rows, keyed=keyed, places=chosen)
        for name, (rows, chosen) in zip("ab", sides, strict=True)
    )
    found = compare(one, other)
    expected = []
    for side, (rows, chosen) in zip((found.one, found.other), sides, strict=True):
        x = np.array([cases[c][1] for c in chosen[:130]])
        z = np.array([one["z"] for one in rows[:130]])
        like = np.tril(np.abs(x[:, None] - x) <= 2, -1)
        contradict = like & (z[:, None] != z)
        assert side.comparable == like.any(axis=1).sum()
        assert side.violations == contradict.any(axis=1).sum()
        assert side.pairs == contradict.sum()
        assert side.in_any_pair.count == (contradict | contradict.T).any(axis=1).sum()
        pairs = {frozenset((chosen[i], chosen[j])) for i, j in np.argwhere(contradict)}
        expected.append((pairs, set(chosen[:130].tolist())))
    (before, cases_before), (after, cases_after) = expected
    assert found.persisting.count == len(before & after) > 3
    assert found.new.count == len(after - before) > 3
    assert found.gone.count == len(before - after) > 3
    assert found.common == len(cases_before & cases_after)
    assert found.new.of_common == sum(pair <= cases_before for pair in after - before)
    assert found.gone.of_common == sum(pair <= cases_after for pair in before - after)


# Intervals


def plain_wilson(k, n):
    """Where the score test does not refuse: by bisection, not by the formula."""

    def refused(p):
        return abs(k / n - p) > 1.959963984540054 * math.sqrt(p * (1 - p) / n)

    ends = []
    for side in (0.0, 1.0):
        inside, outside = k / n, side
        if not refused(min(max(side, 1e-15), 1 - 1e-15)):
            ends.append(side)
            continue
        for _ in range(200):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if refused(middle) else (middle, outside)
        ends.append(inside)
    return ends


@pytest.mark.parametrize(("k", "n"), [(0, 20), (1, 20), (14, 32), (20, 20), (303, 2842), (1, 1)])
def test_an_interval_of_a_share_is_where_the_score_test_does_not_refuse(k, n):
    share = wilson(k, n)
    assert [share.low, share.high] == pytest.approx(plain_wilson(k, n), abs=1e-9)


def test_a_page_is_strict_html_and_holds_what_was_found():
    hostile = planted(AFTER)
    hostile[1]["id"] = "<script>alert(1)</script>\u202e"
    found = compare(history("a<b>", planted(BEFORE), keyed=True), history("b", hostile, keyed=True))
    page = compare_page(found)
    read_strictly(page, more=("a", "script"))
    assert "<script>alert" not in page and "\u202e" not in page and "a&lt;b&gt;" in page
    assert "Histories are separate" in page
