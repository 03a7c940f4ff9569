"""The bar for streams: likewise beside a consumer that keeps nothing."""

from __future__ import annotations

from benchmarks.bar import Bar, value_of

BARS = [
    Bar(
        "decisions from Redis, judged and on disk ÷ a bare consumer",
        "streams",
        0.5,
        True,
        "×",
        value_of("streams", "redis", "ratio"),
    )
]
