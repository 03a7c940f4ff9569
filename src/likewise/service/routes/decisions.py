"""Decisions come in: one or a batch; judged, only checked, only remembered, or lost."""

import asyncio
import re
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np

from likewise.errors import BadFile, LikewiseError
from likewise.monitor.protocol import Decision
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.service import body_types
from likewise.service.arrow_batch import ARROW, read_arrow_batch
from likewise.service.body_types import (
    BatchBody,
    CheckBatchBody,
    ColumnsBody,
    DecisionBody,
    DoneBody,
    LoadedBody,
    LostBody,
    RowsBody,
)
from likewise.service.content_types import EXACT_BYTES, decode_body, decode_json, encode_answer
from likewise.service.decision_limits import (
    check_columns,
    check_lengths,
    check_names,
    check_numbers,
    check_time,
    check_words,
    normalize_column,
    normalize_label,
    normalize_row,
)
from likewise.service.exact_decisions import (
    check_count,
    count_decisions,
    make_exact_batch,
    make_exact_verdict,
    read_batch,
    read_checks,
    read_decision,
)
from likewise.service.http_errors import Refusal
from likewise.service.operations import Operations, RequestParameter
from likewise.service.repeated_requests import InDoubt, MaybeDone
from likewise.service.request_guard import AdmittedCall
from likewise.service.routes.query_values import parse_whole
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.frames import ColumnTable
from likewise.tables.normalize import MAX_EXACT_INT, to_number_array
from likewise.verdict.verdict_body import VerdictBody, write_bodies
from likewise.verdict.verdicts import Verdict, Verdicts

_SCALARS = {int, float, bool, str}
_LONG_BODY_BYTES = 1 << 17  # bytes that are read on the event loop at most: a millisecond
_ROWS_BODY = re.compile(rb'\s*\{\s*"decisions"\s*:')  # a body of rows; columns have no such name
_T = TypeVar("_T")
_STORAGE = ("float64", "float32", "int8", "int16", "int32", "uint8", "uint16", "uint32")
WAIT = RequestParameter(
    "wait", "judged, or durable: answered when it is on disk", choices=("judged", "durable")
)
_ALL = RequestParameter(
    "verdicts", "told, or all: also those without a witness", choices=("told", "all")
)
WITNESSES = RequestParameter(
    "witnesses",
    "how many are told of one verdict at most, the nearest; unless given, as many as the server's"
    " limit, and with exact values all that fit into an answer",
    int,
)
_METADATA_NAMES = ("keys", "times", "models", "sources", "positions")
_BATCHES = (ColumnsBody, RowsBody)
OPERATIONS = Operations()


async def observe_again(call: AdmittedCall) -> bytes:
    """Answer what an earlier process may have done: with a key or a position the ledger knows."""
    decision = await _parse_body(_parse_decision, call)
    named = decision.key is not None or decision.position is not None
    if not named and call.hosted.monitor.rule.key_column is None:
        raise InDoubt
    return await observe(call)


@OPERATIONS.hot(
    "observe", VerdictBody, DecisionBody, queries=(WAIT, WITNESSES), if_unknown=observe_again
)
async def observe(call: AdmittedCall) -> bytes:
    """Judge one decision and remember it."""
    hosted, query = call.hosted, call.query
    durable = bool(query) and parse_wait(query) == "durable"
    plain = not query and EXACT_BYTES not in call.accept
    tell = hosted.encode_verdict if plain else _verdict_writer(call)
    decision = await _parse_body(_parse_decision, call)
    try:
        return await hosted.observe(decision, tell, durable=durable)
    except BadFile as error:  # the failed commit may have succeeded
        raise MaybeDone(error) from None


async def batch_again(call: AdmittedCall) -> bytes:
    """Answer what an earlier process may have done: if every decision has a key or a position.

    The ledger answers keys that it has, and refuses positions that it has.
    """
    columns = await _parse_body(_parse_columns, call)
    keys = _find_keys(columns, call.hosted.monitor.rule.key_column)
    if not _is_complete(keys) and not _is_complete(columns["positions"]):
        raise InDoubt
    return await batch(call)


