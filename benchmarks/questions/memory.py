"""How many bytes does a decision take? Its own account, and the process's, in a fresh process."""

from __future__ import annotations

from benchmarks import oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.child import run_child

COLUMNS_WIDE = 12

COLUMNS = {
    "rows": "rows",
    "columns": "columns",
    "explained_bytes": "by `explain()`",
    "rss_bytes": "by growth of the process",
    "largest_bytes": "the larger",
}


def ask(setting: Setting) -> Answer:
    source = setting.rows_source()
    n = setting.rows(1_000_000, least=10_000)
    found = run_child("memory", str(n), str(COLUMNS_WIDE), source.name)
    oracle.require(found["remembered"] == n, "rows are missing")
    oracle.require(found["witnesses"] > 0, "the wide check found nothing")
    row = {
        "rows": n,
        "columns": COLUMNS_WIDE,
        "explained_bytes": found["explained_bytes"],
        "rss_bytes": found["rss_bytes"],
        "largest_bytes": max(found["explained_bytes"], found["rss_bytes"]),
    }
    return Answer(
        "Memory, float32",
        {"memory": Table(COLUMNS, [row], "Bytes per decision after `observe_many`.")},
        [f"{n:,} rows remembered; checks of stored rows with the other label find them"],
    )
