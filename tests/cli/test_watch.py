"""`likewise watch`: a verdict line for each decision, as it comes."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import likewise as lw
from tests.support.commands import COMMAND, installed, likewise

QUICK = ("--epsilon", "0.1", "--output-column", "z")


def decisions(count=500):
    random = np.random.default_rng(9)
    return [
        {"a": float(a), "b": float(b), "z": str(z)}
        for (a, b), z in zip(random.random((count, 2)), random.integers(0, 2, count), strict=True)
    ]


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def running():
    """Started, and ended in the end whatever happens."""
    started = []

    def start(*arguments):
        one = subprocess.Popen(
            [*COMMAND, "watch", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
        one.wait()
        for pipe in (one.stdin, one.stdout, one.stderr):
            pipe.close()


def test_verdicts_are_those_of_observe():
    rows = decisions()
    done = installed("watch", *QUICK, "--witnesses", "3", given=lines_of(rows))
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == len(rows)
    for i, (row, one) in enumerate(zip(rows, told, strict=True)):
        verdict = monitor.observe([row["a"], row["b"]], row["z"])
        assert (one["line"], one["row"]) == (i + 1, i)
        assert (one["violation"], one["count"]) == (verdict.violation, len(verdict.witnesses))
        nearest = [
            {"row": w.row, "input_distance": w.input_distance, "output_distance": 1.0}
            for w in verdict.witnesses.nearest(3)
        ]
        assert one["witnesses"] == nearest
    flagged = sum(one["violation"] for one in told)
    comparable = sum(one["comparable"] for one in told)
    assert flagged < comparable < 500
    assert (
        f"500 decisions, {comparable} with an earlier similar case, {flagged} of them"
        in done.stderr
    )


def test_verdict_comes_before_the_next_decision_is_sent(running):
    watching = running(*QUICK)
    for i, row in enumerate(decisions(20)):
        watching.stdin.write(json.dumps(row).encode() + b"\n")
        watching.stdin.flush()
        assert json.loads(watching.stdout.readline())["row"] == i
    watching.stdin.close()
    assert watching.wait(timeout=60) == 0


def test_line_that_cannot_be_judged_is_answered_in_its_place():
    bad = ["nonsense", "[1]", '{"a": 1, "z": "0"}', '{"a": "x", "b": 1, "z": "0"}']
    good = [json.dumps(row) for row in decisions(4)]
    mixed = [line for pair in zip(good, bad, strict=True) for line in pair]
    done = likewise("watch", *QUICK, given="\n".join([*mixed, "", ""]))
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["line"] for one in told] == list(range(1, 9))
    assert [one.get("row") for one in told] == [0, None, 1, None, 2, None, 3, None]
    assert all("error" in one for one in told[1::2])
    done = likewise("watch", *QUICK, "--on-bad-row", "fail", given="\n".join(mixed), code=3)
    assert len(done.stdout.splitlines()) == 2
    assert "standard input, line 2: not JSON" in done.stderr


def test_rule_with_a_key_names_witnesses_by_it(tmp_path):
    rule = '[output]\ncolumn = "z"\n[features.a]\nkind = "number"\ntolerance = 1\n'
    (tmp_path / "r.toml").write_text(rule + '[features.id]\nkind = "key"\n')
    given = lines_of([{"id": "u", "a": 1, "z": "x"}, {"id": "v", "a": 2, "z": "y"}])
    done = likewise("watch", "--rule", tmp_path / "r.toml", given=given)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["key"], last["witnesses"][0]["key"]) == ("v", "u")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_end_it_ends_after_what_is_in_hand(number, running):
    watching = running(*QUICK)
    watching.stdin.write(lines_of(decisions(5)).encode())
    watching.stdin.flush()
    for _ in range(5):
        watching.stdout.readline()
    watching.send_signal(number)  # while it waits for more
    assert watching.wait(timeout=60) == (0 if number == signal.SIGTERM else 130)
    assert b"5 decisions" in watching.stderr.read()


def test_slow_reader_holds_the_writer_up_and_memory_down(running):
    """Nobody reads the verdicts: after the pipes are full no more decisions are taken."""
    watching = running(*QUICK)
    descriptor = watching.stdin.fileno()
    piece = lines_of(decisions(1_000)).encode()
    os.write(descriptor, piece[: piece.index(b"\n") + 1])
    assert json.loads(watching.stdout.readline())["line"] == 1  # it is up
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    sent, quiet = 0, 0.0
    while quiet < 3.0 and sent < 50 * len(piece):
        try:
            sent += os.write(descriptor, piece[sent % len(piece) :])
            quiet = 0.0
        except BlockingIOError:
            time.sleep(0.1)
            quiet += 0.1
    assert quiet >= 3.0, "it took everything, though nobody took its answers"
    assert sent < 20 * len(piece)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
    watching.send_signal(signal.SIGTERM)
    rest, _ = watching.communicate(timeout=60)  # somebody reads at last
    told = [json.loads(line) for line in rest.splitlines()]
    assert [one["line"] for one in told] == list(range(2, len(told) + 2))
    assert watching.returncode == 0


def test_bad_rule_is_told_before_the_first_decision(running, tmp_path):
    watching = running("--rule", str(tmp_path / "none.toml"))
    assert watching.wait(timeout=60) == 2
    assert b"none.toml does not exist" in watching.stderr.read()


def test_nothing_to_watch_is_fine():
    assert likewise("watch", *QUICK, given="").stdout == ""


if sys.platform == "win32":
    pytest.skip("signals and pipes of another kind", allow_module_level=True)


def test_how_it_went_as_json_counts_the_comparable():
    rows = [
        {"a": a, "b": 0.0, "z": z} for a, z in ((0.0, "x"), (0.05, "x"), (0.05, "y"), (9.0, "y"))
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    done = likewise("watch", *QUICK, "--json", given=lines + "nonsense\n")
    told = json.loads(done.stderr.splitlines()[-1])
    agreement = told.pop("agreement")
    assert (agreement["comparable"], agreement["like_pairs"]) == (3, 3)
    assert (agreement["disagreeing_pairs"], agreement["how"]["code"]) == (2, "too-few")
    assert told == {
        "rows": 4, "comparable": 2, "violations": 1, "alarms": 0, "repeated": 0, "bad_rows": 1,
        "missing_decisions": 0,
    }  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one.get("comparable") for one in answers] == [False, True, True, False, None]


def test_index_of_the_newest_decisions_is_said_at_the_end():
    rows = [{"a": float(i % 8), "b": 0.0, "z": "xy"[i % 8 // 4 if i % 5 else 1]} for i in range(80)]
    done = likewise("watch", *QUICK, given="".join(json.dumps(row) + "\n" for row in rows))
    assert re.search(r", agreement index 0\.\d\d \(95 % interval \S+ to \S+\)\n$", done.stderr)


def test_nothing_comparable_is_said_aloud():
    lines = "".join(json.dumps({"a": float(i), "b": 0.0, "z": "x"}) + "\n" for i in range(3))
    done = likewise("watch", *QUICK, given=lines)
    assert done.stderr == (
        "3 decisions: none had an earlier similar case, so nothing could be compared, and nothing"
        " follows\n"
    )
