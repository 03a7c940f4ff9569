"""`likewise backup`, `restore`, `migrate` and `verify --every`."""

import json
import subprocess
from contextlib import contextmanager

import pytest

import likewise as lw
from tests.commands import COMMAND, likewise

RULE = lw.Rule(
    features={"age": lw.Feature("number", tolerance=5), "job": lw.Feature("category")},
    output_column="ok",
)


@pytest.fixture
def ledger(tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        monitor.observe({"age": 40, "job": "nurse", "ok": "yes"}, key="a")
        monitor.observe({"age": 48, "job": "nurse", "ok": "no"}, key="b")
    return tmp_path / "ledger"


@contextmanager
def running(*arguments):
    """The command while it runs; ended by its process at the latest."""
    words = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def told(*arguments, code=0):
    return json.loads(likewise(*arguments, "--json", code=code).stdout)


def test_a_ledger_is_copied_and_restored(ledger, tmp_path):
    done = likewise("backup", ledger, tmp_path / "copy").stdout
    assert done.startswith("2 decisions; 1 file of records copied; verified; likewise-head 2 2 ")
    again = told("backup", ledger, tmp_path / "copy")
    assert (again["rows"], again["copied"], again["kept"]) == (2, 1, 0)
    assert told("restore", tmp_path / "copy", tmp_path / "back")["head"] == again["head"]
    assert told("verify", tmp_path / "back", "--head", again["head"])["ok"]
    refused = likewise("restore", tmp_path / "copy", tmp_path / "back", code=2)
    assert "is there already" in refused.stderr


def test_a_ledger_is_migrated_to_another_rule(ledger, tmp_path):
    wider = lw.Rule(
        features={
            "age": lw.Feature("number", tolerance=9),
            "job": lw.Feature("category"),
            "branch": lw.Feature("category"),
        },
        output_column="ok",
    )
    (tmp_path / "wider.toml").write_text(wider.to_toml())
    (tmp_path / "names.toml").write_text('[job]\nnurse = "carer"\n[ok]\nyes = "granted"\n')
    given = ["--rule", tmp_path / "wider.toml", "--rename", tmp_path / "names.toml"]
    refused = likewise("migrate", ledger, tmp_path / "new", *given, code=2).stderr
    assert "column 'branch' is new, and nothing says which value" in refused
    done = told("migrate", ledger, tmp_path / "new", *given, "--add", "branch=Graz")
    assert (done["rows"], done["judged_again"], done["left_out"]) == (2, True, {})
    with lw.Ledger(tmp_path / "new") as made, lw.Ledger(ledger) as before:
        assert made.values(1) == {"age": 48.0, "job": "carer", "branch": "Graz"}
        assert [entry.output for entry in made.entries()] == ["granted", "no"]
        assert [entry.count for entry in made.entries()] == [0, 1]
        assert [entry.count for entry in before.entries()] == [0, 0]
        assert done["head"] == str(before.head)
    copied = likewise("migrate", ledger, tmp_path / "same").stdout
    assert copied.startswith("2 decisions copied as they are; made of likewise-head 2 2 ")


def test_verify_goes_on_until_something_is_altered(ledger):
    with running("verify", ledger, "--every", "1s") as program:
        assert program.stdout.readline().startswith("intact: 2 decisions")
        assert program.stdout.readline().startswith("intact: 2 decisions")
        name = next(ledger.glob("*.rows"))
        content = bytearray(name.read_bytes())
        content[3] ^= 1
        name.write_bytes(content)
        lines = program.stdout.read().splitlines()
        assert lines[-1].startswith("not verified: row 0: ")
        assert program.wait(30) == 3
    assert "is no time" in likewise("verify", ledger, "--every", "soon", code=2).stderr
