"""Decisions that came one by one, joined to one call where that changes nothing but the time.

Few of them, with nothing said beside them, are judged one after another and written together
(`Sequencer.observe_group`). Many are judged as a batch, which is taken whole or refused whole: if
it is refused, whoever has joined them takes them one by one, which says which one it is.

Invariant: the answers are those that `observe` would give one by one, keys and models that they
name included: either every decision has a key, or none has, and so with models.
Not here: decisions with times or positions of their own, and rows of a table: they are not joined.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from likewise.monitors.protocol import Decision
from likewise.monitors.stated import Said
from likewise.reading.protocol import FROM_ROW
from likewise.values.plain import EXACT

FEW = 64
"""Decisions up to which judging each for itself takes less time than judging a batch."""
MOST = 1 << 12
"""Decisions that are joined at most: a ledger writes so many in one transaction."""
_NUMBERS = {float, int}


class Joined(NamedTuple):
    """What `observe_many` takes."""

    inputs: Any
    outputs: list[Any]
    said: Said


def joined(decisions: Sequence[Decision]) -> Joined | None:
    """Decisions on vectors as a batch; None if they have to be taken one by one."""
    if not 1 < len(decisions) <= MOST:
        return None
    x, z, keys, times, models, sources, positions = zip(*decisions, strict=True)
    if any(map(_is_said, (*times, *sources, *positions))) or any(one is FROM_ROW for one in z):
        return None
    inputs = _stacked(x)
    if inputs is None:
        return None
    some_keys, some_models = sum(map(_is_said, keys)), sum(map(_is_said, models))
    if some_keys not in (0, len(x)) or some_models not in (0, len(x)):
        return None
    said = Said(list(keys) if some_keys else None, None, list(models) if some_models else None)
    return Joined(inputs, list(z), said)


def _stacked(x: Sequence[Any]) -> npt.NDArray[Any] | None:
    """Inputs as one array, where each is a list of numbers, or all are arrays of one kind."""
    kinds = set(map(type, x))
    if kinds == {np.ndarray}:
        first = x[0]
        alike = all(one.shape == first.shape and one.dtype == first.dtype for one in x)
        return np.stack(x) if alike and first.dtype.kind in "fiu" and first.size else None
    width = len(x[0]) if kinds == {list} else 0
    if width == 0 or set(map(len, x)) != {width}:
        return None
    numbers = list(chain.from_iterable(x))
    kinds = set(map(type, numbers))
    if not kinds <= _NUMBERS or (int in kinds and max(map(abs, numbers)) > EXACT):
        return None
    return np.array(numbers, np.float64).reshape(len(x), width)


def _is_said(value: Any) -> bool:
    return value is not None
