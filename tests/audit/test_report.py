"""`likewise audit --partition` says what `likewise audit` says, number by number."""

import json
import re

import numpy as np
import pytest

from likewise.auditing import cells as finishing
from likewise.cli import audit
from tests.support.commands import likewise
from tests.support.lazily import polars as pl
from tests.support.rule_texts import rule_text

RULE = rule_text(
    {
        "id": "key",
        "age": 2,
        "pay": {"kind": "number", "tolerance": "15%", "missing": "mismatch"},
        "grade": "category",
        "who": {"kind": "person", "missing": "mismatch"},
        "sex": "protected",
        "town": {"kind": "protected", "missing": "mismatch"},
        "note": "ignore",
    },
    output={"column": "approved", "favourable": 1},
    metric="linf",
)


@pytest.fixture(autouse=True)
def _small_cells(monkeypatch):
    """So that few decisions make many cells."""
    monkeypatch.setattr(audit, "LEAST_CELL_ROWS", 1)


def people(count=1500):
    random = np.random.default_rng(6)
    age = random.integers(18, 60, count)
    sex = random.choice(["f", "m"], count)
    good = age + 6 * (sex == "m") + random.normal(0, 6, count) > 38
    return pl.DataFrame(
        {
            "id": [f"p{i}" for i in range(count)],
            "age": age,
            "pay": random.choice([1000.0, 1100.0, 1300.0, 2000.0], count),
            "grade": random.choice(["a", "b", "c"], count),
            "who": [f"w{i}" if i % 3 else None for i in random.integers(0, 500, count)],
            "sex": sex,
            "town": random.choice(["x", "y", "z", "w"], count),
            "note": [f"note {i}" for i in range(count)],
            "model": random.choice(["m1", "m2"], count),
            "when": np.datetime64("2024-01-01", "ms")
            + random.integers(0, 400_000, count) * np.timedelta64(60_000, "ms"),
            "approved": good.astype(int),
        }
    )


def numbers(count=3000):
    random = np.random.default_rng(5)
    x = random.random((count, 3))
    z = x.sum(axis=1) + random.normal(0, 0.1, count) > 1.5
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "z": z.astype(int)})


def told(*arguments, code=0):
    return json.loads(likewise("audit", *arguments, "--json", code=code).stdout)


def same(one, other, *, but=()):
    """Two reports in JSON, but for how they were computed."""
    for report in (one, other):
        for name in ("seconds", "machine_load", "made_at", "command", "index", "reason", *but):
            report["computed"].pop(name)
    different = {name for name in one if one[name] != other[name]}
    assert one == other, {name: (one[name], other[name]) for name in different}


QUICK = ("--epsilon", "0.05", "--output-column", "z")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_vectors_are_told_as_without_cells(suffix, tmp_path):
    path = tmp_path / f"numbers.{suffix}"
    getattr(numbers(), f"write_{suffix}")(path)
    quick = (*QUICK, "--report", tmp_path / "page.html")
    whole = told(path, *quick)
    parts = told(path, *quick, "--partition", tmp_path / "cells", "--cell-rows", 300)
    assert "sorted into" in parts["computed"]["reason"]
    assert "sorted into" in (tmp_path / "page.html").read_text()
    assert whole["curve"] is not None
    assert whole["violations"] > 100
    assert len(whole["worst"]) == 20
    same(whole, parts)


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--time-column", "when"),
        ("--time-column", "when", "--within", "30 days"),
        ("--time-column", "when", "--model-column", "model"),
    ],
    ids=["lines", "time", "within", "models"],
)
def test_people_are_told_as_without_cells_groups_persons_and_pictures_included(options, tmp_path):
    rule, path, page = tmp_path / "rule.toml", tmp_path / "people.csv", tmp_path / "page.html"
    names = {"when", "model"}.difference(options)
    rule.write_text(RULE + "".join(f'[features.{one}]\nkind = "ignore"\n' for one in sorted(names)))
    people().write_csv(path)
    both = []
    for more in ((), ("--partition", tmp_path / "cells", "--cell-rows", 200)):
        both.append(told(path, "--rule", rule, "--report", page, *options, *more))
        text = page.read_text()
        assert "note 1" in text
    same(*both)
    assert both[0]["violations"] > 50
    assert both[0]["groups"][0]["comparisons"]
    assert both[0]["varied"] is not None
    assert len(both[0]["by_model"]) == 2 * ("--model-column" in options)


