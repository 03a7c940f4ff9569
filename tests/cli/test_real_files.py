"""The paper's Adult file and two censuses through the command, from beginning to end.

The data is not part of the project: the folder is LIKEWISE_DATA, else ../shared/data beside the
checkout, and without it these tests say that they were skipped.
"""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.commands import likewise

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
    done = likewise(
        "audit", tmp_path / "adult.csv", "--metric", "linf", "--epsilon", "0.16",
        "--output-column", "prediction", "--report", tmp_path / "page.html",
        "--out", tmp_path / "pairs.parquet", "--json",
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert (told["rows"], told["flagged"], told["pairs"]) == (46_033, 10_656, 153_323)
    assert pl.scan_parquet(tmp_path / "pairs.parquet").select(pl.len()).collect().item() == 153_323
    assert "10,656" in (tmp_path / "page.html").read_text()


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
    done = likewise(
        "audit", path, "--rule", ROOT / "examples" / "rules" / f"{rule}.toml", "--json",
        "--report", tmp_path / "page.html",
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert (told["rows"], told["flagged"], told["bad_rows"]) == (rows, flagged, 0)
    assert told["groups"] and (tmp_path / "page.html").stat().st_size > 10_000
