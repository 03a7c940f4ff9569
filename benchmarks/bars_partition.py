"""The bar for files that are audited in cells."""

from __future__ import annotations

from benchmarks.bar import Bar, value_of

BARS = [
    Bar(
        "100M × 12 in Parquet files, in cells, two workers: peak of all processes",
        "partition",
        4096.0,
        False,
        "MB",
        value_of("partition", "partition", "mb", rows=100_000_000),
    )
]
