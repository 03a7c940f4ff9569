"""Monitors of slopes, and what their verdicts say, for tests."""

import math
from functools import partial

import numpy as np

import likewise as lw

slope_monitor = partial(lw.Monitor, slope=True)
open_slopes = partial(lw.open, slope=True)


def witness_of(verdict):
    """The row against which the slope is steepest; None if no past output differs."""
    assert len(verdict.witnesses) <= 1
    return verdict.witnesses[0].row if len(verdict.witnesses) else None


def distances_of(verdict):
    """The distances of inputs and of outputs to that row."""
    if len(verdict.witnesses) == 0:
        return math.inf, 0.0
    return verdict.witnesses[0].input_distance, verdict.witnesses[0].output_distance


def columns_of(verdicts):
    """Of each verdict the row that it names, -1 for none, and both distances."""
    rows = np.array([-1 if witness_of(one) is None else witness_of(one) for one in verdicts])
    near, far = zip(*map(distances_of, verdicts), strict=True)
    return rows, np.array(near), np.array(far)
