"""Call a kernel from Python, compiled or not.

Numba compiles kernels without a wrapper for Python, since only other kernels call them. `compiled`
gives one such a wrapper; where Numba compiles nothing, the kernel is plain Python and is its own.
`state_for` is the memory behind a live tree over a small history and `flat_for` a flat scan over
one, for kernels that work on the table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import likewise as lw
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.flat_index import FlatScan
from likewise.search.indexes.index_state import IndexState
from likewise.search.indexes.live_tree import LiveTree
from likewise.search.indexes.rotation import Rotation
from likewise.search.kernels import table as t
from likewise.search.kernels.compile import way

OUTPUT_KINDS = {"linf": t.OUT_LINF, "l1": t.OUT_L1, "l2": t.OUT_L2, "tv": t.OUT_TV}
CAPACITY = 64


@dataclass(frozen=True)
class Given:
    """All that a history asks of its outputs."""

    kind: int
    width: int


def compiled(kernel: Any) -> Callable[..., Any]:
    """The kernel as something that Python can call."""
    if way != "jit":
        return kernel
    from numba import njit

    @njit(error_model="numpy")
    def call(*arguments):
        return kernel(*arguments)

    return call


def history_for(
    rule: lw.Rule,
    width: int,
    storage: str = "float64",
    out_width: int = 1,
    capacity: int = CAPACITY,
) -> History:
    """Room for a few rows under a rule."""
    kind = {"label": t.LABEL, "number": t.NUMBER}.get(rule.output, OUTPUT_KINDS[rule.output_metric])
    return History(rule, (width,), storage, Given(kind, out_width), capacity=capacity)


def state_for(
    rule: lw.Rule,
    width: int,
    storage: str = "float64",
    out_width: int = 1,
    coordinates: list[int] | None = None,
) -> IndexState:
    """Memory for a few rows under a rule, and a tree over all coordinates or over these."""
    history = history_for(rule, width, storage, out_width)
    sketched = None if coordinates is None else np.array(coordinates, dtype=np.int64)
    tree = LiveTree(history, sketched)
    history.table = tree.state.table
    return tree.state


def flat_for(
    rule: lw.Rule, width: int, rotation: Rotation, storage: str = "float64", capacity: int = 512
) -> FlatScan:
    """A flat scan over an empty history."""
    history = history_for(rule, width, storage, capacity=capacity)
    flat = FlatScan(history, rotation)
    history.table = flat.state.table
    return flat