@OPERATIONS.hot(
    "batch",
    BatchBody,
    *_BATCHES,
    takes={ARROW: ()},
    queries=(WAIT, _ALL, WITNESSES),
    if_unknown=batch_again,
)
async def batch(call: AdmittedCall) -> bytes:
    """Judge many decisions and remember them, all or none."""
    hosted, tell = call.hosted, _batch_writer(call)
    durable = parse_wait(call.query) == "durable"
    columns = await _parse_body(_parse_columns, call)
    count = _count_and_check(hosted, columns)
    monitor = hosted.monitor

    def judge() -> Verdicts:
        verdicts = monitor.observe_many(columns.pop("x"), columns.pop("z"), **columns)
        if durable and monitor.durable:
            monitor.flush()
        return verdicts

    return await hosted.observe_many(count, partial(_call_and_report_stored, hosted, judge), tell)


@OPERATIONS.hot("batch/check", BatchBody, CheckBatchBody, queries=(_ALL, WITNESSES))
async def check_batch(call: AdmittedCall) -> bytes:
    """Judge many decisions, each as if it came now, alone; nothing is remembered."""
    hosted, tell = call.hosted, _batch_writer(call)
    columns = await _parse_body(_parse_checks, call)
    count = _count_and_check(hosted, columns)
    check = partial(hosted.monitor.check_many, **columns)
    return await hosted.run_in_turn(lambda: tell(check()), rows=count)


@OPERATIONS.hot("batch/load", LoadedBody, *_BATCHES, takes={ARROW: ()})
async def load(call: AdmittedCall) -> bytes:
    """Remember many decisions without judging them, all or none."""
    hosted = call.hosted
    columns = await _parse_body(_parse_columns, call)
    count = _count_and_check(hosted, columns)
    load = partial(hosted.monitor.load, **columns)
    rows = await hosted.run_in_turn(partial(_call_and_report_stored, hosted, load), rows=count)
    hosted.next_row = max(hosted.next_row, rows.stop)
    return encode_answer(call.accept, LoadedBody(rows.start, len(rows)))


@OPERATIONS.hot("check", VerdictBody, DecisionBody, queries=(WITNESSES,))
async def check(call: AdmittedCall) -> bytes:
    """Judge one decision as if it came now; nothing is remembered."""
    hosted, tell = call.hosted, _verdict_writer(call)
    decision = await _parse_body(_parse_decision, call)
    if decision.key is not None or decision.source is not None:
        raise Refusal(422, "a decision that is only checked has no key and no source.")
    monitor = hosted.monitor
    check = partial(monitor.check, decision.x, decision.z, time=decision.time, model=decision.model)
    return await hosted.run_in_turn(lambda: tell(check()))


@OPERATIONS.hot("lost", DoneBody, LostBody)
async def record_loss(call: AdmittedCall) -> bytes:
    """Say that decisions were made and will never be observed; every later verdict says so."""
    sent = decode_body(LostBody, call.content_type, call.body)
    more = {name: getattr(sent, name) for name in ("first", "last", "since", "until")}
    await call.hosted.run_in_turn(
        partial(call.hosted.monitor.record_loss, sent.count, sent.reason, **more)
    )
    return encode_answer(call.accept, DoneBody(True))


@OPERATIONS.hot("flush", DoneBody)
async def flush(call: AdmittedCall) -> bytes:
    """Have everything that was answered on disk."""
    await call.hosted.run_in_turn(call.hosted.monitor.flush)
    return encode_answer(call.accept, DoneBody(True))


def _call_and_report_stored(hosted: ServedMonitor, call: Callable[[], _T]) -> _T:
    """In the monitor's turn: make a call; if the disk fails, say whether it was stored anyway."""
    monitor, before = hosted.monitor, hosted.monitor.rows
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
    hosted, asked = call.hosted, parse_witnesses(call.query)
    if EXACT_BYTES in call.accept:
        return lambda verdict: encode_answer(
            EXACT_BYTES, make_exact_verdict(hosted.limits, asked, verdict)
        )
    return partial(hosted.encode_verdict, witnesses=asked)


