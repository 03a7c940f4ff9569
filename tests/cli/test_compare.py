"""`likewise compare`, and what `audit` compares at all: files, ledgers and models of a file; pairs
of one person, and pairs too far apart in time.

Planted cases lie far from each other but for the two of a pair. Counts of random ones come from a
look at all pairs.
"""

import datetime
import itertools
import json

import numpy as np
import pytest

from likewise.cli import main
from tests.support.lazily import polars as pl
from tests.support.rule_texts import rule_text

RULE = rule_text(
    {"id": "key", "amount": 10, "sex": "protected"},
    output={"column": "answer", "favourable": "yes"},
)
NO_KEY = RULE.replace('[features.id]\nkind = "key"\n', "")
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
BEFORE = ["yn"] * 5 + ["yy"] * 7 + ["yn"] * 3 + ["yy"] * 11
AFTER = ["yn"] * 5 + ["yn"] * 7 + ["nn"] * 3 + ["yy"] * 11
KINDS = ("new", "gone", "persisting")


def run(capsys, *arguments, code=0):
    assert main([*map(str, arguments)]) == code
    return capsys.readouterr()


def compared(capsys, *arguments):
    return json.loads(run(capsys, "compare", *arguments, "--json").out)


def counts(found):
    return tuple(found[kind]["count"] for kind in KINDS)


def planted(answers, first=0):
    return [
        {
            "id": f"p{i}.{j}",
            "amount": 1_000 * i + 10 * j,
            "sex": "fm"[j],
            "answer": "yes" if answer == "y" else "no",
        }
        for i, two in enumerate(answers, first)
        for j, answer in enumerate(two)
    ]


def write(path, rows):
    frame = pl.DataFrame(rows)
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule.toml").write_text(RULE)
    (tmp_path / "no-key.toml").write_text(NO_KEY)
    write(tmp_path / "old.csv", planted(BEFORE))
    write(tmp_path / "new.csv", planted(AFTER))
    return tmp_path


def test_two_files_have_the_planted_pairs(folder, capsys):
    found = compared(capsys, "old.csv", "new.csv", "--rule", "rule.toml")
    assert counts(found) == (7, 3, 5)
    assert (found["a"]["comparable"], found["a"]["violations"]) == (26, 8)
    assert (found["b"]["comparable"], found["b"]["violations"]) == (26, 12)
    assert found["test"]["tested_by"] == "swapped answers"
    apart = found["b"]["agreement"]["index"] - found["a"]["agreement"]["index"]
    assert found["test"]["difference"] == pytest.approx(apart)
    assert found["beyond_chance"] == (found["p"] <= 0.05)
    assert (found["effect"]["value"], found["effect"]["how"]["code"]) == (None, "too-few")
    assert found["matched_by"] == "keys"
    shown = found["new"]["examples"][0]
    assert {shown["row_line"], shown["witness_line"]} == {12, 13}
    assert [len(side["groups"]) for side in (found["a"], found["b"])] == [1, 1]
    for side, name in (("a", "old.csv"), ("b", "new.csv")):
        assert found[side]["computed"]["sha256"] and found[side]["name"] == name


def test_a_file_and_a_ledger_and_two_ledgers_say_the_same(folder, capsys):
    expected = compared(capsys, "old.csv", "new.csv", "--rule", "rule.toml")
    for name in ("old", "new"):
        run(capsys, "audit", f"{name}.csv", "--rule", "rule.toml", "--ledger", f"{name}.ledger")
    for two in itertools.product(("old.csv", "old.ledger"), ("new.csv", "new.ledger")):
        rule = ["--rule", "rule.toml"] if two == ("old.csv", "new.csv") else []
        found = compared(capsys, *two, *rule)
        assert counts(found) == counts(expected)
        for name in ("beyond_chance", "p", "test", "effect", "balance"):
            assert found[name] == expected[name]
        assert found["common_cases"] == 52


def test_a_file_and_a_ledger_without_keys_match_by_number(folder, capsys):
    for name in ("old", "new"):
        rows = [
            {k: v for k, v in row.items() if k != "id"}
            for row in pl.read_csv(f"{name}.csv").to_dicts()
        ]
        write(folder / f"{name}.csv", rows)
    run(capsys, "audit", "old.csv", "--rule", "no-key.toml", "--ledger", "old.ledger")
    assert counts(compared(capsys, "old.ledger", "new.csv")) == (7, 3, 5)
    assert counts(compared(capsys, "old.csv", "new.csv", "--rule", "no-key.toml")) == (7, 3, 5)


