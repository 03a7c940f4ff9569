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
    Bar(
        "ledger, opening 1M × 12, chain verified",
        "ledger",
        5.0,
        False,
        "s",
        value_of("ledger", "opening", "seconds", rows=1_000_000, check=True),
    ),
    Bar(
        "ledger, verifying",
        "ledger",
        500_000,
        True,
        "rows/s",
        value_of("ledger", "opening", "verify_rate", rows=1_000_000, check=True),
    ),
]
