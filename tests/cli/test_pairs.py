"""`audit --out`: pairs to work on, with what the file says of both sides, in every format."""

import csv
import datetime
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from likewise.auditing import pair_files
from likewise.auditing.kept_rows import KeptRows
from likewise.cli import input_files, main
from likewise.reports import workbook
from likewise.sources.protocol import Chunk
from tests.support.lazily import pandas as pd
from tests.support.lazily import polars as pl
from tests.support.rule_texts import rule_text

RULE = rule_text(
    {
        "income": 60,
        "job": {"kind": "category", "missing": "mismatch"},
        "sex": {"kind": "protected", "missing": "mismatch", "labels": {"f": "women", "m": "men"}},
        "id": "key",
        "note": "ignore",
        "when": "ignore",
    },
    output={"column": "answer", "favourable": "yes"},
)
ENDS = ["csv", "jsonl", "parquet", "xlsx"]
READ = {
    "csv": lambda path: pl.read_csv(path, infer_schema_length=None),
    "jsonl": lambda path: pl.read_ndjson(path, infer_schema_length=None),
    "parquet": pl.read_parquet,
    "xlsx": lambda path: pl.read_excel(path, infer_schema_length=None),
}


def applicants(count=150, seed=1):
    rng = np.random.default_rng(seed)
    day = datetime.date(2026, 1, 1)
    return [
        {
            "id": f"a{i}",
            "when": (day + datetime.timedelta(days=(i * 37) % count)).isoformat(),
            "income": int(rng.integers(1_000, 2_000)),
            "job": ["baker", "smith", None][int(rng.integers(3))],
            "sex": ["f", "m", None][int(rng.integers(3))],
            "note": ["calls, often", 'says "no"', "plain", None][int(rng.integers(4))],
            "answer": ["yes", "no"][int(rng.integers(2))],
        }
        for i in range(count)
    ]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule.toml").write_text(RULE)
    pl.DataFrame(applicants(), infer_schema_length=None).write_csv("data.csv")
    return tmp_path


