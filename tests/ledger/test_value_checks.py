"""Verifying in several processes finds what one process finds, and names the same row."""

import json
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

import likewise as lw
from likewise.ledger import value_checks

RULE = lw.Rule("linf", 0.1)


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """A ledger of 400 rows in two files, with keys and erased rows, checked in short ranges."""
    monkeypatch.setattr(value_checks, "CHUNK", 50)
    rng = np.random.default_rng(5)
    path = tmp_path / "ledger"
    with lw.open(path, RULE) as monitor:
        x, z = rng.random((400, 3)), rng.choice(["yes", "no"], 400).tolist()
        verdicts = monitor.observe_many(x, z, keys=[f"k{i}" for i in range(400)])
        assert verdicts.violations.any()
        monitor.erase(key="k7")
        monitor.erase(key="k333")
    return path


def verifications(path, head=None, most=2):
    with lw.Ledger(path) as ledger:
        return [ledger.verify(head, processes=processes) for processes in range(1, most + 1)]


def alter_record(path, row, field):
    """Another byte in a record; of the first file, in which the rows are."""
    with lw.Ledger(path) as ledger:
        kind = ledger.reader.records.dtype
    (file,) = path.glob("*.rows")
    data = bytearray(file.read_bytes())
    data[row * kind.itemsize + kind.fields[field][1]] ^= 1
    file.write_bytes(data)


def test_several_processes_verify_a_ledger_with_keys_and_erased_rows(ledger):
    one, *several = verifications(ledger, most=3)
    assert one.ok and one.erased == 2
    assert several == [one, one]
    with lw.open(ledger) as monitor:
        assert monitor.verify(processes=2) == one


@pytest.mark.parametrize(
    ("rows", "field"), [([399], "input"), ([120, 60, 390], "output"), ([7], "decision")]
)
def test_the_first_altered_row_is_named_whatever_the_number_of_processes(ledger, rows, field):
    for row in rows:
        alter_record(ledger, row, field)
    one, *several = verifications(ledger)
    assert not one.ok
    assert field == "decision" or one.bad_row == min(rows)
    assert several == [one]


def test_a_key_too_many_is_found_by_several_processes(ledger):
    database = sqlite3.connect(ledger / "ledger.sqlite")
    database.execute("INSERT INTO key VALUES (7, 'again')")
    database.commit()
    database.close()
    one, *several = verifications(ledger)
    assert not one.ok and several == [one]


def test_another_head_is_refused_by_several_processes(ledger):
    with lw.Ledger(ledger) as opened:
        head = str(opened.head)
    assert all(found.ok for found in verifications(ledger, head))
    other = head[:-1] + ("0" if head[-1] != "0" else "1")
    one, *several = verifications(ledger, other)
    assert not one.ok and several == [one]


@pytest.mark.parametrize("executable", ["", "/no/such/python3", "/bin/false"])
def test_without_an_interpreter_one_process_verifies(ledger, monkeypatch, executable):
    one, *_ = verifications(ledger)
    monkeypatch.setattr(sys, "executable", executable)
    assert verifications(ledger) == [one, one]


def test_a_process_that_ends_too_early_loses_nothing(ledger, monkeypatch):
    monkeypatch.setattr(value_checks, "_START", "import sys; sys.exit(1)")
    one, *several = verifications(ledger)
    assert one.ok and several == [one]
    alter_record(ledger, 200, "input")
    assert [found.bad_row for found in verifications(ledger)] == [200] * 2


@pytest.mark.parametrize("processes", [0, -1, 1.5, True])
def test_processes_are_a_whole_number(ledger, processes):
    with lw.Ledger(ledger) as opened, pytest.raises(lw.BadRule, match="processes is"):
        opened.verify(processes=processes)


def test_small_ledgers_are_verified_in_one_process(ledger):
    with lw.Ledger(ledger) as opened:
        assert value_checks.processes_for(opened.reader, None) == 1
        assert value_checks.processes_for(opened.reader, 5) == 5


def test_a_script_without_a_guard_verifies_once(ledger, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import likewise as lw\n"
        f"with lw.Ledger({str(ledger)!r}) as ledger:\n"
        "    print(ledger.verify(processes=2).ok)\n"
    )
    command = [sys.executable, str(script)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_process_that_checks_loads_little_and_ends_with_its_input(ledger):
    loaded = "; print(sorted(sys.modules), file=sys.stderr)"
    process = subprocess.Popen(
        [sys.executable, "-c", value_checks._START + loaded, json.dumps(sys.path), str(ledger)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    told, heard = process.communicate("0 100\n100 400\n", timeout=60)
    assert process.returncode == 0
    assert told.split() == ["99", "299"], "keys of rows that were not erased"
    for heavy in ("numba", "likewise.engine", "likewise.monitors", "likewise.kernels", "typer"):
        assert f"'{heavy}" not in heard


@pytest.mark.parametrize("row", [None, 20, 390])
def test_opening_shares_out_the_values_and_names_the_altered_row(ledger, monkeypatch, row):
    if row is not None:
        alter_record(ledger, row, "input")
        alter_record(ledger, 395, "input")
    asked = []
    monkeypatch.setattr(value_checks, "processes_for", lambda *_: asked.append(1) or 2)
    if row is None:
        with lw.open(ledger) as monitor:
            assert monitor.rows == 400 and len(monitor) == 398
    else:
        with pytest.raises(lw.BadFile, match=f"row {row}: its input"):
            lw.open(ledger)
    assert asked
