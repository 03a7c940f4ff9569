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
from likewise import Feature
from likewise.reports.evidence import Evidence
from likewise.reports.findings import Tally
from likewise.reports.totals import MARGINS
from tests.support.report_streams import RULE, SCORES, found, people

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
        computed=dataclasses.replace(findings.computed, index="", reason=""),
    )


def _all_different(rows):
    """Decisions of which each contradicts every like one."""
    return [{**row, "z": f"output {i}"} for i, row in enumerate(rows)]


@pytest.mark.long
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


@pytest.mark.long
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
    assert findings.violations == sum(map(bool, witnesses)) > 0
    assert findings.pairs == sum(map(len, witnesses))
    assert findings.rate == findings.violations / 300
    each = found(lw.Rule(features=RULE.features, output_column="z"), _all_different(rows))
    assert findings.with_earlier == each.violations
    assert 0 < findings.violations < findings.with_earlier < 300
    assert findings.rate_among_comparable == findings.violations / findings.with_earlier
    later = {i for i, some in enumerate(witnesses) if some}
    earlier = {witness.row for some in witnesses for witness in some}
    assert findings.in_any_pair == len(later | earlier) > findings.violations


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
    assert margins.identical + sum(counts) == found(RULE, rows).violations


def test_margin_that_rounding_pushed_over_an_edge_stays_below_it():
    rule = lw.Rule(metric="linf", epsilon=0.1)
    findings = found(rule, [[0.3], [0.4]], outputs=["a", "b"])  # 0.10000000000000003 apart
    assert findings.margins.counts[-1] == 1


# Pairs to look at: the rule that worst.py writes down, once more in plain Python


def chosen_pairs(rule, rows, most):
    """(later, earlier, distance) of the pairs that the rule names, in their order."""
    protected = ("sex", "race")

    def groups(later, earlier):
        both = [(name, rows[later][name], rows[earlier][name]) for name in protected]
        return tuple(
            (name, *sorted((a, b))) for name, a, b in both if None not in (a, b) and a != b
        )

    def values(row):
        return tuple(rows[row][name] for name in ("x", "c", "z"))

    brought = {}  # by class, and by later row
    for later, witnesses in enumerate(all_witnesses(rule, rows)):
        for one in witnesses:
            differ = groups(later, one.row)
            clear = (one.input_distance, -one.output_distance, later, one.row)
            key = (differ[0] if differ else None, later)
            brought[key] = min(clear, brought.get(key, clear))
    pool = set()
    for kind in {of for of, _ in brought}:
        for side in (2, 3):
            best = {}
            for (of, _), clear in brought.items():
                if of == kind:
                    who = values(clear[side])
                    best[who] = min(clear, best.get(who, clear))
            pool |= set(sorted(best.values())[: 3 * most])
    turns = {}
    for clear in sorted(pool):
        turns.setdefault(groups(clear[2], clear[3]), []).append(clear)
    within = turns.pop((), [])
    chosen, taken = [], set()
    for round_of in (list(turns.values()), [within]):
        while any(round_of) and len(chosen) < most:
            for queue in round_of:
                while queue and len(chosen) < most:
                    clear = queue.pop(0)
                    about = {clear[2], clear[3], values(clear[2]), values(clear[3])}
                    if not about & taken:
                        chosen.append(clear)
                        taken |= about
                        break
    return [(clear[2], clear[3], clear[0]) for clear in chosen]


@pytest.mark.parametrize("most", [3, 15])
@pytest.mark.parametrize("kind", ["label", "number"])
def test_pairs_to_look_at_are_those_that_the_rule_names(kind, most):
    rule = RULE if kind == "label" else SCORES
    rows = people(400, seed=3, kind=kind)
    worst = [one.pair for one in found(rule, rows, worst=most, cuts=[40, 41, 90]).worst]
    shown = [(p.row, p.witness.row, p.witness.input_distance) for p in worst]
    assert shown == chosen_pairs(rule, rows, most)
    assert len(shown) == most
    for pair in worst:
        for name in ("id", "x", "c", "sex", "race", "z"):
            assert pair.mine[name] == rows[pair.row][name]
            assert pair.other[name] == rows[pair.witness.row][name]


