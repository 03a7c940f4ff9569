"""The bars for shards on Ray."""

from __future__ import annotations

from benchmarks.bar import Answers, Bar, Reader, value_of


def _growth(answers: Answers) -> float | None:
    before = value_of("cluster", "stall", "before_mb")(answers)
    during = value_of("cluster", "stall", "during_mb")(answers)
    return None if before is None or during is None else during - before


def _without_replay(answers: Answers) -> float | None:
    whole = value_of("cluster", "losses", "answered_s", shards=1)(answers)
    replay = value_of("cluster", "losses", "replay_s", shards=1)(answers)
    return None if whole is None or replay is None else whole - replay


def _above_one_process(size: int) -> Reader:
    def read(answers: Answers) -> float | None:
        found = [
            value_of("cluster", "overhead", key, batch=size, shards=2)(answers)
            for key in ("p50_ms", "alone_ms")
        ]
        return None if found[0] is None or found[1] is None else found[0] - found[1]

    return read


def _times_where_it_takes_long(answers: Answers) -> float | None:
    """Two shards over one, if one had at least 100 ms of work for a batch."""
    work = value_of("cluster", "scaling", "work_ms", shards=1)(answers)
    if work is None or work < 100:
        return None
    return value_of("cluster", "scaling", "times", shards=2)(answers)


BARS = [
    Bar(
        f"two shards, batches of {size}: above one process",
        "cluster",
        5.0,
        False,
        "ms",
        _above_one_process(size),
    )
    for size in (64, 1024)
]
BARS += [
    Bar(
        "two shards over one, where a batch takes 100 ms",
        "cluster",
        1.6,
        True,
        "×",
        _times_where_it_takes_long,
    ),
    Bar(
        "rows replayed a second into one shard",
        "cluster",
        200_000.0,
        True,
        "",
        value_of("cluster", "losses", "rows_per_second", shards=1),
    ),
    Bar(
        "from the kill of a shard to the next answer, without the replay",
        "cluster",
        3.0,
        False,
        "s",
        _without_replay,
    ),
    Bar(
        "memory of the coordinator, more after 5 s of a shard that stands still",
        "cluster",
        5.0,
        False,
        "MB",
        _growth,
    ),
]
