"""Routes through which decisions come: judged, only checked, only remembered, or reported as lost.

Bodies that are longer than `_LONG_BODY_BYTES` are read in a thread.
Bound: an answer with exact values has all witnesses that were requested if they fit into
`Limits.body_bytes`; else the nearest `Limits.witnesses` of each verdict, and how many are left out.
Not here: reading of bodies (decision_bodies.py), the queue of a monitor (served_monitor.py).
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from likewise.errors import BadFile, LikewiseError
from likewise.service import body_types
from likewise.service.content_types import EXACT_BYTES, decode_body, encode_answer
from likewise.service.decision_bodies import ARROW, parse_checks, parse_columns, parse_decision
from likewise.service.decision_limits import count_decisions
from likewise.service.http_errors import Refusal
from likewise.service.operations import Operations, RequestParameter
from likewise.service.repeated_requests import InDoubt, MaybeDone
from likewise.service.request_guard import AdmittedCall
from likewise.service.routes.query_values import parse_whole
from likewise.service.served_monitor import ServedMonitor
from likewise.service.settings import Limits
from likewise.tables.array_types import Rows
from likewise.tables.frames import ColumnTable
from likewise.verdict.exact_body import exact_body, exact_columns
from likewise.verdict.verdict_body import VerdictBody, write_bodies
from likewise.verdict.verdicts import Verdict, Verdicts

_LONG_BODY_BYTES = 1 << 17  # bytes that are read on the event loop at most: a millisecond
_WITNESS_BYTES = 24  # its row and two distances
_T = TypeVar("_T")
WAIT = RequestParameter(
    "wait", "judged, or durable: answered when it is on disk", choices=("judged", "durable")
)
_ALL = RequestParameter(
    "verdicts", "notable: those with a witness or an alarm; or all", choices=("notable", "all")
)
WITNESSES = RequestParameter(
    "witnesses",
    "how many witnesses a verdict has at most, the nearest; unless given, as many as the server's"
    " limit, and with exact values all that fit into an answer",
    int,
)
_BATCHES = (body_types.ColumnsBody, body_types.RowsBody)
OPERATIONS = Operations()


async def observe_again(call: AdmittedCall) -> bytes:
    """Answer again if there is a key or a position, by which the ledger recognises a decision."""
    decision = await _parse_body(parse_decision, call)
    has_id = decision.key is not None or decision.position is not None
    if not has_id and call.served.monitor.rule.key_column is None:
        raise InDoubt
    return await observe(call)


@OPERATIONS.hot(
    "observe",
    VerdictBody,
    body_types.DecisionBody,
    queries=(WAIT, WITNESSES),
    if_unknown=observe_again,
)
async def observe(call: AdmittedCall) -> bytes:
    """Judge one decision and remember it."""
    served, query = call.served, call.query
    durable = bool(query) and parse_choice(query, WAIT) == "durable"
    is_plain = not query and EXACT_BYTES not in call.accept
    write = served.encode_verdict if is_plain else _verdict_writer(call)
    decision = await _parse_body(parse_decision, call)
    try:
        return await served.observe(decision, write, durable=durable)
    except BadFile as error:  # the failed commit may have succeeded
        raise MaybeDone(error) from None


async def batch_again(call: AdmittedCall) -> bytes:
    """Answer again if every decision has a key or a position.

    The ledger answers known keys as before, and refuses known positions.
    """
    columns = await _parse_body(parse_columns, call)
    keys = _find_keys(columns, call.served.monitor.rule.key_column)
    if not _is_complete(keys) and not _is_complete(columns["positions"]):
        raise InDoubt
    return await batch(call)


@OPERATIONS.hot(
    "batch",
    body_types.BatchBody,
    *_BATCHES,
    takes={ARROW: ()},
    queries=(WAIT, _ALL, WITNESSES),
    if_unknown=batch_again,
)
async def batch(call: AdmittedCall) -> bytes:
    """Judge many decisions and remember them, all or none."""
    served, write = call.served, _batch_writer(call)
    durable = parse_choice(call.query, WAIT) == "durable"
    columns = await _parse_body(parse_columns, call)
    count = count_decisions(served.limits, columns)
    monitor = served.monitor

    def judge() -> Verdicts:
        verdicts = monitor.observe_many(columns.pop("x"), columns.pop("z"), **columns)
        if durable and monitor.durable:
            monitor.flush()
        return verdicts

    return await served.observe_many(count, partial(_call_and_report_stored, served, judge), write)


@OPERATIONS.hot(
    "batch/check", body_types.BatchBody, body_types.CheckBatchBody, queries=(_ALL, WITNESSES)
)
async def check_batch(call: AdmittedCall) -> bytes:
    """Judge many decisions, each as if it came alone and now; nothing is remembered."""
    served, write = call.served, _batch_writer(call)
    columns = await _parse_body(parse_checks, call)
    count = count_decisions(served.limits, columns)

    def check() -> bytes:
        verdicts = served.monitor.check_many(**columns)
        return write(verdicts if _may_read(call) else replace(verdicts, near=None))

    return await served.run_in_turn(check, rows=count)


@OPERATIONS.hot("batch/load", body_types.LoadedBody, *_BATCHES, takes={ARROW: ()})
async def load(call: AdmittedCall) -> bytes:
    """Remember many decisions without judging them, all or none."""
    served = call.served
    columns = await _parse_body(parse_columns, call)
    count = count_decisions(served.limits, columns)
    load = partial(served.monitor.load, **columns)
    rows = await served.run_in_turn(partial(_call_and_report_stored, served, load), rows=count)
    served.next_row = max(served.next_row, rows.stop)
    return encode_answer(call.accept, body_types.LoadedBody(rows.start, len(rows)))


@OPERATIONS.hot("check", VerdictBody, body_types.DecisionBody, queries=(WITNESSES,))
async def check(call: AdmittedCall) -> bytes:
    """Judge one decision as if it came now; nothing is remembered."""
    served, write = call.served, _verdict_writer(call)
    decision = await _parse_body(parse_decision, call)
    if decision.key is not None or decision.source is not None:
        raise Refusal(422, "a decision that is only checked has no key and no source.")
    x, z, time, model = decision.x, decision.z, decision.time, decision.model

    def check() -> bytes:
        verdict = served.monitor.check(x, z, time=time, model=model)
        if not _may_read(call):
            context = verdict.context._replace(near=None)
            verdict = Verdict(verdict.row, verdict.witnesses, context)
        return write(verdict)

    return await served.run_in_turn(check)


def _may_read(call: AdmittedCall) -> bool:
    """Whether the caller may learn from a check how many similar cases there are."""
    return call.token is None or call.token.allows("read", call.served.name)


@OPERATIONS.hot("lost", body_types.DoneBody, body_types.LostBody)
async def record_loss(call: AdmittedCall) -> bytes:
    """Report decisions that were made and will never be observed; later verdicts mention them."""
    sent = decode_body(body_types.LostBody, call.content_type, call.body)
    more = {name: getattr(sent, name) for name in ("first", "last", "since", "until")}
    await call.served.run_in_turn(
        partial(call.served.monitor.record_loss, sent.count, sent.reason, **more)
    )
    return encode_answer(call.accept, body_types.DoneBody(True))


@OPERATIONS.hot("flush", body_types.DoneBody)
async def flush(call: AdmittedCall) -> bytes:
    """Write everything that was answered to disk."""
    await call.served.run_in_turn(call.served.monitor.flush)
    return encode_answer(call.accept, body_types.DoneBody(True))


def _call_and_report_stored(served: ServedMonitor, call: Callable[[], _T]) -> _T:
    """In the monitor's turn: make a call; if the disk fails, raise MaybeDone if it was stored."""
    monitor, before = served.monitor, served.monitor.rows
    try:
        return call()
    except BadFile as error:
        try:
            stored = monitor.rows != before
        except LikewiseError:
            stored = True
        if stored:
            raise MaybeDone(error) from None
        raise


