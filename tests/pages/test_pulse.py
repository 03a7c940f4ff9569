"""What came lately is counted once, in bounded memory, and a change is noticed and stays so."""

import asyncio
import random

import pytest

from likewise.ledger.ledger import Ledger
from likewise.monitor.readers.protocol import Decision
from likewise.pages.rate_windows import SPANS, RateWindows, WindowCounts, count_in_ledger
from likewise.service.monitor_counts import MonitorCounts
from tests.pages.asking import paging

NOW = 1_800_000_000.0
FINE = SPANS[0]


class FakeServedMonitor:
    """As much of a served monitor as is counted."""

    def __init__(self):
        self.counts = MonitorCounts()
        self.next_row = 0
        self.monitor = self
        self.comparable = True

    def judge(self, decisions, comparable, violations):
        self.counts.decisions["a"] += decisions
        self.counts.comparable += comparable
        self.counts.violations["a"] += violations


def sums(beats):
    return tuple(map(sum, zip(*(beat.counts for beat in beats), strict=True)))


def test_every_decision_is_in_one_window_of_each_span():
    draw = random.Random(5)
    served = FakeServedMonitor()
    pulse = RateWindows(served)
    told = [0, 0, 0]
    for second in range(300):
        counts = sorted((draw.randrange(5) for _ in range(3)), reverse=True)
        served.judge(*counts)
        told = [one + more for one, more in zip(told, counts, strict=True)]
        pulse.update(NOW + second)
    for span in SPANS:
        assert sums(pulse.list_windows(span, NOW + 299)) == tuple(told)


def test_what_was_counted_before_the_pulse_began_is_not_counted_again():
    served = FakeServedMonitor()
    served.judge(10, 10, 10)
    pulse = RateWindows(served)
    served.judge(3, 2, 1)
    pulse.update(NOW)
    assert sums(pulse.list_windows(FINE, NOW)) == (3, 2, 1)


@pytest.mark.long
def test_windows_are_bounded_however_long_it_runs():
    served = FakeServedMonitor()
    pulse = RateWindows(served)
    for hour in range(0, 24 * 30):
        served.judge(1, 1, 0)
        pulse.update(NOW + hour * 3600)
    for span in SPANS:
        track = pulse._tracks[span.key]
        assert max(map(len, (track.windows, track.concluded, track.usual))) <= span.windows
        assert len(pulse.list_windows(span, NOW + 24 * 30 * 3600)) <= span.windows


def played(rates, *, each=100):
    """A pulse with a window of comparable decisions for each rate."""
    served = FakeServedMonitor()
    pulse = RateWindows(served)
    for number, rate in enumerate(rates):
        now = NOW + FINE.step * number
        pulse.update(now)
        served.judge(each, each, round(each * rate))
        pulse.update(now + 1)
    end = NOW + FINE.step * len(rates)
    pulse.update(end)
    return pulse, end


def test_rate_that_rises_is_above_its_band_for_as_long_as_the_change_is_in_sight():
    for after in (4, 10, 60):
        pulse, end = played([0.05] * 40 + [0.3] * after)
        lately = pulse.find_recent_rate(FINE, end)
        conclusion = lately.conclusion
        assert lately.counts.rate == pytest.approx(0.3)
        assert conclusion.finding == "above", (after, conclusion)
        assert conclusion.high < 0.3


def test_change_stays_marked_though_its_windows_vary():
    draw = random.Random(3)
    for _ in range(20):
        after = [min(1.0, max(0.0, draw.gauss(0.17, 0.05))) for _ in range(40)]
        pulse, end = played([draw.gauss(0.06, 0.02) for _ in range(25)] + after)
        assert pulse.find_recent_rate(FINE, end).conclusion.high < 0.15


def test_rate_that_stays_is_usual():
    pulse, end = played([0.05] * 40)
    assert pulse.find_recent_rate(FINE, end).conclusion.finding == "usual"


def test_after_a_change_has_stayed_for_the_whole_span_it_is_what_is_usual():
    pulse, end = played([0.05] * 40 + [0.3] * (FINE.windows + 20))
    assert pulse.find_recent_rate(FINE, end).conclusion.finding == "usual"


def test_too_little_is_said_to_be_too_little():
    pulse, end = played([0.05] * 5)
    conclusion = pulse.find_recent_rate(FINE, end).conclusion
    assert conclusion.finding == "cannot be concluded" and "earlier windows" in conclusion.reason


def test_span_is_the_finest_that_holds_enough():
    assert played([0.1] * 20, each=100)[0].choose_span(None, NOW + 60) is SPANS[0]
    assert played([0.1] * 20, each=5)[0].choose_span(None, NOW + 60) is SPANS[1]
    assert played([0.1] * 20, each=1)[0].choose_span(None, NOW + 60) is SPANS[0]  # which has it all
    pulse, _ = played([0.1] * 20)
    assert [pulse.choose_span(span.key, NOW).key for span in SPANS] == [span.key for span in SPANS]
    assert pulse.choose_span("nonsense", NOW + 60) is SPANS[0]


def test_windows_from_a_ledger_are_those_that_were_counted_live(tmp_path):
    async def play():
        async with paging(tmp_path) as app:
            served = app.service.get_monitor("default")
            for i in range(200):
                await served.observe(Decision([i % 20 / 50.0], "yes" if i % 7 else "no"))
            monitor = served.monitor
            await served.run_in_turn(monitor.flush)
            with Ledger(monitor.ledger.path) as ledger:
                windows, last = count_in_ledger(ledger, served.next_row, counts_comparable=True)
            counts = served.counts
            expected = WindowCounts(200, counts.comparable, counts.violations.total())
            assert expected.violations > 0
            for span in SPANS:
                total = WindowCounts()
                for growth in windows[span.key].values():
                    total = total.plus(growth)
                assert total == expected
            assert abs(last - counts.last_decision) < 60
            with Ledger(monitor.ledger.path) as ledger:
                some, _ = count_in_ledger(ledger, 50, counts_comparable=True)
            assert sum(growth.decisions for growth in some[FINE.key].values()) == 50

    asyncio.run(play())


def test_what_is_added_afterwards_is_concluded_again():
    pulse, end = played([0.05] * 3)
    number = int(NOW // FINE.step)
    before = {FINE.key: {number - n: WindowCounts(100, 100, 5) for n in range(1, 41)}}
    pulse.add_past(before, NOW)
    pulse.update(end)
    assert pulse.find_recent_rate(FINE, end).conclusion.finding == "usual"


def test_last_rate_is_that_of_the_last_decisions_when_none_come_any_more():
    pulse, end = played([0.05] * 40)
    before = pulse.find_recent_rate(FINE, end)
    pulse.update(end + 300)
    assert pulse.find_recent_rate(FINE, end + 300) == before and before.until == end
    assert pulse.decisions_per_second(end + 300) == 0
