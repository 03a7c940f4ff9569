"""Copy submitted decisions, and put waiting ones together as arguments of `observe_many`.

A vector becomes an array, as `observe` itself reads it; a row of a table becomes a dictionary.
Invariant: verdicts do not depend on which decisions are put together. So only vectors of one type
and shape are, since an array of several types would change some of them.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from time import time_ns
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from likewise.errors import BadDecision, UnexpectedValue, WrongShape
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.queueing.bounded_queue import Entry
from likewise.rule.rule import Rule
from likewise.tables.copy_input import copy_input
from likewise.tables.frames import as_row, table_columns
from likewise.tables.named_array import names_of, with_names
from likewise.tables.normalize import to_number_array
from likewise.tables.times import to_microseconds

_IMMUTABLE = {bool, bytes, float, int, str, type(None)}
_new = tuple.__new__
_OVERHEAD = 500  # bytes of an entry, its tuple, and an array without its numbers


class SubmittedDecision(NamedTuple):
    """Holds a decision that waits."""

    x: Any
    z: Any
    key: Any
    time: int | None
    """When it was made, in microseconds since 1970, if that was given."""
    submitted: int
    """When it was submitted, likewise; used as the time of a decision without one."""
    model: Any = None


WaitingEntry = Entry[SubmittedDecision]


class _UnreadInput(NamedTuple):
    """Holds a copy of an input that came before the rule was known."""

    x: Any


class InputCopier:
    """Copies submitted decisions, in the types that the monitor's rule reads.

    remote      whether asking the monitor for its rule is a request. Then the delivering thread
                asks (`load_rule`), and earlier inputs are copied unread
    """

    def __init__(self, monitor: Any, *, remote: bool) -> None:
        self._monitor = monitor
        self._some_unread = False
        self.columns = self.vectors = False
        rule = monitor.known_rule if remote else monitor.rule
        self._known = rule is not None
        if rule is not None:
            self._set(rule)

    def _set(self, rule: Rule) -> None:
        self.columns = rule.features is not None
        self.vectors = not self.columns and rule.embed is None
        self._known = True

    def load_rule(self) -> None:
        """Ask the monitor for its rule, if that is not known yet."""
        if not self._known:
            self._set(self._monitor.rule)

    def read(
        self, batch: list[WaitingEntry]
    ) -> Iterator[list[WaitingEntry] | tuple[WaitingEntry, BadDecision]]:
        """Yield parts of a batch as the rule reads them, and decisions that it cannot read."""
        if not self._some_unread:
            yield batch
            return
        part: list[WaitingEntry] = []
        for entry in batch:
            decision = entry[2]
            if type(decision.x) is _UnreadInput:
                try:
                    decision = decision._replace(x=self._read_input(decision.x.x))
                except BadDecision as error:
                    yield part
                    yield entry, error
                    part = []
                    continue
            part.append((entry[0], entry[1], decision))
        yield part

    def _read_input(self, x: Any) -> Any:
        if self.columns:
            return _copy_row(x)
        if not self.vectors:
            return x
        names = names_of(x)
        if isinstance(x, Mapping):  # the row of a frame
            x, names = list(x.values()), tuple(map(str, x))
        return with_names(np.array(to_number_array(x, "the input")), names)

    def copy(
        self, x: Any, z: Any, key: Any, time: Any, model: Any
    ) -> tuple[SubmittedDecision, int]:
        """Copy a decision; return it and about how many bytes it takes in memory."""
        if not self._known:
            self._some_unread = True
            copy = copy_input(x, True)
            x = _UnreadInput(copy[0] if hasattr(x, "iloc") and type(copy) is list else copy)
            size = _OVERHEAD + _size(x.x)
        elif self.vectors:
            if type(x) is ndarray:
                x = x.copy()
            else:
                x = with_names(np.array(to_number_array(x, "the input")), names_of(x))
            size = _OVERHEAD + x.nbytes
        else:
            x = _copy_row(x) if self.columns else copy_input(x)
            size = _OVERHEAD + _size(x)
        if type(z) not in _IMMUTABLE and z is not FROM_ROW:
            z = _copy_value(z)
            size += _size(z)
        if time is not None:
            time = to_microseconds(time)
        # Half as slow as calling the class.
        return _new(SubmittedDecision, (x, z, key, time, time_ns() // 1000, model)), size


def _copy_row(x: Any) -> dict[Any, Any]:
    """Copy a row of a table as a dictionary."""
    row = x if type(x) is dict else as_row(x)
    if row is None:
        row = _read_only_row(x)
    return {
        name: value if type(value) in _IMMUTABLE else _copy_value(value)
        for name, value in row.items()
    }


def _copy_value(value: Any) -> Any:
    return value if isinstance(value, np.generic) else copy_input(value)


def _read_only_row(x: Any) -> Mapping[str, Any]:
    """Read the row of a frame that has only one."""
    if not hasattr(x, "columns"):
        raise UnexpectedValue(
            f"the decision is {x!r:.200}; expected a dictionary, a named tuple, a dataclass, a"
            " pydantic model or a frame of one row, with the rule's columns.",
            advice="Submit one decision at a time.",
        )
    columns = table_columns(x)
    counts = {len(column) for column in columns.values()}
    if counts != {1}:
        raise WrongShape(
            f"the frame has {max(counts, default=0)} rows; expected one.",
            advice="Submit one decision at a time.",
        )
    return {name: column[0] for name, column in columns.items()}


def _size(value: Any) -> int:
    """Estimate the bytes of a value in memory."""
    if type(value) is np.ndarray:
        return int(value.nbytes)
    size = sys.getsizeof(value, 100)
    if isinstance(value, dict):
        return size + sum(_size(one) for one in value.values())
    if isinstance(value, list | tuple):
        return size + sum(_size(one) for one in value)
    return size


# Together


def split_runs(batch: list[WaitingEntry], *, vectors: bool) -> Iterator[list[WaitingEntry]]:
    """Split a batch into parts that can be put together, in order."""

    def kind(entry: WaitingEntry) -> Any:
        x, z = entry[2][:2]
        return (x.dtype, x.shape, names_of(x), z is FROM_ROW) if vectors else z is FROM_ROW

    if vectors and _have_one_kind(batch):  # the usual case, and quicker than grouping
        return iter([batch])
    return (list(run) for _, run in groupby(batch, kind))


def _have_one_kind(batch: Sequence[WaitingEntry]) -> bool:
    first = batch[0][2]
    dtype, shape, from_row = first.x.dtype, first.x.shape, first.z is FROM_ROW
    for _, _, decision in batch:
        x = decision[0]
        if x.dtype is not dtype or x.shape != shape or (decision[1] is FROM_ROW) is not from_row:
            return False
        if type(x) is not ndarray:
            return False  # it has column names, which may differ
    return True


def make_arguments(part: Sequence[WaitingEntry], *, vectors: bool) -> dict[str, Any]:
    """Make the arguments of `observe_many` for a run, or a part of one."""
    inputs, outputs, keys, times, submitted, models = zip(*(one[2] for one in part), strict=True)
    x: Any = list(inputs)
    if vectors:
        shape = inputs[0].shape
        x = np.concatenate(x).reshape(len(x), *shape) if shape else np.array(x)
        x = with_names(x, names_of(inputs[0]))
    arguments: dict[str, Any] = {"x": x, "times": _resolve_times(submitted, times)}
    if outputs[0] is not FROM_ROW:
        arguments["z"] = list(outputs)
    if any(key is not None for key in keys):
        arguments["keys"] = list(keys)
    if any(model is not None for model in models):
        arguments["models"] = list(models)
    return arguments


def _resolve_times(submitted: Sequence[int], times: Sequence[int | None]) -> Any:
    """Return the given times, or else when each was submitted, which never goes back."""
    resolved = np.maximum.accumulate(np.array(submitted, np.int64))
    for i, time in enumerate(times):
        if time is not None:
            resolved[i] = time
    return resolved.view("datetime64[us]")