def _verdict_writer(call: AdmittedCall) -> Callable[[Verdict], bytes]:
    """Return what writes the answer to one decision."""
    served, witnesses = call.served, parse_witnesses(call.query)
    if EXACT_BYTES in call.accept:
        return lambda verdict: encode_answer(
            EXACT_BYTES, make_verdict_body(served, witnesses, verdict, exact=True)
        )
    return partial(served.encode_verdict, witnesses=witnesses)


def _batch_writer(call: AdmittedCall) -> Callable[[Verdicts], bytes]:
    """Return what writes the answer to a batch."""
    served, witnesses = call.served, parse_witnesses(call.query)
    include_all = parse_choice(call.query, _ALL) == "all"
    if EXACT_BYTES in call.accept:

        def write(verdicts: Verdicts) -> bytes:
            most = _limit_witnesses(served.limits, witnesses, np.diff(verdicts.offsets))
            return encode_answer(EXACT_BYTES, exact_columns(verdicts, most))

        return write
    return partial(encode_batch, served, include_all=include_all, witnesses=witnesses)


def make_verdict_body(
    served: ServedMonitor, requested: int | None, verdict: Verdict, *, exact: bool
) -> dict[str, Any]:
    """Return the answer to one decision.

    requested   how many witnesses the request wants; None: as many as there may be
    """
    if not exact:
        return served.verdict_body(verdict, requested)
    counts = np.array([len(verdict.witnesses)])
    return exact_body(verdict, _limit_witnesses(served.limits, requested, counts))


