"""Golden files of exported tables: `audit --out`, in every format; names, types and values.

The files of a served list of violations (CSV and Excel) are with its routes (test_http.py).
"""

import csv
import json
from contextlib import chdir
from pathlib import Path

from tests.golden.exchanges import sheets_in
from tests.golden.loan_files import DECISIONS, write_files
from tests.support import golden_files as golden
from tests.support.commands import likewise
from tests.support.lazily import polars as pl

VECTORS = ("--epsilon", "16", "--output-column", "answer", "--ignore", "id")
RULED = ("--rule", "rule.toml", "--time-column", "when", "--model-column", "model")


def pairs(*options, out):
    likewise("audit", *options, "--out", out)
    return out


def parquet(path):
    frame = pl.read_parquet(path)
    return {
        "columns": {name: str(kind) for name, kind in frame.schema.items()},
        "rows": [[_plain(cell) for cell in row] for row in frame.iter_rows()],
    }


def _plain(cell):
    is_time = cell is not None and not isinstance(cell, str | int | float | bool)
    return str(cell) if is_time else cell


def csv_cells(path):
    with Path(path).open(newline="") as file:
        return list(csv.reader(file))


def json_lines(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_tables_are_those_of_the_golden_files(tmp_path):
    with chdir(tmp_path):
        write_files(tmp_path)
        keyed = [
            {"id": i, "x": float(one["amount"]), "y": 0.5, "answer": one["answer"]}
            for i, one in enumerate(DECISIONS[:4])
        ]
        pl.DataFrame(keyed).write_parquet("numbers.parquet")
        table = ("decisions.csv", *RULED)
        files = {
            "parquet": parquet(pairs(*table, out="pairs.parquet")),
            "parquet-of-vectors": parquet(
                pairs("numbers.parquet", *VECTORS, out="vectors.parquet")
            ),
            "csv": csv_cells(pairs(*table, out="pairs.csv")),
            "jsonl": json_lines(pairs(*table, out="pairs.jsonl")),
            "xlsx": sheets_in(Path(pairs(*table, out="pairs.xlsx")).read_bytes()),
            "csv-without-pairs": csv_cells(pairs(*table, "--within", "1 day", out="none.csv")),
        }
    golden.check_all({f"tables/{name}.json": value for name, value in files.items()})
