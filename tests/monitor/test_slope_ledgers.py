"""A monitor of slopes with a ledger: exact, durable, verified, and never taken for another kind."""

import json
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from likewise.ledger.schema import RecordLayout
from likewise.ledger.store import Store
from likewise.ledger.write_buffer import Entries, UnwrittenDecisions
from likewise.verdict.slope import SlopeQuestion
from tests.support.commands import likewise
from tests.support.interruptions import at_step
from tests.support.nearest_oracle import hunt, slope, steepest
from tests.support.refusals import raises
from tests.support.segments import small_segments
from tests.support.slopes import columns_of, distances_of, open_slopes, slope_monitor, witness_of
from tests.support.strategies import prove, streams

RULE = lw.Rule("l2", 1, output="number")
NEW_YEAR = 1_704_067_200


def some(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((count, 3)), rng.random(count)


def expected_of(rule, exponent, x, z, row, first, gone):
    """What the oracle finds for a row among those from `first` on."""
    alive = np.zeros(len(x), bool)
    alive[first:row] = True
    alive[list(gone)] = False
    return hunt(steepest(exponent), rule, x, z, [row], alive)[0]


def check(verdict, expected, exponent):
    row, near, far = expected
    assert witness_of(verdict) == (None if row < 0 else row)
    assert distances_of(verdict) == (near, far)
    assert verdict.slope == slope(near, far, exponent)


@pytest.mark.long
def test_it_is_exact_with_windows_erasures_and_reopening(tmp_path):
    """Beside the oracle; a batch is longer than some windows, so that rows in it leave in it."""
    seen, folders = [], iter(range(1_000))

    def holds(stream, exponent, window, sizes, seed):
        folder, rng = tmp_path / f"{next(folders)}", np.random.default_rng(seed)
        keep = len(stream) if window == "all" else int(window.split()[0])
        gone, at = set(), 0
        with small_segments():
            monitor = open_slopes(
                folder, stream.rule, input_exponent=exponent, window=window, durability="off"
            )
            for turn, size in enumerate(sizes):
                if turn % 3 == 2:
                    monitor.close()
                    monitor = open_slopes(folder, durability="off")
                stop = min(at + size, len(stream))
                if size == 1 and stop > at:
                    verdicts = [monitor.observe(stream.X[at], stream.Z[at])]
                else:
                    verdicts = monitor.observe_many(stream.X[at:stop], stream.Z[at:stop])
                for row, verdict in zip(range(at, stop), verdicts, strict=True):
                    first = max(0, row - keep)
                    wanted = expected_of(
                        stream.rule, exponent, stream.X, stream.Z, row, first, gone
                    )
                    assert verdict.row == row and verdict.compared_with.first == first
                    check(verdict, wanted, exponent)
                    seen.append(wanted[0] >= 0 and first > 0)
                at = stop
                if at and rng.random() < 0.4:
                    erased = int(rng.integers(at))
                    monitor.erase(rows=[erased])
                    gone.add(erased)
            if at < len(stream):
                checked = monitor.check(stream.X[at], stream.Z[at])
                first = max(0, at - keep)
                wanted = expected_of(stream.rule, exponent, stream.X, stream.Z, at, first, gone)
                check(checked, wanted, exponent)
            assert monitor.ledger.verify().ok
            monitor.close()
        again = lw.replay(folder)
        assert again.ok, again

    draws = {
        "stream": st.sampled_from(("number", "probabilities")).flatmap(
            lambda output: streams(output=output, most=300, widths=(1, 3, 40))
        ),
        "exponent": st.sampled_from((1.0, 0.5, 7.3)),
        "window": st.sampled_from(("all", "1 rows", "20 rows", "90 rows")),
        "sizes": st.lists(st.sampled_from((1, 1, 2, 30, 110)), min_size=6, max_size=12),
        "seed": st.integers(0, 1_000),
    }
    prove(10, **draws)(holds)
    assert sum(seen) > 100, "a test on nothing"


def test_a_window_in_time_is_exact_and_a_check_ahead_takes_nothing_away(tmp_path):
    x, z = some(300)
    times = NEW_YEAR + np.cumsum(np.random.default_rng(1).integers(0, 4_000, 300))
    firsts = np.searchsorted(times, times - 86_400)
    with open_slopes(tmp_path, RULE, window="1 day", durability="off") as monitor:
        for i in range(150):
            checked = monitor.check(x[i], z[i], time=float(times[i]) + 86_000)
            verdict = monitor.observe(x[i], z[i], time=float(times[i]))
            check(verdict, expected_of(RULE, 1.0, x, z, i, firsts[i], ()), 1.0)
            ahead = int(np.searchsorted(times[:i], times[i] - 400))
            check(checked, expected_of(RULE, 1.0, x, z, i, ahead, ()), 1.0)
        for i, verdict in enumerate(monitor.observe_many(x[150:], z[150:], times=times[150:]), 150):
            check(verdict, expected_of(RULE, 1.0, x, z, i, firsts[i], ()), 1.0)
    assert firsts[-1] > 150 and lw.replay(tmp_path).ok


def test_decisions_that_wait_are_judged_when_it_is_opened(tmp_path):
    x, z = some(80)
    times = np.arange(80) + NEW_YEAR * 1_000_000
    store = Store(tmp_path, RULE, sync=False, question=SlopeQuestion(2.0))
    store.set_layout(RecordLayout.of_vectors((3,), "float64", 1))
    store.append(
        Entries(
            UnwrittenDecisions.of(times, None, times * 0, None, witnesses=0, models=None),
            inputs=x.view(np.uint8).reshape(80, -1),
            outputs=z[:, None],
            waiting=True,
        )
    )
    store.close()
    open_slopes(tmp_path).close()
    with lw.Ledger(tmp_path) as ledger:
        found = [[one.row for one in entry.nearest] for entry in ledger.entries()]
    assert found == [[row] * (row >= 0) for row, _, _ in hunt(steepest(2.0), RULE, x, z)]


def content(folder):
    """Every file that says something; not the lock, nor what a reader leaves."""
    names = ("lock", "ledger.sqlite-shm", "ledger.sqlite-wal")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in names}


