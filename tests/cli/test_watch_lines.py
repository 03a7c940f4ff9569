"""`likewise watch`: every line has an answer, whatever it holds, and the stream goes on."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import likewise as lw
from likewise.cli import main
from tests.support.commands import COMMAND, likewise
from tests.support.rule_texts import rule_text

pytestmark = pytest.mark.pairwise

QUICK = ("--epsilon", "0.1", "--output-column", "z")
GOOD = '{"a": 1.0, "b": 2.0, "z": "x"}'
RULE = rule_text(
    {"id": "key", "a": 1, "grade": {"kind": "ordinal", "order": [1, 2, 3]}, "note": "ignore"},
    output={"column": "z"},
)


def keyed(key, **changes):
    return json.dumps({"id": key, "a": 1.0, "grade": 1, "z": "x", **changes})


@pytest.fixture
def watched(tmp_path, monkeypatch, capsys):
    """The command in this process: its answers, by line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule.toml").write_text(RULE)

    def watch(lines, *arguments, code=0, first=1):
        text = b"\n".join(one if isinstance(one, bytes) else one.encode() for one in lines)
        (tmp_path / "lines").write_bytes(text + b"\n")
        with (tmp_path / "lines").open() as given:
            monkeypatch.setattr(sys, "stdin", given)
            ended = main(["watch", *arguments])
        done = capsys.readouterr()
        assert ended == code, done
        answers = [json.loads(line) for line in done.out.splitlines()]
        assert [one["line"] for one in answers] == list(range(first, first + len(lines)))
        assert all(("error" in one) != ("violation" in one) for one in answers)
        return answers

    return watch


HOSTILE = {
    "half a character in a key": keyed("\ud800"),
    "half a character in a label": keyed("k", z="\udfff"),
    "half a character as bytes": b'{"id": "\xed\xa0\x80", "a": 1.0, "grade": 1, "z": "x"}',
    "half a character in a name": keyed("k", **{"\ud83d": 1}),
    "a name given twice": '{"id": "k", "a": 1.0, "a": 9.0, "grade": 1, "z": "x"}',
    "a name given twice, in other letters": '{"id": "k", "a": 1, "\\u0061": 9, "grade": 1, "z": 0}',
    "true for a number": keyed("k", a=True),
    "true for a listed number": keyed("k", grade=True),
    "other columns": '{"temperature": 3}',
    "a column too many": keyed("k", more=1),
    "the name of the line's own number": keyed("k", **{"\x00line": 7}),
    "no columns": "{}",
    "an array": "[1, 2]",
    "not JSON": "nonsense",
    "not UTF-8": b'{"id": "\xff"}',
    "a number of many digits": '{"id": "k", "a": ' + "9" * 5_000 + "}",
    "a number beyond floats": '{"id": "k", "a": 1e999, "grade": 1, "z": "x"}',
    "NaN": '{"id": "k", "a": NaN, "grade": 1, "z": "x"}',
    "deeply nested": "[" * 200_000,
    "a list for a value": keyed("k", a=[1]),
    "a key that is a list": keyed([1]),
    "no key": keyed(None),
    "no output": keyed("k", z=None),
    "nulls in bytes": b"\x00\x00\x00",
}


@pytest.mark.parametrize("ledger", [False, True], ids=["memory", "ledger"])
@pytest.mark.parametrize("at", [0, 1, 2], ids=["first", "second", "last"])
@pytest.mark.parametrize("case", HOSTILE)
def test_line_that_cannot_be_judged_is_answered_and_the_others_are_judged(
    case, at, ledger, watched
):
    lines = [keyed("p"), keyed("q", z="y")]
    lines.insert(at, HOSTILE[case])
    kept = ("--ledger", "led") if ledger else ()
    answers = watched(lines, "--rule", "rule.toml", *kept)
    refused = answers.pop(at)
    assert 0 < len(refused.get("error", "")) < 1_000
    assert [(one["row"], one["count"]) for one in answers] == [(0, 0), (1, 1)]


@pytest.mark.parametrize("ledger", [False, True], ids=["memory", "ledger"])
@pytest.mark.parametrize("key", [True, 1.5, 10**30, -0.0, "", "\x00", "\x1b[2J", "k" * 100_000])
def test_odd_key_is_answered_and_the_others_are_judged(key, ledger, watched):
    kept = ("--ledger", "led") if ledger else ()
    lines = [keyed(key, a=50.0), keyed("p"), keyed("q", z="y")]
    told, *others = watched(lines, "--rule", "rule.toml", *kept)
    assert "error" in told or told["key"] == key
    assert [one["count"] for one in others] == [0, 1]


@pytest.mark.parametrize("ledger", [False, True], ids=["memory", "ledger"])
@pytest.mark.parametrize(
    "first", ['{"temperature": 3}', '{"log": "started", "z": "up"}', '{"z": "x"}', "{}", "[]"]
)
def test_rule_from_options_is_settled_by_the_first_line_that_can_be_judged(first, ledger, watched):
    kept = ("--ledger", "led") if ledger else ()
    other = GOOD.replace('"x"', '"y"')
    answers = watched([first, GOOD, other, first], *QUICK, *kept)
    assert ["error" in one for one in answers] == [True, False, False, True]
    assert [one.get("count") for one in answers] == [None, 0, 1, None]


@pytest.mark.parametrize("again", [QUICK, ()], ids=["said again", "from the ledger"])
def test_ledger_goes_on_though_a_later_run_begins_with_other_columns(again, watched):
    watched([GOOD], *QUICK, "--ledger", "led")
    lines = ['{"temperature": 3}', GOOD.replace('"x"', '"y"')]
    told = watched(lines, *again, "--ledger", "led", first=2)
    assert "error" in told[0] and told[1]["count"] == 1