@pytest.mark.parametrize("end", ["csv", "parquet"])
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("option", ["--model-column", "--version-column"])
def test_models_of_one_file_have_histories_of_their_own(folder, capsys, end, keyed, option):
    both = []
    for old, new in zip(planted(BEFORE), planted(AFTER), strict=True):
        both += [{**old, "model": "v1"}, {**new, "model": "v2"}]
    both += [{**row, "model": "v2"} for row in planted(["yn"], 700)]
    for i, row in enumerate(both):
        row["id"] = row["id"] if not keyed else f"{i}"
    if not keyed:
        both = [{name: value for name, value in row.items() if name != "id"} for row in both]
    path = write(folder / f"both.{end}", both)
    rule = "rule.toml" if keyed else "no-key.toml"
    found = compared(capsys, path, option, "model", "--rule", rule)
    # With keys that are all different no case is in both, which is said.
    assert counts(found) == ((12, 8, 0) if keyed else (7, 3, 5))
    assert found["common_cases"] == (0 if keyed else 52)
    assert (found["a"]["name"], found["b"]["name"]) == ("model v1", "model v2")
    assert (found["b"]["rows"], found["b"]["compared_rows"]) == (54, 52)
    assert found["model_column"] == "model"
    turned = compared(capsys, path, option, "model", "--rule", rule, "--first", "v2")
    assert (turned["a"]["violations"], turned["b"]["violations"]) == (12, 8)


def test_of_several_models_two_are_named(folder, capsys):
    rows = [{**row, "model": f"v{i % 3}", "id": f"{i}"} for i, row in enumerate(planted(BEFORE))]
    write(folder / "three.csv", rows)
    said = run(capsys, "compare", "three.csv", "--model-column", "model", "-r", "rule.toml", code=2)
    assert "3 values: 'v0', 'v1', 'v2'; expected two models" in said.err
    options = ("--first", "v2", "--second", "v0")
    found = compared(capsys, "three.csv", "--model-column", "model", "-r", "rule.toml", *options)
    assert found["a"]["name"] == "model v2"
    said = run(capsys, "compare", "three.csv", "--model-column", "model", "--first", "x", code=3)
    assert "--first is 'x'; model has 'v0', 'v1', 'v2'" in said.err


def test_a_row_without_a_model_is_a_bad_row(folder, capsys):
    rows = [{**row, "model": f"v{i % 2}"} for i, row in enumerate(planted(BEFORE))]
    rows[9]["model"] = None
    write(folder / "both.csv", rows)
    line = ("compare", "both.csv", "--model-column", "model", "--rule", "rule.toml")
    assert "line 11: 'model' is missing, so no model decided it" in run(capsys, *line, code=3).err
    found = compared(capsys, *line[1:], "--on-bad-row", "skip")
    assert found["a"]["bad_rows"] == 1


def test_nothing_comparable_in_one_of_them_is_said_first(folder, capsys):
    write(folder / "alone.csv", [row for row in planted(["yy"] * 52) if row["sex"] == "f"])
    said = run(
        capsys, "compare", "alone.csv", "new.csv", "--rule", "rule.toml", "--report", "p.html"
    )
    assert said.out.startswith("Nothing could be compared in alone.csv, so nothing follows")
    assert (
        "no agreement index" in said.out
        and 'class="hero nothing"' in (folder / "p.html").read_text()
    )
    found = compared(capsys, "alone.csv", "new.csv", "--rule", "rule.toml")
    assert found["beyond_chance"] is None and found["p"] is None and found["how"]["code"]
    assert found["a"]["rate_among_comparable"] is None


def test_what_is_said_names_both_and_shows_a_pair_of_each_kind(folder, capsys):
    said = run(capsys, "compare", "old.csv", "new.csv", "--rule", "rule.toml", "--report", "p.html")
    lines = said.out.split("\n")
    assert lines[0].startswith("No difference goes beyond chance: on the same cases, new.csv")
    assert "That does not show that they are alike." in said.out.replace("\n", " ")
    assert "more than chance" not in said.out
    assert "New, in new.csv" in lines and "Gone, in old.csv" in lines
    assert "Persisting, in new.csv" in lines
    assert "5 persist, 7 are new in new.csv, 3 are gone." in said.out.replace("\n", " ")
    page = (folder / "p.html").read_text()
    assert "Histories are separate" in page and "New in new.csv: 7" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["old.csv"], "Give two files or ledgers, A and B; or one file and --model-column"),
        (["old.csv", "new.csv", "--model-column", "id"], "Give two files or ledgers"),
        (["old.csv", "new.csv", "--first", "x"], "say --model-column"),
        (["old.csv", "new.csv", "--within", "9 days"], "say --time-column"),
        (["-", "-"], "standard input is one file"),
        (["-", "--model-column", "id"], "can be read twice"),
        (["old.csv", "--model-column", "none"], "is no column of old.csv"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(folder, capsys, arguments, message):
    assert main(["compare", *arguments, "--rule", "rule.toml"]) in (2, 3)
    said = capsys.readouterr()
    assert message in said.err and said.out == ""


def test_ledgers_of_two_rules_or_with_a_window_are_refused(folder, capsys):
    import likewise as lw

    run(capsys, "audit", "old.csv", "--rule", "rule.toml", "--ledger", "old.ledger")
    rule = lw.Rule.from_toml(RULE.replace("tolerance = 10", "tolerance = 20"))
    with lw.open("other.ledger", rule) as monitor:
        monitor.observe_many(planted(AFTER))
    said = run(capsys, "compare", "old.ledger", "other.ledger", code=2)
    assert "has another rule than other.ledger" in said.err
    with lw.open("short.ledger", lw.Rule.from_toml(RULE), window="10 rows") as monitor:
        monitor.observe_many(planted(AFTER))
    said = run(capsys, "compare", "old.ledger", "short.ledger", code=3)
    assert "has a window" in said.err


# audit --within and --person


def timed(count=300, seed=5):
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 200, count)
    rows = [
        {
            "amount": int(rng.integers(0, 900)),
            "who": None if rng.random() < 0.1 else f"w{int(rng.integers(0, 40))}",
            "made": (START + datetime.timedelta(days=int(day))).isoformat(),
            "answer": "yes" if rng.random() < 0.7 else "no",
        }
        for day in days
    ]
    for row in rows:
        if row["who"] is not None and rng.random() < 0.6:
            row["amount"] = 20 * int(row["who"][1:])
    return rows, days


