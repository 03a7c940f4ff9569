"""Call a kernel from Python, compiled or not.

Kernels are compiled without a wrapper for Python, since only other kernels call them. `compiled`
gives one such a wrapper; under NUMBA_DISABLE_JIT=1 the kernel is plain Python and is its own.
`state_for` is the memory behind a live tree, for kernels that work on the table.
"""

from collections.abc import Callable
from typing import Any

from numba import config, njit

import likewise as lw
from likewise.indexes.state import State
from likewise.kernels import table as t
from likewise.metrics.geometry import geometry

OUTPUT_KINDS = {"linf": t.OUT_LINF, "l1": t.OUT_L1, "l2": t.OUT_L2, "tv": t.OUT_TV}


def compiled(kernel: Any) -> Callable[..., Any]:
    """The kernel as something that Python can call."""
    if config.DISABLE_JIT:
        return kernel

    @njit(error_model="numpy")
    def call(*arguments):
        return kernel(*arguments)

    return call


def state_for(
    rule: lw.Rule, width: int, storage: str = "float64", out_width: int = 1, trees: int = 1
) -> State:
    """Memory for a few rows under a rule."""
    kind = {"label": t.LABEL, "number": t.NUMBER}.get(rule.output, OUTPUT_KINDS[rule.output_metric])
    return State(
        geometry(rule, width, rule.slack_for(storage)),
        width=width,
        storage=storage,
        output=kind,
        out_width=out_width,
        trees=trees,
        delta=rule.delta,
        capacity=64,
    )
