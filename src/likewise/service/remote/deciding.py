"""Decisions that a client tells: judged and remembered, only judged, only remembered, or lost.

Bound: an answer tells all witnesses that were asked for while they fit into `Limits.body_bytes`;
beyond, the nearest `Limits.witnesses` of each, and how many were left out.
"""

from functools import partial
from typing import Any

from likewise.intake.packed_verdicts import most_witnesses, told_of_verdict, told_of_verdicts
from likewise.ledger.times import all_microseconds
from likewise.monitors.protocol import Decision
from likewise.reading.protocol import FROM_ROW
from likewise.service.admission import checked, checked_time
from likewise.service.hosted import Hosted
from likewise.service.refusals import Refused
from likewise.service.requests import InDoubt, MaybeDone
from likewise.service.settings import Limits
from likewise.values.errors import BadFile, LikewiseError
from likewise.values.frames import ColumnTable
from likewise.values.verdicts import Verdict, Verdicts

Fields = dict[str, Any]
"""What a client has packed, by name."""


async def observe(hosted: Hosted, fields: Fields) -> Fields:
    decision = _decision(hosted, fields)
    try:
        verdict = await hosted.observe(decision)
    except BadFile as error:  # the failed commit may have succeeded: look at the rows
        raise MaybeDone(error) from None
    return told_verdict(hosted, fields, verdict)


async def observe_again(hosted: Hosted, fields: Fields) -> Fields:
    """After a restart: with a key the ledger knows whether it has it."""
    if fields.get("key") is None and hosted.monitor.rule.key_column is None:
        raise InDoubt
    return await observe(hosted, fields)


async def observe_many(hosted: Hosted, fields: Fields) -> Fields:
    arguments, count = _batch(hosted, fields)
    verdicts = await hosted.observe_many(count, partial(_sure, hosted, arguments))
    return _told_verdicts(hosted, fields, verdicts)


def _sure(hosted: Hosted, arguments: Fields) -> Verdicts:
    """Judge a batch; where the disk fails, find out whether it is stored all the same."""
    monitor, before = hosted.monitor, hosted.monitor.rows
    try:
        return monitor.observe_many(**arguments)
    except BadFile as error:
        try:
            stored = monitor.rows != before
        except LikewiseError:
            stored = True
        if stored:
            raise MaybeDone(error) from None
        raise


async def observe_many_again(hosted: Hosted, fields: Fields) -> Fields:
    """After a restart: if every decision has a key, the ledger answers those that it has."""
    arguments, count = _batch(hosted, fields)
    keys = _keys(hosted, arguments)
    if keys is None or any(key is None for key in keys):
        raise InDoubt
    verdicts = await hosted.observe_many(count, partial(_sure, hosted, arguments))
    return _told_verdicts(hosted, fields, verdicts)


def _keys(hosted: Hosted, arguments: Fields) -> list[Any] | None:
    """The keys of a batch, which may be one of its columns."""
    column, x = hosted.monitor.rule.key_column, arguments["x"]
    if column is None:
        keys = arguments.get("keys")
        return None if keys is None else list(keys)
    if isinstance(x, ColumnTable):
        return list(x.columns.get(column, ()))
    rows = x if isinstance(x, list) else [x]
    return [row.get(column) if isinstance(row, dict) else None for row in rows]


async def check(hosted: Hosted, fields: Fields) -> Fields:
    decision = _decision(hosted, fields)
    verdict = await hosted.do(
        partial(
            hosted.monitor.check, decision.x, decision.z, time=decision.time, model=decision.model
        )
    )
    return told_verdict(hosted, fields, verdict)


async def check_many(hosted: Hosted, fields: Fields) -> Fields:
    arguments, count = _batch(hosted, fields)
    arguments["time"] = checked_time(hosted.limits, fields.get("time"))
    verdicts = await hosted.do(partial(hosted.monitor.check_many, **arguments), rows=count)
    return _told_verdicts(hosted, fields, verdicts)


async def load(hosted: Hosted, fields: Fields) -> Any:
    arguments, count = _batch(hosted, fields)
    rows = await hosted.do(partial(hosted.monitor.load, **arguments), rows=count)
    return rows.start, rows.stop


async def lost(hosted: Hosted, fields: Fields) -> None:
    await hosted.do(partial(hosted.monitor.lost, **fields))


def _decision(hosted: Hosted, fields: Fields) -> Decision:
    z, key, model = fields.get("z", FROM_ROW), fields.get("key"), fields.get("model")
    checked(hosted.limits, z, key, model)
    time = checked_time(hosted.limits, fields.get("time"))
    return Decision(fields.get("x"), z, key, time, model)


def _batch(hosted: Hosted, fields: Fields) -> tuple[Fields, int]:
    """The arguments of `observe_many` and the like, and how many decisions they are about."""
    limits = hosted.limits
    names = ("x", "z", "keys", "times", "models")
    arguments = {name: fields[name] for name in names if fields.get(name) is not None}
    x = arguments.setdefault("x", [])
    try:
        count = len(arguments.get("z", x))
    except TypeError:
        count = 1  # the monitor says what is wrong with it
    if count > limits.batch_rows:
        raise Refused(
            413, f"the batch has {count} decisions; at most {limits.batch_rows} are taken."
        )
    for name, place in (("z", 0), ("keys", 1), ("models", 2)):
        values = arguments.get(name)
        for value in values if isinstance(values, list | tuple) else [values]:
            one = [None, None, None]
            one[place] = value
            checked(limits, *one)
    if "times" in arguments:
        _check_times(limits, arguments["times"], count)
    return arguments, count


def _check_times(limits: Limits, times: Any, count: int) -> None:
    known = all_microseconds(times, count)
    if len(known):
        checked_time(limits, int(known.min()) / 1e6)
        checked_time(limits, int(known.max()) / 1e6)


def told_verdict(hosted: Hosted, fields: Fields, verdict: Verdict) -> Fields:
    limits = hosted.limits
    asked = fields.get("witnesses")
    most = most_witnesses(verdict, asked, limits.body_bytes, limits.witnesses)
    return told_of_verdict(verdict, most)


def _told_verdicts(hosted: Hosted, fields: Fields, verdicts: Verdicts) -> Fields:
    limits = hosted.limits
    asked = fields.get("witnesses")
    most = most_witnesses(verdicts, asked, limits.body_bytes, limits.witnesses)
    return told_of_verdicts(verdicts, most)