def test_each_kind_refuses_the_other_and_changes_nothing(tmp_path):
    slopes, contradictions = tmp_path / "slopes", tmp_path / "contradictions"
    with open_slopes(slopes, RULE) as monitor:
        monitor.observe([0.1, 0.2], 0.3)
    with lw.open(contradictions, RULE) as monitor:
        monitor.observe([0.1, 0.2], 0.3)
    before = content(slopes), content(contradictions)
    with raises(lw.errors.BadRule):
        lw.open(slopes, window="5 rows")
    with raises(lw.errors.BadRule):
        open_slopes(contradictions, RULE, window="5 rows")
    with raises(lw.errors.BadRule, setting="input_exponent"):
        open_slopes(slopes, input_exponent=2, window="5 rows", slope_limit=3)
    with raises(lw.errors.BadRule):
        open_slopes(slopes, lw.Rule("l1", 1, output="number"), slope_limit=3)
    assert (content(slopes), content(contradictions)) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"input_exponent": 0},
        {"slope_limit": -1},
        {"durability": "perhaps"},
        {"window": "some"},
        {"batch_rows": 0, "durability": "batch"},
        {"rule": lw.Rule(features={"age": lw.Feature("number", tolerance=5)}, output_column="z")},
        {"rule": lw.Rule("l2", 1, compare="within")},
        {"rule": "l2"},
    ],
    ids=str,
)
def test_what_makes_no_sense_begins_no_ledger(tmp_path, wrong):
    with pytest.raises(lw.errors.BadRule):
        open_slopes(tmp_path / "new", **{"rule": RULE, **wrong})
    assert not (tmp_path / "new").exists()