def test_planted_copies_take_one_place():
    """A hundred copies of a clear pair, one odd decision that contradicts many, and nine others."""
    rule = lw.Rule(
        features={"x": Feature("number", tolerance=1), "sex": Feature("protected")},
        output_column="z",
        favourable="yes",
    )
    copies = [{"x": 0.0, "sex": "f", "z": "yes"}, {"x": 0.0, "sex": "m", "z": "no"}] * 100
    odd = [{"x": 50.0, "sex": "f", "z": "no"}]
    odd += [{"x": 50.0 + i / 1000, "sex": "m", "z": "yes"} for i in range(1, 200)]
    others = []
    for i in range(9):
        x = 100.0 + 10 * i
        others += [{"x": x, "sex": "f", "z": "yes"}, {"x": x + 0.9, "sex": "m", "z": "no"}]
    rows = [*copies, *odd, *others]
    worst = [one.pair for one in found(rule, rows, worst=20).worst]
    places = [pair.mine["x"] // 10 for pair in worst]
    assert places.count(0) == 1 and places.count(5) == 1
    assert len(worst) == 11 and len(set(places)) == 11


def test_pairs_across_groups_come_first_and_groups_take_turns():
    rule = lw.Rule(
        features={"x": Feature("number", tolerance=1), "race": Feature("protected")},
        output_column="z",
        favourable="yes",
    )
    rows = []
    for i in range(60):  # within a group, and the same in all that counts
        rows += [{"x": 10.0 * i, "race": "a", "z": "yes"}, {"x": 10.0 * i, "race": "a", "z": "no"}]
    for i, other in enumerate(["b"] * 40 + ["c", "d"]):  # across, and farther apart
        x, apart = 1000.0 + 10 * i, 0.5 + i / 100
        rows += [{"x": x, "race": "a", "z": "yes"}, {"x": x + apart, "race": other, "z": "no"}]
    worst = [one.pair for one in found(rule, rows, worst=6).worst]
    assert [pair.mine["race"] for pair in worst] == ["b", "c", "d", "b", "b", "b"]
    everything = [one.pair for one in found(rule, rows, worst=60).worst]
    across = [pair.differs("race") for pair in everything]
    assert across == [True] * 42 + [False] * 18


@pytest.mark.parametrize("cuts", [[], [100], [7, 30, 31, 250], range(0, 400, 9)])
def test_pairs_of_many_groups_do_not_depend_on_batches(cuts):
    rng = np.random.default_rng(5)
    rule = lw.Rule(
        features={"x": Feature("number", tolerance=1), "town": Feature("protected")},
        output_column="z",
        favourable="1",
    )
    rows = [
        {"x": rng.random() * 40, "town": f"t{rng.integers(30)}", "z": str(rng.integers(2))}
        for _ in range(400)
    ]
    whole = found(rule, rows, worst=5).worst
    assert len(whole) == 5 and len({one.pair.mine["town"] for one in whole}) > 3
    assert found(rule, rows, worst=5, cuts=cuts).worst == whole


def test_a_person_is_in_one_pair():
    rule = lw.Rule(
        features={
            "x": Feature("number", tolerance=1),
            "who": Feature("person"),
        },
        output_column="z",
    )
    rows = []
    for i in range(30):  # one person, thirty different decisions that contradict another each
        rows += [
            {"x": 10.0 * i, "who": f"p{i}", "z": "yes"},
            {"x": 10.0 * i, "who": "again", "z": "no"},
        ]
    rows += [{"x": 1e6, "who": "q", "z": "yes"}, {"x": 1e6 + 0.9, "who": "r", "z": "no"}]
    monitor = lw.Monitor(rule)
    tally = Tally(monitor)
    tally.add(monitor.observe_many(rows))
    worst = [one.pair for one in tally.findings(source="").worst]
    assert [pair.mine["who"] for pair in worst] == ["again", "r"]


def test_worst_pairs_of_vectors_show_the_coordinates_that_differ_most():
    x = np.zeros((2, 40))
    x[1, 7], x[1, 20] = 0.5, -0.25
    rule = lw.Rule(metric="l1", epsilon=1)
    (worst,) = found(
        rule, x, outputs=["no", "yes"], columns=[f"pixel {j}" for j in range(40)]
    ).worst
    assert worst.omitted_columns == 28
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
def test_groups_are_those_that_verdicts_say(kind):
    rule = RULE if kind == "label" else SCORES
    rows = people(300, seed=4, kind=kind)
    verdicts = lw.Monitor(rule).observe_many(rows)
    for groups in found(rule, rows, cuts=[17, 130]).groups:
        alone = verdicts.by_group(groups.column)  # p is corrected for its own column there
        assert alone.groups == groups.groups
        for mine, theirs in zip(alone.comparisons, groups.comparisons, strict=True):
            assert (mine.one, mine.other, mine.pairs) == (theirs.one, theirs.other, theirs.pairs)
            assert mine.test.p_corrected <= theirs.test.p_corrected


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
    assert why in findings.no_groups_reason


def test_findings_without_protected_columns_have_no_groups_and_no_excuse():
    findings = found(lw.Rule(epsilon=1), [[0.0], [0.0]], outputs=["a", "b"])
    assert findings.groups == () and findings.no_groups_reason is None


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
    assert done.made_at == "2026-05-01T12:00:00Z"
    assert done.reach == 1.0 + 1e-9
    assert done.index == "tree"


def test_findings_are_json():
    rows = people(120, seed=9)
    rows[3]["sex"] = 'a "quoted" <group>\x00\ud800'
    findings = found(RULE, rows, times=DAYS[:120], bad_rows=2)
    again = json.loads(json.dumps(findings.to_dict(), allow_nan=False))
    assert again["violations"] == findings.violations
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
    assert sum(one.decisions for one in findings.groups[0].groups) == sum(
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


@pytest.mark.long
def test_tally_grows_by_a_bit_for_each_decision_and_no_more():
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
        first = held_after(150_000)  # by then what is bounded, such as the clearest pairs, is full
        later = held_after(300_000)
    finally:
        tracemalloc.stop()
    assert tally.findings(source="").rows == 450_000
    bits = 2 * 450_000 // 8  # memory for them is doubled
    assert later < first + 50_000 + bits, f"{first:,} bytes at first, {later:,} later"


def test_times_must_be_as_many_as_decisions():
    monitor = lw.Monitor(lw.Rule(epsilon=1))
    with pytest.raises(ValueError, match="1 times for 2 decisions"):
        Tally(monitor).add(monitor.observe_many([[0.0], [1.0]], ["a", "b"]), [NOON])


# Ledgers


@pytest.mark.parametrize("kind", ["label", "number"])
def test_findings_of_a_ledger_are_those_of_memory(tmp_path, kind):
    rule = RULE if kind == "label" else SCORES
    rows = people(200, seed=13, kind=kind)
    with lw.open(tmp_path / "ledger", rule, durability="off", comparable=True) as monitor:
        tally = Tally(monitor)
        for start in range(0, 200, 50):
            tally.add(monitor.observe_many(rows[start : start + 50]))
        told = Evidence("a test", head=str(monitor.ledger.head()))
        kept = tally.findings(source=told, made=NOON)
        assert kept.computed.head == str(monitor.ledger.head())
    memory = found(rule, rows, cuts=[50, 100, 150], head=kept.computed.head, made=NOON)
    assert plain(kept) == plain(memory)


def test_findings_of_a_ledger_of_vectors_are_those_of_memory(tmp_path):
    rng = np.random.default_rng(14)
    x, z = rng.integers(0, 5, (100, 3)) / 4, rng.integers(0, 2, 100).tolist()
    rule = lw.Rule(metric="l1", epsilon=0.5)
    with lw.open(tmp_path / "ledger", rule, durability="off", comparable=True) as monitor:
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
    assert findings.rows == 3_000 and findings.violations > 0
    assert findings.computed.forgotten > 0
    for pair in (one.pair for one in findings.worst):
        assert pair.row - pair.witness.row <= 100
        for name in ("id", "x", "c", "sex", "race", "z"):
            assert pair.mine[name] == rows[pair.row][name]
            assert pair.other[name] == rows[pair.witness.row][name]
    for groups in findings.groups:
        there = sum(one.decisions for one in groups.groups) + groups.without_group
        assert there + groups.forgotten == 3_000
        assert groups.forgotten == findings.computed.forgotten