def audited(capsys, *arguments):
    assert main(["audit", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def pairs_by_hand():
    """Every contradicting pair by a plain look at all of them, in order of time."""
    table = pd.read_csv("data.csv", keep_default_na=False, na_values=[""])
    table["line"] = table.index + 2
    rows = table.sort_values("when", kind="stable").to_dict("records")
    return [
        (later, earlier)
        for i, later in enumerate(rows)
        for earlier in rows[:i]
        if abs(later["income"] - earlier["income"]) <= 60
        and (later["job"] == earlier["job"] or (pd.isna(later["job"]) and pd.isna(earlier["job"])))
        and later["answer"] != earlier["answer"]
    ]


@pytest.mark.parametrize("end", ENDS)
def test_pairs_have_what_the_file_says_of_both_sides(end, here, capsys):
    out = f"pairs.{end}"
    told = audited(capsys, "data.csv", "--rule", "rule.toml", "--time-column", "when", "--out", out)
    expected = pairs_by_hand()
    written = READ[end](out).to_dicts()
    assert len(written) == len(expected) == told["pairs"] == told["pairs_written"] > 100
    for number, (pair, sides) in enumerate(zip(written, expected, strict=True), 1):
        assert pair["pair"] == number
        for side, row in zip(("later", "earlier"), sides, strict=True):
            assert pair[f"{side}_line"] == row["line"]
            assert str(pair[f"{side}_time_utc"]).startswith(row["when"])
            for name in ("id", "when", "income", "job", "sex", "note", "answer"):
                given = None if pd.isna(row[name]) else row[name]
                assert pair[f"{side}: {name}"] == given, (number, side, name)
            called = {"f": "women", "m": "men"}.get(row["sex"])
            assert pair[f"{side}_group: sex"] == called
        later, earlier = sides
        assert pair["input_distance"] == pytest.approx(
            abs(later["income"] - earlier["income"]) / 60
        )
        assert pair["output_distance"] == 1
        assert pair["favoured"] == ("later" if later["answer"] == "yes" else "earlier")
        differ = {later["sex"], earlier["sex"]} == {"f", "m"}
        assert (pair["groups_differ_in"] or "") == ("sex" if differ else "")
        assert [pair[name] for name in ("reviewer", "disposition", "reason")] == [None] * 3
    assert sorted(one.name for one in here.iterdir()) == ["data.csv", out, "rule.toml"]


def test_order_of_columns_is_that_of_work(here, capsys):
    audited(capsys, "data.csv", "--rule", "rule.toml", "--out", "pairs.csv")
    with Path("pairs.csv").open(newline="") as file:
        names = next(csv.reader(file))
    values = [name[7:] for name in names if name.startswith("later: ")]
    assert values == ["id", "answer", "sex", "income", "job", "when", "note"]
    assert names[:3] == ["pair", "later_line", "earlier_line"]
    assert names[-3:] == ["reviewer", "disposition", "reason"]


@pytest.mark.parametrize("more", [(), ("--time-column", "when")], ids=["lines", "times"])
def test_out_and_report_change_no_finding_and_add_no_remark(more, here, capsys):
    plain = audited(capsys, "data.csv", "--rule", "rule.toml", *more)
    wide = audited(
        capsys, "data.csv", "--rule", "rule.toml", *more, "--out", "p.csv", "--report", "p.html"
    )
    for name in ("rows", "violations", "pairs", "with_earlier", "groups", "remarks", "bad_rows"):
        assert plain[name] == wide[name], name
    assert [one["row"] for one in plain["worst"]] == [one["row"] for one in wide["worst"]]


def test_report_shows_lines_times_and_what_is_ignored(here, capsys):
    told = audited(
        capsys, "data.csv", "--rule", "rule.toml", "--time-column", "when", "--report", "p.html"
    )
    rows = pd.read_csv("data.csv").to_dict("records")
    page = (here / "p.html").read_text()
    for one in told["worst"]:
        later, earlier = rows[one["row_line"] - 2], rows[one["witness_line"] - 2]
        assert (one["time"], one["witness_time"]) == (later["when"], earlier["when"])
        (note,) = one["ignored"]
        assert note["column"] == "note"
        for side, row in (("decision", later), ("witness", earlier)):
            assert note[side] == (None if pd.isna(row["note"]) else row["note"])
        assert f"Line {one['row_line']:,} contradicts line {one['witness_line']:,}" in page


def test_pairs_of_vectors_have_ignored_columns_too(here, capsys):
    rng = np.random.default_rng(2)
    frame = pl.DataFrame(
        {"a": rng.random(60), "b": rng.random(60), "who": [f"p{i}" for i in range(60)]}
    ).with_columns(z=pl.Series(rng.integers(0, 2, 60)))
    for name, write in (("v.csv", frame.write_csv), ("v.jsonl", frame.write_ndjson)):
        write(name)
        audited(
            capsys, name, "--metric", "cosine", "--epsilon", "0.05", "--output-column", "z",
            "--ignore", "who", "--out", "p.parquet", "--report", "p.html",
        )  # fmt: skip
        pairs = pl.read_parquet("p.parquet")
        assert pairs.height > 10
        for side in ("later", "earlier"):
            rows = pairs[f"{side}_row"].to_list()
            for column in ("a", "b", "who"):
                assert pairs[f"{side}: {column}"].to_list() == [frame[column][i] for i in rows]


@pytest.mark.parametrize("end", ENDS)
def test_names_that_collide_stay_apart(end, here, capsys):
    names = ["pair", "later: x", "x", "earlier_line", "reviewer", "later_row", "_line", "=1"]
    rows = [dict.fromkeys(names, i) | {"z": "ab"[i % 2]} for i in range(4)]
    pl.DataFrame(rows).write_csv("c.csv")
    options = ["--epsilon", "9", "--output-column", "z"]
    audited(capsys, "c.csv", *options, "--out", f"p.{end}")
    pairs = READ[end](f"p.{end}")
    assert len(set(pairs.columns)) == len(pairs.columns)
    for name in names:
        assert pairs[f"later: {name}"].to_list() == pairs["later_row"].to_list()
        assert pairs[f"earlier: {name}"].to_list() == pairs["earlier_row"].to_list()


FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x")', "{=1}"]
TEXTS = ["http://example.invalid", "007", "1e5", "TRUE", "_x0041_", "a\x01b", "x" * 40_000, "é🙂"]


def test_text_in_a_workbook_is_text_whatever_it_begins_with(here, capsys):
    texts = [*FORMULAS, *TEXTS]
    rows = [{"a": 1, "t": text, "z": str(i % 2)} for i, text in enumerate(texts)]
    (here / "h.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rule = '[output]\ncolumn = "z"\n[features.a]\nkind = "number"\ntolerance = 1\n'
    (here / "h.toml").write_text(rule + '[features.t]\nkind = "ignore"\n')
    audited(capsys, "h.jsonl", "--rule", "h.toml", "--out", "h.xlsx")
    with zipfile.ZipFile("h.xlsx") as archive:
        sheets = [archive.read(one).decode() for one in archive.namelist() if "sheet" in one]
    assert sheets and not any(re.search("<f[ >]|<hyperlink", sheet) for sheet in sheets)
    pairs = pl.read_excel("h.xlsx", infer_schema_length=None)
    assert pairs.height > len(texts)
    for side in ("later", "earlier"):
        for row, shown in pairs.select(f"{side}_row", f"{side}: t").iter_rows():
            given = texts[row]
            if len(given) > 32_767:
                assert shown.endswith("… (40,000 characters)") and len(shown) == 32_767
            elif given.strip() == given and given.isprintable():
                assert shown == given
    audited(capsys, "h.jsonl", "--rule", "h.toml", "--out", "h.csv")
    with Path("h.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    for cell in cells:
        given = texts[int(cell["later_row"])]
        marked = given in FORMULAS[:7]
        assert cell["later: t"] == (f"'{given}" if marked else given)


def test_workbook_says_what_it_has_no_room_for(here, capsys, monkeypatch):
    monkeypatch.setattr(workbook, "ROWS", 11)
    options = ["--rule", "rule.toml", "--out", "p.xlsx"]
    told = audited(capsys, "data.csv", *options)
    assert (told["pairs_written"], told["pairs_omitted"]) == (10, told["pairs"] - 10)
    assert told["pairs_omitted"] > 0
    assert pl.read_excel("p.xlsx")["pair"].to_list() == list(range(1, 11))
    about = pl.read_excel("p.xlsx", sheet_name="about", has_header=False).to_series().to_list()
    assert any(f"{told['pairs_omitted']:,} further pairs are not here" in one for one in about)
    assert main(["audit", "data.csv", *options]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{told['pairs_omitted']:,} pairs are not in it" in shown


def test_workbook_with_exactly_enough_room_leaves_nothing_out(here, capsys, monkeypatch):
    many = len(pl.read_csv("data.csv"))
    told = audited(capsys, "data.csv", "--rule", "rule.toml")
    monkeypatch.setattr(workbook, "ROWS", told["pairs"] + 1)
    monkeypatch.setattr(pair_files, "_TOGETHER", 7)
    told = audited(capsys, "data.csv", "--rule", "rule.toml", "--out", "p.xlsx")
    assert told["pairs_omitted"] == 0 and told["rows"] == many
    assert pl.read_excel("p.xlsx").height == told["pairs"]


def test_too_many_columns_for_a_sheet_are_refused_and_nothing_is_left_behind(
    here, capsys, monkeypatch
):
    monkeypatch.setattr(workbook, "COLUMNS", 10)
    assert main(["audit", "data.csv", "--rule", "rule.toml", "--out", "p.xlsx"]) == 2
    assert "a sheet of Excel has 10 columns" in " ".join(capsys.readouterr().err.split())
    assert sorted(one.name for one in here.iterdir()) == ["data.csv", "rule.toml"]


def test_missing_package_is_said_before_the_work(here, capsys, monkeypatch):
    monkeypatch.setattr(input_files, "find_spec", lambda name: None)
    assert main(["audit", "nowhere.csv", "--rule", "rule.toml", "--out", "p.xlsx"]) == 2
    assert "pip install '.[excel]' in the clone of likewise" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize("end", ENDS)
def test_file_without_a_pair_has_its_columns(end, here, capsys):
    (here / "one.csv").write_text("id,when,income,job,sex,note,answer\na,2026-01-01,1,b,f,n,yes\n")
    audited(capsys, "one.csv", "--rule", "rule.toml", "--out", f"p.{end}")
    if end == "jsonl":
        assert (here / "p.jsonl").read_text() == ""
        return
    pairs = READ[end](f"p.{end}")
    assert pairs.height == 0
    assert "later: note" in pairs.columns and "reviewer" in pairs.columns


def test_big_whole_numbers_stay_exact(here, capsys):
    big = 9_007_199_254_740_993
    rows = [{"n": big + i, "a": 1, "z": i % 2} for i in range(4)]
    (here / "big.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rule = '[output]\ncolumn = "z"\n[features.a]\nkind = "number"\ntolerance = 1\n'
    (here / "b.toml").write_text(rule + '[features.n]\nkind = "ignore"\n')
    for end in ENDS:
        audited(capsys, "big.jsonl", "--rule", "b.toml", "--out", f"b.{end}")
        pairs = READ[end](f"b.{end}")
        expected = [str(big + row) for row in pairs["later_row"].to_list()]
        assert list(map(str, pairs["later: n"].to_list())) == expected


def test_columns_of_all_types_are_written_everywhere(here, capsys):
    frame = pl.DataFrame(
        {
            "a": [1.0, 1.0],
            "list": [[1, 2], None],
            "part": [{"x": 1}, {"x": 2}],
            "at": [datetime.datetime(2026, 1, 1, 12), datetime.datetime(1800, 1, 1)],
            "day": [datetime.date(2026, 1, 1), None],
            "flag": [True, None],
            "inf": [float("inf"), float("nan")],
            "kind": pl.Series(["u", "v"], dtype=pl.Categorical),
            "raw": [b"\x00\xff", b"b"],
            "z": ["x", "y"],
        }
    )
    frame.write_parquet("t.parquet")
    ignored = "".join(f'[features.{c}]\nkind = "ignore"\n' for c in frame.columns[1:-1])
    rule = '[output]\ncolumn = "z"\n[features.a]\nkind = "number"\ntolerance = 1\n'
    (here / "t.toml").write_text(rule + ignored)
    for end in ENDS:
        told = audited(
            capsys, "t.parquet", "--rule", "t.toml", "--out", f"o.{end}", "--report", "t.html"
        )
        assert told["pairs"] == 1
        (pair,) = READ[end](f"o.{end}").to_dicts()
        assert pair["later: kind"] == "v" and pair["earlier: kind"] == "u"
        assert pair["earlier: flag"] is True and pair["later: flag"] is None
    (exact,) = pl.read_parquet("o.parquet").to_dicts()
    (one, other) = frame.to_dicts()
    for name in ("list", "part", "at", "day", "raw"):
        assert (exact[f"earlier: {name}"], exact[f"later: {name}"]) == (one[name], other[name])


def test_kept_rows_are_taken_as_they_were_added_whatever_their_types():
    kept = KeptRows(["v"], ["v"], "line")
    values = [1, 2, None, 2.5, "text", True, {"a": [1]}, 2**70, None, 3]
    for i, value in enumerate(values):
        kept.add(Chunk([{"v": value}], np.array([i + 2])))
    rows = np.array([9, 0, 4, 4, 6, 2, 7])
    taken = kept.take(rows)
    assert taken["_line"].to_list() == (rows + 2).tolist()
    assert taken["_row"].to_list() == rows.tolist()
    expected = ["3", "1", "text", "text", '{"a": [1]}', None, str(2**70)]
    assert taken[": v"].to_list() == expected


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_kept_rows_do_not_depend_on_chunks(size, monkeypatch):
    monkeypatch.setattr("likewise.auditing.kept_rows._TOGETHER", 10)
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"a": rng.random(100), "b": [f"t{i}" for i in range(100)]})
    kept = KeptRows(["a", "b"], [], "line")
    for start in range(0, 100, size):
        part = frame[start : start + size]
        kept.add(Chunk(part, np.arange(start, start + len(part)) * 2))
        rows = rng.integers(0, start + len(part), 5)
        taken = kept.take(rows)
        assert taken[": a"].to_list() == frame["a"][rows.tolist()].to_list()
        assert taken[": b"].to_list() == frame["b"][rows.tolist()].to_list()
        assert taken["_line"].to_list() == (rows * 2).tolist()


def test_pairs_do_not_replace_the_decisions(here, capsys):
    before = Path("data.csv").read_bytes()
    assert main(["audit", "data.csv", "--rule", "rule.toml", "--out", "./data.csv"]) == 2
    assert "the file of decisions itself" in " ".join(capsys.readouterr().err.split())
    assert Path("data.csv").read_bytes() == before
