"""A ledger made of another one under another rule: judged again, or copied as it is."""

import math
import os
import signal
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

import likewise as lw
from tests.support.refusals import raises
from tests.support.segments import small_segments

PEOPLE = lw.Rule(
    features={
        "age": lw.Feature("number", tolerance=5),
        "job": lw.Feature("category"),
        "sex": lw.Feature("protected"),
    },
    output_column="ok",
    favourable="yes",
)


def people(count, seed=4):
    rng = np.random.default_rng(seed)
    return [
        {
            "age": float(rng.integers(20, 60)),
            "job": str(rng.choice(["nurse", "cook"])),
            "sex": str(rng.choice(["f", "m"])),
            "ok": str(rng.choice(["yes", "no"])),
        }
        for _ in range(count)
    ]


@pytest.fixture
def old(tmp_path):
    with lw.open(tmp_path / "old", PEOPLE, comparable=True) as monitor:
        monitor.observe_many(people(300), keys=[f"p{i}" for i in range(300)])
        monitor.ledger.review(299, None, "error", reason="a typo", reviewer="eve")
    return tmp_path / "old"


def counts(path):
    with lw.Ledger(path) as ledger:
        assert ledger.verify().ok
        return [entry.count for entry in ledger.entries()]


def test_another_rule_judges_the_history_again_as_a_monitor_would(old, tmp_path):
    wider = lw.Rule(
        features={"age": lw.Feature("number", tolerance=9), "job": lw.Feature("category")},
        output_column="ok",
    )
    done = lw.migrate(old, tmp_path / "new", rule=wider)
    assert (done.rows, done.judged_again, dict(done.omitted_records)) == (300, True, {"reviews": 1})
    table = [{name: row[name] for name in ("age", "job", "ok")} for row in people(300)]
    expected = lw.Monitor(wider).observe_many(table).counts.tolist()
    assert counts(tmp_path / "new") == expected and sum(expected) > 1000
    assert counts(old) != expected
    with lw.Ledger(tmp_path / "new") as new, lw.Ledger(old) as before:
        assert new.events()[0].body["origin"]["head"] == str(before.head)
        assert new.entry(7).key == "p7" and new.entry(7).time == before.entry(7).time
        assert new.stats().comparable > 0
    assert lw.replay(tmp_path / "new").ok


def test_a_rule_that_changes_no_verdict_is_an_event(old):
    before = counts(old)
    named = lw.Rule(
        features={
            **PEOPLE.features,
            "sex": lw.Feature("protected", labels={"f": "women", "m": "men"}),
            "notes": lw.Feature("ignore"),
        },
        output_column="ok",
        favourable="no",
    )
    done = lw.migrate(old, rule=named)
    assert not done.judged_again and counts(old) == before
    with lw.open(old, named) as monitor:
        assert monitor.rule.favourable == "no"
        assert monitor.observe({**people(1)[0], "notes": 3}, key="new").row == 300
    with lw.Ledger(old) as ledger:
        assert [event.kind for event in ledger.events()].count("rule") == 2
        assert ledger.rule.favourable == "no" and ledger.verify().ok
    with raises(lw.errors.BadRule):
        lw.open(old, PEOPLE)


def test_a_rule_that_changes_verdicts_needs_a_new_folder(old):
    with raises(lw.errors.BadRule):
        lw.migrate(old, rule=lw.Rule(features=dict(PEOPLE.features), epsilon=2, output_column="ok"))
    with raises(lw.errors.BadRule):
        lw.migrate(old)


def test_categories_are_renamed_and_columns_added(old, tmp_path):
    rule = lw.Rule(
        features={**PEOPLE.features, "branch": lw.Feature("category")},
        output_column="ok",
        favourable="granted",
    )
    with raises(lw.errors.BadRule):
        lw.migrate(old, tmp_path / "new", rule=rule)
    assert not (tmp_path / "new").exists() and not (tmp_path / "new.partial").exists()
    done = lw.migrate(
        old,
        tmp_path / "new",
        rule=rule,
        rename={"job": {"cook": "chef"}, "": {"yes": "granted", "no": "refused"}},
        add={"branch": "Graz"},
    )
    assert done.judged_again
    with lw.Ledger(tmp_path / "new") as ledger:
        rows = people(300)
        for i in (0, 17, 299):
            job = {"cook": "chef"}.get(rows[i]["job"], rows[i]["job"])
            age, sex = rows[i]["age"], rows[i]["sex"]
            assert ledger.values(i) == {"age": age, "job": job, "sex": sex, "branch": "Graz"}
            assert ledger.entry(i).output == {"yes": "granted", "no": "refused"}[rows[i]["ok"]]
    assert counts(tmp_path / "new") == counts(old)


