"""The bars for buffering: what whoever makes decisions pays for each."""

from __future__ import annotations

from benchmarks.bar import Bar, value_of

BARS = [
    Bar(
        f"`submit` p99, history in {place}, {'flat out' if pause == 0 else f'every {pause} µs'}",
        "buffering",
        20.0,
        False,
        "µs",
        value_of("buffering", "submit", "p99_us", place=place, pause_us=pause),
    )
    for place in ("memory", "ledger")
    for pause in (0, 50)
]