def truth(rows, days, *, within=None, person=False):
    """Comparable, flagged, in any pair and pairs, by a look at every pair in order of time."""
    order = np.argsort(days, kind="stable")
    amount = np.array([row["amount"] for row in rows])[order]
    who = np.array([row["who"] for row in rows], object)[order]
    answer = np.array([row["answer"] for row in rows])[order]
    day = days[order]
    like = np.tril(np.abs(amount[:, None] - amount) <= 10, -1)
    if within is not None:
        like &= np.abs(day[:, None] - day) <= within
    if person:
        known = np.array([one is not None for one in who])
        like &= ~((who[:, None] == who) & known)
    bad = like & (answer[:, None] != answer)
    return {
        "comparable": int(like.any(axis=1).sum()),
        "violations": int(bad.any(axis=1).sum()),
        "in_any_pair": int((bad | bad.T).any(axis=1).sum()),
        "pairs": int(bad.sum()),
    }


@pytest.mark.parametrize("person", [True, False])
@pytest.mark.parametrize("within", [None, 30])
def test_audit_compares_within_a_time_and_no_one_with_themselves(folder, capsys, person, within):
    rows, days = timed()
    write(folder / "timed.csv", rows)
    options = ["--epsilon", 10, "--output-column", "answer", "--time-column", "made"]
    options += ["--person", "who"] if person else ["--ignore", "who"]
    options += [] if within is None else ["--within", f"{within} days"]
    said = run(capsys, "audit", "timed.csv", *options, "--json", "--report", "p.html")
    found = json.loads(said.out)
    expected = truth(rows, days, within=within, person=person)
    numbers = found | {"comparable": found["with_earlier"]}
    assert {name: numbers[name] for name in expected} == expected
    if person or within:
        assert expected != truth(rows, days)
    assert found["computed"]["order"]["within"] == (within and "30 days")
    page = (folder / "p.html").read_text()
    assert ("compared only with those at most 30 days before it" in page) == bool(within)
    assert ("every earlier one of the 30 days before it" in page) == bool(within)
    assert ("Pairs of the same who do not count." in page) == person
    assert ("not drawn: it is computed from distances alone" in page) == bool(person or within)
    text = run(capsys, "audit", "timed.csv", *options).out.replace("\n", " ")
    assert ("pairs farther apart in time do not count" in text) == bool(within)


def test_compare_takes_times_and_a_span_too(folder, capsys):
    rows, days = timed()
    for name in ("one.csv", "two.csv"):
        write(folder / name, rows)
    options = ["--epsilon", 10, "--output-column", "answer", "--time-column", "made"]
    options += ["--person", "who", "--within", "30 days"]
    found = compared(capsys, "one.csv", "two.csv", *options)
    expected = truth(rows, days, within=30, person=True)
    for side in ("a", "b"):
        assert {name: found[side][name] for name in expected} == expected
    assert counts(found) == (0, 0, expected["pairs"])
    assert found["beyond_chance"] in (False, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--within", "30 days"], "--within is about times: say --time-column"),
        (["--within", "soon", "--time-column", "made"], "within is 'soon'; expected how long"),
        (
            ["--within", "3 days", "--time-column", "made", "--ledger", "l"],
            "--within and --ledger do not go together",
        ),
        (["--person", "answer"], "--person answer is the output or ignored"),
        (["--person", "nobody"], "'nobody'"),
        (["--person", "who", "--metric", "cosine"], "--person needs columns with tolerances"),
    ],
)
def test_audit_refuses_what_says_nothing(folder, capsys, options, message):
    write(folder / "timed.csv", timed()[0])
    line = ["audit", "timed.csv", "--epsilon", "1", "--output-column", "answer", *options]
    assert main(line) in (2, 3)
    assert message in capsys.readouterr().err


def test_person_beside_a_rule_is_said_there(folder, capsys):
    line = ("audit", "old.csv", "--rule", "rule.toml", "--person", "sex")
    assert "--person is given, and so is a rule" in run(capsys, *line, code=2).err