def _batch_writer(call: AdmittedCall) -> Callable[[Verdicts], bytes]:
    """Return what writes the answer to a batch."""
    hosted, asked = call.hosted, parse_witnesses(call.query)
    told = parse_choice(call.query, "verdicts", ("told", "all"))
    if EXACT_BYTES in call.accept:
        return lambda verdicts: encode_answer(
            EXACT_BYTES, make_exact_batch(hosted.limits, asked, verdicts)
        )
    return partial(encode_batch, hosted, include_all=told == "all", witnesses=asked)


def parse_witnesses(query: Mapping[str, str]) -> int | None:
    """Return how many witnesses of a verdict are wanted; None: as many as there may be."""
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
    hosted: ServedMonitor,
    verdicts: Verdicts,
    *,
    include_all: bool = False,
    witnesses: int | None = None,
) -> bytes:
    """Only what is not obvious is told one by one: violations and alarms."""
    violations = verdicts.violations
    told = np.arange(len(verdicts))
    if not include_all:
        told = (violations | verdicts.alarms).nonzero()[0]
    body: dict[str, Any] = {
        "first_row": verdicts.first_row,
        "decisions": len(verdicts),
        "violations": int(np.count_nonzero(violations)),
        "verdicts": write_bodies(verdicts, hosted.limits.witness_limit(witnesses), told),
    }
    if verdicts.comparable is not None:
        alone = (~verdicts.comparable).nonzero()[0]
        body["comparable"] = len(verdicts) - len(alone)
        body["incomparable"] = alone.tolist()
    if verdicts.missing:
        body["missing"] = verdicts.missing
    if verdicts.incomplete is not None:
        body["incomplete"] = np.flatnonzero(verdicts.incomplete).tolist()
    if verdicts.repeats is not None and verdicts.known.any():
        body["rows"] = verdicts.rows.tolist()
        body["known"] = np.flatnonzero(verdicts.known).tolist()
    return body_types.encode(body)


def make_decision(hosted: ServedMonitor, body: DecisionBody) -> Decision:
    """What a monitor takes, from what was sent."""
    limits, rule = hosted.limits, hosted.monitor.rule
    x: Any = body.x
    if rule.features is not None:
        if body.values is None or x is not None or body.z is not None:
            raise Refusal(422, "the rule is about a table: expected `values`, without `x` and `z`.")
        x, z = normalize_row(limits, rule, body.values), FROM_ROW
        check_lengths(limits, None, body.key, body.model)
    else:
        z = body.z
        if body.values is not None or x is None:
            raise Refusal(422, "the rule is about vectors: expected `x` and `z`, not `values`.")
        if z is None:
            raise Refusal(422, "there is no output: expected `z`.")
        if type(z) is list or type(z) is dict:
            z = normalize_label(limits, z, rule.output)
        check_lengths(limits, z, body.key, body.model)
        if type(x) is list and rule.embed is None:
            check_numbers(x)
    time = None if body.time is None else check_time(limits, body.time)
    if body.source is not None:
        check_words("the source", body.source, limits.label_bytes)
    return Decision(x, z, body.key, time, body.model, body.source, body.position)


async def _parse_body(read: Callable[[AdmittedCall], _T], call: AdmittedCall) -> _T:
    """What a function reads from a body; of a long one it is called in a thread."""
    try:
        return (
            read(call) if len(call.body) < _LONG_BODY_BYTES else await asyncio.to_thread(read, call)
        )
    except LikewiseError as error:  # no monitor was told, so none has counted it
        call.hosted.counts.refused[error.code] += 1
        raise


def _parse_decision(call: AdmittedCall) -> Decision:
    if call.content_type.startswith(EXACT_BYTES):
        return read_decision(call.hosted, call.body)
    return make_decision(call.hosted, decode_json(body_types.decode_decision, call.body))