def _limit_witnesses(limits: Limits, requested: int | None, counts: Rows) -> int | None:
    """Return how many witnesses each verdict has; None: all of them."""
    total = int((counts if requested is None else np.minimum(counts, requested)).sum())
    if total <= limits.body_bytes // _WITNESS_BYTES:
        return requested
    return limits.witness_limit(requested)


def parse_witnesses(query: Mapping[str, str]) -> int | None:
    """Parse how many witnesses a verdict should have; None: as many as there may be."""
    return parse_whole("witnesses", query["witnesses"]) if "witnesses" in query else None


def _find_keys(columns: dict[str, Any], column: str | None) -> Any:
    """Return the keys of a batch, which may be one of its columns."""
    x = columns["x"]
    if column is None:
        return columns["keys"]
    if isinstance(x, ColumnTable):
        return x.columns.get(column)
    rows = x if isinstance(x, list) else [x]
    return [row.get(column) if isinstance(row, dict) else None for row in rows]


def _is_complete(values: Any) -> bool:
    """Whether there is a value for each decision."""
    return isinstance(values, list | tuple | np.ndarray) and not any(
        value is None for value in values
    )


def encode_batch(
    served: ServedMonitor,
    verdicts: Verdicts,
    *,
    include_all: bool = False,
    witnesses: int | None = None,
) -> bytes:
    """Write the answer to a batch: counts of all, and violations and alarms one by one."""
    violations = verdicts.violations
    places = np.arange(len(verdicts))
    if not include_all:
        places = (violations | verdicts.alarms).nonzero()[0]
    body: dict[str, Any] = {
        "first_row": verdicts.first_row,
        "decisions": len(verdicts),
        "violations": int(np.count_nonzero(violations)),
        "verdicts": write_bodies(verdicts, served.limits.witness_limit(witnesses), places),
    }
    if verdicts.comparable is not None:
        incomparable = (~verdicts.comparable).nonzero()[0]
        body["comparable"] = len(verdicts) - len(incomparable)
        body["incomparable"] = incomparable.tolist()
    if verdicts.missing_decisions:
        body["missing_decisions"] = verdicts.missing_decisions
    if verdicts.not_compared is not None:
        body["partly_compared"] = np.flatnonzero(verdicts.not_compared).tolist()
    if verdicts.first_verdicts is not None and verdicts.repeated.any():
        body["rows"] = verdicts.rows.tolist()
        body["repeated"] = np.flatnonzero(verdicts.repeated).tolist()
    return body_types.encode(body)


async def _parse_body(parse: Callable[[AdmittedCall], _T], call: AdmittedCall) -> _T:
    """Parse a body, in a thread if it is long."""
    try:
        if len(call.body) < _LONG_BODY_BYTES:
            return parse(call)
        return await asyncio.to_thread(parse, call)
    except LikewiseError as error:  # the monitor was not asked, so it has not counted this
        call.served.counts.count_refusal(error)
        raise


def parse_choice(query: Mapping[str, str], parameter: RequestParameter) -> str:
    """Parse a parameter that is one of a few words, of which the first is the default."""
    name, choices = parameter.name, parameter.choices
    word = query.get(name, choices[0])
    if word not in choices:
        raise Refusal(400, f"{name} is {word[:100]!r}; expected {' or '.join(choices)}.")
    return word
