"""Erasure: nothing of a person is left in any file, in use or free, and the ledger says so."""

import random
import struct
from string import ascii_letters

import numpy as np
import pytest

import likewise as lw
from likewise.ledger import folder as ledger_folder
from tests.support.programs import run_python
from tests.support.refusals import raises

RULE = lw.Rule("linf", 0.05, output="number", delta=0.2)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def left(folder, needles):
    """Which of these bytes are in which file."""
    return [
        (name, needle)
        for name, content in files(folder).items()
        for needle in needles
        if needle in content
    ]


def as_bytes(value):
    """How a number or text may be written, in files of any kind; of text, any part of it."""
    if isinstance(value, str):
        text = value.encode()
        return [text[at : at + 11] for at in range(0, len(text) - 10, 17)]
    if isinstance(value, int):
        return [struct.pack(">q", value)[2:], struct.pack("<q", value)[:6], str(value).encode()]
    return [struct.pack(">d", value), struct.pack("<d", value), repr(value).encode()]


def person(drawn, kind):
    """A key, an input and an output that nobody else has."""
    number = drawn.randrange(2**44, 2**46)
    key = (
        number if kind == "number" else f"{number:x}-" + "".join(drawn.choices(ascii_letters, k=40))
    )
    return key, [drawn.random(), drawn.random()], drawn.random()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["number", "text", "long text"])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_of_a_person_is_left_in_any_file(tmp_path, seed, kind):
    drawn, folder = random.Random(f"{seed} {kind}"), tmp_path / "ledger"
    people, gone, needles = [], [], []
    with lw.open(folder, RULE, durability="off") as monitor:
        for _ in range(6):
            some = [
                person(drawn, kind)
                for _ in range(
                    drawn.choice([1, 40, 400, 900] if kind != "long text" else [1, 40, 90])
                )
            ]
            if kind == "long text":
                some = [(key * drawn.randrange(1, 12), x, z) for key, x, z in some]
            keys, x, z = map(list, zip(*some, strict=True))
            monitor.observe_many(x, z, keys=keys)
            people += some
            erased = drawn.sample(people, min(len(people), drawn.choice([1, 3, 60])))
            fresh = [
                one for key, x, z in erased for value in (key, *x, z) for one in as_bytes(value)
            ]
            monitor.flush()
            assert left(folder, fresh[:40])  # they were there
            found = monitor.erase(key=[key for key, _, _ in erased])
            assert found.complete and len(found.rows) == len(erased)
            people = [one for one in people if one not in erased]
            needles += fresh
            gone += found.rows
            assert left(folder, needles) == []
        assert monitor.ledger.verify().ok
        verdict = monitor.observe([0.5, 0.5], 0.5)
        assert verdict.compared_with.absent == len(gone)
    assert left(folder, needles) == []
    again = lw.replay(folder)
    assert again.ok and again.skipped == len(gone) and again.partly_compared > 0
    with lw.Ledger(folder) as ledger:
        assert ledger.verify().erased == len(gone)
        assert sorted(gone) == ledger.erased_rows().tolist()
    with lw.open(folder) as monitor:
        assert len(monitor) == len(people) + 1
        x, z = people[0][1:]
        assert monitor.check(x, z + 0.5).compared_with.absent == len(gone)
        with raises(lw.errors.BadRow):
            monitor.erase(key="nobody")


def test_what_was_said_of_a_person_in_words_is_gone_too(tmp_path):
    folder, drawn = tmp_path / "ledger", random.Random(4)
    rule = lw.Rule(
        features={
            "age": lw.Feature("number", tolerance=5),
            "job": lw.Feature("category"),
        },
        output_column="answer",
    )
    rows = [
        {"age": 20 + drawn.random() * 50, "job": drawn.choice(["baker", "clerk"])}
        for _ in range(500)
    ]
    rows[77] = {"age": 33.12345678901, "job": "astronaut of the seventh rank"}
    labels = [drawn.choice(["granted", "refused"]) for _ in rows]
    labels[77] = "referred to the queen herself"
    rows = [row | {"answer": label} for row, label in zip(rows, labels, strict=True)]
    needles = [
        *as_bytes(rows[77]["age"]),
        *as_bytes(rows[77]["job"]),
        *as_bytes(labels[77]),
        *as_bytes("citizen seventy-seven"),
    ]
    keys = [f"citizen {i}" for i in range(len(rows))]
    keys[77] = "citizen seventy-seven"
    with lw.open(folder, rule) as monitor:
        monitor.observe_many(rows, keys=keys)
        assert len({needle for _, needle in left(folder, needles)}) >= len(needles) - 2
        assert monitor.erase(key="citizen seventy-seven").rows == (77,)
        assert left(folder, needles) == []
        assert monitor.ledger.verify().ok
        # what others have in common with a person who is erased stays theirs
        shared = monitor.erase(key="citizen 5")
        assert shared.rows == (5,)
        assert monitor.past.values(6)["job"] == rows[6]["job"]
        verdict = monitor.observe({"age": 33.0, "job": "baker", "answer": "granted"})
        assert verdict.compared_with.absent == 2
    with lw.open(folder) as monitor:  # the same words may come again, as new ones
        with raises(lw.errors.ErasedKey, key="citizen seventy-seven"):
            monitor.observe(rows[77], key="citizen seventy-seven")
        assert left(folder, needles) == []
        monitor.observe(rows[77], key="another citizen")
        assert monitor.ledger.verify().ok
        assert monitor.past.values(monitor.rows - 1)["job"] == rows[77]["job"]
    assert lw.replay(folder).ok


