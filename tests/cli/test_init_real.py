"""`likewise init` on real files: the rule that is reached compares a useful share of decisions.

The data is not part of the project: the folder is LIKEWISE_DATA, else ../shared/data beside the
checkout, and without it these tests say that they were skipped. Each proposal was read as an
analyst would; the bounds are what came out, with room on both sides.
"""

import gzip
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.cli import main
from tests.support.lazily import polars as pl

ROOT = Path(__file__).resolve().parents[2]
BESIDE = [ROOT.parent / "shared" / "data", ROOT.parents[1] / "shared" / "data"]
FOLDER = Path(os.environ.get("LIKEWISE_DATA") or next(filter(Path.is_dir, BESIDE), BESIDE[0]))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder of real data is not here"),
]
ADULT = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
]  # fmt: skip
GERMAN = [
    "status", "duration", "credit_history", "purpose", "amount", "savings", "employment",
    "installment_rate", "personal_status_sex", "debtors", "residence_since", "property", "age",
    "other_plans", "housing", "credits", "job", "dependents", "telephone", "foreign_worker",
    "class",
]  # fmt: skip


def lines(name, names, delimiter):
    with gzip.open(FOLDER / name, "rt") as file:
        rows = [line.split(delimiter) for line in file if line.strip()]
    cells = [[cell.strip() for cell in row] for row in rows]
    pl.DataFrame(cells, schema=names, orient="row").write_csv("data.csv")


def unpacked(name):
    with gzip.open(FOLDER / name) as file:
        Path("data.csv").write_bytes(file.read())


def paper(name):
    with zipfile.ZipFile(FOLDER / "certifair_P2_base_global.zip") as archive:
        Path("data.csv").write_bytes(archive.read(f"{name}-base-P2-combined.csv"))


def acs():
    with np.load(FOLDER / "acs_ma_2015_2017.npz") as file:
        columns = {str(name): file["x"][:, j] for j, name in enumerate(file["columns"])}
        more = {"pred": file["pred"], "prob": file["prob"]}
        pl.DataFrame({**columns, **more})[:40_000].write_csv("data.csv")


MARITAL = [
    f"marital_status={one}" for one in ("Divorced", "Married", "Separated", "Single", "Widowed")
]
CASES = {
    # how the file is made, options, share comparable, rate among those, protected, left out
    "adult": (
        lambda: lines("adult.data.gz", ADULT, ","), ["--output-column", "income"], (0.3, 0.5),
        (0.2, 0.4), ["marital-status", "race", "sex", "native-country"], ["fnlwgt"],
    ),
    "german": (
        lambda: lines("german.data.gz", GERMAN, None), [], (0.05, 0.2), (0.2, 0.5),
        ["personal_status_sex", "foreign_worker"], ["residence_since", "telephone"],
    ),
    "compas": (
        lambda: unpacked("compas_two_years_noname.csv.gz"), ["--output-column", "score_text"],
        (0.05, 0.2), (0.1, 0.4), ["sex", "race"], ["id", "decile_score", "screening_date"],
    ),
    "proba": (
        lambda: unpacked("clemont_example_adult_proba.csv.gz"), [], (0.3, 0.5), (0.1, 0.25),
        ["race", "sex", *MARITAL], ["p0(<=50K)", "p1(>50K)", "label"],
    ),
    "paper's adult": (
        lambda: paper("adult"), [], (0.4, 0.7), (0.1, 0.3), ["race", "sex", *MARITAL], ["label"],
    ),
    "paper's german": (
        lambda: paper("german"), [], (0.1, 0.25), (0.2, 0.5), ["sex"], ["label"],
    ),
    "paper's compas": (
        lambda: paper("compas"), [], (0.4, 0.6), (0.05, 0.2), ["sex", "race"], ["label"],
    ),
    "acs": (acs, [], (0.6, 0.9), (0.1, 0.25), ["NATIVITY", "SEX", "RAC1P"], ["prob"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_useful_share_is_comparable(name, tmp_path, monkeypatch, capsys):
    make, options, share, rate, protected, left_out = CASES[name]
    monkeypatch.chdir(tmp_path)
    make()
    assert main(["init", "data.csv", "--json", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    trial = told["trial"]
    assert share[0] <= trial["comparable"] / trial["decisions"] <= share[1]
    assert rate[0] <= trial["rate_among_comparable"] <= rate[1]
    assert [column for column, kind in told["kinds"].items() if kind == "protected"] == protected
    assert {told["kinds"][column] for column in left_out} <= {"ignore", "key"}
    assert lw.Rule.from_toml(told["rule"]) == lw.Rule.from_toml(Path("likewise.toml").read_text())
    assert {column for note in told["notes"] for column in note["columns"]} >= {*left_out}


@pytest.mark.parametrize("name", ["adult", "compas"])
def test_where_no_column_is_called_a_decision_the_output_is_asked_for(
    name, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    CASES[name][0]()
    assert main(["init", "data.csv"]) == 2
    assert "The names do not tell. Say it: likewise init data.csv" in capsys.readouterr().err
