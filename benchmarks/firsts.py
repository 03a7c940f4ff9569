"""What happens for the first time in a process, beside the second time.

Runs in a process of its own. Each thing is done twice, on two monitors alike in everything.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.measure import no_collector


def again(given: Mapping[str, Any]) -> dict[str, Any]:
    """First and second forgetting, dropping of a window's rows, and change of the index."""
    return {
        name: {"first_ms": first, "next_ms": following}
        for name, (first, following) in {
            "forget": _twice(_forget),
            "drop": _twice(_drop),
            "change": _twice(_change),
        }.items()
    }


def _twice(life: Callable[[], float]) -> tuple[float, float]:
    with no_collector():
        return life(), life()


def _rows(count: int, width: int) -> Any:
    import numpy as np

    return np.random.default_rng(1).random((count, width), dtype=np.float32)


def _milliseconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def _forget() -> float:
    import likewise as lw

    monitor = lw.Monitor(lw.Rule(metric="linf", epsilon=0.025))
    monitor.observe_many(_rows(20_000, 12), [0] * 20_000)
    spent = _milliseconds(lambda: monitor.forget([5]))
    assert len(monitor) == 19_999
    return spent


def _drop() -> float:
    """The longest `observe` around the one at which a window first drops rows."""
    import likewise as lw

    rule = lw.Rule(metric="linf", epsilon=0.025)
    points, window = _rows(9_000, 12), 4_000
    with (
        tempfile.TemporaryDirectory() as folder,
        lw.open(f"{folder}/ledger", rule, window=f"{window} rows", durability="off") as monitor,
    ):
        monitor.observe_many(points[: window - 50], [0] * (window - 50))
        spent = [_milliseconds(lambda x=x: monitor.observe(x, 0)) for x in points[window - 50 :]]
        assert len(monitor) < len(points)
    return max(spent[:100])


def _change() -> float:
    """The longest `observe` of a stream in which another index takes over."""
    import numpy as np

    import likewise as lw

    random = np.random.default_rng(2)
    centres = random.normal(size=(40, 128))
    points = centres[random.integers(0, 40, 6_000)] + 0.7 * random.normal(size=(6_000, 128))
    points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    monitor = lw.Monitor(lw.Rule(metric="l2", epsilon=0.5))
    spent = [
        _milliseconds(lambda x=x, z=z: monitor.observe(x, z))
        for x, z in zip(points, random.integers(0, 2, 6_000).tolist(), strict=True)
    ]
    assert monitor.explain().changes > 0, "no other index took over"
    return max(spent)