def _parse_columns(call: AdmittedCall) -> dict[str, Any]:
    """Read the arguments of `observe_many`."""
    hosted = call.hosted
    rule, limits = hosted.monitor.rule, hosted.limits
    if call.content_type.startswith(EXACT_BYTES):
        return read_batch(hosted, call.body)
    if call.content_type.partition(b";")[0].strip().lower() == ARROW.encode():
        columns = read_arrow_batch(call.body, rule, limits.batch_rows)
    elif _ROWS_BODY.match(call.body):
        return _columns_from_rows(hosted, decode_json(body_types.decode_rows, call.body).decisions)
    elif rule.features is None and rule.embed is None:
        body, x = _parse_vectors(call.body)
        _check_exact(x, lambda: decode_json(body_types.decode_columns, call.body).x)
        columns = {"x": x, "z": body.z, **_metadata_columns(body)}
    else:
        sent = decode_json(body_types.decode_columns, call.body)
        table, z = _make_table(hosted, sent)
        columns = {"x": table, "z": z, **_metadata_columns(sent)}
    return _normalize_columns(hosted, columns)


def _parse_checks(call: AdmittedCall) -> dict[str, Any]:
    """Read the arguments of `check_many`."""
    hosted = call.hosted
    rule = hosted.monitor.rule
    if call.content_type.startswith(EXACT_BYTES):
        return read_checks(hosted, call.body)
    sent = decode_json(body_types.decode_checks, call.body)
    if rule.features is None and rule.embed is None:
        if sent.x is None or sent.z is None or sent.values is not None:
            raise Refusal(422, "the rule is about vectors: expected `x` and `z`, not `values`.")
        check_numbers(sent.x)
        x, z = _make_matrix(sent.x, sent.type), sent.z
        _check_exact(x, lambda: sent.x)
    else:
        x, z = _make_table(hosted, sent)
    columns = _normalize_columns(
        hosted, {"x": x, "z": z, **dict.fromkeys(_METADATA_NAMES), "models": sent.models}
    )
    time = check_time(hosted.limits, sent.time)
    return {"x": columns["x"], "z": columns["z"], "models": sent.models, "time": time}


