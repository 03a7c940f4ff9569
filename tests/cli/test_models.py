"""`audit` and `watch` with a column that says which model decided; by model in the report."""

import json

import numpy as np
import pytest

import likewise as lw
from likewise.cli import main
from likewise.reports.findings import Tally
from likewise.reports.report_page import render_page
from tests.support.commands import likewise
from tests.support.lazily import polars as pl
from tests.support.oracle import same_or_not
from tests.support.report_streams import found
from tests.support.rule_texts import rule_text
from tests.support.strict_html import read_strictly

RULE = rule_text(
    {"amount": 10, "sex": "protected"}, output={"column": "answer", "favourable": "yes"}
)
COUNT = 600


def rows():
    rng = np.random.default_rng(11)
    return [
        {
            "amount": int(rng.integers(0, 4_000)),
            "sex": str(rng.choice(["f", "m"])),
            "answer": str(rng.choice(["yes", "no"], p=[0.7, 0.3])),
            "model": [None, "credit-6", "credit-7"][int(rng.integers(0, 20) > 1) * (1 + i % 2)],
        }
        for i in range(COUNT)
    ]


def expected(compare):
    """All pairs: similar cases and contradictions that count, and which are of one model."""
    table = rows()
    amount = np.array([row["amount"] for row in table])
    models = [row["model"] for row in table]
    answers = np.array([row["answer"] for row in table])
    same = np.array([same_or_not("within", models, one) for one in models])
    counts = np.array([same_or_not(compare, models, one) for one in models])
    likes = np.tril((np.abs(amount[:, None] - amount) <= 10) & counts, -1)
    return models, likes, likes & (answers[:, None] != answers), same


def by_model(compare):
    models, likes, contradict, same = expected(compare)
    found = {}
    for name in dict.fromkeys(models):
        mine = np.array([one == name for one in models])
        sides = {}
        for side, kind in (("within", same), ("across", ~same)):
            pairs = (contradict & kind)[mine]
            compared = compare in ("all", side)
            like = int((likes & kind)[mine].any(axis=1).sum())
            sides[side] = {
                "compared": compared,
                "comparable": like if compared else None,
                "violations": int(pairs.any(axis=1).sum()),
                "pairs": int(pairs.sum()),
            }
        found[name] = {
            "model": name,
            "decisions": int(mine.sum()),
            "comparable": int(likes[mine].any(axis=1).sum()),
            "violations": int(contradict[mine].any(axis=1).sum()),
            "pairs": int(contradict[mine].sum()),
            **sides,
        }
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for compare in ("all", "within", "across"):
        said = "" if compare == "all" else f'compare = "{compare}"\n'
        (tmp_path / f"{compare}.toml").write_text(said + RULE)
    frame = pl.DataFrame(rows())
    frame.write_csv(tmp_path / "decisions.csv")
    frame.write_parquet(tmp_path / "decisions.parquet")
    return tmp_path


def run(capsys, *arguments, code=0):
    assert main([*map(str, arguments)]) == code
    return capsys.readouterr()


@pytest.mark.parametrize("compare", ["all", "within", "across"])
@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_audit_counts_by_model(folder, capsys, compare, end):
    asked = ["--rule", f"{compare}.toml", "--model-column", "model", "--report", "page.html"]
    found = json.loads(run(capsys, "audit", f"decisions.{end}", *asked, "--json").out)
    models, likes, contradict, _ = expected(compare)
    assert found["pairs"] == contradict.sum() > 50
    assert found["with_earlier"] == likes.any(axis=1).sum()
    told = found["by_model"]
    assert {one["model"]: one for one in told} == by_model(compare)
    assert [one["decisions"] for one in told] == sorted(
        (one["decisions"] for one in told), reverse=True
    )
    assert found["computed"]["model_column"] == "model"
    assert found["varied"]["comparable"] == found["with_earlier"]
    assert found["varied"]["violations"] == found["violations"]
    assert (found["curve"] is None) == (compare != "all")
    text = (folder / "page.html").read_text()
    for words in ("By model", "credit-7", "no model given", "--model-column model"):
        assert words in text
    assert ("contradict another model’s" in text) == (compare != "within")
    assert ("contradict its own" in text) == (compare != "across")
    worst = found["worst"][0]
    assert worst["model"] == models[worst["row"]]
    assert worst["witness_model"] == models[worst["witness"]]