def test_the_level_stays_until_another_is_given(tmp_path):
    def opened(**given):
        return open_slopes(tmp_path, **given)

    with opened(rule=RULE, slope_limit=3) as monitor:
        monitor.observe([0.0], 0.0)
    with opened() as monitor:
        assert monitor.slope.limit == 3 and monitor.check([1.0], 4.0).violation
    with opened(slope_limit=5) as monitor:
        assert monitor.slope.limit == 5 and not monitor.check([1.0], 4.0).violation
        events = monitor.ledger.head().events
    with opened(slope_limit=5, rule=RULE) as monitor:
        assert monitor.ledger.head().events == events, "nothing new was said"
    with opened(slope_limit=math.inf) as monitor:
        assert monitor.ledger.verify().ok
    with opened() as monitor:
        assert monitor.slope.limit == math.inf and monitor.slope.input_exponent == 1.0
    with lw.Ledger(tmp_path) as ledger:
        assert ledger.question == SlopeQuestion()


def test_a_decision_that_is_sent_again_is_answered_as_it_was(tmp_path):
    x, z = some(40)
    keys = [f"case {i}" for i in range(40)]
    with open_slopes(tmp_path, RULE, slope_limit=1) as monitor:
        first = monitor.observe_many(x[:30], z[:30], keys=keys[:30])
        assert not first.repeated.any()
    with open_slopes(tmp_path) as monitor:
        again = monitor.observe_many(x[20:], z[20:], keys=keys[20:])
        assert again.repeated.tolist() == [True] * 10 + [False] * 10
        assert again.rows.tolist() == list(range(20, 40)) == [one.row for one in again]
        for name in ("slopes", "violations"):
            assert np.array_equal(getattr(again, name)[:10], getattr(first, name)[20:])
        for one, other in zip(columns_of(again), columns_of(first), strict=True):
            assert np.array_equal(one[:10], other[20:])
        one = monitor.observe(x[7], z[7], key="case 7")
        assert one.repeated and (one.slope, one.witnesses) == (first[7].slope, first[7].witnesses)
        assert [again[i].slope for i in range(10)] == first.slopes[20:].tolist()
        with pytest.raises(lw.errors.RepeatedKey):
            monitor.observe(x[8], z[7], key="case 7")
        monitor.erase(rows=[witness_of(one)])
        without = monitor.observe(x[7], z[7], key="case 7")
        assert without.repeated and witness_of(without) == witness_of(one)
        assert math.isnan(without.slope) and not without.clean
        assert len(monitor) == 39 and monitor.rows == 40


def test_what_is_only_in_memory_says_that_it_has_no_ledger():
    monitor = slope_monitor(RULE)
    assert not monitor.durable
    with raises(lw.errors.BadRule):
        _ = monitor.ledger
    monitor.observe([1.0], 0.5, key="a")
    assert monitor.erase(key="a").rows == (0,) and monitor.window.text == "all"


@pytest.fixture
def ledger(tmp_path):
    x, z = some(60)
    folder = tmp_path / "ledger"
    with open_slopes(folder, RULE, input_exponent=0.5, slope_limit=2) as monitor:
        monitor.observe_many(x, z, keys=[f"case {i}" for i in range(60)])
        assert (
            monitor.ledger.path == folder
            and monitor.durable
            and monitor.ledger.durability == "commit"
        )
    return folder


