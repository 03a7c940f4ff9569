"""Peak memory follows the size of a cell, not the length of the files."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.audit.cells import vectors
from tests.support.programs import run_python

PROGRAM = """
import json, re, sys
from pathlib import Path
import likewise as lw
from likewise.auditing import spreading
from likewise.auditing.cells import audit_partitioned
from tests.audit.cells import bound
from likewise.auditing.job import Job
from tests.support.lazily import polars as pl

folder, name, cell_rows = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
rule = lw.Rule(metric="linf", epsilon=0.01)
job = Job(folder, (name,), bound(rule, pl.read_parquet(name, n_rows=1)), cell_rows=cell_rows,
          threads=1, first_rows=1000)
warm = lw.Monitor(rule)  # the kernels are there before anything is measured
warm.observe_many([[0.0] * 8] * 10, ["a"] * 10)
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
spreading.BUFFER = 1 << 24  # which is a bound of its own
before = peak()
done = audit_partitioned(job)
after = peak()
print(json.dumps([before, after, done.order.rows, len(done.cells), done.finished.totals.pairs]))
"""


def peak(tmp_path, count, cell_rows):
    """Megabytes above the bare program that an audit of so many rows has taken."""
    random = np.random.default_rng(3)
    name = tmp_path / f"{count}.parquet"
    x = random.random((count, 8))
    vectors(x, random.integers(0, 2, count)).write_parquet(name, row_group_size=50_000)
    del x
    done = run_python("-c", PROGRAM, tmp_path / f"cells-{count}", name, cell_rows, timeout=900)
    before, after, rows, cells, _ = json.loads(done.stdout)
    assert rows == count
    assert cells > 1
    return (after - before) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak")
def test_memory_does_not_grow_with_the_files(tmp_path):
    small, large = peak(tmp_path, 400_000, 100_000), peak(tmp_path, 2_400_000, 100_000)
    assert large < 1.6 * small + 40, f"{small:.0f} MB for 0.4M rows, {large:.0f} MB for 2.4M"
