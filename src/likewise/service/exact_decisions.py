"""Reads decisions with exact values (MessagePack), and makes the answers to them.

Fields are those of JSON. Values come with their types, so the monitor itself checks them; here only
sizes are checked.
Bound: an answer has all witnesses that were requested if they fit into `Limits.body_bytes`; else
the nearest `Limits.witnesses` of each verdict, and how many were left out.
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
    count_decisions,
    make_column_table,
    refuse_fields,
)
from likewise.service.http_errors import Refusal
from likewise.service.served_monitor import ServedMonitor
from likewise.service.settings import Limits
from likewise.tables.array_types import Rows
from likewise.tables.exact_values import decoder_of
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


def read_decision(served: ServedMonitor, body: bytes) -> Decision:
    """Read one decision."""
    sent, limits = decode_exact(_decode_one, body), served.limits
    x, z = _input(served.monitor.rule, sent)
    _check_words(served, x, (z,))
    check_names(limits, {"keys": (sent.key,), "models": sent.model, "sources": sent.source})
    time = check_time(limits, sent.time)
    return Decision(x, z, sent.key, time, sent.model, sent.source, sent.position)


def read_batch(served: ServedMonitor, body: bytes) -> dict[str, Any]:
    """Read the arguments of `observe_many`, or of `load`."""
    columns, limits = _columns(served, decode_exact(_decode_many, body)), served.limits
    if columns["times"] is not None:
        times = to_microseconds_each(columns["times"], count_decisions(limits, columns))
        if len(times):
            check_time(limits, int(times.min()) / 1e6)
            check_time(limits, int(times.max()) / 1e6)
    return columns


def read_checks(served: ServedMonitor, body: bytes) -> dict[str, Any]:
    """Read the arguments of `check_many`."""
    columns = _columns(served, decode_exact(_decode_checks, body))
    return columns | {"time": check_time(served.limits, columns["time"])}


def _columns(served: ServedMonitor, sent: Any) -> dict[str, Any]:
    x, z = _input(served.monitor.rule, sent, many=True)
    others = [name for name in sent.__struct_fields__ if name not in _RULE_FIELDS]
    columns = {"x": x, "z": z, **{name: getattr(sent, name) for name in others}}
    count_decisions(served.limits, columns)
    _check_words(served, x, z)
    check_names(served.limits, columns)
    return columns


def _input(rule: Rule, sent: Any, *, many: bool = False) -> tuple[Any, Any]:
    """Return the inputs and the outputs of a body."""
    z = FROM_ROW if sent.z is msgspec.UNSET else sent.z
    own, other = (sent.x, sent.values) if rule.features is None else (sent.values, sent.x)
    if own is msgspec.UNSET or other is not msgspec.UNSET:
        refuse_fields(rule)
    if rule.features is None:
        return own, z
    for row in own if isinstance(own, list) else [own]:
        if isinstance(row, dict):
            if not all(isinstance(name, str) for name in row):
                raise Refusal(422, "the names of the columns of `values` are no text.")
            check_columns(row)
    return (make_column_table(own) if many and isinstance(own, dict) else own), z


def _check_words(served: ServedMonitor, x: Any, z: Any) -> None:
    """Raise Refusal if a label or a text of a table is too long."""
    limits, rule = served.limits, served.monitor.rule
    if rule.output == "label":
        check_words("an output", z, limits.label_bytes)
    if rule.features is not None:
        check_table(limits, rule, x)


def make_exact_verdict(limits: Limits, requested: int | None, verdict: Verdict) -> dict[str, Any]:
    """Return the answer to one decision.

    requested   how many witnesses the request wants; None: all
    """
    return exact_body(
        verdict, _witness_limit(limits, requested, np.array([len(verdict.witnesses)]))
    )


def make_exact_batch(limits: Limits, requested: int | None, verdicts: Verdicts) -> dict[str, Any]:
    """Return the answer to a batch."""
    return exact_columns(verdicts, _witness_limit(limits, requested, np.diff(verdicts.offsets)))


def _witness_limit(limits: Limits, requested: int | None, counts: Rows) -> int | None:
    """Return how many witnesses each verdict has; None: all of them."""
    total = int((counts if requested is None else np.minimum(counts, requested)).sum())
    if total <= limits.body_bytes // _WITNESS_BYTES:
        return requested
    return limits.witness_limit(requested)
