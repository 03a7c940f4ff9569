"""`lw.audit` finds what `likewise audit` finds, in frames, rows, files and ledgers."""

import contextlib
import io
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import likewise as lw
from likewise import Feature
from likewise.cli import main
from tests.support.looping import each

RULE = lw.Rule(
    features={
        "income": Feature("number", tolerance=50),
        "purpose": Feature("category"),
        "sex": Feature("protected"),
    },
    output_column="decision",
    favourable="yes",
    extra="ignore",
)
VECTORS = lw.Rule("linf", 0.2)
TIMES = {"time_column": "day"}
UNSTABLE = ("command", "seconds", "machine_load", "made_at")


def decisions(count=400):
    draw = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "income": draw.integers(1_000, 3_000, count),
            "purpose": draw.choice(["car", "house"], count),
            "sex": draw.choice(["f", "m"], count),
            "note": [f"n {i}" for i in range(count)],
            "day": draw.permutation(pd.date_range("2024-01-01", periods=count)).astype(str),
            "decision": draw.choice(["yes", "no"], count),
        }
    )


def without_circumstances(numbers):
    plain = json.loads(json.dumps(numbers))
    for name in UNSTABLE:
        plain["computed"].pop(name, None)
    return plain


def command_says(*arguments):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main(list(map(str, arguments)))
    return json.loads(printed.getvalue())


@pytest.fixture
def folder(tmp_path):
    frame = decisions()
    frame.to_csv(tmp_path / "d.csv", index=False)
    pl.from_pandas(frame).write_parquet(tmp_path / "d.parquet")
    frame.to_json(tmp_path / "d.jsonl", orient="records", lines=True)
    bad = frame.astype({"income": object})
    bad.loc[[3, 50], "income"] = "much"
    bad.to_csv(tmp_path / "bad.csv", index=False)
    (tmp_path / "rule.toml").write_text(RULE.to_toml())
    frame[["income", "decision"]].to_csv(tmp_path / "v.csv", index=False)
    return tmp_path


CASES = [
    ("d.csv", {}, ()),
    ("d.parquet", {}, ()),
    ("d.jsonl", {}, ()),
    ("d.csv", TIMES, ("--time-column", "day")),
    ("d.csv", {**TIMES, "within": "90 days"}, ("--time-column", "day", "--within", "90 days")),
    ("bad.csv", {"skip_bad_rows": True}, ("--on-bad-row", "skip")),
    ("d.csv", {"burst": lw.Burst(50, 3)}, ("--burst", "50", "--alarm", "3")),
    ("d.csv", {"max_rate": 0.01}, ("--max-rate", "0.01")),
    ("d.csv", {"min_index": 0.1}, ("--min-index", "0.1")),
]


@pytest.mark.parametrize(("name", "settings", "options"), CASES)
def test_audit_equals_the_command(folder, name, settings, options):
    rule = folder / "rule.toml"
    said = command_says("audit", folder / name, "--rule", rule, "--json", *options)
    audited = lw.audit(folder / name, rule, **settings)
    assert audited.findings.pairs > 10
    assert without_circumstances(audited.to_dict()) == without_circumstances(said)


def test_audit_of_cells_and_files_of_pairs_equals_the_command(folder):
    data, rule = folder / "d.csv", folder / "rule.toml"
    said = command_says("audit", data, "--rule", rule, "--json", "--partition", folder / "cells")
    audited = lw.audit(data, rule, partition=folder / "cells")
    assert without_circumstances(audited.to_dict()) == without_circumstances(said)
    with pytest.raises(lw.errors.BadRule, match="cell by cell"):
        audited.pairs  # noqa: B018
    said = command_says("audit", data, "--rule", rule, "--json", "--out", folder / "a.csv")
    audited = lw.audit(data, rule, out=folder / "b.csv")
    assert without_circumstances(audited.to_dict()) == without_circumstances(said)
    assert (folder / "a.csv").read_text() == (folder / "b.csv").read_text()
    assert (
        audited.pairs["later: note"].to_list()
        == pd.read_csv(folder / "a.csv")["later: note"].to_list()
    )


def test_page_and_curve_are_those_of_the_command(folder):
    data, rule, page = folder / "d.csv", folder / "rule.toml", folder / "page.html"
    said = command_says("audit", data, "--rule", rule, "--json", "--report", page)
    audited = lw.audit(data, rule)
    audited.save(folder / "again.html")
    assert list(audited.curve.rates) == said["curve"]["rates"]

    def lines(name):
        text = (folder / name).read_text()
        return [line for line in text.splitlines() if not ("UTC" in line or "seconds" in line)]

    assert abs(len(lines("page.html")) - len(lines("again.html"))) <= 4  # the command is in one
    audited.save(folder / "numbers.json")
    assert json.loads((folder / "numbers.json").read_text())["pairs"] == audited.findings.pairs
    with pytest.raises(lw.errors.BadRule, match=r"\.html or \.json"):
        audited.save(folder / "numbers.txt")


