"""The bars for the service: decisions a second over HTTP, on one core."""

from __future__ import annotations

from benchmarks.bar import Bar, Reader, value_of


def _of(key: str, place: str, how: str, connections: int) -> Reader:
    return value_of("serve", "serve", key, place=place, how=how, connections=connections)


_COLUMNS, _ARROW, _ONE = "batch, JSON columns", "batch, Arrow", "one a request"

BARS = [
    *(
        Bar(
            f"service, {how}, history in {place}",
            "serve",
            target,
            True,
            "decisions/s",
            _of("rate", place, how, connections),
        )
        for place, how, connections, target in (
            ("memory", _COLUMNS, 2, 200_000),
            ("memory", _ARROW, 2, 300_000),
            ("ledger", _COLUMNS, 2, 100_000),
            ("ledger", _ARROW, 2, 100_000),
            ("memory", _ONE, 32, 7_000),
            ("ledger", _ONE, 32, 4_000),
        )
    ),
    Bar(
        "service, one a request, 32 connections, p99, history in memory",
        "serve",
        15.0,
        False,
        "ms",
        _of("p99_ms", "memory", _ONE, 32),
    ),
    Bar(
        "service, one a request ÷ a bare ASGI echo, history in memory",
        "serve",
        0.4,
        True,
        "×",
        _of("echo_ratio", "memory", _ONE, 32),
    ),
]
