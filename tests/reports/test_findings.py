"""Findings say what is true of a stream, and the same however it came in pieces."""

import dataclasses
import datetime
import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import likewise as lw
from likewise.explaining.groups import OTHERS, GroupCounter
from likewise.reports.findings import MARGINS, Tally
from tests.report_streams import RULE, SCORES, found, people

NOON = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
DAYS = [datetime.date(2026, 1, 1) + datetime.timedelta(days=i // 3) for i in range(400)]


def all_witnesses(rule, rows):
    """Each decision's witnesses, from verdicts one by one."""
    monitor = lw.Monitor(rule)
    return [list(monitor.observe(row).witnesses) for row in rows]


def plain(findings):
    """Everything that may be compared: not the index, whose shape depends on batches."""
    return dataclasses.replace(
        findings,
        groups=(),
        computed=dataclasses.replace(findings.computed, index="", reason=""),
    )


def same_groups(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert (a.column, a.pairs, a.decisions) == (b.column, b.pairs, b.decisions)
        assert a.undecided == b.undecided
        assert a.favourable == pytest.approx(b.favourable)


@pytest.mark.parametrize("kind", ["label", "number"])
@given(data=st.data())
def test_findings_of_pieces_are_those_of_the_whole(kind, data):
    rule = RULE if kind == "label" else SCORES
    n = data.draw(st.integers(1, 120))
    rows = people(n, data.draw(st.integers(0, 1_000)), kind)
    cuts = data.draw(st.lists(st.integers(0, n), max_size=8))
    worst = data.draw(st.integers(0, 6))
    times = [None if i % 7 == 3 else DAYS[i] for i in range(n)]
    whole = found(rule, rows, times=times, worst=worst, made=NOON)
    parts = found(rule, rows, times=times, worst=worst, made=NOON, cuts=cuts)
    assert plain(parts) == plain(whole)
    same_groups(parts.groups, whole.groups)


@given(data=st.data())
def test_findings_of_vectors_in_pieces_are_those_of_the_whole(data):
    n = data.draw(st.integers(1, 80))
    rng = np.random.default_rng(data.draw(st.integers(0, 1_000)))
    x, z = rng.integers(0, 5, (n, 3)) / 4, rng.integers(0, 2, n).tolist()
    rule = lw.Rule(metric="l1", epsilon=0.5)
    cuts = data.draw(st.lists(st.integers(0, n), max_size=8))
    whole = found(rule, x, outputs=z, made=NOON)
    assert plain(found(rule, x, outputs=z, made=NOON, cuts=cuts)) == plain(whole)


def test_headline_numbers_count_every_decision_and_pair():
    rows = people(300, seed=1)
    witnesses = all_witnesses(RULE, rows)
    findings = found(RULE, rows, cuts=[100])
    assert findings.rows == 300
    assert findings.flagged == sum(map(bool, witnesses)) > 0
    assert findings.pairs == sum(map(len, witnesses))
    assert findings.rate == findings.flagged / 300


def test_margins_are_the_nearest_distances_as_shares_of_epsilon():
    rows = people(300, seed=2)
    nearest = [min(w.input_distance for w in one) for one in all_witnesses(RULE, rows) if one]
    margins = found(RULE, rows).margins
    assert margins.identical == sum(distance == 0 for distance in nearest) > 0
    counts = [0] * MARGINS
    for distance in nearest:
        if distance > 0:
            counts[min(math.ceil(distance * MARGINS - 1e-9), MARGINS) - 1] += 1
    assert list(margins.counts) == counts
    assert margins.identical + sum(counts) == found(RULE, rows).flagged


def test_margin_that_rounding_pushed_over_an_edge_stays_below_it():
    rule = lw.Rule(metric="linf", epsilon=0.1)
    findings = found(rule, [[0.3], [0.4]], outputs=["a", "b"])  # 0.10000000000000003 apart
    assert findings.margins.counts[-1] == 1


def clarity(rows, later, witness):
    def known_and_other(name):
        mine, other = rows[later][name], rows[witness.row][name]
        return None not in (mine, other) and mine != other

    differ = known_and_other("sex") or known_and_other("race")
    return (
        witness.input_distance,
        -witness.output_distance,
        not differ,
        later,
        witness.row,
    )


@pytest.mark.parametrize("kind", ["label", "number"])
def test_worst_pairs_are_the_clearest_each_witness_once(kind):
    rule = RULE if kind == "label" else SCORES
    rows = people(250, seed=3, kind=kind)
    best = {}
    for later, witnesses in enumerate(all_witnesses(rule, rows)):
        for one in sorted(clarity(rows, later, witness) for witness in witnesses)[:1]:
            best[one[4]] = min(one, best.get(one[4], one))
    expected = [(one[3], one[4], one[0]) for one in sorted(best.values())[:15]]
    worst = [one.pair for one in found(rule, rows, worst=15, cuts=[40, 41, 90]).worst]
    assert [(p.row, p.witness.row, p.witness.input_distance) for p in worst] == expected
    for pair in worst:
        for name in ("id", "x", "c", "sex", "race", "z"):
            assert pair.mine[name] == rows[pair.row][name]
            assert pair.other[name] == rows[pair.witness.row][name]


def test_worst_pairs_of_vectors_show_the_coordinates_that_differ_most():
    x = np.zeros((2, 40))
    x[1, 7], x[1, 20] = 0.5, -0.25
    rule = lw.Rule(metric="l1", epsilon=1)
    (worst,) = found(
        rule, x, outputs=["no", "yes"], columns=[f"pixel {j}" for j in range(40)]
    ).worst
    assert worst.left_out == 28
    assert list(worst.pair.mine)[:3] == ["output", "pixel 7", "pixel 20"]
    assert worst.pair.mine["output"] == "yes" and worst.pair.other["output"] == "no"
    assert (worst.pair.mine["pixel 7"], worst.pair.other["pixel 7"]) == (0.5, 0.0)


def test_worst_pairs_of_pictures_name_the_place():
    x = np.zeros((2, 4, 5), np.uint8)
    x[1, 2, 3] = 8
    (worst,) = found(lw.Rule(epsilon=8), x, outputs=["cat", "dog"]).worst
    assert "x[2, 3]" in worst.pair.mine


@pytest.mark.parametrize(
    ("output", "given"), [("number", [0.0, 1.0]), ("probabilities", [[0.5, 0.5], [1.0, 0.0]])]
)
def test_worst_pairs_of_vectors_show_outputs_of_every_kind(output, given):
    rule = lw.Rule(epsilon=1, output=output)
    (worst,) = found(rule, [[0.0], [0.5]], outputs=given).worst
    assert [worst.pair.other["output"], worst.pair.mine["output"]] == given


@pytest.mark.parametrize("kind", ["label", "number"])
def test_groups_add_up_to_what_verdicts_say(kind):
    rule = RULE if kind == "label" else SCORES
    rows = people(300, seed=4, kind=kind)
    verdicts = lw.Monitor(rule).observe_many(rows)
    groups = found(rule, rows, cuts=[17, 130]).groups
    same_groups(groups, [verdicts.by_group("sex"), verdicts.by_group("race")])
    assert sum(groups[0].pairs.values()) + groups[0].undecided == verdicts.pairs


def test_groups_beyond_the_most_are_counted_together():
    rows = [{**row, "sex": f"group {i % 10}"} for i, row in enumerate(people(200, seed=5))]
    monitor = lw.Monitor(RULE)
    counter = GroupCounter(RULE, ["sex"], 3)
    for start in (0, 100):
        counter.add_pairs(monitor.observe_many(rows[start : start + 100]), monitor.past)
        counter.add_decisions(start, start + 100, monitor.past)
    (groups,) = counter.groups()
    assert groups.decisions == {"group 0": 20, "group 1": 20, "group 2": 20, OTHERS: 140}
    assert any(OTHERS in pair for pair in groups.pairs)
    assert str(OTHERS) == "all others"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"favourable": None}, "no favourable output"),
        ({"output": "number", "favourable": "yes"}, "expected 'high' or 'low'"),
    ],
)
def test_findings_say_why_nothing_is_counted_by_group(changes, why):
    rule = dataclasses.replace(RULE, **changes)
    rows = people(20, seed=6, kind="number" if "output" in changes else "label")
    findings = found(rule, rows)
    assert findings.groups == ()
    assert why in findings.no_groups