BRANCHES = lw.Rule(
    features={**PEOPLE.features, "branch": lw.Feature("category")}, output_column="ok"
)
WITHOUT_JOB = lw.Rule(
    features={"age": lw.Feature("number", tolerance=5), "job": lw.Feature("ignore")},
    output_column="ok",
)


@pytest.mark.parametrize(
    "asked",
    [
        {"rename": {"jobb": {"nurse": "carer"}}},
        {"rename": {"job": {"nurze": "carer"}}},
        {"rename": {"": {"yess": "granted"}}},
        {"rename": {"age": {19.5: 20}}},
        {"rename": {"job": {"nurse": "carer"}}, "rule": WITHOUT_JOB},
        {"add": {"branch": "Graz"}},
        {"add": {"brunch": "Graz"}, "rule": BRANCHES},
        {"add": {"branch": "Graz", "job": "cook"}, "rule": BRANCHES},
        {"rule": lw.Rule("linf", 0.1)},
    ],
)
def test_what_fits_nothing_is_refused_before_anything_is_written(old, tmp_path, asked):
    for new in (tmp_path / "new", None):
        with raises(lw.errors.BadRule):
            lw.migrate(old, new, **asked)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_vectors_are_not_migrated_to_a_rule_for_tables(tmp_path):
    with lw.open(tmp_path / "old", lw.Rule("linf", 0.1, output="number", delta=0.1)) as monitor:
        monitor.observe([0.5], 1.0)
    with raises(lw.errors.BadRule):
        lw.migrate(tmp_path / "old", tmp_path / "new", rule=PEOPLE)
    with raises(lw.errors.BadRule):
        lw.migrate(tmp_path / "old", tmp_path / "new", rename={"": {2.0: 3.0}})
    with raises(lw.errors.BadRule):
        lw.migrate(tmp_path / "old", tmp_path / "new", rename={"input": {0.5: 3.0}})
    assert lw.migrate(tmp_path / "old", tmp_path / "new", rename={"": {1.0: 3.0}}).judged_again
    with lw.Ledger(tmp_path / "new") as ledger:
        assert ledger.entry(0).output == 3.0


def test_probabilities_are_judged_again(tmp_path):
    def rule(epsilon):
        return lw.Rule("linf", epsilon, output="probabilities", delta=0.1)

    rng = np.random.default_rng(3)
    x, z = rng.random((40, 2)), rng.dirichlet([1, 1, 1], 40)
    with lw.open(tmp_path / "old", rule(0.05)) as monitor:
        monitor.observe_many(x, z)
    assert lw.migrate(tmp_path / "old", tmp_path / "new", rule=rule(0.3)).judged_again
    expected = lw.Monitor(rule(0.3)).observe_many(x, z).counts.tolist()
    assert counts(tmp_path / "new") == expected and sum(expected) > 40
    with lw.Ledger(tmp_path / "new") as ledger:
        assert [entry.output for entry in ledger.entries()] == z.tolist()
    with raises(lw.errors.BadRule):
        lw.migrate(tmp_path / "old", tmp_path / "more", rename={"": {(0.5, 0.5): (1, 0)}})


def test_a_ledger_without_keys_is_not_judged_by_a_rule_with_a_key_column(tmp_path):
    def rule(tolerance, **more):
        features = {"age": lw.Feature("number", tolerance=tolerance), **more}
        return lw.Rule(features=features, output_column="ok")

    with lw.open(tmp_path / "old", rule(5)) as monitor:
        monitor.observe({"age": 40, "ok": "yes"})
    with raises(lw.errors.BadRule):
        lw.migrate(tmp_path / "old", tmp_path / "new", rule=rule(6, id=lw.Feature("key")))
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_numbers_and_missing_values_are_renamed(tmp_path):
    features = {
        "age": lw.Feature("number", tolerance=5),
        "job": lw.Feature("category", missing="mismatch"),
    }
    with lw.open(tmp_path / "old", lw.Rule(features=features, output_column="ok")) as monitor:
        monitor.observe({"age": 40, "job": None, "ok": 1})
        monitor.observe({"age": 999, "job": "cook", "ok": 0})
    names = {"age": {999: 99}, "job": {None: "none"}, "": {1: "yes", 0: "no"}}
    lw.migrate(tmp_path / "old", tmp_path / "new", rename=names)
    with lw.Ledger(tmp_path / "new") as ledger:
        assert [ledger.values(i)["age"] for i in (0, 1)] == [40, 99]
        assert [ledger.values(i)["job"] for i in (0, 1)] == ["none", "cook"]
        assert [entry.output for entry in ledger.entries()] == ["yes", "no"]