def test_commands_look_after_it(tmp_path, ledger):
    x, z = some(60)
    row, near, far = hunt(steepest(0.5), RULE, x, z, [30])[0]
    assert "60 decisions" in likewise("verify", ledger).stdout
    assert "60 verdicts recomputed, all" in likewise("replay", ledger).stdout
    told = likewise("show", ledger, "30").stdout
    assert f"slope {slope(near, far, 0.5):.6g} against row {row}" in told
    assert "contradicts" not in told
    (pair,) = json.loads(likewise("show", ledger, "--key", "case 30", "--json").stdout)["pairs"]
    assert (pair["witness"], pair["slope"]) == (row, slope(near, far, 0.5))
    likewise("backup", ledger, tmp_path / "copy")
    assert open_slopes(tmp_path / "copy").slope.limit == 2
    assert "1 decision erased" in likewise("erase", ledger, "--row", str(row), "--yes").stdout
    assert "in part" in likewise("replay", ledger).stdout
    assert likewise("verify", ledger).stdout.startswith("intact")
    for command in (["report", ledger], ["compare", ledger, tmp_path / "copy"]):
        assert "holds slopes" in likewise(*command, code=2).stderr
    with lw.Ledger(ledger) as opened:
        for look in (opened.stats, lambda: list(opened.violations())):
            with raises(lw.errors.BadRule):
                look()


def test_migrating_keeps_what_is_asked(tmp_path, ledger):
    x, z = some(60)
    copied = lw.migrate(ledger, tmp_path / "copied")
    assert not copied.judged_again and lw.replay(tmp_path / "copied").ok
    other = lw.Rule("linf", 1, output="number")
    assert lw.migrate(ledger, tmp_path / "again", rule=other).judged_again
    with open_slopes(tmp_path / "again") as monitor:
        assert (monitor.slope.input_exponent, monitor.slope.limit) == (0.5, 2.0)
    with lw.Ledger(tmp_path / "again") as again:
        found = [[one.row for one in entry.nearest] for entry in again.entries()]
    assert found == [[row] * (row >= 0) for row, _, _ in hunt(steepest(0.5), other, x, z)]
    age = {"age": lw.Feature("number", tolerance=5)}
    with raises(lw.errors.BadRule):
        lw.migrate(ledger, tmp_path / "never", rule=lw.Rule(features=age, output_column="z"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "copied", "ledger"]
    favourable = lw.Rule("l2", 1, output="number", favourable="higher")
    lw.migrate(ledger, rule=favourable)
    with open_slopes(ledger) as monitor:
        assert monitor.slope.limit == 2 and monitor.rule.favourable == "higher"


def test_an_altered_witness_is_found(ledger):
    assert lw.replay(ledger).ok
    with lw.Ledger(ledger) as opened:
        segment = next(ledger.glob("*.rows"))
        whole = bytearray(segment.read_bytes())
        at = bytes(whole).index(opened.values(40)["input"].tobytes())
    whole[at] ^= 1
    segment.write_bytes(whole)
    with raises(lw.errors.BadFile, row=40):
        open_slopes(ledger)


@pytest.mark.long
def test_observe_may_be_interrupted_anywhere(tmp_path):
    """Also where the window is gone through, since the steepest of all has mostly left it."""
    rng = np.random.default_rng(9)
    x, z = rng.random((4_000, 2)).round(2), rng.integers(0, 3, 4_000).astype(float)
    taken, places, ended = [], [], 0
    with open_slopes(tmp_path, RULE, window="8 rows", durability="off") as monitor:

        def compare(verdict, i):
            taken.append(i)
            row = len(taken) - 1
            wanted = expected_of(RULE, 1.0, x[taken], z[taken], row, max(0, row - 8), ())
            check(verdict, wanted, 1.0)

        for i in range(200):
            compare(monitor.observe(x[i], z[i]), i)
        i = 200
        while ended < 10:  # one may be through early, since it had the window only
            call = partial(monitor.observe, x[i], z[i])
            places.append(at_step(len(places), call, signals=True))
            ended = 0 if places[-1] else ended + 1
            assert monitor.rows in (len(taken), len(taken) + 1)
            if monitor.rows > len(taken):
                taken.append(i)
            compare(monitor.observe(x[i + 1], z[i + 1]), i + 1)
            i += 2
        within = [place for place in places if "find_best" in place or "SlopeQuestion" in place]
        assert len(within) > 5, places
        assert monitor.ledger.verify().ok
    assert lw.replay(tmp_path).ok