def test_audit_says_how_many_pairs_are_within_and_across(folder, capsys):
    said = run(capsys, "audit", "decisions.csv", "--rule", "all.toml", "--model-column", "model")
    _, _, contradict, same = expected("all")
    within = (contradict & same).sum()
    pairs = contradict.sum()
    assert f"Of {pairs:,} contradicting pairs, {within:,} are within one model" in said.out
    said = run(capsys, "audit", "decisions.csv", "--rule", "within.toml", "--model-column", "model")
    assert "Only decisions of the same model are compared." in said.out
    assert "within one model" not in said.out


def test_audit_without_a_rule_leaves_the_model_out_of_the_distance(folder, capsys):
    options = ["--epsilon", "10", "--output-column", "answer", "--ignore", "sex"]
    found = json.loads(
        run(capsys, "audit", "decisions.csv", *options, "--model-column", "model", "--json").out
    )
    assert found["pairs"] == expected("all")[2].sum() and len(found["by_model"]) == 3


def test_audit_without_models_says_nothing_of_them(folder, capsys):
    frame = pl.DataFrame(rows()).drop("model")
    frame.write_csv("plain.csv")
    asked = ["--rule", "all.toml", "--report", "page.html", "--json"]
    found = json.loads(run(capsys, "audit", "plain.csv", *asked).out)
    assert found["by_model"] == [] and "By model" not in (folder / "page.html").read_text()


def test_pairs_written_have_the_model_of_both(folder, capsys):
    asked = ["--rule", "across.toml", "--model-column", "model", "--out", "pairs.csv"]
    run(capsys, "audit", "decisions.csv", *asked)
    pairs = pl.read_csv("pairs.csv")
    assert len(pairs) == expected("across")[2].sum()
    columns = pairs["earlier: model"].to_list(), pairs["later: model"].to_list()
    assert all(one != other for one, other in zip(*columns, strict=True))


@pytest.mark.parametrize("compare", ["within", "across"])
def test_a_rule_about_models_asks_for_the_column(folder, capsys, compare):
    frame = pl.DataFrame(rows()).drop("model")
    frame.write_csv("plain.csv")
    said = run(capsys, "audit", "plain.csv", "--rule", f"{compare}.toml", code=2).err
    assert f'compare = "{compare}"' in said and "--model-column" in said
    said = likewise("watch", "--rule", f"{compare}.toml", given="", code=2).stderr
    assert "--model-column" in said


def test_a_column_that_is_not_there_is_named(folder, capsys):
    asked = ["--rule", "all.toml", "--model-column", "version"]
    assert "'version'" in run(capsys, "audit", "decisions.csv", *asked, code=3).err


def test_models_are_taken_into_a_ledger(folder, capsys):
    asked = ["decisions.csv", "--model-column", "model", "--on-bad-row", "skip", "--json"]
    for compare in ("all", "within"):
        alone = json.loads(run(capsys, "audit", *asked, "--rule", f"{compare}.toml").out)
        given = ["--rule", f"{compare}.toml", "--ledger", compare]
        kept = json.loads(run(capsys, "audit", *asked, *given).out)
        assert kept["violations"] == alone["violations"] > 0
        with lw.Ledger(folder / compare) as ledger:
            models = {entry.model for entry in ledger.entries()}
            assert len(models - {None}) > 1 and ledger.verify().ok
        assert json.loads(run(capsys, "replay", compare, "--json").out)["ok"]