def test_findings_without_protected_columns_have_no_groups_and_no_excuse():
    findings = found(lw.Rule(epsilon=1), [[0.0], [0.0]], outputs=["a", "b"])
    assert findings.groups == () and findings.no_groups is None


def test_curve_is_the_rate_at_every_epsilon_and_at_the_chosen_one():
    rng = np.random.default_rng(7)
    x, z = rng.random((2_000, 2)), rng.integers(0, 2, 2_000).tolist()
    rule = lw.Rule(epsilon=0.01)
    calibration = lw.calibrate(rule, x, z)
    findings = found(rule, x, outputs=z, calibration=calibration)
    assert findings.curve.chosen == 0.01
    assert findings.curve.rate_at_chosen == findings.rate
    assert 0.01 in findings.curve.epsilons
    assert len(findings.curve.epsilons) < 300
    for epsilon, rate in zip(findings.curve.epsilons, findings.curve.rates, strict=True):
        assert rate == calibration.rate(epsilon)


def test_curve_of_decisions_without_contradiction_is_flat():
    x, z = [[0.0], [1.0]], ["same", "same"]
    rule = lw.Rule(epsilon=0.5)
    curve = found(rule, x, outputs=z, calibration=lw.calibrate(rule, x, z)).curve
    assert set(curve.rates) == {0.0}


