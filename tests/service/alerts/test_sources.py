"""What a ledger's news say is what a monitor answered, window by window, wherever one stops."""

import numpy as np
import pytest

import likewise as lw
from likewise.service.alerts.news import CountsActivitySource, LedgerActivitySource, VerdictSignals
from likewise.service.served_monitor import ServedMonitor
from likewise.service.settings import Limits, MonitorSettings

HOUR = 3600


def serve_in(folder, **settings):
    rule = lw.Rule(metric="linf", epsilon=0.1)
    monitor = lw.open(folder, rule, **settings) if folder else lw.Monitor(rule, **settings)
    return ServedMonitor("loans", monitor, MonitorSettings(rule="r"), Limits())


@pytest.mark.parametrize("comparable", [True, False])
@pytest.mark.parametrize(("seed", "cuts"), [(1, []), (2, [7, 23]), (3, [1, 59])])
def test_news_of_a_ledger_adds_up_to_its_verdicts(tmp_path, comparable, seed, cuts):
    rows = 60
    rng = np.random.default_rng(seed)
    served = serve_in(tmp_path / "ledger", comparable=comparable)
    try:
        source = LedgerActivitySource(served, 3600.0, keys=True)
        start = 1_700_000_000 // HOUR * HOUR
        times = start + np.sort(rng.integers(0, 5 * HOUR, rows))
        expected: dict[int, list[int]] = {}
        news, seen, last = [], 0, None
        bounds = sorted({min(rows, cut) for cut in cuts} | {rows})
        for row in range(rows):
            x = [float(rng.integers(0, 4)) / 20]
            verdict = served.monitor.observe(
                x, int(rng.integers(0, 2)), key=f"k{row}", time=int(times[row])
            )
            same = bool((verdict.witnesses.input_distances == 0).any())
            window = expected.setdefault(int(times[row]) // HOUR, [0, 0, 0, 0])
            window[0] += 1
            window[1] += 1 if not comparable else bool(verdict.comparable)
            window[2] += verdict.violation
            window[3] += same
            last = row if same else last
            if row + 1 in bounds:
                more, seen = source.read_since(seen, VerdictSignals())
                news += more[:-1]  # the last is of now, without decisions
                assert more[-1].decisions == 0
                assert not more[-1].waiting
        assert seen == rows
        found: dict[int, list[int]] = {}
        for one in news:
            window = found.setdefault(int(one.time) // HOUR, [0, 0, 0, 0])
            for i, count in enumerate(
                (one.decisions, one.comparable, one.violations, one.same_input)
            ):
                window[i] += count
        assert found == expected
        told = [one for one in news if one.same_input]
        if last is not None:
            assert (told[-1].last_row, told[-1].last_key) == (last, f"k{last}")
        else:
            assert not told
    finally:
        served.close()


def test_losses_and_what_waits_are_seen(tmp_path):
    served = serve_in(tmp_path / "ledger")
    try:
        source = LedgerActivitySource(served, 3600.0, keys=False)
        rows, missing, head = source.read_start()
        assert (rows, missing) == (0, 0)
        served.monitor.record_loss(7, "full")
        (news,), rows = source.read_since(0, VerdictSignals())
        assert (news.missing, rows) == (7, 0)
        assert news.head != head
        served.waiting_rows = 3
        (news,), _ = source.read_since(0, VerdictSignals())
        assert news.waiting
        served.waiting_rows = 0
    finally:
        served.close()


def test_rows_that_left_the_window_unseen_are_passed_over(tmp_path):
    served = serve_in(tmp_path / "ledger", window="10 rows")
    try:
        served.monitor.observe_many(np.zeros((40_000, 1)), np.zeros(40_000, int))
        source = LedgerActivitySource(served, 3600.0, keys=False)
        _, rows = source.read_since(0, VerdictSignals())
        assert rows == 40_000
    finally:
        served.close()


def test_counts_that_could_not_be_kept_are_told_again():
    served = serve_in(None, comparable=True)
    try:
        source = CountsActivitySource(served)
        for x, z in ([0.5], 0), ([0.55], 1), ([9.0], 0):
            served.record_verdict(served.monitor.observe(x, z))
        for kept in (False, True):
            (news,), _ = source.read_since(0, VerdictSignals())
            assert (news.decisions, news.comparable, news.violations) == (3, 1, 1)
            if kept:
                source.mark_saved()
        (news,), _ = source.read_since(0, VerdictSignals())
        assert (news.decisions, news.comparable, news.violations) == (0, 0, 0)
    finally:
        served.close()


def test_what_was_heard_is_taken_once_and_can_be_given_back():
    served = serve_in(None)
    try:
        heard = VerdictSignals()
        served.listeners.append(heard.record)
        for x, z in ([0.5], 0), ([0.5], 1), ([0.55], 0):
            served.record_verdict(served.monitor.observe(x, z))
        assert heard.urgent
        taken = heard.take()
        assert (taken.same_input, taken.row) == (1, 1)  # near is not the same
        assert (heard.same_input, heard.row, heard.urgent) == (0, None, False)
        heard.put_back(taken)
        assert (heard.same_input, heard.row) == (1, 1)
    finally:
        served.close()