def test_remarks_on_several_files_say_that_they_were_read(tmp_path):
    frame = numbers()[:40]
    for i in range(2):
        frame[i * 20 : (i + 1) * 20].write_csv(tmp_path / f"part-{i}.csv")
    cells = ("--partition", tmp_path / "cells", "--cell-rows", 500)
    said = likewise("audit", *sorted(tmp_path.glob("*.csv")), *QUICK, *cells).stderr
    assert re.search(r"^How 2 files from \S*part-0.csv on were read:$", said, re.MULTILINE)


@pytest.mark.long
def test_several_files_are_told_as_one(tmp_path):
    frame = numbers()
    frame.write_parquet(tmp_path / "all.parquet")
    folder = tmp_path / "parts"
    folder.mkdir()
    for i in range(4):
        frame[i * 750 : (i + 1) * 750].write_parquet(folder / f"part-{i}.parquet")
    (folder / "_SUCCESS").write_text("")
    whole = told(tmp_path / "all.parquet", *QUICK)
    for i, given in enumerate(([folder], [f"{folder}/part-*.parquet"], sorted(folder.glob("p*")))):
        cells = ("--partition", tmp_path / f"cells-{i}", "--cell-rows", 500)
        parts = told(*given, *QUICK, *cells)
        for pair in parts["worst"]:
            for name in ("row", "witness"):
                file = pair.pop(f"{name}_file")
                assert file.endswith(f"part-{pair[name] // 750}.parquet")
                assert pair.pop(f"{name}_row") == pair[name] % 750 + 1
        one = json.loads(json.dumps(whole))
        for pair in one["worst"]:
            del pair["row_row"], pair["witness_row"]
        parts["remarks"] = []
        same(one, parts, but=("source", "sha256", "size_bytes", "remarks"))


@pytest.mark.long
def test_bad_rows_and_repeated_keys_are_left_out_as_without_cells(tmp_path):
    frame = people(400).with_columns(
        pl.when(pl.int_range(400) % 50 == 7).then(None).otherwise("age").alias("age"),
        pl.when(pl.int_range(400) % 20 == 3).then(pl.lit("p9")).otherwise("id").alias("id"),
    )
    rule, path = tmp_path / "rule.toml", tmp_path / "people.csv"
    rule.write_text(RULE + '[features.model]\nkind = "ignore"\n')
    frame.write_csv(path)
    options = (path, "--rule", rule, "--time-column", "when")
    whole = told(*options, "--on-bad-row", "skip")
    parts = told(
        *options, "--on-bad-row", "skip", "--partition", tmp_path / "cells", "--cell-rows", 100
    )
    assert whole["bad_rows"] == parts["bad_rows"] > 20
    for report in (whole, parts):
        del report["bad_row_examples"]
    same(whole, parts, but=("skipped",))
    refused = likewise("audit", *options, "--partition", tmp_path / "others", code=3)
    assert "--on-bad-row skip" in refused.stderr


def test_of_more_decisions_than_are_looked_at_together_a_part_is_compared(tmp_path, monkeypatch):
    rule, path, page = tmp_path / "rule.toml", tmp_path / "people.csv", tmp_path / "page.html"
    ignored = "".join(f'[features.{one}]\nkind = "ignore"\n' for one in ("when", "model"))
    rule.write_text(RULE + ignored)
    people().write_csv(path)
    whole = told(path, "--rule", rule)
    monkeypatch.setattr(finishing, "WHOLE", 800)
    cells = ("--partition", tmp_path / "cells", "--cell-rows", 200)
    parts = told(path, "--rule", rule, "--report", page, *cells)
    shown = ("violations", "pairs", "with_earlier", "in_any_pair", "by_row", "margins")
    assert whole["agreement"]["how"]["code"] == "measured"
    assert parts["agreement"]["how"]["code"] == "too-many-decisions"
    assert {name: whole[name] for name in shown} == {name: parts[name] for name in shown}
    for column in parts["groups"]:
        assert column["sampled"] == 0.5
        assert 300 < sum(one["decisions"] for one in column["groups"]) < 1200
    assert "a random 50.0% of the distinct" in page.read_text()


