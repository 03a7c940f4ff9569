"""Positions: a ledger keeps where decisions come from, and knows where to go on."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import likewise as lw
from likewise.ledger import record_files
from tests.support.refusals import raises

RULE = lw.Rule("linf", 0.1)
SOURCES = ["decisions/0", "decisions/1", "redis"]


def number(position):
    return position if isinstance(position, tuple) else (position, 0)


def test_positions_are_kept_with_decisions_and_there_after_a_restart(tmp_path):
    with lw.open(tmp_path, RULE) as monitor:
        monitor.observe([0.1], "a", source="decisions/0", position=17)
        monitor.observe([0.2], "a")
        monitor.observe([0.3], "a", source="redis", position=(1700, 0))
        monitor.load([[0.4], [0.5]], ["a", "a"], sources="decisions/0", positions=[18, 2**64 - 1])
        answer = monitor.submit([0.6], "a", source="redis", position=(1700, 1))
        assert answer.result().row == 5
        last = {"decisions/0": 2**64 - 1, "redis": (1700, 1)}
        assert monitor.ledger.positions == last
    with lw.open(tmp_path) as monitor:
        assert monitor.ledger.positions == last and monitor.ledger.verify().ok
        sources = [None, "redis", "new"]
        monitor.observe_many(
            np.ones((3, 1)), ["a"] * 3, sources=sources, positions=[None, (1701, 0), 0]
        )
    with lw.Ledger(tmp_path) as ledger:
        assert ledger.positions == {**last, "redis": (1701, 0), "new": 0}
        assert (ledger.entry(0).source, ledger.entry(0).position) == ("decisions/0", 17)
        assert (ledger.entry(1).source, ledger.entry(1).position) == (None, None)
        assert (ledger.entry(2).source, ledger.entry(2).position) == ("redis", (1700, 0))


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"source": "s"}, lw.errors.BadDecision),
        ({"position": 3}, lw.errors.BadDecision),
        ({"source": "", "position": 3}, lw.errors.UnexpectedValue),
        ({"source": "s", "position": -1}, lw.errors.UnexpectedValue),
        ({"source": "s", "position": 2**64}, lw.errors.UnexpectedValue),
        ({"source": "s", "position": 1.0}, lw.errors.UnexpectedValue),
        ({"source": "s", "position": True}, lw.errors.UnexpectedValue),
        ({"source": "s", "position": (1, 2, 3)}, lw.errors.UnexpectedValue),
        ({"source": "s", "position": (5, 1)}, lw.errors.UnexpectedValue),
        ({"source": "p", "position": 6}, lw.errors.UnexpectedValue),
        ({"source": "s", "position": 5}, lw.errors.OldPosition),
        ({"source": "p", "position": (4, 9)}, lw.errors.OldPosition),
    ],
)
def test_what_is_no_position_leaves_no_trace(tmp_path, given, kind):
    with lw.open(tmp_path, RULE) as monitor:
        monitor.observe_many([[0.1]] * 2, ["a"] * 2, sources=["s", "p"], positions=[5, (5, 0)])
        with raises(kind):
            monitor.observe([0.2], "a", **given)
        assert (monitor.rows, monitor.ledger.positions) == (2, {"s": 5, "p": (5, 0)})
        assert monitor.observe([0.2], "a", source="s", position=6).row == 2


def test_an_old_position_says_where_its_source_is(tmp_path):
    with lw.open(tmp_path, RULE, durability="batch") as monitor:
        monitor.observe([0.1], "a", source="s", position=5)
        with pytest.raises(lw.errors.OldPosition) as refused:
            monitor.observe_many([[0.2]] * 2, ["a"] * 2, sources="s", positions=[6, 6])
        assert (refused.value.source, refused.value.position, refused.value.last) == ("s", 6, 6)
        with pytest.raises(lw.errors.OldPosition):  # though it may not be on disk yet
            monitor.observe([0.2], "a", source="s", position=5)
        monitor.flush()
        assert (monitor.rows, monitor.ledger.positions) == (1, {"s": 5})


def test_a_repeat_under_a_key_is_answered_whatever_its_position(tmp_path):
    with lw.open(tmp_path, RULE) as monitor:
        monitor.observe([0.1], "a", key="k", source="s", position=5)
        assert monitor.observe([0.1], "a", key="k", source="s", position=5).repeated
        assert monitor.ledger.positions == {"s": 5}


def test_positions_need_a_ledger():
    monitor = lw.Monitor(RULE)
    with raises(lw.errors.BadRule):
        monitor.observe([0.1], "a", source="s", position=5)
    with raises(lw.errors.BadRule):
        monitor.observe_many([[0.1]], ["a"], sources="s", positions=[5])
    assert monitor.rows == 0 and monitor.observe([0.1], "a").row == 0
    with raises(lw.errors.BadRule):
        _ = monitor.ledger.positions


def test_a_window_remembers_positions_of_sources_whose_rows_have_left(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files, "SEGMENT_BYTES", 1 << 12)  # files of 64 rows
    with lw.open(tmp_path, RULE, window="100 rows") as monitor:
        monitor.observe([0.1], "a", source="old", position=(3, 4))
        for start in range(0, 1000, 50):
            x = np.full((50, 1), 0.1)
            monitor.observe_many(
                x, ["a"] * 50, sources="new", positions=list(range(start, start + 50))
            )
        assert monitor.ledger.positions == {"old": (3, 4), "new": 999}
    with lw.Ledger(tmp_path) as ledger:
        assert ledger.first > 500 and ledger.positions == {"old": (3, 4), "new": 999}
        told = [event for event in ledger.events() if event.kind == "positions"]
        assert ledger.rows - told[-1].at_row <= 64, "few records are to be read"
    with lw.open(tmp_path) as monitor:
        assert monitor.ledger.verify().ok
        with pytest.raises(lw.errors.OldPosition):
            monitor.observe([0.1], "a", source="old", position=(3, 4))
    lw.migrate(tmp_path, tmp_path.with_name("copied"))
    lw.migrate(tmp_path, tmp_path.with_name("again"), rule=lw.Rule("linf", 0.2))
    lw.back_up(tmp_path, tmp_path.with_name("backup"))
    for name in ("copied", "again", "backup"):
        with lw.Ledger(tmp_path.with_name(name)) as ledger:
            assert ledger.positions == {"old": (3, 4), "new": 999}, name
            assert ledger.entry(ledger.rows - 1).position == 999
            assert ledger.verify().ok


DECISIONS = st.lists(
    st.tuples(st.sampled_from([None, *SOURCES]), st.integers(-2, 9), st.booleans()), max_size=5
)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("many"), DECISIONS),
            st.tuples(st.just("one"), DECISIONS),
            st.tuples(st.just("reopen"), st.booleans()),
        ),
        max_size=12,
    )
)
def test_positions_are_those_of_a_dictionary(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("positions") / "led"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_files, "SEGMENT_BYTES", 1 << 12)
        monitor = lw.open(folder, RULE, durability="batch", batch_rows=7, batch_seconds=60)
        last, rows = {}, 0
        for kind, what in steps:
            if kind == "reopen":
                monitor.close()
                monitor = lw.open(folder, durability="batch", batch_seconds=60, check=what)
                assert monitor.ledger.positions == last
                continue
            for batch in [what] if kind == "many" else [[one] for one in what]:
                known, sources, positions, fits = dict(last), [], [], True
                for source, step, _ in batch:
                    position = None
                    if source is not None:
                        before = number(known.get(source, (10, 0)))
                        position = max(0, before[0] + step)
                        if source == "redis":
                            position = (position, 3)
                        fits = fits and (source not in known or number(position) > before)
                        known[source] = position
                    sources.append(source)
                    positions.append(position)
                x, z = np.full((len(batch), 1), 0.5), ["a"] * len(batch)
                try:
                    if kind == "many":
                        monitor.observe_many(x, z, sources=sources, positions=positions)
                    else:
                        monitor.observe(x[0], "a", source=sources[0], position=positions[0])
                except lw.errors.OldPosition:
                    assert not fits
                else:
                    assert fits
                    last, rows = known, rows + len(batch)
                assert monitor.rows == rows
        monitor.flush()
        assert monitor.ledger.positions == last
        monitor.close()
        with lw.Ledger(folder) as ledger:
            assert ledger.positions == last and ledger.verify().ok


KILLED = """
import sys, likewise as lw
monitor = lw.open(sys.argv[1], durability="batch", batch_rows=5, batch_seconds=60)
at = monitor.ledger.positions.get("s", -1)
assert at + 1 == monitor.rows
for position in range(at + 1, at + 1 + int(sys.argv[2])):
    monitor.observe([position], "a", source="s", position=position)
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_after_a_kill_positions_are_those_of_the_rows_on_disk(tmp_path):
    lw.open(tmp_path, lw.Rule("linf", 0.1)).close()
    for many in (7, 12, 3, 23):
        run = [sys.executable, "-c", KILLED, str(tmp_path), str(many)]
        assert subprocess.run(run, check=False, timeout=60).returncode == -9
        with lw.Ledger(tmp_path) as ledger:
            stored = [entry.position for entry in ledger.entries()]
            assert stored == list(range(ledger.rows)) and len(stored) % 5 == 0
            assert ledger.positions == ({"s": ledger.rows - 1} if stored else {})
    with lw.open(tmp_path) as monitor:
        assert monitor.ledger.verify().ok and monitor.rows > 20