def test_probabilities_are_erased_whole(tmp_path):
    folder = tmp_path / "ledger"
    rule = lw.Rule("linf", 0.1, output="probabilities", delta=0.3)
    drawn = np.random.default_rng(2)
    z = drawn.dirichlet([1, 1, 1], 300)
    with lw.open(folder, rule, durability="off") as monitor:
        monitor.observe_many(drawn.random((300, 3)), z, keys=list(range(300)))
        needles = [one for value in z[123].tolist() for one in as_bytes(value)]
        monitor.flush()
        assert left(folder, needles)
        monitor.erase(key=123)
        assert left(folder, needles) == []
        assert monitor.ledger.verify().ok
    with lw.open(folder) as monitor:
        assert monitor.ledger.verify().erased == 1


def test_an_erasure_waits_for_a_reader_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_folder, "BUSY_SECONDS", 0.2)
    folder = tmp_path / "ledger"
    with lw.open(folder, RULE) as monitor:
        key, x, z = person(random.Random(5), "text")
        monitor.observe_many([x, [0.1, 0.2]], [z, 0.5], keys=[key, "other"])
        needles = [one for value in (key, *x, z) for one in as_bytes(value)]
        with lw.Ledger(folder) as ledger:
            ledger.reader.database.execute("BEGIN")
            assert ledger.row_of(key) == 0  # from now on it looks at this state
            erasure = monitor.erase(key=key)
            assert erasure.rows == (0,) and not erasure.complete
            assert ledger.row_of(key) == 0
            assert left(folder, needles)
            assert monitor.ledger.verify().ok  # though it is not finished
            assert monitor.observe([0.3, 0.4], 0.5).compared_with.absent == 1
        again = monitor.erase(rows=[0])
        assert again.rows == () and again.complete
        assert left(folder, needles) == []
        assert monitor.ledger.verify().ok


def test_an_erasure_that_waited_is_finished_when_the_ledger_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_folder, "BUSY_SECONDS", 0.2)
    folder = tmp_path / "ledger"
    key, x, z = person(random.Random(6), "number")
    needles = [one for value in (key, *x, z) for one in as_bytes(value)]
    monitor = lw.open(folder, RULE)
    monitor.observe_many([x, [0.1, 0.2]], [z, 0.5], keys=[key, "other"])
    with lw.Ledger(folder) as ledger:
        ledger.reader.database.execute("BEGIN")
        assert ledger.row_of(key) == 0
        assert not monitor.erase(key=key).complete
        monitor.close()
    lw.open(folder).close()
    assert left(folder, needles) == []


STOPPED = """
import os, sys
import likewise as lw

monitor = lw.open(sys.argv[1], lw.Rule("linf", 0.05, output="number", delta=0.2))
monitor.observe([0.1, 0.1], 0.5, key="somebody else")
database = monitor.core.ledger.journal.store.database
database.set_trace_callback(lambda said: said == "COMMIT" and os._exit(9))
x = [[0.7, 0.7], [float(sys.argv[2]), 0.2]]
monitor.observe_many(x, [0.5, 0.5], keys=["another", "the person"])
"""


def test_what_a_killed_process_left_behind_the_last_record_is_erased_too(tmp_path):
    """It is killed right before its batch is committed; the person's decision is sent again."""
    folder, secret = tmp_path / "ledger", 0.123456789
    run_python("-c", STOPPED, folder, repr(secret), code=9)
    assert len(left(folder, [struct.pack("<d", secret)])) == 1
    with lw.open(folder) as monitor:
        assert monitor.observe([secret, 0.2], 0.5, key="the person").row == 1
        assert monitor.erase(key="the person").complete
        assert left(folder, as_bytes(secret)) == []
        assert monitor.observe([0.3, 0.3], 0.5, key="the next").row == 2
        assert monitor.ledger.verify().ok
    assert lw.replay(folder).ok