def test_where_nothing_can_be_compared_it_is_said_as_without_cells(tmp_path):
    path = tmp_path / "numbers.csv"
    numbers(200).write_csv(path)
    quick = ("--epsilon", "1e-9", "--output-column", "z")
    whole = told(path, *quick)
    parts = told(path, *quick, "--partition", tmp_path / "cells", "--cell-rows", 50)
    assert whole["loosening"] is not None
    same(whole, parts)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--ledger", "l"), "--ledger and --partition do not go together"),
        (("--out", "p.csv"), "--out and --partition do not go together"),
        (("--within", "3 days"), "--within is about times"),
        (("--ray", "auto", "--workers", "2"), "--ray and --workers do not go together"),
    ],
)
def test_what_does_not_go_together_with_cells_is_said(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    numbers(20).write_csv("numbers.csv")
    done = likewise("audit", "numbers.csv", *QUICK, "--partition", "cells", *options, code=2)
    assert words in done.stderr


def test_cells_of_another_audit_are_not_used(tmp_path):
    path, cells = tmp_path / "numbers.csv", tmp_path / "cells"
    numbers(300).write_csv(path)
    told(path, *QUICK, "--partition", cells)
    told(path, *QUICK, "--partition", cells)
    other = ("--epsilon", "0.06", "--output-column", "z", "--partition", cells)
    refused = likewise("audit", path, *other, code=3)
    assert "begun for another audit: the rule has changed" in refused.stderr
    numbers(301).write_csv(path)
    refused = likewise("audit", path, *QUICK, "--partition", cells, code=3)
    assert "numbers.csv has changed" in refused.stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    refused = likewise("audit", path, *QUICK, "--partition", tmp_path / "full", code=3)
    assert "not a folder of a partitioned audit" in refused.stderr


def test_several_files_without_cells_are_refused(tmp_path):
    for name in ("one.csv", "two.csv"):
        numbers(20).write_csv(tmp_path / name)
    done = likewise("audit", tmp_path / "one.csv", tmp_path / "two.csv", *QUICK, code=2)
    assert "--partition" in done.stderr


def test_cells_that_are_too_small_are_refused_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.undo()
    numbers(100).write_csv(tmp_path / "numbers.csv")
    folder = tmp_path / "cells"
    command = ("audit", tmp_path / "numbers.csv", *QUICK, "--partition", folder)
    refused = likewise(*command, "--cell-rows", 10, code=2)
    assert "--cell-rows is 10; expected at least 1,000" in refused.stderr
    assert not folder.exists()
    likewise(*command, "--cell-rows", 1000)


def test_report_may_be_left_out_later_and_is_refused_where_cells_do_not_hold_its_columns(tmp_path):
    rule, path, page = tmp_path / "rule.toml", tmp_path / "people.csv", tmp_path / "page.html"
    names = ("when", "model")
    rule.write_text(RULE + "".join(f'[features.{one}]\nkind = "ignore"\n' for one in names))
    people(300).write_csv(path)
    given = (path, "--rule", rule, "--cell-rows", 100, "--partition")
    told(*given, tmp_path / "with", "--report", page)
    page.unlink()
    done = tmp_path / "with" / "results"
    stamps = {one: one.stat().st_mtime_ns for one in done.iterdir()}
    later = told(*given, tmp_path / "with")
    assert stamps == {one: one.stat().st_mtime_ns for one in done.iterdir()}
    same(later, told(*given, tmp_path / "without"))
    refused = likewise(
        "audit", *given, tmp_path / "without", "--report", page, code=3
    ).stderr.replace("\n", " ")
    assert "was begun without --report" in refused
    assert "'note'" in refused
    assert not page.exists()


@pytest.mark.parametrize(
    ("option", "before", "now", "words"),
    [
        ("--cell-rows", 100, 200, "--cell-rows was 100 and is 200"),
        ("--on-bad-row", "fail", "skip", "--on-bad-row was fail and is skip"),
        ("--epsilon", 0.05, 0.06, "the rule has changed"),
    ],
)
def test_another_audit_in_a_folder_is_refused_in_words_of_the_options(
    option, before, now, words, tmp_path
):
    path = tmp_path / "numbers.csv"
    numbers(50).write_csv(path)
    given = ("audit", path, *QUICK, "--partition", tmp_path / "cells", option)
    likewise(*given, before)
    refused = likewise(*given, now, code=3).stderr
    assert words in " ".join(refused.split())
