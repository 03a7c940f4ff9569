"""The report on the paper's own Adult decisions: its numbers, and the page in a browser.

The data is not part of the project: the folder is LIKEWISE_DATA, else ../shared/data beside the
checkout, and without it this test says that it was skipped.
"""

import io
import os
import zipfile
from pathlib import Path

import pytest

import likewise as lw
from likewise.reports.findings import Tally
from likewise.reports.report_page import write_page
from tests.support.lazily import pandas as pd

FOLDER = Path(
    os.environ.get("LIKEWISE_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
ARCHIVE = FOLDER / "certifair_P2_base_global.zip"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ARCHIVE.is_file(), reason="the folder of real data is not here"),
]


def test_page_of_the_papers_adult_decisions(browser, tmp_path):
    with zipfile.ZipFile(ARCHIVE) as archive:
        table = pd.read_csv(io.BytesIO(archive.read("adult-base-P2-combined.csv")))
    columns = [name for name in table.columns if name != "prediction"]
    monitor = lw.Monitor(lw.Rule(metric="linf", epsilon=0.16))
    tally = Tally(monitor, columns=columns)
    for start in range(0, len(table), 10_000):
        part = table[start : start + 10_000]
        tally.add(monitor.observe_many(part[columns].to_numpy(), part["prediction"].to_numpy()))
    findings = tally.findings(source="adult-base-P2-combined.csv")
    assert (findings.rows, findings.violations, findings.pairs) == (46_033, 10_656, 153_323)
    write_page(findings, tmp_path / "adult.html")
    page = browser.open(tmp_path / "adult.html", width=390)
    told = page.evaluate("document.body.innerText")
    assert "10,656 of 46,033 decisions (23.1%)" in told
    assert page.complaints == [] and page.requests == []
    page.close()