def _normalize_columns(hosted: ServedMonitor, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a batch as a monitor takes them; Refusal if something is too large."""
    rule, limits = hosted.monitor.rule, hosted.limits
    x = columns["x"]
    if isinstance(x, ColumnTable):
        columns["x"] = ColumnTable(
            {name: normalize_column(limits, rule, name, x.columns[name]) for name in x.columns}
        )
    if columns["z"] is not FROM_ROW:
        columns["z"] = _normalize_outputs(hosted, columns["z"])
    check_names(limits, columns)
    if columns["times"] is not None:
        columns["times"] = _all_or_none([check_time(limits, time) for time in columns["times"]])
    return columns


def _metadata_columns(body: Any) -> dict[str, Any]:
    return {name: getattr(body, name) for name in _METADATA_NAMES}


def _normalize_outputs(hosted: ServedMonitor, z: Any) -> Any:
    """The outputs of a batch as a monitor takes them."""
    limits, kind = hosted.limits, hosted.monitor.rule.output
    kinds = set(map(type, z)) if isinstance(z, list) else set()
    if type(None) in kinds:
        raise Refusal(422, "a decision of the batch has no output.")
    if str in kinds:
        check_words("an output", z, limits.label_bytes)
    if kind != "label" or kinds <= _SCALARS:
        return z
    return [normalize_label(limits, one, kind) for one in z]


def _columns_from_rows(hosted: ServedMonitor, bodies: list[DecisionBody]) -> dict[str, Any]:
    check_count(hosted.limits, len(bodies))
    each = [make_decision(hosted, one) for one in bodies]
    rule = hosted.monitor.rule
    x: Any = [one.x for one in each]
    if rule.features is None and rule.embed is None:
        matrix = _pack_matrix(x)
        _check_exact(matrix, lambda: [one.x for one in each])
        x = matrix
    return {
        "x": x,
        "z": FROM_ROW if rule.features is not None else [one.z for one in each],
        "keys": _none_if_empty([one.key for one in each]),
        "times": _all_or_none([one.time for one in each]),
        "models": _none_if_empty([one.model for one in each]),
        "sources": _none_if_empty([one.source for one in each]),
        "positions": _none_if_empty([one.position for one in each]),
    }


def _parse_vectors(sent: bytes) -> tuple[body_types.VectorColumns, Any]:
    """A batch of vectors, and the matrix of them."""
    body = decode_json(body_types.decode_vectors, sent)
    return body, _pack_matrix(body.x) if body.type is None else _make_matrix(body.x, body.type)


def _pack_matrix(rows: list[Any]) -> Any:
    """A matrix of rows of numbers, in a quarter of the time that NumPy takes for lists of lists."""
    width = len(rows[0]) if rows else 0
    pack = struct.Struct(f"{width}d").pack
    try:
        numbers = b"".join([pack(*row) for row in rows])
    except (struct.error, TypeError, OverflowError):  # not equally long: NumPy says what is wrong
        return _make_matrix(rows, None)
    return np.frombuffer(numbers).reshape(len(rows), width) if width else _make_matrix(rows, None)


def _check_exact(x: Any, sent: Callable[[], Any]) -> None:
    """Raise BadDecision if a whole number was rounded when inputs became floats.

    sent: the inputs as they came; asked for only if some number is large enough
    """
    if x.size and max(x.max().item(), -x.min().item()) >= MAX_EXACT_INT:
        to_number_array(sent(), "x")


def _make_matrix(rows: list[Any], kind: str | None) -> Any:
    kind = kind or "float64"
    if kind not in _STORAGE:
        raise Refusal(422, f"the type is {kind[:100]!r}; expected one of {', '.join(_STORAGE)}.")
    try:
        numbers = np.array(rows, "float64")
    except (ValueError, OverflowError, TypeError) as error:
        raise Refusal(422, f"x is no matrix of {kind}: {str(error)[:200]}.") from None
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = numbers.astype(kind, copy=False)
    if matrix.dtype.kind != "f" and (matrix != numbers).any():
        number = numbers[matrix != numbers][0]
        raise Refusal(422, f"x is no matrix of {kind}: it has {number:.12g}.")
    return matrix


def _make_table(hosted: ServedMonitor, body: ColumnsBody | CheckBatchBody) -> tuple[Any, Any]:
    if body.values is None:
        if body.x is None or body.z is None or hosted.monitor.rule.features is not None:
            raise Refusal(422, "the rule is about a table: expected `values` by column.")
        if len(body.x) != len(body.z):
            raise Refusal(422, "x and z are not equally long.")
        return body.x, body.z
    if hosted.monitor.rule.features is None or body.x is not None or body.z is not None:
        raise Refusal(422, "expected `x` and `z`, or, for a rule about a table, `values`.")
    check_columns(body.values)
    sizes = {len(column) for column in body.values.values()}
    if len(sizes) != 1:
        raise Refusal(422, "the columns of `values` are not equally long.")
    return ColumnTable(body.values), FROM_ROW


def _count_and_check(hosted: ServedMonitor, columns: dict[str, Any]) -> int:
    """Return how many decisions a batch has; Refusal if they are too many."""
    count = count_decisions(columns)
    check_count(hosted.limits, count)
    return count


def _none_if_empty(values: list[Any]) -> list[Any] | None:
    return None if all(value is None for value in values) else values


def _all_or_none(times: list[Any]) -> list[Any] | None:
    some = _none_if_empty(times)
    if some is not None and None in some:
        raise Refusal(422, "some decisions of the batch have a time and some have none.")
    return some


def parse_wait(query: Mapping[str, str]) -> str:
    """What an answer waits for."""
    return parse_choice(query, "wait", ("judged", "durable"))


def parse_choice(query: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """A word of a query; the first choice unless given."""
    given = query.get(name, choices[0])
    if given not in choices:
        raise Refusal(400, f"{name} is {given[:100]!r}; expected {' or '.join(choices)}.")
    return given