def test_compare_refuses_a_rule_across_models(folder, capsys):
    asked = ["decisions.csv", "--model-column", "model", "--on-bad-row", "skip"]
    said = run(capsys, "compare", *asked, "--rule", "across.toml", code=2).err
    assert "each history is judged by itself" in said
    within, plain = (
        json.loads(run(capsys, "compare", *asked, "--rule", f"{compare}.toml", "--json").out)
        for compare in ("within", "all")
    )
    for side in ("a", "b"):
        assert within[side]["violations"] == plain[side]["violations"] > 0


# Watching


@pytest.mark.parametrize("compare", ["all", "within", "across"])
def test_watch_answers_with_models(folder, compare):
    table = rows()[:200]
    lines = "".join(
        json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in table
    )
    done = likewise("watch", "--rule", f"{compare}.toml", "--model-column", "model", given=lines)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    models, likes, contradict, _ = expected(compare)
    assert [one["count"] for one in answers] == contradict[:200].sum(axis=1).tolist()
    assert [one["comparable"] for one in answers] == likes[:200].any(axis=1).tolist()
    for i, one in enumerate(answers):
        assert one.get("model") == models[i] and ("model" in one) == (models[i] is not None)
        for witness in one["witnesses"]:
            assert witness.get("model") == models[witness["row"]]
    assert contradict[:200].sum() > 5


@pytest.mark.parametrize("compare", ["all", "within", "across"])
def test_watch_keeps_models_in_its_ledger(folder, compare):
    table = rows()[:120]
    lines = "".join(
        json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in table
    )
    options = ("--rule", f"{compare}.toml", "--model-column", "model", "--ledger", f"led-{compare}")
    done = likewise("watch", *options, given=lines)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    models, _, contradict, _ = expected(compare)
    assert [one["count"] for one in answers] == contradict[:120].sum(axis=1).tolist()
    with lw.Ledger(folder / f"led-{compare}") as ledger:
        assert [entry.model for entry in ledger.entries()] == list(models[:120])


def test_watch_without_a_rule_leaves_the_model_out_of_the_distance(folder):
    lines = "\n".join(
        json.dumps({"a": a, "z": z, **({} if model is None else {"by": model})})
        for a, z, model in ((0.5, "y", None), (0.5, "n", "m1"), (0.55, "n", 2))
    )
    options = ("--epsilon", "0.1", "--output-column", "z", "--model-column", "by")
    done = likewise("watch", *options, given=lines)
    answers = [json.loads(one) for one in done.stdout.splitlines()]
    assert [one["count"] for one in answers] == [0, 1, 1]
    assert [one.get("model") for one in answers] == [None, "m1", "2"]


# The page


def test_page_makes_names_of_models_safe_and_folds_many():
    rng = np.random.default_rng(12)
    X, Z = rng.random((300, 1)), rng.integers(0, 2, 300).tolist()
    names = [f"<script>alert({i})</script>" for i in range(30)]
    monitor = lw.Monitor(lw.Rule("linf", 0.01), comparable=True)
    tally = Tally(monitor)
    tally.add(monitor.observe_many(X, Z, models=[names[i % 30] for i in range(300)]))
    findings = tally.findings(source="a test")
    text = render_page(findings)
    read_strictly(text, more=("a", "script"))
    assert "<script>alert" not in text and "10 more models" in text
    assert sum(one.decisions for one in findings.by_model) == 300


def test_findings_of_batches_without_models_count_as_no_model():
    monitor = lw.Monitor(lw.Rule("linf", 0.1), comparable=True)
    tally = Tally(monitor)
    tally.add(monitor.observe_many([[0.0], [0.0]], ["yes", "no"]))
    tally.add(monitor.observe_many([[0.0]], ["no"], models="late"))
    told = {one.model: one for one in tally.findings(source="a test").by_model}
    assert (told[None].decisions, told[None].within.pairs, told[None].across.pairs) == (2, 1, 0)
    assert (told["late"].within.comparable, told["late"].across.comparable) == (0, 1)
    assert told["late"].across.pairs == 1


def test_found_streams_without_models_have_no_such_section():
    table = [{key: row[key] for key in ("amount", "sex", "answer")} for row in rows()]
    assert found(lw.Rule.from_toml(RULE), table).by_model == ()
