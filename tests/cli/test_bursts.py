"""`--burst` and `--alarm`: neighbours in the lines of a watch, alarms in the end of an audit."""

import json

import numpy as np
import pytest

import likewise as lw
from tests.support.commands import likewise

QUICK = ("--epsilon", "0.1", "--output-column", "z")
BURST = ("--burst", "50", "--alarm", "10")


@pytest.fixture
def stream():
    """Traffic, and from row 100 on a run of near-duplicates; all of it with the same output."""
    random = np.random.default_rng(3)
    inputs = random.random((180, 3))
    inputs[100:130] = inputs[7] + random.random((30, 3)) * 0.05
    return inputs.tolist()


@pytest.fixture
def verdicts(stream):
    monitor = lw.Monitor(lw.Rule("linf", 0.1), burst=lw.Burst(50, alarm=10))
    return monitor.observe_many(np.array(stream), ["yes"] * len(stream))


def rows_of(stream):
    return [{"a": a, "b": b, "c": c, "z": "yes"} for a, b, c in stream]


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def told(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_lines_of_a_watch_say_neighbours_and_alarms(stream, verdicts):
    done = likewise("watch", *QUICK, *BURST, given=lines_of(rows_of(stream)))
    found = [(one["neighbours"], one["alarm"]) for one in told(done)]
    assert found == [(one.neighbours, one.alarm) for one in verdicts]
    raised = verdicts.alarms.sum()
    assert raised >= 20
    assert "180 decisions, " in done.stderr
    assert f", 0 of them (0%) contradict an earlier one, {raised} raise an alarm" in done.stderr


def test_lines_of_a_watch_say_nothing_of_bursts_unless_asked(stream):
    (line,) = told(likewise("watch", *QUICK, given=lines_of(rows_of(stream[:1]))))
    assert not line.keys() & {"neighbours", "alarm"}
    (line,) = told(likewise("watch", *QUICK, "--burst", "5", given=lines_of(rows_of(stream[:1]))))
    assert (line["neighbours"], line["alarm"]) == (0, False)


def test_a_watch_with_a_ledger_goes_on_counting(stream, verdicts, tmp_path):
    rows, ledger = rows_of(stream), ("--ledger", tmp_path / "ledger")
    found = []
    for part in (slice(0, 110), slice(110, 112), slice(112, 180)):
        done = likewise("watch", *QUICK, *BURST, *ledger, given=lines_of(rows[part]))
        found += [one["neighbours"] for one in told(done)]
    assert found == verdicts.neighbours.tolist()


@pytest.mark.parametrize("ledger", [False, True])
def test_an_audit_tells_of_alarms_and_where_they_begin(ledger, stream, verdicts, tmp_path):
    path = tmp_path / "decisions.jsonl"
    path.write_text("\n" + lines_of(rows_of(stream)))  # so that rows and lines differ
    more = ("--ledger", tmp_path / "ledger") if ledger else ()
    first, most = int(np.argmax(verdicts.alarms)), int(verdicts.neighbours.max())
    many = int(verdicts.alarms.sum())
    done = likewise("audit", path, *QUICK, *BURST, *more)
    assert f"Alarms: {many}, first at line {first + 2} of the file; up to {most}" in done.stdout
    more = ("--ledger", tmp_path / "another") if ledger else ()
    (found,) = told(likewise("audit", path, *QUICK, *BURST, *more, "--json"))
    assert found["burst"] == {
        "last": 50,
        "alarm": 10,
        "most_neighbours": most,
        "alarms": many,
        "first_alarm": first,
        "first_alarm_line": first + 2,
    }


def test_an_audit_tells_that_there_was_no_alarm(stream, tmp_path):
    path = tmp_path / "decisions.jsonl"
    path.write_text(lines_of(rows_of(stream[:100])))
    assert "No alarm: at most" in likewise("audit", path, *QUICK, *BURST).stdout
    assert "At most" in likewise("audit", path, *QUICK, "--burst", "50").stdout
    assert "near inputs among" not in likewise("audit", path, *QUICK).stdout


def test_bursts_that_make_no_sense_are_bad_usage(tmp_path):
    path = tmp_path / "decisions.jsonl"
    path.write_text('{"a": 1, "z": "yes"}\n')
    for command, given in (("audit", None), ("watch", "")):
        file = (path,) if command == "audit" else ()
        done = likewise(command, *file, *QUICK, "--alarm", "3", given=given, code=2)
        assert "say among how many decisions, with --burst" in done.stderr
        done = likewise(command, *file, *QUICK, "--burst", "3", "--alarm", "4", given=given, code=2)
        assert "alarm is 4 and last is 3; expected an alarm of at most 3" in done.stderr
        likewise(command, *file, *QUICK, "--burst", "0", given=given, code=2)
