"""The paper's own decision sequences, counted at every radius for which the answer is known.

The data is not part of the project: the folder is LIKEWISE_DATA, else ../shared/data beside the
checkout, and without it these tests say that they were skipped.
"""

import csv
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import likewise as lw

FOLDER = Path(
    os.environ.get("LIKEWISE_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
EXPECTED = FOLDER / "certifair_expected.json"
FILES = [
    f"{data}-{model}-P2" for data in ("german", "compas", "adult") for model in ("base", "global")
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not EXPECTED.is_file(), reason="the folder of real data is not here"),
]


def decisions(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Every column but the decision is a coordinate, as in the paper's runs."""
    with zipfile.ZipFile(FOLDER / "certifair_P2_base_global.zip") as archive:
        text = archive.read(f"{name}-combined.csv").decode()
    header, *rows = csv.reader(io.StringIO(text))
    table = np.array(rows, dtype=np.float64)
    at = header.index("prediction")
    return np.delete(table, at, axis=1), table[:, at].astype(int)


@pytest.mark.parametrize("name", FILES)
def test_flagged_rows_and_pairs_of_the_papers_files_equal_brute_force(name):
    inputs, outputs = decisions(name)
    known = [one for one in json.loads(EXPECTED.read_text()) if name in one["file"]]
    assert len(known) == 12
    for one in known:
        verdicts = lw.Monitor(lw.Rule("linf", one["eps"])).observe_many(inputs, outputs)
        counted = int(verdicts.violations.sum()), verdicts.pairs
        assert counted == (one["flagged"], one["pairs"]), f"radius {one['eps']}"
