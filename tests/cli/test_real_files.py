"""The paper's Adult file and two censuses through the command, from beginning to end.

The data is not part of the project: the folder is LIKEWISE_DATA, else ../shared/data beside the
checkout, and without it these tests say that they were skipped.
"""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import installed
from tests.support.lazily import polars as pl

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("LIKEWISE_DATA") or ROOT.parent / "shared" / "data")
PAPER = FOLDER / "certifair_P2_base_global.zip"
ACS = FOLDER / "acs_ma_2015_2017.npz"
CENSUS = FOLDER / "census_kdd_299k.npz"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (PAPER.is_file() and ACS.is_file() and CENSUS.is_file()),
        reason="the folder of real data is not here",
    ),
]


def test_papers_adult_file_gives_the_papers_count(tmp_path):
    with zipfile.ZipFile(PAPER) as archive:
        (tmp_path / "adult.csv").write_bytes(archive.read("adult-base-P2-combined.csv"))
    done = installed(
        "audit", tmp_path / "adult.csv", "--metric", "linf", "--epsilon", "0.16",
        "--output-column", "prediction", "--report", tmp_path / "page.html",
        "--out", tmp_path / "pairs.parquet", "--json",
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert (told["rows"], told["violations"], told["pairs"]) == (46_033, 10_656, 153_323)
    assert pl.scan_parquet(tmp_path / "pairs.parquet").select(pl.len()).collect().item() == 153_323
    assert "10,656" in (tmp_path / "page.html").read_text()


def test_compas_has_the_shares_of_all_pairs_and_its_reverse_the_same_free_of_order(tmp_path):
    """The paper's file in its order and upside down, against a look at every pair."""
    with zipfile.ZipFile(PAPER) as archive:
        frame = pl.read_csv(archive.read("compas-base-P2-combined.csv"))
    z = frame["prediction"].to_numpy()
    x = frame.drop("prediction").to_numpy().astype(float)
    near = np.empty((len(x), len(x)), dtype=bool)
    for i, row in enumerate(x):
        near[i] = np.abs(x - row).max(axis=1) <= 0.16 * (1 + 1e-9)
    differs = near & (z[:, None] != z[None])
    earlier = np.tri(len(x), k=-1, dtype=bool)
    for name, rows, before in (("down", frame, earlier), ("up", frame.reverse(), earlier.T)):
        rows.write_csv(tmp_path / f"{name}.csv")
        done = installed(
            "audit", tmp_path / f"{name}.csv", "--epsilon", "0.16",
            "--output-column", "prediction", "--json",
        )  # fmt: skip
        told = json.loads(done.stdout)
        assert told["with_earlier"] == (near & before).any(axis=1).sum()
        assert told["violations"] == (differs & before).any(axis=1).sum() > 0
        assert told["in_any_pair"] == differs.any(axis=1).sum()
        assert told["violations"] == 2_923 or name == "up"


def acs():
    with np.load(ACS) as file:
        columns = {str(name): file["x"][:, j] for j, name in enumerate(file["columns"])}
        return pl.DataFrame({**columns, "pred": file["pred"]})


def census():
    with np.load(CENSUS) as file:
        columns = {str(name): file["num"][:, j] for j, name in enumerate(file["num_cols"])}
        columns |= {str(name): file["cat"][:, j] for j, name in enumerate(file["cat_cols"])}
        frame = pl.DataFrame({**columns, "high_income": file["y"]})
    known = pl.when(pl.col("hispanic") != 255).then(pl.col("hispanic"))
    return frame.with_columns(known.alias("hispanic"))


@pytest.mark.parametrize(
    "table, rule, rows, flagged",
    [(acs, "acs", 207_546, 24_766), (census, "census_kdd", 299_285, 9_003)],
)
@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_census_is_audited_by_its_rule(table, rule, rows, flagged, end, tmp_path):
    path = tmp_path / f"data.{end}"
    table().write_csv(path) if end == "csv" else table().write_parquet(path)
    done = installed(
        "audit", path, "--rule", ROOT / "examples" / "rules" / f"{rule}.toml", "--json",
        "--report", tmp_path / "page.html",
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert (told["rows"], told["violations"], told["bad_rows"]) == (rows, flagged, 0)
    assert told["groups"] and (tmp_path / "page.html").stat().st_size > 10_000


def test_compas_within_ninety_days_has_the_counts_of_all_pairs(tmp_path):
    """Decisions in order of their screening, against a look at every pair."""
    path = FOLDER / "compas_two_years_noname.csv.gz"
    if not path.is_file():
        pytest.skip("the folder of real data has no dates of screening")
    names = ["age", "priors_count", "c_charge_degree", "score_text", "compas_screening_date"]
    frame = pl.read_csv(path, infer_schema_length=None).select(names)
    frame.write_csv(tmp_path / "compas.csv")
    (tmp_path / "rule.toml").write_text(
        '[output]\ncolumn = "score_text"\n[features.age]\nkind = "number"\ntolerance = 2\n'
        '[features.priors_count]\nkind = "number"\ntolerance = 1\n'
        '[features.c_charge_degree]\nkind = "category"\n'
    )
    done = installed(
        "audit", tmp_path / "compas.csv", "--rule", tmp_path / "rule.toml",
        "--time-column", "compas_screening_date", "--within", "90 days", "--json",
    )  # fmt: skip
    told = json.loads(done.stdout)
    days = frame["compas_screening_date"].str.to_date().to_numpy().astype("datetime64[D]")
    order = np.argsort(days, kind="stable")
    age, priors, degree, score = (frame[name].to_numpy()[order] for name in names[:4])
    days = days[order].astype(np.int64)
    like = np.tril(np.abs(days[:, None] - days) <= 90, -1)
    like &= (np.abs(age[:, None] - age) <= 2) & (np.abs(priors[:, None] - priors) <= 1)
    like &= degree[:, None] == degree
    bad = like & (score[:, None] != score)
    assert told["with_earlier"] == like.any(axis=1).sum() == 6_822
    assert told["violations"] == bad.any(axis=1).sum()
    assert told["in_any_pair"] == (bad | bad.T).any(axis=1).sum()
    assert told["pairs"] == bad.sum() == 118_849
