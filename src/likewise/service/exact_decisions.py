"""Decisions with exact values, as a monitor takes them, and the answers to them.

Fields are those of JSON. Values come with their types, so the monitor alone says what is wrong with
them; here is only checked what is too large.

Bound: an answer names all witnesses that were asked for while they fit into `Limits.body_bytes`;
beyond, the nearest `Limits.witnesses` of each, and how many were left out.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from likewise.monitor.protocol import Decision
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.rule.rule import Rule
from likewise.service.body_types import CheckBatchBody, ColumnsBody, DecisionBody
from likewise.service.content_types import decode_exact
from likewise.service.decision_limits import (
    check_columns,
    check_names,
    check_table,
    check_time,
    check_words,
)
from likewise.service.http_errors import Refusal
from likewise.service.served_monitor import ServedMonitor
from likewise.service.settings import Limits
from likewise.tables.exact_values import decoder_of
from likewise.tables.frames import ColumnTable
from likewise.tables.rows import Rows
from likewise.tables.times import to_microseconds_each
from likewise.verdict.exact_body import exact_body, exact_columns
from likewise.verdict.verdicts import Verdict, Verdicts

_WITNESS_BYTES = 24  # its row and two distances
_RULE_FIELDS = ("x", "z", "values")


def _decoder(body: type[msgspec.Struct]) -> Callable[[bytes], Any]:
    """Return what reads a body that has the fields of one in JSON, with whatever values."""
    names = [name for name in body.__struct_fields__ if name != "type"]
    fields = [(name, Any, msgspec.UNSET if name in _RULE_FIELDS else None) for name in names]
    kind = msgspec.defstruct(body.__name__, fields, forbid_unknown_fields=True, frozen=True)
    return decoder_of(kind)


_decode_one, _decode_many = _decoder(DecisionBody), _decoder(ColumnsBody)
_decode_checks = _decoder(CheckBatchBody)


def read_decision(hosted: ServedMonitor, body: bytes) -> Decision:
    """Read one decision."""
    sent, limits = decode_exact(_decode_one, body), hosted.limits
    x, z = _input(hosted.monitor.rule, sent)
    _check_words(hosted, x, (z,))
    check_names(limits, {"keys": (sent.key,), "models": sent.model, "sources": sent.source})
    time = check_time(limits, sent.time)
    return Decision(x, z, sent.key, time, sent.model, sent.source, sent.position)


def read_batch(hosted: ServedMonitor, body: bytes) -> dict[str, Any]:
    """Read the arguments of `observe_many`, or of `load`."""
    columns = _columns(hosted, decode_exact(_decode_many, body))
    if columns["times"] is not None:
        known = to_microseconds_each(columns["times"], count_decisions(columns))
        if len(known):
            check_time(hosted.limits, int(known.min()) / 1e6)
            check_time(hosted.limits, int(known.max()) / 1e6)
    return columns


def read_checks(hosted: ServedMonitor, body: bytes) -> dict[str, Any]:
    """Read the arguments of `check_many`."""
    columns = _columns(hosted, decode_exact(_decode_checks, body))
    return columns | {"time": check_time(hosted.limits, columns["time"])}


def count_decisions(columns: dict[str, Any]) -> int:
    """Return how many decisions a batch has."""
    x, z = columns["x"], columns["z"]
    try:
        return len(x if z is FROM_ROW else z)
    except TypeError:
        return 1  # the monitor says what is wrong with it


def _columns(hosted: ServedMonitor, sent: Any) -> dict[str, Any]:
    x, z = _input(hosted.monitor.rule, sent, many=True)
    named = {
        name: getattr(sent, name) for name in sent.__struct_fields__ if name not in _RULE_FIELDS
    }
    columns = {"x": x, "z": z, **named}
    check_count(hosted.limits, count_decisions(columns))
    _check_words(hosted, x, z)
    check_names(hosted.limits, columns)
    return columns


def check_count(limits: Limits, count: int) -> None:
    """Raise Refusal if a batch has too many decisions."""
    if count > limits.batch_rows:
        raise Refusal(
            413, f"the batch has {count} decisions; at most {limits.batch_rows} are taken."
        )


def _input(rule: Rule, sent: Any, *, many: bool = False) -> tuple[Any, Any]:
    """Return the inputs and the outputs of a body."""
    z = FROM_ROW if sent.z is msgspec.UNSET else sent.z
    own, other = (sent.x, sent.values) if rule.features is None else (sent.values, sent.x)
    if own is msgspec.UNSET or other is not msgspec.UNSET:
        kind, name, wrong = (
            ("vectors", "x", "values") if rule.features is None else ("a table", "values", "x")
        )
        raise Refusal(422, f"the rule is about {kind}: expected `{name}`, without `{wrong}`.")
    if rule.features is None:
        return own, z
    for row in own if isinstance(own, list) else [own]:
        if isinstance(row, dict):
            if not all(isinstance(name, str) for name in row):
                raise Refusal(422, "the names of the columns of `values` are no text.")
            check_columns(row)
    return (_table(own) if many and isinstance(own, dict) else own), z


def _table(columns: dict[str, Any]) -> ColumnTable:
    whole = all(
        isinstance(column, list) or (isinstance(column, np.ndarray) and column.ndim)
        for column in columns.values()
    )
    if not whole or len({len(column) for column in columns.values()}) > 1:
        raise Refusal(422, "the columns of `values` are not equally long.")
    return ColumnTable(columns)


def _check_words(hosted: ServedMonitor, x: Any, z: Any) -> None:
    """Raise Refusal if a label or a text of a table is too long."""
    limits, rule = hosted.limits, hosted.monitor.rule
    if rule.output == "label":
        check_words("an output", z, limits.label_bytes)
    if rule.features is not None:
        check_table(limits, rule, x)


def make_exact_verdict(limits: Limits, requested: int | None, verdict: Verdict) -> dict[str, Any]:
    """Return the answer to one decision.

    asked   how many witnesses the request wants; None: all
    """
    return exact_body(
        verdict, _witness_limit(limits, requested, np.array([len(verdict.witnesses)]))
    )


def make_exact_batch(limits: Limits, requested: int | None, verdicts: Verdicts) -> dict[str, Any]:
    """Return the answer to a batch."""
    return exact_columns(verdicts, _witness_limit(limits, requested, np.diff(verdicts.offsets)))


def _witness_limit(limits: Limits, requested: int | None, counts: Rows) -> int | None:
    """Return how many witnesses of each verdict are named; None: all of them."""
    wanted = int((counts if requested is None else np.minimum(counts, requested)).sum())
    if wanted <= limits.body_bytes // _WITNESS_BYTES:
        return requested
    return limits.witness_limit(requested)
