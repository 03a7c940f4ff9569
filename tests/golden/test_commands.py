"""Golden files of what commands print with --json, and of their exit codes."""

import json
import os
from contextlib import chdir

import pytest

from likewise.cli.commands import likewise_command
from tests.golden.loan_files import DECISIONS, as_lines, write_csv, write_files
from tests.support import golden_files as golden
from tests.support.commands import likewise
from tests.support.placeholders import Placeholders

LEFT_OUT = {
    "demo": "it trains a model on 8,000 decisions, which takes seconds",
    "bench": "it measures for seconds, and prints nothing but measurements",
}
RULED = ("decisions.csv", "--rule", "rule.toml")
TIMED = ("--time-column", "when", "--model-column", "model")
OTHER_HEAD = f"likewise-head 2 3 0 {'0' * 64}"
VECTORS = ("--epsilon", "16", "--output-column", "answer")

SCRIPT = [
    ("init", "decisions.csv", "--output-column", "answer", "--out", "first.toml"),
    ("init", "decisions.csv", "--output-column", "answer", "--out", "first.toml"),
    ("init", "vague.csv", "--out", "vague.toml"),
    ("init", "empty.csv", "--output-column", "answer"),
    ("audit", *RULED, *TIMED, "--ledger", "l", "--report", "page.html", "--out", "pairs.csv"),
    ("audit", *RULED, "--within", "2 days", "--time-column", "when", "--max-rate", "1"),
    ("audit", *RULED, "--max-rate", "0.1"),
    ("audit", *RULED, "--max-rate", "0.1", "--max-rate-of", "comparable"),
    ("audit", "numbers.csv", *VECTORS, "--burst", "5", "--alarm", "2"),
    ("audit", "bad.csv", "--rule", "rule.toml", "--on-bad-row", "skip"),
    ("audit", "bad.csv", "--rule", "rule.toml"),
    ("audit", *RULED, "--ledger", "l"),
    ("audit", *RULED, *TIMED, "--partition", "cells"),
    ("compare", "old.csv", "new.csv", "--rule", "rule.toml"),
    ("compare", *RULED, "--model-column", "model"),
    ("compare", "old.csv"),
    ("calibrate", "decisions.csv", "--rule", "persons-ignored.toml", "--rate", "0.25"),
    ("calibrate", *RULED, "--rate", "0.25"),
    ("calibrate", "numbers.csv", "--output-column", "answer"),
    ("calibrate", "bad.csv", "--rule", "persons-ignored.toml"),
    ("like", *RULED, "--case", "amount=104", "--case", "job=cook", "--limit", "2"),
    ("like", *RULED, "--case", "amount=104"),
    ("like", "l", "--case", "person=p2", "--case", "amount=104", "--case", "job=cook"),
    ("report", "l", "--out", "ledger.html"),
    ("report", "nowhere", "--out", "ledger.html"),
    ("show", "l", "6"),
    ("show", "l", "--key", "a4"),
    ("show", "l", "8"),
    ("show", "l", "99"),
    ("verify", "l"),
    ("verify", "l", "--head", OTHER_HEAD),
    ("verify", "nowhere"),
    ("head", "l", "--out", "head.txt"),
    ("replay", "l"),
    ("backup", "l", "copy"),
    ("backup", "l", "copy"),
    ("restore", "copy", "restored"),
    ("restore", "copy", "restored"),
    ("migrate", "l", "wider", "--rule", "wider.toml"),
    ("migrate", "l", "--rule", "renamed.toml"),
    ("erase", "restored", "--key", "a2", "--row", "6", "--yes"),
    ("erase", "restored", "--key", "a2", "--yes"),
    ("erase", "restored", "--row", "6", "--yes"),
    ("show", "restored", "1"),
    ("show", "restored", "3"),
    ("verify", "restored"),
    ("replay", "restored"),
]  # fmt: skip
"""Commands in order; each gets --json."""

WATCHED = [
    ("--rule", "rule.toml", "--model-column", "model", "--ledger", "watched"),
    ("--rule", "rule.toml", "--model-column", "model", "--ledger", "watched"),
    ("--from", "decisions.jsonl", "--rule", "rule.toml", "--burst", "5", "--alarm", "2"),
]


@pytest.fixture
def folder(tmp_path):
    with chdir(tmp_path):
        write_files(tmp_path)
        numbers = [{"x": one["amount"], "y": 0.5, "answer": one["answer"]} for one in DECISIONS[:6]]
        write_csv(tmp_path / "numbers.csv", numbers)
        write_csv(tmp_path / "bad.csv", [*DECISIONS[:3], {**DECISIONS[3], "amount": "much"}])
        (tmp_path / "vague.csv").write_text("a,b\n1,yes\n2,no\n3,no\n")
        (tmp_path / "empty.csv").write_text("a,answer\n")
        text = (tmp_path / "rule.toml").read_text()
        (tmp_path / "wider.toml").write_text(text.replace("tolerance = 16", "tolerance = 32"))
        (tmp_path / "renamed.toml").write_text(text.replace('"women"', '"female"'))
        persons = text.replace('kind = "person"', 'kind = "ignore"')
        (tmp_path / "persons-ignored.toml").write_text(persons)
        (tmp_path / "decisions.jsonl").write_text(as_lines(DECISIONS))
        yield tmp_path


def commands_with_json():
    return {
        name
        for name, command in likewise_command.commands.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }


def played(folder):
    """What each command prints."""
    placeholders = Placeholders()
    placeholders.know(os.path.realpath(folder), "folder")
    found = {}

    def record(arguments, code, text):
        told = None if not text.strip() else golden.sorted_by_name(json.loads(text))
        case = {"command": ["likewise", *arguments], "exit_code": code, "json": told}
        found.setdefault(arguments[0], []).append(placeholders.replaced(case))

    for line in SCRIPT:
        arguments = [*line, "--json"]
        done = likewise(*arguments, code=None)
        record(arguments, done.returncode, done.stdout)
    lines = as_lines(DECISIONS[:5]) + "no JSON\n" + as_lines(DECISIONS[5:])
    for options, given in [*((one, lines) for one in WATCHED), (RULED[1:], "no JSON\n")]:
        arguments = ["watch", *options, "--json"]
        done = likewise(*arguments, given=given, code=None)
        record(arguments, done.returncode, done.stderr.splitlines()[-1])
    return found


def test_json_of_every_command_is_that_of_the_golden_files(folder):
    """One script, in order; a new command with --json that is not in it fails."""
    found = played(folder)
    assert found.keys() | LEFT_OUT.keys() == commands_with_json()
    golden.check_all({f"commands/{name}.json": cases for name, cases in found.items()})
