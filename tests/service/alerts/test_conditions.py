"""Which alerts there are, given counts over time, beside an oracle that looks at all of them."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from likewise.service.alerts.conditions import (
    KINDS,
    MonitorActivity,
    Thresholds,
    advance,
    begin_state,
    resume_state,
)
from likewise.service.alerts.usual_band import RateWindow, conclude

SMALL = Thresholds(
    window_seconds=10.0,
    windows=5,
    deviations=2.0,
    least_comparable=5,
    least_windows=2,
    quiet_seconds=7.0,
    no_decisions_seconds=6.0,
    stale_head_seconds=4.0,
)


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 5.0, 7.0, 12.0, 40.0]),
        st.integers(0, 12 * 13 * 3 - 1),  # comparable, violations and others together
        st.integers(0, 2**9 - 1),  # what else there is, by its bits
    ),
    min_size=1,
    max_size=40,
)


def stream(steps):
    """News in order of time, as a service would have them."""
    time, missing, head, news = 1000.0, 0, 0, []
    for pause, counts, bits in steps:
        time += pause
        comparable = counts % 13
        missing += 3 * (bits & 3 == 3)
        head += bits >> 2 & 1
        news.append(
            MonitorActivity(
                time,
                decisions=comparable + counts // 156,
                comparable=comparable,
                violations=min(comparable, counts // 13 % 12),
                same_input=(bits >> 3 & 3 == 3) * (1 + (bits & 1)),
                alarms=int(bits >> 5 & 3 == 3),
                missing=missing,
                head=str(head),
                waiting=bool(bits >> 7 & 3),
            )
        )
    return news


few = settings(max_examples=60, deadline=None)


def played(news, thresholds=SMALL):
    """The kinds that hold after each piece of news, and all changes."""
    seen = begin_state(1000.0, missing=0, head="0")
    states, changes = [], []
    for one in news:
        seen, more = advance(seen, one, thresholds)
        states.append(set(seen.holding))
        changes.append(more)
    return states, changes, seen


def counted_oracle(news, kind):
    """Whether an alert of a count holds at each time: it grew less than `quiet` ago.

    It ends at the first news so long after the last growth, and a growth then begins another.
    """
    holds, last, before = [], None, 0
    for one in news:
        count = {"burst": one.alarms, "same_input": one.same_input}.get(kind)
        if kind == "losses":
            count, before = one.missing - before, one.missing
        if count:
            last = one.time
        holds.append(last is not None and one.time - last < SMALL.quiet_seconds)
    return holds


@few
@given(steps=STEPS)
def test_counts_hold_until_they_have_been_quiet(steps):
    news = stream(steps)
    states, _, _ = played(news)
    for kind in ("burst", "same_input", "losses"):
        assert [kind in state for state in states] == counted_oracle(news, kind)


@few
@given(steps=STEPS)
def test_silence_and_a_stale_head_are_told_after_their_time(steps):
    news = stream(steps)
    states, _, _ = played(news)
    last, head, since = 1000.0, "0", 1000.0
    for one, state in zip(news, states, strict=True):
        if one.decisions:
            last = one.time
        if one.head != head or not one.waiting:
            head, since = one.head, one.time
        assert ("no_decisions" in state) == (one.time - last > SMALL.no_decisions_seconds)
        assert ("stale_head" in state) == (one.time - since > SMALL.stale_head_seconds)


@few
@given(steps=STEPS)
def test_rates_are_judged_window_by_window(steps):
    news = stream(steps)
    states, _, seen = played(news)
    sums: dict[int, list[int]] = {}
    for one in news:
        window = sums.setdefault(int(one.time // 10), [0, 0])
        window[0] += one.comparable
        window[1] += one.violations
    windows = [RateWindow(number, *counts) for number, counts in sorted(sums.items())]
    holds, expected, concluded = False, {}, None
    for i, window in enumerate(windows):
        earlier = [w for w in windows[:i] if w.comparable][-5:]
        expected[window.number] = holds  # while it is open, the one before counts
        if i == len(windows) - 1:
            break
        concluded = conclude(window, earlier, SMALL)
        if concluded.finding != "cannot be concluded":
            holds = concluded.finding != "usual"
    for one, state in zip(news, states, strict=True):
        assert ("violation_rate" in state) == expected[int(one.time // 10)]
    if concluded is not None:
        assert seen.rate == concluded


@few
@given(steps=STEPS)
def test_there_is_one_alert_of_a_kind_while_it_lasts(steps):
    news = stream(steps)
    states, changes, _ = played(news)
    open_ones = set()
    for state, some in zip(states, changes, strict=True):
        for change in some:
            if change.what == "begun":
                assert change.kind not in open_ones
                open_ones.add(change.kind)
            elif change.what == "ended":
                open_ones.remove(change.kind)
            else:
                assert change.kind in open_ones
        assert open_ones == state


@few
@given(steps=STEPS, kinds=st.sets(st.sampled_from(KINDS)))
def test_kinds_that_are_not_wanted_are_not_told(steps, kinds):
    news = stream(steps)
    _, changes, _ = played(news, structs.replace(SMALL, kinds=tuple(kinds)))
    _, all_changes, _ = played(news)
    for some, every in zip(changes, all_changes, strict=True):
        assert some == [change for change in every if change.kind in kinds]


def test_a_clock_that_is_set_back_ends_nothing():
    seen = begin_state(1000.0, missing=0, head="")
    seen, changes = advance(seen, MonitorActivity(1005.0, same_input=1), SMALL)
    assert [change.kind for change in changes] == ["same_input"]
    seen, changes = advance(seen, MonitorActivity(500.0, decisions=1, comparable=1), SMALL)
    assert changes == []
    assert seen.time == 1005.0
    assert seen.window == RateWindow(100, 1, 0)


def test_time_in_which_nobody_could_be_asked_is_no_silence():
    seen = begin_state(1000.0, missing=0, head="a")
    seen = resume_state(seen, 5000.0)
    seen, changes = advance(seen, MonitorActivity(5001.0, head="a", waiting=True), SMALL)
    assert changes == []
    seen, changes = advance(seen, MonitorActivity(5010.0, head="a"), SMALL)
    assert [(change.what, change.kind) for change in changes] == [("begun", "no_decisions")]
    seen = resume_state(seen, 9000.0)  # one that holds goes on
    _, changes = advance(seen, MonitorActivity(9001.0, head="a"), SMALL)
    assert changes == []
