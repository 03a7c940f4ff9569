"""`likewise init` on generated tables: the right rule is written down first, then what it finds."""

import json

import numpy as np
import pytest

import likewise as lw
from likewise.cli import main
from likewise.proposing import loosening
from tests.support.commands import at_a_terminal
from tests.support.lazily import polars as pl


@pytest.fixture
def init(tmp_path, monkeypatch, capsys):
    """Runs the command on a table; what JSON says, and the rule that was written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loosening, "SECONDS", 300.0)  # however slow the machine is

    def run(table, *options):
        pl.DataFrame(table).write_csv("data.csv")
        code = main(["init", "data.csv", "--json", "--force", *options])
        told = capsys.readouterr()
        assert code == 0, told.err
        found = json.loads(told.out)
        rule = lw.Rule.from_toml((tmp_path / "likewise.toml").read_text())
        assert {name: one.kind for name, one in rule.features.items()} == found["kinds"]
        assert main(["audit", "data.csv", "--rule", "likewise.toml", "--json"]) == 0
        audited = json.loads(capsys.readouterr().out)
        if found["trial"]["decisions"] == len(next(iter(table.values()))):
            assert audited["violations"] == found["trial"]["violations"]
        return found, rule

    return run


def notes(found):
    """What was said, by column."""
    told = {}
    for note in found["notes"]:
        for column in note["columns"]:
            told.setdefault(column, []).append(note["about"])
    return told


def bank(count=1_000, seed=1):
    random = np.random.default_rng(seed)
    income = random.lognormal(8, 0.3, count).round(-1)
    children = random.choice(6, count, p=[0.4, 0.25, 0.2, 0.1, 0.03, 0.02])
    p1 = 1 / (1 + np.exp(-(income / 1_000 - 3 + 0.3 * random.normal(size=count))))
    approved = p1 > 0.5
    return {
        "counter": np.arange(count),
        "Vorgang": random.permutation(count) + 40_000,
        "customer": [f"{name} {i}" for i, name in enumerate(random.choice(["Ann", "Bo"], count))],
        "iban_hash": [f"x{one:08x}" for one in random.permutation(count)],
        "applied_on": [f"2024-0{1 + i % 9}-0{1 + i % 7}" for i in range(count)],
        "income": income,
        "children": children,
        "branch_code": random.integers(100, 130, count),
        "rating": random.integers(1, 8, count),
        "arrears": np.where(random.random(count) < 0.8, 0, random.integers(50, 9_000, count)),
        "zip": random.choice([10_115, 10_117, 20_095], count),
        "age": random.integers(18, 80, count),
        "sex": random.choice(["f", "m"], count),
        "currency": ["EUR"] * count,
        "p1": p1,
        "p0": 1 - p1,
        "internal_points": np.round(300 + 600 * p1 + approved),
        "declined": (~approved).astype(int),
        "reason": [None if one else random.choice(["debt", "history"]) for one in approved],
        "offered_rate": [round(3 + random.random(), 2) if one else None for one in approved],
        "y_true": random.integers(0, 2, count),
        "approved": np.where(approved, "yes", "no"),
    }


def test_a_bank_export_becomes_a_rule(init):
    found, rule = init(bank())
    assert (found["output_column"], rule.favourable) == ("approved", "yes")
    assert found["kinds"] == {
        "counter": "ignore",
        "Vorgang": "ignore",
        "customer": "ignore",
        "iban_hash": "key",
        "applied_on": "ignore",
        "income": "number",
        "children": "number",
        "branch_code": "category",
        "rating": "category",
        "arrears": "number",
        "zip": "category",
        "age": "number",
        "sex": "protected",
        "currency": "ignore",
        "p1": "ignore",
        "p0": "ignore",
        "internal_points": "ignore",
        "declined": "ignore",
        "reason": "ignore",
        "offered_rate": "ignore",
        "y_true": "ignore",
    } | {name: found["kinds"][name] for name in loosened(found)}
    told = notes(found)
    about = {
        "counter": "index", "Vorgang": "identifier", "customer": "text",
        "iban_hash": "identifier", "applied_on": "time", "children": "count", "branch_code": "code",
        "rating": "code", "zip": "proxy", "age": "age", "sex": "protected",
        "currency": "constant", "p1": "score",
        "p0": "score", "internal_points": "leak", "declined": "decision", "reason": "leak",
        "offered_rate": "leak", "y_true": "truth", "approved": "output",
    }  # fmt: skip
    assert {name: one for name, one in about.items() if one not in told[name]} == {}
    text = (found["rule"]).splitlines()
    for name in about:
        if name not in ("approved", "sex"):
            section = text.index(f"[features.{name}]")
            assert text[section + 1].startswith("# "), name  # said beside it, too


def loosened(found):
    return [
        name for note in found["notes"] if note["about"] == "loosened" for name in note["columns"]
    ]


def test_counts_get_whole_tolerances_and_numbers_plain_ones(init):
    random = np.random.default_rng(2)
    count = 3_000
    found, rule = init(
        {
            "children": random.choice(6, count, p=[0.4, 0.25, 0.2, 0.1, 0.03, 0.02]),
            "months": random.integers(0, 400, count),
            "ratio": random.random(count).round(3),
            "approved": random.choice(["yes", "no"], count),
        }
    )
    tolerances = {name: one.tolerance for name, one in rule.features.items()}
    assert tolerances == {"children": 1.0, "months": 20.0, "ratio": 0.05}
    assert "tolerance = 1  # whole numbers: one more or less is near" in found["rule"]
    assert found["trial"]["comparable"] > 0.9 * count and not loosened(found)


def mortgages(count=1_989, seed=3):
    """Forty columns under which no two applicants are alike, as in the Boston data."""
    random = np.random.default_rng(seed)
    amounts = {
        name: random.lognormal(4, 0.5, count).round(1)
        for name in (
            "appinc", "loanamt", "price", "obrat", "hrat", "netw", "cototinc", "vr", "unem",
            "term_m", "rep", "chist_m", "lines", "othexp", "liq", "emp_m", "cosign_amt", "dprop",
            "rate", "sch",
        )
    }  # fmt: skip
    flags = {f"flag{i}": random.integers(0, 2, count) for i in range(15)}
    score = amounts["obrat"] - 0.3 * amounts["netw"] + 20 * random.normal(size=count)
    return {
        **amounts,
        **flags,
        "race": random.choice(["white", "black", "hispan"], count, p=[0.85, 0.1, 0.05]),
        "married": random.integers(0, 2, count),
        "approved": (score < np.quantile(score, 0.88)).astype(int),
    }


@pytest.mark.long
def test_where_nothing_is_alike_the_rule_is_loosened_and_says_so(init):
    found, rule = init(mortgages())
    trial = found["trial"]
    counts = {"decisions": 1_989, "comparable": 0, "violations": 0}
    assert trial["first_proposed"] == {**counts, "rate_among_comparable": None}
    assert trial["decisions"] == 1_989 and trial["comparable"] >= 0.05 * 1_989
    wider, left_out = [note for note in found["notes"] if note["about"] == "loosened"]
    assert {rule.features[name].kind for name in left_out["columns"]} == {"ignore"}
    assert {rule.features[name].kind for name in wider["columns"]} == {"number"}
    assert [rule.features[one].kind for one in ("race", "married")] == ["protected", "protected"]
    assert "The rule as first proposed compared 0 decisions, so it was loosened." in found["rule"]
    for name in left_out["columns"]:
        section = found["rule"].split(f"[features.{name}]\n")[1].split("[features")[0]
        assert section.startswith("# Left out")
    # What the decision rests on stays.
    assert not {"obrat", "netw"} & set(left_out["columns"])


def credits(seed=5):
    """4,454 decisions of which 32 repeat an earlier case, 14 of them with another answer."""
    random = np.random.default_rng(seed)
    table = {f"amount{i}": random.random(4_454).round(4) for i in range(14)}
    table["Status"] = random.choice(["good", "bad"], 4_454)
    late = random.choice(np.arange(2_500, 4_454), 32, replace=False)
    for k, row in enumerate(late):
        for values in table.values():
            values[row] = values[k]
        if k < 14:
            table["Status"][row] = "bad" if table["Status"][k] == "good" else "good"
    return table


@pytest.mark.long
def test_32_of_4454_comparable_is_not_enough(init):
    found, _ = init(credits(), "--output-column", "Status")
    trial = found["trial"]
    counts = {"decisions": 4_454, "comparable": 32, "violations": 14}
    assert trial["first_proposed"] == {**counts, "rate_among_comparable": 14 / 32}
    assert trial["comparable"] >= 0.05 * 4_454
    assert trial["rate_among_comparable"] == trial["violations"] / trial["comparable"]


def test_nothing_to_compare_is_said_loudly(tmp_path, monkeypatch, capsys):
    """Two columns of words that all but never come twice: nothing can be left out."""
    monkeypatch.chdir(tmp_path)
    words = [f"w{i // 2}" for i in range(60)]
    other = [f"v{i % 30}" for i in range(60)]
    pl.DataFrame({"a": words, "b": other, "approved": ["yes", "no"] * 30}).write_csv("d.csv")
    assert main(["init", "d.csv"]) == 0
    told = capsys.readouterr().out
    assert "NOTHING COULD BE COMPARED, so nothing follows." in told
    assert "Widen tolerances, or leave columns out." in told
    assert "The column that prevents most comparisons: 'a'" in told
    text = (tmp_path / "likewise.toml").read_text()
    assert "NOTHING COULD BE COMPARED" in text and lw.Rule.from_toml(text)


def test_german_names_are_understood(init):
    random = np.random.default_rng(7)
    count = 800
    found, rule = init(
        {
            "Antragsnummer": random.permutation(count) + 10**6,
            "Geschlecht": random.choice(["w", "m"], count),
            "Staatsangehörigkeit": random.choice(["DE", "TR", "PL"], count),
            "Familienstand": random.choice(["ledig", "verheiratet"], count),
            "Alter": random.integers(18, 80, count),
            "PLZ": random.choice([10_115, 20_095, 80_331, 50_667], count),
            "Anzahl Kinder": random.integers(0, 5, count),
            "Nettoeinkommen": random.normal(3_000, 600, count).round(2),
            "Antragsdatum": [f"{1 + i % 28:02}.03.2024" for i in range(count)],
            "Wahrscheinlichkeit": random.random(count),
            "Entscheidung": random.choice(["genehmigt", "abgelehnt"], count),
        }
    )
    kinds = found["kinds"]
    assert (found["output_column"], rule.favourable) == ("Entscheidung", "genehmigt")
    protected = ["Geschlecht", "Staatsangehörigkeit", "Familienstand"]
    assert [name for name, kind in kinds.items() if kind == "protected"] == protected
    assert kinds["Antragsnummer"] == "key"
    ignored = {"Antragsdatum", "Wahrscheinlichkeit"}
    assert {name for name, kind in kinds.items() if kind == "ignore"} == ignored
    told = notes(found)
    assert "age" in told["Alter"] and "proxy" in told["PLZ"] and kinds["PLZ"] == "category"
    assert rule.features["Anzahl Kinder"].tolerance == 1.0


def test_one_hot_columns_are_protected_together_or_compared_together(init):
    random = np.random.default_rng(9)
    count = 1_500
    race = random.choice(["White", "Black", "Asian"], count, p=[0.8, 0.1, 0.1])
    purpose = random.choice(["car", "tv", "foreign_trip"], count)
    found, rule = init(
        {
            "hours": random.integers(10, 60, count),
            **{f"race_{one}": (race == one).astype(int) for one in ("White", "Black", "Asian")},
            **{f"purpose_{one}": (purpose == one) * 1.0 for one in ("car", "tv", "foreign_trip")},
            "sex=1": random.integers(0, 2, count),
            "pred": random.integers(0, 2, count),
        }
    )
    kinds = {name: one.kind for name, one in rule.features.items()}
    assert {kinds[f"race_{one}"] for one in ("White", "Black", "Asian")} == {"protected"}
    assert kinds["sex=1"] == "protected"
    assert {kinds[f"purpose_{one}"] for one in ("car", "tv", "foreign_trip")} == {"category"}
    families = [note for note in found["notes"] if note["about"] == "family"]
    assert [note["columns"] for note in families] == [
        ["purpose_car", "purpose_tv", "purpose_foreign_trip"]
    ]
    assert found["rule"].count("together say one thing, 'purpose'") == 1
    assert [one["column"] for one in found["trial"]["blocking"]].count("purpose") == 1


def test_a_number_as_output_gets_a_delta_from_its_spread(init):
    random = np.random.default_rng(10)
    x = random.random(1_000).round(2)
    limit = (1_000 * x + 200 * random.random(1_000)).round()
    found, rule = init({"x": x, "limit": limit}, "--output-column", "limit")
    low, high = np.quantile(limit, [0.1, 0.9])
    assert (rule.output, rule.delta) == ("number", 50.0)
    assert 0.4 <= rule.delta / (0.1 * (high - low)) <= 1
    assert "a tenth of the usual spread of outputs" in found["rule"]
    assert 0 < found["trial"]["violations"] < found["trial"]["comparable"]
    _, rule = init({"x": x, "score": (x + random.random(1_000)).round(3)})
    assert (rule.output_column, rule.output, rule.delta) == ("score", "number", 0.1)
    _, rule = init({"x": x, "points": random.integers(0, 11, 1_000)}, "--output-column", "points")
    assert (rule.output, rule.delta) == ("number", 1.0)  # whole numbers: at least 1
    _, rule = init({"x": x, "class": random.integers(0, 40, 1_000)})
    assert (rule.output, rule.delta) == ("label", 0.0)  # its numbers are codes


def test_rows_without_an_output_are_left_out_of_the_trial(init, tmp_path, capsys):
    x = np.random.default_rng(3).random(200).round(1)
    pl.DataFrame(
        {"x": x, "approved": [None if i < 50 else ["yes", "no"][i % 2] for i in range(200)]}
    ).write_csv("holes.csv")
    assert main(["init", "holes.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trial"]["decisions"] == 150


@pytest.mark.parametrize(("typed", "output"), [(b"1\n", "grade"), (b"status\n", "status")])
def test_somebody_at_a_terminal_is_asked_for_the_output(typed, output, tmp_path):
    random = np.random.default_rng(3)
    pl.DataFrame(
        {
            "x": random.random(100),
            "status": random.choice(["a", "b"], 100),
            "grade": random.choice(["c", "d"], 100),
        }
    ).write_csv(tmp_path / "d.csv")
    sent, code = at_a_terminal("init", "d.csv", typed=typed, cwd=tmp_path)
    assert code == 0, sent
    assert "The names do not tell which column of d.csv is the output" in sent
    rule = lw.Rule.from_toml((tmp_path / "likewise.toml").read_text())
    assert rule.output_column == output


def test_an_answer_that_is_no_column_ends_the_command(tmp_path):
    pl.DataFrame({"x": [1, 2, 3], "grade": ["c", "d", "c"]}).write_csv(tmp_path / "d.csv")
    sent, code = at_a_terminal("init", "d.csv", typed=b"7\n", cwd=tmp_path)
    assert code == 2 and "has no column '7'" in sent and not (tmp_path / "likewise.toml").exists()
