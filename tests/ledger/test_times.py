"""Times that come in: not from the future, in the right unit; and ledgers that have such a one."""

import datetime
import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from tests.support.commands import installed, likewise
from tests.support.refusals import raises

RULE = lw.Rule("linf", 0.1)
FAR = 1_700_000_000_000  # seconds, meant as milliseconds
MINUTE = 60


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "ledger"


def seconds_ahead(seconds):
    return time.time() + seconds


def in_utc(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


AHEAD = {
    "seconds": lambda: seconds_ahead(10 * MINUTE),
    "a datetime": lambda: in_utc(seconds_ahead(10 * MINUTE)),
    "text": lambda: in_utc(seconds_ahead(10 * MINUTE)).isoformat(),
    "NumPy's": lambda: np.datetime64(round(seconds_ahead(10 * MINUTE)), "s"),
    "tomorrow": lambda: seconds_ahead(86400),
    "milliseconds": lambda: FAR,
    "a far year": lambda: "9999-12-31T23:59:59",
}
CALLS = {
    "observe": lambda monitor, when: monitor.observe([0.5], "no", time=when),
    "check": lambda monitor, when: monitor.check([0.5], "no", time=when),
    "observe_many": lambda monitor, when: monitor.observe_many(
        [[0.5], [0.5]], ["no", "no"], times=[1.7e9, when]
    ),
    "load": lambda monitor, when: monitor.load([[0.5]], ["no"], times=[when]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("when", AHEAD.values(), ids=AHEAD)
def test_time_ahead_of_the_clock_is_refused_and_nothing_is_stored(folder, call, when):
    with lw.open(folder, RULE, window="24 hours") as monitor:
        monitor.observe([0.5], "yes")
        head = monitor.ledger.head()
        with raises(lw.errors.UnexpectedValue, text=False):
            call(monitor, when())
        assert monitor.ledger.head() == head and monitor.rows == len(monitor) == 1
        verdict = monitor.observe([0.5], "no", time=seconds_ahead(MINUTE))  # a clock may be off
        assert verdict.witnesses.rows.tolist() == [0]


def test_hint_says_milliseconds_where_that_would_fit(folder):
    with lw.open(folder, RULE) as monitor:
        for when in (FAR, float(FAR), np.int64(FAR), time.time() * 1000):
            with raises(lw.errors.UnexpectedValue, text=False) as told:
                monitor.observe([0.5], "yes", time=when)
            assert "milliseconds" in told.value.advice
        with raises(lw.errors.UnexpectedValue, text=False, place=1):
            monitor.observe_many([[0.5], [0.6]], ["yes", "no"], times=np.array([1.7e9, 1.7e12]))
        for factor in (1e6, 1e9):
            with raises(lw.errors.UnexpectedValue):
                monitor.observe([0.5], "yes", time=1.7e9 * factor)
        with pytest.raises(lw.errors.BadDecision) as told:
            monitor.observe([0.5], "yes", time=seconds_ahead(86400))
        assert "milliseconds" not in str(told.value)
        with pytest.raises(lw.errors.BadDecision):
            monitor.observe([0.5], "yes", time=np.datetime64("300000-01-01"))
        with pytest.raises(lw.errors.BadDecision):
            monitor.observe_many([[0.5]], ["yes"], times=np.array(["-300000"], "datetime64[Y]"))
        assert monitor.rows == 0


@pytest.mark.parametrize("given", ["2 days", 172_800, 172_800.0, "172800", "48 hours"])
def test_how_far_ahead_can_be_said(folder, given):
    with lw.open(folder, RULE, max_ahead=given) as monitor:
        monitor.observe([0.5], "yes", time=seconds_ahead(86400))
        with raises(lw.errors.UnexpectedValue, text=False):
            monitor.observe([0.5], "yes", time=seconds_ahead(3 * 86400))


def test_any_time_can_be_allowed(folder):
    with lw.open(folder, RULE, max_ahead="any") as monitor:
        monitor.observe([0.5], "yes", time=FAR)
        assert monitor.rows == 1


@pytest.mark.parametrize("given", ["10 rows", "soon", -1, float("nan"), None, True, "all", [5]])
def test_how_far_ahead_is_a_duration(folder, given):
    with raises(lw.errors.BadRule, setting="max_ahead"):
        lw.open(folder, RULE, max_ahead=given)
    assert not folder.exists()


def test_zero_allows_nothing_ahead(folder):
    with lw.open(folder, RULE, max_ahead=0) as monitor:
        monitor.observe([0.5], "yes", time=seconds_ahead(-1))
        with raises(lw.errors.UnexpectedValue, text=False):
            monitor.observe([0.5], "yes", time=seconds_ahead(2))


@pytest.mark.parametrize("window", ["all", "24 hours"])
@pytest.mark.parametrize("when", [FAR, 4e12, -1e12], ids=["milliseconds", "later", "before Christ"])
def test_ledger_that_has_such_a_time_opens_and_is_shown(folder, window, when):
    with lw.open(folder, RULE, window=window, max_ahead="any") as monitor:
        monitor.observe([0.5], "yes", key="a")
        monitor.observe([0.55], "no", key="b", time=when)
    with lw.open(folder) as monitor:
        assert monitor.ledger.verify().ok
        assert monitor.observe([0.5], "maybe", key="c").row == 2  # by our own clock
        assert monitor.check([0.5], "no").compared_with.first <= 2
        with raises(lw.errors.UnexpectedValue, text=False):
            monitor.observe([0.5], "yes", time=FAR)
    with lw.Ledger(folder) as ledger:
        shown = [entry.time for entry in ledger.entries()]
        assert all(one.endswith("Z") and "T" in one for one in shown)
    assert lw.replay(folder).ok
    if (window, when) != ("24 hours", FAR):
        return
    for row in range(3):
        told = json.loads(likewise("show", folder, row, "--json").stdout)
        assert told["time"] == shown[row]
        assert shown[row] in likewise("show", folder, row).stdout
    page = folder.with_name("page.html")
    installed("report", folder, "--out", page)
    assert page.exists()


def test_audit_into_a_ledger_refuses_them_and_one_without_does_not(tmp_path):
    data, quick = tmp_path / "d.csv", ["--epsilon", "0.1", "--output-column", "z"]
    rows = [f"0.{i},{'yes' if i % 2 else 'no'},2024-01-0{i + 1}" for i in range(5)]
    data.write_text("\n".join(["a,z,when", *rows, "0.5,no,2999-01-01", ""]))
    quick += ["--time-column", "when"]
    likewise("audit", data, *quick)
    done = likewise("audit", data, *quick, "--ledger", tmp_path / "refused", code=3)
    assert "line 7" in done.stderr and "2999-01-01" in done.stderr
    done = likewise(
        "audit", data, *quick, "--ledger", tmp_path / "skipped", "--on-bad-row", "skip", "--json"
    )
    assert json.loads(done.stdout)["bad_rows"] == 1
    likewise("audit", data, *quick, "--ledger", tmp_path / "any", "--max-ahead", "any")
    with lw.Ledger(tmp_path / "any") as ledger:
        assert ledger.entry(5).time.startswith("2999-01-01")
    done = likewise("audit", data, *quick, "--max-ahead", "any", code=2)
    assert "--max-ahead is about a ledger" in done.stderr
    done = likewise("audit", data, *quick, "--ledger", tmp_path / "x", "--max-ahead", "x", code=2)
    assert "max_ahead is 'x'; expected" in done.stderr
    assert not (tmp_path / "x").exists()


def test_golden_ledger_takes_times_of_its_own_years(tmp_path):
    golden = Path(__file__).parents[1] / "golden" / "ledger-2" / "vectors"
    shutil.copytree(golden, tmp_path / "ledger")
    with lw.open(tmp_path / "ledger") as monitor:
        assert monitor.observe([0.1, 0.2], 1.0, time=1e9 + 30).row == 20
