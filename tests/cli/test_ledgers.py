"""Ledgers by command: begun by an audit or a watch, looked at, verified, erased from."""

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.cli import main
from tests.support.commands import COMMAND, installed, likewise
from tests.support.rule_texts import rule_text

RULE = rule_text(
    {"id": "key", "age": 5, "job": "category", "sex": "protected"},
    output={"column": "approved", "favourable": "yes"},
)


def people(count=600):
    random = np.random.default_rng(12)
    return [
        {
            "id": f"p{i}",
            "age": int(random.integers(20, 70)),
            "job": str(random.choice(["nurse", "cook"])),
            "sex": str(random.choice(["f", "m"])),
            "approved": str(random.choice(["yes", "no"])),
        }
        for i in range(count)
    ]


def lines_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule.toml").write_text(RULE)
    (tmp_path / "people.jsonl").write_text(lines_of(people()))
    return tmp_path


@pytest.fixture
def ledger(here, capsys):
    audit = ["audit", "people.jsonl", "--rule", "rule.toml", "--ledger", "led"]
    assert main(audit) == 0
    assert "likewise-head 2 600" in capsys.readouterr().out
    return here / "led"


def told(capsys, *arguments, code=0):
    assert main([*map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def truth():
    return lw.Monitor(lw.Rule.from_toml(RULE)).observe_many(people())


def test_audit_writes_what_it_judges(ledger, capsys):
    with lw.Ledger(ledger) as opened:
        assert (len(opened), opened.verify().ok) == (600, True)
        counts = [entry.count for entry in opened.entries()]
    assert counts == truth().counts.tolist()
    assert main(["audit", "people.jsonl", "--rule", "rule.toml", "--ledger", "led"]) == 2
    assert "led has 600 decisions already" in capsys.readouterr().err


def test_times_of_an_audit_are_those_of_its_column(here, capsys):
    rows = [{**row, "when": f"2024-03-{1 + i % 9:02}"} for i, row in enumerate(people(50))]
    (here / "timed.jsonl").write_text(lines_of(sorted(rows, key=lambda row: row["when"])))
    audit = ["audit", "timed.jsonl", "--rule", "rule.toml", "--ledger", "led"]
    assert main([*audit, "--time-column", "when"]) == 0
    with lw.Ledger("led") as opened:
        assert opened.entry(49).time.startswith("2024-03-09")


def test_report_of_a_ledger_is_that_of_the_audit(ledger, here, capsys):
    again = told(capsys, "audit", "people.jsonl", "--rule", "rule.toml")
    found = told(capsys, "report", "led", "--out", "page.html")
    for name in ("rows", "violations", "pairs", "margins", "groups", "worst"):
        assert found[name] == again[name] or name == "worst"
    assert [one["row"] for one in found["worst"]] == [one["row"] for one in again["worst"]]
    assert (here / "page.html").read_text().endswith("</html>\n")
    assert found["computed"]["head"].startswith("likewise-head 2 600")


def test_show_sets_a_decision_beside_its_witnesses(ledger, capsys):
    verdicts = truth()
    row = int(verdicts.violations.argmax())
    found = told(capsys, "show", "led", row)
    assert (found["row"], found["key"], found["count"]) == (row, f"p{row}", verdicts.counts[row])
    nearest = verdicts[row].witnesses.nearest(1)[0]
    assert found["pairs"][0]["witness"] == nearest.row
    shown = {one["column"]: one["decision"] for one in found["pairs"][0]["columns"]}
    assert shown == {name: value for name, value in people()[row].items() if name != "id"}
    assert told(capsys, "show", "led", "--key", f"p{row}") == found
    assert main(["show", "led", str(row)]) == 0
    assert f"row {row} contradicts row {nearest.row}" in capsys.readouterr().out


def test_show_of_vectors(capsys, watched):
    lines = lines_of([{"a": 1, "b": 2, "z": "x"}, {"a": 1.1, "b": 2, "z": "y"}])
    watched(lines, "--metric", "cosine", "--epsilon", "0.1", "--output-column", "z")
    found = told(capsys, "show", "led", 1)
    assert [one["column"] for one in found["pairs"][0]["columns"]] == ["output", "x[0]", "x[1]"]
    assert told(capsys, "report", "led")["violations"] == 1


def test_verify_names_the_row_that_was_altered(ledger, capsys):
    found = told(capsys, "verify", "led")
    assert found["ok"] and found["rows"] == 600
    head = found["head"]
    assert told(capsys, "verify", "led", "--head", head)["ok"]
    with sqlite3.connect(ledger / "ledger.sqlite") as database:
        database.execute("UPDATE verdict SET time = time + 1 WHERE row = 123")
    database.close()
    found = told(capsys, "verify", "led", code=3)
    assert found["bad_row"] == 123
    done = likewise("verify", "led", code=3)
    assert "row 123" in done.stdout and "Traceback" not in done.stderr


def test_head_that_was_kept_must_be_on_the_chain(ledger, here, capsys):
    head = told(capsys, "verify", "led")["head"]
    (here / "head.txt").write_text(head + "\n")
    assert told(capsys, "verify", "led", "--head", "head.txt")["ok"]
    other = head[:-4] + ("0000" if not head.endswith("0000") else "1111")
    assert not told(capsys, "verify", "led", "--head", other, code=3)["ok"]
    assert main(["verify", "led", "--head", "nonsense"]) == 2
    assert "neither a head nor a file" in capsys.readouterr().err


def test_erased_is_gone_and_the_rest_still_holds(ledger, capsys):
    erased = told(capsys, "erase", "led", "--key", "p7", "--row", 9, "--yes")
    assert erased == {"rows": [7, 9], "complete": True}
    assert told(capsys, "show", "led", 7)["erased"]
    assert main(["show", "led", "--key", "p7"]) == 3
    assert "no decision in led has the key 'p7'" in capsys.readouterr().err
    found = told(capsys, "verify", "led")
    assert (found["ok"], found["erased"]) == (True, 2)
    assert told(capsys, "replay", "led")["ok"]
    assert told(capsys, "report", "led")["rows"] == 598
    assert not any(b'"p7"' in path.read_bytes() for path in ledger.iterdir())


@pytest.mark.long
@pytest.mark.parametrize("more", [(), ("--json",)], ids=["words", "JSON"])
def test_erasing_without_yes_and_without_a_terminal_is_refused(more, ledger, capsys):
    before = {path.name: path.read_bytes() for path in ledger.iterdir()}
    done = installed("erase", "led", "--key", "p7", "--row", "9", *more, given="y\n", code=2)
    assert ('"code": "stopped"' in done.stdout) == ("--json" in more)
    assert "erasing 2 decisions from led cannot be undone, and there is no terminal" in done.stderr
    assert "Nothing was erased" in done.stderr and "say --yes" in done.stderr
    assert all((ledger / name).read_bytes() == held for name, held in before.items())
    assert told(capsys, "show", "led", "--key", "p7")["erased"] is False


def test_replay_says_where_a_verdict_differs(ledger, capsys):
    assert told(capsys, "replay", "led")["rows"] == 600
    row = int(truth().violations.argmax())
    with lw.Ledger(ledger) as opened:
        records = opened.reader.records
    some = records.read(row, row + 1)
    some["verdict"]["count"] += 1
    records.write(row, some, sync=False)
    records.close()
    assert told(capsys, "replay", "led", code=3)["row"] == row


@pytest.mark.parametrize("command", ["show", "verify", "replay", "report"])
def test_folder_without_a_ledger_is_told(command, here, capsys):
    (here / "empty").mkdir()
    more = ["3"] if command == "show" else []
    for folder in ("nowhere", "empty"):
        assert main([command, folder, *more]) == 3
        message = capsys.readouterr().err
        assert folder in message and "Traceback" not in message


# Watching


@pytest.fixture
def watched(here, capsys, monkeypatch):
    """The command in this process, fed from a file: its answers, and what it told."""

    def watch(lines, *arguments, code=0):
        (here / "lines").write_text(lines)
        with (here / "lines").open() as given:
            monkeypatch.setattr(sys, "stdin", given)
            assert main(["watch", "--ledger", "led", *arguments]) == code
        done = capsys.readouterr()
        return [json.loads(line) for line in done.out.splitlines()], done.err

    return watch


def test_watch_goes_on_with_its_ledger_by_key(watched):
    first, _ = watched(lines_of(people()[:300]), "--rule", "rule.toml")
    second, told = watched(lines_of(people()[250:]))  # the rule is in the ledger
    assert [one.get("repeated", False) for one in second] == [True] * 50 + [False] * 300
    for before, after in zip(first[250:], second[:50], strict=True):
        assert (before["row"], before["count"]) == (after["row"], after["count"])
        assert before["witnesses"] == after["witnesses"]
    counts = [one["count"] for one in (*first, *second[50:])]
    assert counts == truth().counts.tolist()
    assert "300 decisions" in told and "50 that the ledger had already" in told


def test_key_that_comes_again_with_another_decision_is_refused(watched):
    watched(lines_of(people()[:5]), "--rule", "rule.toml")
    other = {**people()[2], "approved": "maybe"}
    (told,), _ = watched(lines_of([other]), "--rule", "rule.toml", code=3)
    assert "the key 'p2' was given to row 2 already" in told["error"]


@pytest.mark.long
@pytest.mark.parametrize("keyed", [True, False])
def test_killed_at_any_moment_nothing_is_lost_or_stored_twice(keyed, here):
    """Killed a few times, fed from the beginning again each time, until all is there."""
    rows = people(400)
    if not keyed:
        rows = [{name: row[name] for name in row if name != "id"} for row in rows]
        (here / "rule.toml").write_text(RULE.replace('[features.id]\nkind = "key"\n', ""))
    watch = [*COMMAND, "watch", "--rule", "rule.toml", "--ledger", "led", "--resume"]
    answered = {}
    for kill_after in (60, 171, 10_000):
        with subprocess.Popen(
            watch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as running:
            for i, row in enumerate(rows):
                running.stdin.write(json.dumps(row).encode() + b"\n")
                running.stdin.flush()
                told = json.loads(running.stdout.readline())
                before = answered.setdefault(told["line"], told)
                assert (before["row"], before["count"]) == (told["row"], told["count"])
                if i == kill_after:
                    running.stdin.write(lines_of(rows[i + 1 : i + 40]).encode())
                    running.stdin.flush()
                    running.kill()
                    break
            running.stdin.close()
            running.wait(timeout=60)
    expected = lw.Monitor(lw.Rule.from_toml((here / "rule.toml").read_text())).observe_many(rows)
    assert [answered[line]["count"] for line in range(1, 401)] == expected.counts.tolist()
    with lw.Ledger("led") as opened:
        assert opened.rows == 400 and opened.verify().ok
        assert [entry.count for entry in opened.entries()] == expected.counts.tolist()
    assert lw.replay("led").ok


@pytest.mark.long
def test_ended_by_sigterm_everything_answered_is_in_the_ledger(here):
    with subprocess.Popen(
        [*COMMAND, "watch", "--rule", "rule.toml", "--ledger", "led", "--durability", "batch"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        running.stdin.write(lines_of(people()[:100]).encode())
        running.stdin.flush()
        for _ in range(100):
            running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 0
        assert b"100 decisions" in running.stderr.read()
    with lw.Ledger("led") as opened:
        assert opened.rows == 100 and opened.verify().ok


def test_numbers_of_lines_go_on_and_other_input_is_told(watched):
    rows = [{"a": i / 10, "z": str(i % 2)} for i in range(6)]
    quick = ("--epsilon", "0.1", "--output-column", "z")
    first, _ = watched(lines_of(rows[:2]) + "nonsense\n", *quick)
    second, _ = watched(lines_of(rows[2:]), *quick)
    assert [one["line"] for one in first] == [1, 2, 3]
    assert [one["line"] for one in second] == [3, 4, 5, 6]
    assert [one["row"] for one in second] == [2, 3, 4, 5]
    _, told = watched(lines_of(rows[::-1]), *quick, "--resume", code=3)
    assert "line 1 is not what the ledger led has for that line" in told
    _, told = watched(lines_of(rows), "--epsilon", "0.2", *quick[2:], code=2)
    assert "the ledger 'led' was begun under another rule" in told


def test_line_that_an_earlier_run_has_passed_is_refused_in_its_place(watched):
    rows = [{"a": i / 10, "z": str(i % 2)} for i in range(4)]
    quick = ("--epsilon", "0.1", "--output-column", "z", "--resume")
    watched(lines_of(rows[:1]) + "nonsense\n" + lines_of(rows[2:3]), *quick)
    second, told = watched(lines_of(rows), *quick)
    assert [one.get("repeated", False) for one in second] == [True, False, True, False]
    assert [one.get("code") for one in second] == [None, "passed-line", None, None]
    assert [one.get("row") for one in second] == [0, None, 1, 2]
    assert "1 decision" in told and "1 line that could not be judged" in told


def test_ledger_is_begun_under_the_rule_with_what_options_say(watched):
    for some in (people()[:3], people()[3:6]):
        watched(lines_of(some), "--rule", "rule.toml", "--epsilon", "0.5")
    with lw.Ledger("led") as ledger:
        assert (ledger.rule.epsilon, ledger.rows) == (0.5, 6)
    _, told = watched(lines_of(people()[6:7]), "--rule", "rule.toml", code=2)
    assert "was begun under another rule" in told


def test_what_is_missing_is_told_by_every_command_about_the_ledger(watched, capsys):
    watched(lines_of(people()[:300]), "--rule", "rule.toml")
    with lw.open("led") as monitor:
        monitor.record_loss(1_234, "crash")
    first, told_aside = watched(lines_of(people()[300:]))
    assert {one["missing_decisions"] for one in first} == {1_234}
    assert "; 1,234 earlier decisions are known to be missing" in told_aside
    again, _ = watched(lines_of(people()))
    assert [one.get("missing_decisions", 0) for one in again] == [0] * 300 + [1_234] * 300
    assert told(capsys, "report", "led")["missing_decisions"] == 1_234
    assert main(["report", "led"]) == 0
    assert "1,234 decisions are known to be missing" in " ".join(capsys.readouterr().out.split())
    assert "1,234" in Path("likewise-report.html").read_text()
    assert (
        told(capsys, "show", "led", 5)["missing_decisions"],
        told(capsys, "show", "led", 305)["missing_decisions"],
    ) == (0, 1_234)
    assert main(["show", "led", "305"]) == 0
    assert "; 1,234 earlier decisions are known to be missing" in capsys.readouterr().out


def test_two_that_would_write_are_told_apart(here):
    watch = [*COMMAND, "watch", "--rule", "rule.toml", "--ledger", "led"]
    with subprocess.Popen(
        watch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        running.stdin.write(lines_of(people()[:1]).encode())
        running.stdin.flush()
        running.stdout.readline()
        done = likewise(*watch[len(COMMAND) :], given="", code=3)
        assert "led" in done.stderr and "Traceback" not in done.stderr
        assert likewise("verify", "led").stdout.startswith("intact")  # looking is allowed
        running.stdin.close()
        assert running.wait(timeout=60) == 0


def test_ledger_settings_without_a_ledger_are_told(capsys):
    assert main(["watch", "--rule", "rule.toml", "--resume"]) == 2
    assert "say --ledger" in capsys.readouterr().err
    assert main(["watch", "--rule", "rule.toml", "--ledger", "l", "--durability", "firm"]) == 2
    assert "durability is 'firm'" in capsys.readouterr().err
    assert main(["erase", "l"]) == 2


def test_show_says_how_many_similar_cases_there_were(tmp_path, capsys):
    path = str(tmp_path / "ledger")
    with lw.open(path, lw.Rule("linf", 0.1), support=True) as monitor:
        monitor.observe_many([[0.5], [0.55], [0.52]], ["yes", "yes", "no"])
        monitor.observe([0.54], "yes")
    assert main(["show", path, "3"]) == 0
    assert "1 witness among 3 similar cases" in capsys.readouterr().out
    assert main(["show", path, "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["support"] == {"near": 3, "agree": 2}