def test_nothing_is_made_of_an_altered_ledger_or_over_something_else(old, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    with raises(lw.errors.BadFile):
        lw.migrate(old, tmp_path / "there")
    name = next(old.glob("*.rows"))
    content = bytearray(name.read_bytes())
    content[3] ^= 1
    name.write_bytes(content)
    with raises(lw.errors.BadFile):
        lw.migrate(old, tmp_path / "new")
    assert not (tmp_path / "new").exists()


SCRIPT = """
import sys, time, likewise as lw
print("begin", flush=True)
lw.migrate(sys.argv[1], sys.argv[2], rule=lw.Rule("linf", 0.05))
time.sleep(60)
"""


@pytest.mark.long
@pytest.mark.parametrize("delay", [0.02, 0.15])
def test_a_migration_that_was_killed_is_made_again(tmp_path, delay):
    rng = np.random.default_rng(0)
    x, z = rng.random((20_000, 3)), rng.choice(["a", "b"], 20_000).tolist()
    with lw.open(tmp_path / "old", lw.Rule("linf", 0.01), durability="off") as monitor:
        monitor.observe_many(x, z)
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, tmp_path / "old", tmp_path / "new"],
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdout.readline() == b"begin\n"
        time.sleep(delay)
        os.kill(program.pid, signal.SIGKILL)
    if (tmp_path / "new").exists():
        assert lw.replay(tmp_path / "new").ok  # whole
        return
    assert lw.migrate(tmp_path / "old", tmp_path / "new", rule=lw.Rule("linf", 0.05)).rows == 20_000
    expected = lw.Monitor(lw.Rule("linf", 0.05)).observe_many(x, z).counts.tolist()
    assert counts(tmp_path / "new") == expected and sum(expected) > 50_000


def test_what_a_killed_migration_left_is_not_in_the_way(tmp_path):
    with lw.open(tmp_path / "old", lw.Rule("linf", 0.1)) as monitor:
        monitor.observe([0.5], "yes")
    partial = tmp_path / "new.partial"
    partial.mkdir()
    for name in ("lock", "ledger.sqlite", "ledger.sqlite-journal", "000000000000.rows"):
        (partial / name).touch()  # killed while it was begun, or while it was taken away
    assert lw.migrate(tmp_path / "old", tmp_path / "new").rows == 1
    assert not partial.exists()
    other = tmp_path / "newer.partial"
    other.mkdir()
    (other / "letter.txt").touch()
    with raises(lw.errors.BadFile):
        lw.migrate(tmp_path / "old", tmp_path / "newer")
    assert (other / "letter.txt").exists()


def test_distances_to_whoever_was_erased_and_has_left_the_window_are_not_migrated(tmp_path):
    """A verdict that stays names a row that was erased, and then left."""
    old, rule = tmp_path / "old", lw.Rule("linf", 0.5)
    with small_segments(), lw.open(old, rule) as monitor:
        for i in range(63):
            monitor.observe([10.0 + i], "yes")
        monitor.observe([0.123], "yes", key="the person")
        assert monitor.observe([0.25], "no").witnesses.rows.tolist() == [63]
        monitor.erase(key="the person")
    with lw.open(old, window="5 rows") as monitor:
        monitor.observe_many([[100.0 + i] for i in range(10)], ["yes"] * 10)
    with lw.open(old) as monitor:  # which drops the file with the person's row
        assert monitor.ledger.verify().ok
    with lw.Ledger(old) as ledger:
        assert ledger.first == 64
    lw.migrate(old, tmp_path / "new")
    with lw.Ledger(tmp_path / "new") as ledger:
        verified = ledger.verify()
        assert verified.ok, verified
        assert [one.row for one in ledger.entry(64).nearest] == [63]
        assert math.isnan(ledger.entry(64).nearest[0].input_distance)
    distance = struct.pack("<d", abs(0.123 - 0.25))
    files = b"".join(path.read_bytes() for path in (tmp_path / "new").iterdir())
    assert distance not in files and distance[::-1] not in files
    with lw.open(tmp_path / "new") as monitor:
        assert monitor.observe([200.0], "no").row == 75
