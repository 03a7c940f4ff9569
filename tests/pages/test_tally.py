"""Counts that go on from where they were are those of one walk over the ledger."""

import numpy as np
import pytest

import likewise as lw
from likewise.ledger.ledger import Ledger
from likewise.pages import running_tally
from likewise.pages.running_tally import RunningTally

MODELS = ("a", "b", None)


def told(monitor, drawn, count):
    for _ in range(count):
        x, z = drawn.integers(0, 15, 1) / 20, "xyz"[drawn.integers(3)]
        monitor.observe(x, z, model=MODELS[drawn.integers(3)])


def brute(folder):
    """By model: decisions, comparable, flagged, pairs, and those within and across models."""
    sums = {}
    with Ledger(folder) as ledger:
        entries = {entry.row: entry for entry in ledger.entries()}
    for entry in entries.values():
        mine = sums.setdefault(entry.model, np.zeros(8, int))
        same = [entries[one.row].model == entry.model for one in entry.nearest]
        within, across = sum(same), len(same) - sum(same)
        mine += [1, bool(entry.comparable), entry.count > 0, entry.count,
                 within > 0, within, across > 0, across]  # fmt: skip
    return {model: one.tolist() for model, one in sums.items()}


def counted(running):
    return {
        one.model: [
            one.decisions,
            one.comparable,
            one.violations,
            one.pairs,
            one.within.violations,
            one.within.pairs,
            one.across.violations,
            one.across.pairs,
        ]
        for one in running.by_model("all")
    }


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 7, 1000])
def test_a_tally_in_steps_is_that_of_one_walk(tmp_path, step, monkeypatch):
    monkeypatch.setattr(running_tally, "STEP", step)
    drawn, running = np.random.default_rng(step), RunningTally()
    with lw.open(tmp_path / "ledger", lw.Rule("linf", 0.06), comparable=True) as monitor:
        for _ in range(3):
            told(monitor, drawn, 40)
            with Ledger(tmp_path / "ledger") as ledger:
                while running.step(ledger, 3):
                    pass
                stats = ledger.stats()
            assert counted(running) == brute(tmp_path / "ledger")
            totals = running.totals()
            assert totals["violations"] == stats.violations > 0
            assert totals["comparable"] == stats.comparable
            assert totals["rate_among_comparable"] == pytest.approx(stats.rate_among_comparable)


def test_what_has_left_the_window_before_it_was_counted_is_not_counted(tmp_path):
    drawn, running = np.random.default_rng(3), RunningTally()
    window = "20 rows"
    with lw.open(tmp_path / "ledger", lw.Rule("linf", 0.06), window=window) as monitor:
        told(monitor, drawn, 400)
        monitor.flush()
        with Ledger(tmp_path / "ledger") as ledger:
            running.step(ledger)
            assert running.first == ledger.first and running.upto == ledger.rows
            totals = running.totals()
    assert totals["comparable"] is None, "that was not asked"
    assert totals["decisions"] == totals["rows_counted"] - totals["first_row"]