def test_position_moves_without_a_decision_where_nothing_could_be_made_of_a_record(tmp_path):
    with lw.open(tmp_path, RULE) as monitor:
        monitor.ledger.skip_positions({"redis": (1700, 4)})  # before the first decision
        monitor.observe([0.1], "a", source="decisions/0", position=17)
        monitor.ledger.skip_positions({"decisions/0": 20, "decisions/1": 3})
        monitor.ledger.skip_positions({})
        last = {"redis": (1700, 4), "decisions/0": 20, "decisions/1": 3}
        assert monitor.ledger.positions == last
        for old in ({"decisions/0": 20}, {"redis": (1700, 4)}, {"decisions/1": 1}):
            with pytest.raises(lw.errors.OldPosition):
                monitor.ledger.skip_positions(old)
        with pytest.raises(lw.errors.OldPosition):
            monitor.observe([0.1], "a", source="decisions/0", position=20)
        with raises(lw.errors.UnexpectedValue):
            monitor.ledger.skip_positions({"redis": 5000})
        monitor.observe([0.1], "a", source="decisions/0", position=21)
    with lw.open(tmp_path) as monitor:
        assert monitor.ledger.positions == {**last, "decisions/0": 21}
        assert monitor.ledger.verify().ok
    assert lw.Ledger(tmp_path).positions == {**last, "decisions/0": 21}
    with raises(lw.errors.BadRule):
        lw.Monitor(RULE).ledger.skip_positions({"redis": 1})


def test_loss_and_the_position_behind_it_are_one_step(tmp_path):
    with lw.open(tmp_path, RULE) as monitor:
        monitor.observe([0.1], "a", source="decisions/0", position=17)
        monitor.record_loss(4, "expired", source="decisions/0", position=21)
        assert (monitor.missing_decisions, monitor.ledger.positions) == (4, {"decisions/0": 21})
        with pytest.raises(lw.errors.OldPosition):
            monitor.record_loss(4, "expired", source="decisions/0", position=21)
        assert monitor.missing_decisions == 4
        with raises(lw.errors.BadDecision):
            monitor.record_loss(1, "expired", source="decisions/0")
        verdict = monitor.observe([0.1], "b", source="decisions/0", position=22)
        assert verdict.missing_decisions == 4
    with lw.open(tmp_path) as monitor:
        assert (monitor.missing_decisions, monitor.ledger.positions) == (4, {"decisions/0": 22})
        assert monitor.ledger.verify().ok
    with raises(lw.errors.BadRule):
        lw.Monitor(RULE).record_loss(1, "x", source="s", position=1)