def tables():
    frame = decisions()
    return {
        "pandas": frame,
        "pandas with gaps": frame.assign(note=[None, *frame["note"][1:]]),
        "polars": pl.from_pandas(frame),
        "arrow": pl.from_pandas(frame).to_arrow(),
        "rows": frame.to_dict("records"),
        "array": frame[["income", "purpose", "sex", "day", "decision"]].to_records(index=False),
        "several types in a column": [
            {**row, "note": [i, "x", 0.5][i % 3]} for i, row in enumerate(frame.to_dict("records"))
        ],
    }


@each("kind", list(tables()))
def test_tables_in_memory_are_audited_like_files(kind):
    table = tables()[kind]
    audited = lw.audit(table, RULE, time_column="day")
    other = lw.audit(tables()["polars"], RULE, time_column="day")
    assert audited.findings.violations == other.findings.violations > 50
    library = {"polars": pl.DataFrame, "arrow": tables()["arrow"].__class__}
    assert isinstance(audited.pairs, library.get(kind, pd.DataFrame))


def test_pairs_have_both_sides_where_they_stand_in_the_frame():
    frame = decisions()
    audited = lw.audit(frame, RULE, time_column="day")
    pairs = audited.pairs
    assert len(pairs) == audited.findings.pairs
    for side in ("later", "earlier"):
        chosen = frame.iloc[pairs[f"{side}_line"]]
        for name in frame.columns:
            if name != "day":
                assert chosen[name].to_list() == pairs[f"{side}: {name}"].to_list()
    assert (pairs["later: day"] > pairs["earlier: day"]).all()
    gap = (pairs["later: income"] - pairs["earlier: income"]).abs() / 50
    assert np.allclose(gap, pairs["input_distance"])
    assert gap.max() <= 1
    assert (pairs["later: decision"] != pairs["earlier: decision"]).all()
    income, kind = frame["income"].to_numpy(), frame["purpose"].to_numpy()
    near = (np.abs(income[:, None] - income) <= 50) & (kind[:, None] == kind)
    apart = frame["decision"].to_numpy()[:, None] != frame["decision"].to_numpy()
    assert len(pairs) == (near & apart).sum() // 2


def test_vectors_need_the_name_of_the_output(folder):
    audited = lw.audit(folder / "v.csv", VECTORS, output_column="decision")
    command = ("audit", folder / "v.csv", "--epsilon", "0.2", "--output-column", "decision")
    assert audited.findings.pairs == command_says(*command, "--json")["pairs"]
    with pytest.raises(lw.errors.BadRule, match="output_column"):
        lw.audit(folder / "v.csv", VECTORS)


def test_ledgers_are_audited_by_their_folder_or_open(folder):
    made = lw.audit(folder / "d.csv", RULE, ledger=folder / "l")
    assert len(made.pairs) == made.findings.pairs
    with lw.Ledger(folder / "l") as ledger:
        for stored in (lw.audit(ledger), lw.audit(folder / "l")):
            assert stored.findings.violations == made.findings.violations
            assert "<html" in stored.to_html()
            assert stored.to_dict()["pairs"] == made.findings.pairs
    with pytest.raises(lw.errors.BadRule, match="already"):
        lw.audit(folder / "d.csv", RULE, ledger=folder / "l")


def test_an_audit_shows_itself_within_bounds():
    audited = lw.audit(decisions(), RULE, max_rate=0.01)
    assert len(repr(audited)) < 200
    assert str(audited).splitlines()[0] == audited.headline[0] in audited._repr_html_()
    assert audited.within_limit is False
    assert [one.column for one in audited.groups] == ["sex"]
    assert audited.agreement.like_pairs > audited.agreement.disagreeing_pairs > 100


def test_what_is_no_table_is_refused():
    unnamed = pd.DataFrame(np.zeros((3, 2)))
    for given, message in ((unnamed, "text"), ([], "no rows"), (np.zeros((3, 2)), "names")):
        with pytest.raises(lw.LikewiseError, match=message):
            lw.audit(given, RULE)
    with pytest.raises(lw.errors.BadFile, match=r"row 7: .* skip_bad_rows=True"):
        lw.audit(decisions().assign(income=[*range(7), None, *range(8, 400)]), RULE)
    with pytest.raises(lw.errors.BadRule, match="delimiter"):
        lw.audit(decisions(), RULE, delimiter=";")
    with pytest.raises(lw.errors.BadRule, match="model_column"):
        lw.audit(decisions(), lw.Rule("linf", 1, compare="within"), output_column="decision")