def test_vectors_of_another_width_do_not_settle_the_columns_of_a_ledger(watched):
    cosine = ("--metric", "cosine", *QUICK, "--ledger", "led")
    watched([GOOD], *cosine)
    lines = ['{"a": 1.0, "z": "y"}', GOOD.replace('"x"', '"y"')]
    told = watched(lines, *cosine, first=2)
    assert "error" in told[0] and told[1]["count"] == 1


def test_distance_beyond_floats_is_answered(watched):
    lines = ['{"a": 1.0, "z": 1.7e308}', '{"a": 1.0, "z": -1.7e308}', '{"a": 1.0, "z": 0.0}']
    answers = watched(lines, *QUICK, "--output", "number")
    assert [one["count"] for one in answers] == [0, 1, 2]
    assert answers[1]["witnesses"][0]["output_distance"] is None


def test_error_in_an_answer_is_short_however_long_the_value(watched):
    (answer, _) = watched([keyed("k", a="9" * 1_000_000), keyed("l")], "--rule", "rule.toml")
    assert len(answer["error"]) < 1_000
    assert "'a' is '999" in answer["error"] and "expected a number" in answer["error"]


# How it ends


@pytest.mark.parametrize("junk", [["nonsense"], ["{}", "[]", '{"a": 1}'] * 50, [keyed(None)]])
def test_stream_of_nothing_but_junk_ends_with_code_3(junk, watched):
    answers = watched(junk, "--rule", "rule.toml", code=3)
    assert all("error" in one for one in answers)


def test_one_good_line_is_enough_to_end_well(watched):
    watched(["nonsense", "nonsense", keyed("k")], "--rule", "rule.toml")
    watched(["nonsense", keyed("k")], "--rule", "rule.toml", "--ledger", "led")
    watched(["nonsense", keyed("k")], "--ledger", "led")  # which the ledger has


@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("bad", ["nonsense", keyed("k", a="x")], ids=["no JSON", "no number"])
def test_told_to_fail_it_ends_at_the_first_bad_line_and_stores_nothing_after_it(bad, at, watched):
    lines = [keyed(f"p{i}") for i in range(8)]
    lines[at] = bad
    lines[7] = "nonsense"
    watch = ("watch", "--rule", "rule.toml", "--ledger", "led", "--on-bad-row", "fail")
    done = likewise(*watch, given="\n".join(lines), code=3)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["line"] for one in told] == list(range(1, at + 2))
    assert ["error" in one for one in told] == [False] * at + [True]
    assert f"standard input, line {at + 1}:" in done.stderr
    with lw.Ledger("led") as ledger:
        assert ledger.rows == at


def test_lines_before_other_input_are_answered(watched, tmp_path):
    rows = [f'{{"a": {i}.0, "z": "x"}}' for i in range(4)]
    watched(rows, *QUICK, "--ledger", "led")
    rows[2] = rows[2].replace("2.0", "7.0")
    done = likewise(
        "watch", *QUICK, "--ledger", tmp_path / "led", "--resume", given="\n".join(rows), code=3
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["line"] for one in told] == [1, 2, 3]
    assert [one.get("row") for one in told] == [0, 1, None]
    assert "line 3 is not what the ledger" in told[2]["error"] and "line 3" in done.stderr


# Long lines


@pytest.fixture
def running():
    """A watch that has answered its first line."""
    with subprocess.Popen(
        [*COMMAND, "watch", *QUICK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as one:
        answered(one, [GOOD.encode()])
        yield one
        one.kill()


def answered(running, pieces):
    """The answer to a line that is sent in pieces."""
    for piece in pieces:
        running.stdin.write(piece)
    running.stdin.write(b"\n")
    running.stdin.flush()
    return json.loads(running.stdout.readline())


def peak_of(running):
    """Megabytes that a process had at most."""
    status = Path(f"/proc/{running.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def test_line_beyond_the_limit_is_answered_and_the_next_is_judged(running):
    """32 MB, as in files; and what is longer takes no more memory than that."""
    told = answered(running, [b"y" * (1 << 20)] * 40)
    assert (told["line"], "longer than 32 MB" in told["error"]) == (2, True)
    before = peak_of(running)
    told = answered(running, [b"y" * (1 << 20)] * 400)
    assert told["line"] == 3 and "longer than 32 MB" in told["error"]
    assert peak_of(running) - before < 100
    told = answered(running, [GOOD.replace('"x"', '"y"').encode()])
    assert (told["line"], told["row"], told["count"]) == (4, 1, 1)


def test_line_up_to_the_limit_is_read(running):
    told = answered(running, [b'{"a": 1.0, "b": "', *[b"y" * (1 << 20)] * 31, b'", "z": "x"}'])
    assert "'b' is 'yyy" in told["error"] and "expected a number" in told["error"]


@pytest.mark.long
def test_time_for_a_line_grows_with_its_length_alone(running):
    """Eight times the length: about eight times as long. Copied for each piece, it would be 64."""

    def seconds(megabytes):
        pieces = [b'{"a": 1.0, "b": "', *[b"y" * (1 << 20)] * megabytes, b'", "z": "x"}']
        began = time.perf_counter()
        assert "error" in answered(running, pieces)
        return time.perf_counter() - began

    seconds(1)
    assert seconds(24) < 28 * min(seconds(3) for _ in range(3))