def test_computed_says_what_is_needed_to_do_it_again():
    done = found(
        RULE, people(50, seed=8), source="people.csv", head="abc", seconds=1.5, made=NOON
    ).computed
    assert done.source == "people.csv"
    assert done.fingerprint == RULE.fingerprint
    assert (done.head, done.seconds, done.version) == ("abc", 1.5, lw.__version__)
    assert done.made == "2026-05-01T12:00:00+00:00"
    assert done.reach == 1.0 + 1e-9
    assert done.index == "tree"


def test_findings_are_json():
    rows = people(120, seed=9)
    rows[3]["sex"] = 'a "quoted" <group>\x00\ud800'
    findings = found(RULE, rows, times=DAYS[:120], bad_rows=2)
    again = json.loads(json.dumps(findings.to_dict(), allow_nan=False))
    assert again["flagged"] == findings.flagged
    assert again["bad_rows"] == 2
    assert sum(one["decisions"] for one in again["by_time"]) == 120
    assert lw.Rule.from_toml(again["rule"]) == RULE


def test_findings_of_nothing_are_there():
    findings = Tally(lw.Monitor(RULE)).findings(source="nothing")
    assert (findings.rows, findings.rate, findings.worst) == (0, 0.0, ())
    assert json.dumps(findings.to_dict())


def test_findings_count_what_is_judged_not_what_was_loaded():
    rows = people(200, seed=10)
    monitor = lw.Monitor(RULE)
    monitor.load(rows[:100])
    tally = Tally(monitor)
    tally.add(monitor.observe_many(rows[100:]))
    findings = tally.findings(source="the second half")
    assert (findings.rows, findings.first_row) == (100, 100)
    assert findings.by_row[0].start == 100 and findings.by_row[-1].stop == 200
    assert sum(findings.groups[0].decisions.values()) == sum(
        row["sex"] is not None for row in rows[100:]
    )


def test_pairs_of_rows_forgotten_later_keep_their_values():
    rows = people(100, seed=11)
    monitor = lw.Monitor(RULE)
    tally = Tally(monitor)
    tally.add(monitor.observe_many(rows))
    before = tally.findings(source="").worst
    monitor.forget(range(100))
    assert tally.findings(source="").worst == before != ()


