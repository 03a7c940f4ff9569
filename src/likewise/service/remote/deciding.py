"""Decisions that a client tells: judged and remembered, only judged, only remembered, or lost.

Bound: an answer tells all witnesses that were asked for while they fit into `Limits.body_bytes`;
beyond, the nearest `Limits.witnesses` of each, and how many were left out.
"""

from functools import partial
from typing import Any

import numpy as np

from likewise.intake.packed_verdicts import most_witnesses, told_of_verdict, told_of_verdicts
from likewise.ledger.times import all_microseconds
from likewise.monitors.protocol import Decision
from likewise.reading.protocol import FROM_ROW
from likewise.service.admission import check_table, check_words, checked_time
from likewise.service.hosted import Hosted
from likewise.service.refusals import Refusal
from likewise.service.requests import InDoubt, MaybeDone
from likewise.service.settings import Limits
from likewise.values.errors import BadFile, LikewiseError
from likewise.values.frames import ColumnTable
from likewise.values.verdicts import Verdict, Verdicts

Fields = dict[str, Any]
"""What a client has packed, by name."""
_WORDS = ("z", "keys", "models", "sources")


async def observe(hosted: Hosted, fields: Fields) -> Fields:
    decision = _decision(hosted, fields)
    try:
        return await hosted.observe(decision, partial(told_verdict, hosted, fields))
    except BadFile as error:  # the failed commit may have succeeded: look at the rows
        raise MaybeDone(error) from None


async def observe_again(hosted: Hosted, fields: Fields) -> Fields:
    """After a restart: with a key, or a position, the ledger knows whether it has it."""
    named = fields.get("key") is not None or fields.get("position") is not None
    if not named and hosted.monitor.rule.key_column is None:
        raise InDoubt
    return await observe(hosted, fields)


async def observe_many(hosted: Hosted, fields: Fields) -> Fields:
    arguments, count = _batch(hosted, fields)
    tell = partial(_told_verdicts, hosted, fields)
    return await hosted.observe_many(count, partial(_sure, hosted, arguments), tell)


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
    """After a restart: if every decision has a key, the ledger answers those that it has.

    If every one has a position, the ledger refuses what it has.
    """
    arguments, count = _batch(hosted, fields)
    keys, positions = _keys(hosted, arguments), arguments.get("positions")
    if not _complete(keys) and not _complete(positions):
        raise InDoubt
    tell = partial(_told_verdicts, hosted, fields)
    return await hosted.observe_many(count, partial(_sure, hosted, arguments), tell)


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


def _complete(values: Any) -> bool:
    """Whether there is a value for each decision."""
    return isinstance(values, list | tuple | np.ndarray) and not any(
        value is None for value in values
    )


async def check(hosted: Hosted, fields: Fields) -> Fields:
    decision = _decision(hosted, fields)
    monitor = hosted.monitor
    check = partial(monitor.check, decision.x, decision.z, time=decision.time, model=decision.model)
    return await hosted.do(lambda: told_verdict(hosted, fields, check()))


async def check_many(hosted: Hosted, fields: Fields) -> Fields:
    arguments, count = _batch(hosted, fields)
    arguments["time"] = checked_time(hosted.limits, fields.get("time"))
    check = partial(hosted.monitor.check_many, **arguments)
    return await hosted.do(lambda: _told_verdicts(hosted, fields, check()), rows=count)


async def load(hosted: Hosted, fields: Fields) -> Any:
    arguments, count = _batch(hosted, fields)
    rows = await hosted.do(partial(hosted.monitor.load, **arguments), rows=count)
    hosted.next_row = max(hosted.next_row, rows.stop)
    return rows.start, rows.stop


async def lost(hosted: Hosted, fields: Fields) -> None:
    await hosted.do(partial(hosted.monitor.lost, **fields))


def _decision(hosted: Hosted, fields: Fields) -> Decision:
    z, key, model = fields.get("z", FROM_ROW), fields.get("key"), fields.get("model")
    source, position = fields.get("source"), fields.get("position")
    _check_words(hosted, fields.get("x"), [z], [key], [model, source])
    time = checked_time(hosted.limits, fields.get("time"))
    return Decision(fields.get("x"), z, key, time, model, source, position)


def _batch(hosted: Hosted, fields: Fields) -> tuple[Fields, int]:
    """The arguments of `observe_many` and the like, and how many decisions they are about."""
    limits = hosted.limits
    names = ("x", "z", "keys", "times", "models", "sources", "positions")
    arguments = {name: fields[name] for name in names if fields.get(name) is not None}
    x = arguments.setdefault("x", [])
    try:
        count = len(arguments.get("z", x))
    except TypeError:
        count = 1  # the monitor says what is wrong with it
    if count > limits.batch_rows:
        raise Refusal(
            413, f"the batch has {count} decisions; at most {limits.batch_rows} are taken."
        )
    z, keys, models, sources = (_listed(arguments.get(name)) for name in _WORDS)
    _check_words(hosted, x, z, keys, [*models, *sources])
    if "times" in arguments:
        _check_times(limits, arguments["times"], count)
    return arguments, count


def _listed(values: Any) -> Any:
    """What is given for each decision, or for all of them."""
    return values if isinstance(values, list | tuple | np.ndarray) else [values]


def _check_words(hosted: Hosted, x: Any, z: Any, keys: Any, names: Any) -> None:
    """Raise Refusal if a label, a key, a name or a text of a table is too long."""
    limits, rule = hosted.limits, hosted.monitor.rule
    if rule.output == "label":
        check_words("an output", z, limits.label_bytes)
    check_words("a key", keys, limits.key_bytes)
    check_words("the name of a model or a source", names, limits.label_bytes)
    if rule.features is not None:
        check_table(limits, rule, x)


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
