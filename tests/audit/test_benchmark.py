"""The benchmark of cells runs at a small scale, and compares what it measures."""

import pytest

from benchmarks.catalogue import BENCHMARKS
from benchmarks.harness import Setting


@pytest.mark.slow
def test_the_benchmark_finds_the_same_in_cells():
    answer = BENCHMARKS["partition"].run(Setting(source=None, scale=0.002, rounds=1))
    assert "failed" not in answer, answer
    one, *cells = answer["tables"]["partition"]
    assert [row["pairs"] for row in cells] == [one["pairs"]] * 2
    assert all(row["cells"] > 4 for row in cells)