def test_tally_does_not_grow_with_the_stream():
    rng = np.random.default_rng(12)
    rule = lw.Rule(epsilon=0.001)
    monitor = lw.Monitor(rule)
    tally = Tally(monitor)

    def held_after(decisions):
        for _ in range(decisions // 10_000):
            x, z = rng.random((10_000, 2)), rng.integers(0, 3, 10_000)
            hours = np.datetime64("2000-01-01T00") + np.arange(len(monitor), len(monitor) + 10_000)
            tally.add(monitor.observe_many(x, z), hours)
        only = [tracemalloc.Filter(True, "*/likewise/reports/*", all_frames=True)]
        return sum(one.size for one in tracemalloc.take_snapshot().filter_traces(only).traces)

    tracemalloc.start(2)  # frames: what is allocated elsewhere on behalf of a report counts too
    try:
        first, later = held_after(50_000), held_after(300_000)
    finally:
        tracemalloc.stop()
    assert tally.findings(source="").rows == 350_000
    assert later < first + 100_000, f"{first:,} bytes at first, {later:,} later"


def test_times_must_be_as_many_as_decisions():
    monitor = lw.Monitor(lw.Rule(epsilon=1))
    with pytest.raises(ValueError, match="1 times for 2 decisions"):
        Tally(monitor).add(monitor.observe_many([[0.0], [1.0]], ["a", "b"]), [NOON])


# Ledgers


@pytest.mark.parametrize("kind", ["label", "number"])
def test_findings_of_a_ledger_are_those_of_memory(tmp_path, kind):
    rule = RULE if kind == "label" else SCORES
    rows = people(200, seed=13, kind=kind)
    with lw.open(tmp_path / "ledger", rule, durability="off") as monitor:
        tally = Tally(monitor)
        for start in range(0, 200, 50):
            tally.add(monitor.observe_many(rows[start : start + 50]))
        kept = tally.findings(source="a test", head=str(monitor.head()), made=NOON)
        assert kept.computed.head == str(monitor.head())
    memory = found(rule, rows, cuts=[50, 100, 150], head=kept.computed.head, made=NOON)
    assert plain(kept) == plain(memory)
    same_groups(kept.groups, memory.groups)


def test_findings_of_a_ledger_of_vectors_are_those_of_memory(tmp_path):
    rng = np.random.default_rng(14)
    x, z = rng.integers(0, 5, (100, 3)) / 4, rng.integers(0, 2, 100).tolist()
    rule = lw.Rule(metric="l1", epsilon=0.5)
    with lw.open(tmp_path / "ledger", rule, durability="off") as monitor:
        tally = Tally(monitor)
        tally.add(monitor.observe_many(x, z))
        kept = tally.findings(source="a test", made=NOON)
    assert plain(kept) == plain(found(rule, x, outputs=z, made=NOON))


def test_findings_of_a_ledger_that_forgets_show_no_row_that_is_gone(tmp_path):
    rows = people(3_000, seed=15)
    with lw.open(tmp_path / "ledger", RULE, durability="off", window="100 rows") as monitor:
        tally = Tally(monitor)
        for start in range(0, 3_000, 1_000):
            tally.add(monitor.observe_many(rows[start : start + 1_000]))
        findings = tally.findings(source="a window")
    assert findings.rows == 3_000 and findings.flagged > 0
    assert findings.computed.forgotten > 0
    for pair in (one.pair for one in findings.worst):
        assert pair.row - pair.witness.row <= 100
        for name in ("id", "x", "c", "sex", "race", "z"):
            assert pair.mine[name] == rows[pair.row][name]
            assert pair.other[name] == rows[pair.witness.row][name]
    for groups in findings.groups:
        assert sum(groups.pairs.values()) + groups.undecided == findings.pairs
        assert None not in groups.decisions
