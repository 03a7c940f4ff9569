"""`likewise init`: a rule to edit, which reads back, and never over one that is there."""

import datetime
import json

import numpy as np
import pytest

import likewise as lw
from likewise.cli import main
from tests.support.commands import likewise
from tests.support.lazily import polars as pl


def applicants(count=400):
    random = np.random.default_rng(8)
    return pl.DataFrame(
        {
            "application_id": [f"A{i}" for i in range(count)],
            "age": random.integers(18, 80, count),
            "income": random.normal(3_000, 900, count).round(2),
            "hours": [None if i % 9 == 0 else i % 40 for i in range(count)],
            "job title": random.choice(["nurse", 'cook "chef"', "# clerk\nhead"], count),
            "gender": random.choice(["f", "m", "x"], count),
            "Race": random.choice(["a", "b"], count),
            "marital_status": random.choice(["single", "married"], count),
            "applied": [str(datetime.date(2024, 1, 1 + i % 28)) for i in range(count)],
            "label": random.integers(0, 2, count),
            "approved": random.choice(["yes", "no"], count),
        }
    )


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    applicants().write_csv("a.csv")
    applicants().write_parquet("a.parquet")
    applicants().write_ndjson("a.jsonl")
    return tmp_path


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl"])
def test_rule_is_proposed_and_read_back(name, data, capsys):
    assert main(["init", name]) == 0
    told = capsys.readouterr().out
    assert "gender, Race, marital_status" in told
    assert "NOTHING COULD BE COMPARED" not in told and "had an earlier similar case" in told
    text = (data / "likewise.toml").read_text()
    rule = lw.Rule.from_toml(text)
    kinds = {column: one.kind for column, one in rule.features.items()}
    assert kinds == {
        "application_id": "key",
        "age": "number",
        "income": "number",
        "hours": "number",
        "job title": "category",
        "gender": "protected",
        "Race": "protected",
        "marital_status": "protected",
        "applied": "ignore",
        "label": "ignore",
    }
    assert (rule.output_column, rule.favourable, rule.output) == ("approved", "yes", "label")
    assert rule.features["hours"].missing == "mismatch"
    assert rule.features["income"].tolerance in (200.0, 500.0)  # as proposed, or a step wider
    assert all(len(line) <= 160 for line in text.splitlines())


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl"])
def test_proposed_rule_audits_its_own_file(name, data, capsys):
    assert main(["init", name]) == 0
    capsys.readouterr()
    assert main(["audit", name, "--rule", "likewise.toml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["bad_rows"]) == (400, 0)


def test_what_is_there_is_not_replaced_unless_told(data, capsys):
    (data / "likewise.toml").write_text("mine")
    assert main(["init", "a.csv"]) == 2
    assert (data / "likewise.toml").read_text() == "mine"
    assert main(["init", "a.csv", "--force"]) == 0
    assert lw.Rule.from_toml((data / "likewise.toml").read_text()).output_column == "approved"


def test_rule_can_be_printed(data):
    shown = likewise("init", "a.csv", "--out", "-", "--output-column", "label").stdout
    rule = lw.Rule.from_toml(shown)
    assert (rule.output_column, rule.favourable) == ("label", 1)
    assert not (data / "likewise.toml").exists()


def test_output_that_no_name_gives_away_is_asked_for(data, capsys):
    pl.DataFrame({"a": [1, 2], "b": [3, 4]}).write_csv("plain.csv")
    assert main(["init", "plain.csv"]) == 2
    told = capsys.readouterr().err
    assert "what was decided? The names do not tell" in told
    assert "Say it: likewise init plain.csv --output-column b." in told
    assert "By their values it may be 'b', 'a'; the columns are 'a', 'b'." in told
    assert main(["init", "plain.csv", "--output-column", "c"]) == 3
    assert "has no column 'c'" in capsys.readouterr().err


def test_probabilities_are_several_columns(data, capsys):
    p1 = np.random.default_rng(3).random(200)
    x = np.random.default_rng(4).random(200)
    pl.DataFrame({"x": x, "p0": 1 - p1, "p1": p1, "pred": p1 > 0.5}).write_csv("p.csv")
    assert main(["init", "p.csv", "--output-column", "p0", "--output-column", "p1"]) == 0
    rule = lw.Rule.from_toml((data / "likewise.toml").read_text())
    assert (rule.output, rule.output_column) == ("probabilities", ("p0", "p1"))
    assert rule.delta == 0.05 and rule.features["pred"].kind == "ignore"
    capsys.readouterr()
    assert main(["audit", "p.csv", "--rule", "likewise.toml"]) == 0


def test_lines_that_differ_are_one_table(data, capsys):
    """What a line leaves out is missing, and what cannot be read is told."""
    rows = ['{"a": 1, "pred": "x"}', '{"a": 2, "b": 7, "pred": "y"}', "nonsense", '{"pred": "x"}']
    (data / "odd.jsonl").write_text("\n".join(rows))
    assert main(["init", "odd.jsonl"]) == 0
    assert "1 rows could not be read. The first: odd.jsonl, line 3" in capsys.readouterr().err
    rule = lw.Rule.from_toml((data / "likewise.toml").read_text())
    assert list(rule.features) == ["a", "b"]
    assert rule.features["b"].missing == "mismatch"


def test_json_tells_the_rule(data, capsys):
    assert main(["init", "a.csv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["out"] == "likewise.toml" and told["kinds"]["gender"] == "protected"
    assert lw.Rule.from_toml(told["rule"]).output_column == "approved"


def test_columns_that_cannot_be_compared_are_proposed_to_be_ignored(data, capsys):
    """Lists, structures and whole numbers beyond float64, each with a word why."""
    frame = applicants().with_columns(
        scores=pl.concat_list("age", "income"),
        races=pl.concat_list("Race"),
        person=pl.struct("age", "gender"),
        nanoseconds=1_577_836_800_000_000_000 + 10**9 * pl.int_range(400),
        pair=pl.concat_list("age", "age").list.to_array(2),
    )
    frame.write_parquet("nested.parquet")
    assert main(["init", "nested.parquet"]) == 0
    text = (data / "likewise.toml").read_text()
    rule = lw.Rule.from_toml(text)
    for name in ("scores", "races", "person", "nanoseconds", "pair"):
        assert rule.features[name].kind == "ignore"
        section = text.split(f"[features.{name}]")[1].split("[features")[0]
        assert ("2**53" if name == "nanoseconds" else "cannot be compared") in section
    assert rule.features["age"].kind == "number"
    capsys.readouterr()
    assert main(["audit", "nested.parquet", "--rule", "likewise.toml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["bad_rows"]) == (400, 0)
    assert main(["init", "nested.parquet", "--output-column", "scores", "--force"]) == 2
    message = capsys.readouterr().err
    assert "'scores'" in message and "list" in message and "fault" not in message


def test_identifiers_of_many_digits_are_no_numbers(data, capsys):
    frame = applicants().with_columns(
        case_id=pl.Series([f"{2**70 + i}" for i in range(400)]),
        batch=pl.Series([f"{2**70 + i % 40}" for i in range(400)]),
    )
    frame.drop("application_id").write_csv("long.csv")
    assert main(["init", "long.csv"]) == 0
    rule = lw.Rule.from_toml((data / "likewise.toml").read_text())
    assert (rule.features["case_id"].kind, rule.features["batch"].kind) == ("key", "category")
    capsys.readouterr()
    assert main(["audit", "long.csv", "--rule", "likewise.toml", "--json"]) == 0
