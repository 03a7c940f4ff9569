"""The bars for the ledger: writing beside a bare insert, opening, verifying."""

from __future__ import annotations

from benchmarks.bar import Bar, value_of

BARS = [
    *(
        Bar(
            f"ledger, `batch` through `observe_many`, {radius} witnesses ÷ a bare insert",
            "ledger",
            0.6,
            True,
            "×",
            value_of(
                "ledger", "writing", "ratio", durability="batch", how="observe_many", radius=radius
            ),
        )
        for radius in ("few", "many")
    ),
    *(
        Bar(
            f"ledger, `commit` through `observe_many`, {radius} witnesses",
            "ledger",
            150_000,
            True,
            "decisions/s",
            value_of(
                "ledger", "writing", "rate", durability="commit", how="observe_many", radius=radius
            ),
        )
        for radius in ("few", "many")
    ),
    Bar(
        "ledger, `commit`, 16 threads ÷ one",
        "ledger",
        8.0,
        True,
        "×",
        value_of("ledger", "threads", "ratio", threads=16),
    ),
    Bar(
        "ledger, opening 10M × 12, chain verified",
        "ledger",
        15.0,
        False,
        "s",
        value_of("ledger", "opening", "seconds", rows=10_000_000, check=True),
    ),
    Bar(
        "ledger, opening 1M × 12, chain verified",
        "ledger",
        5.0,
        False,
        "s",
        value_of("ledger", "opening", "seconds", rows=1_000_000, check=True),
    ),
    Bar(
        "ledger, verifying with every commitment, one process",
        "ledger",
        1_000_000,
        True,
        "rows/s",
        value_of("ledger", "opening", "verify_rate", rows=1_000_000, check=True),
    ),
    Bar(
        "ledger, verifying the chain alone",
        "ledger",
        2_000_000,
        True,
        "rows/s",
        value_of("ledger", "opening", "chain_rate", rows=1_000_000, check=True),
    ),
    Bar(
        "ledger, `lw.migrate` from another rule",
        "ledger",
        100_000,
        True,
        "rows/s",
        value_of("ledger", "migrating", "rate", what="another rule"),
    ),
]
