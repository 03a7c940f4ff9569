"""The calls that a client makes: what is sent for each, and how its answer is read.

They know no connection: a client sends them and waits, an asynchronous one awaits them. The methods
of both are made of these functions (methods.py), and have their signatures and docstrings.
"""

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from likewise.client.connecting import Place
from likewise.client.sent import input_of, inputs_of, output_fields
from likewise.intake.packed_verdicts import verdict_of, verdicts_of
from likewise.reading.protocol import FROM_ROW
from likewise.rules.rule import Rule
from likewise.values.errors import UnexpectedValue
from likewise.values.explanation import Explanation
from likewise.values.past import Past
from likewise.values.positions import Position
from likewise.values.verdicts import Verdict, Verdicts

if TYPE_CHECKING:
    from likewise.ledger.erasure import Erasure
    from likewise.ledger.heads import Head
    from likewise.ledger.stats import LedgerStats
    from likewise.ledger.verify import Verification

T = TypeVar("T")
Fields = dict[str, Any]
KEY_PREFIX = "lw-"
"""Of keys that a client makes."""
_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call.

    fields      what is sent; where it depends on the monitor's rule, a function of that and of the
                client's settings
    read        the answer, from what was told and the past that rows can be looked up in
    changes     whether it changes the history, so that it must not be made twice
    request     its id, if whoever calls repeats it himself
    """

    verb: str
    fields: Fields | Callable[[Rule, Place], Fields]
    read: Callable[[Any, Past | None], T]
    changes: bool = False
    request: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.request is not None and not _ID.fullmatch(self.request):
            raise UnexpectedValue(
                f"the request is {self.request!r}; expected an id of 8 to 64 letters, digits,"
                " dots, hyphens or underscores."
            )


@dataclass(frozen=True)
class MonitorState:
    """What a service says about a monitor."""

    rule: Rule
    rows: int
    remembered: int
    missing: int
    durable: bool
    comparable: bool


def state() -> Call[MonitorState]:
    return Call(
        "state", {}, lambda told, _: MonitorState(**{**told, "rule": Rule.from_toml(told["rule"])})
    )


# Decisions


def observe(
    x: Any,
    z: Any = FROM_ROW,
    *,
    key: Any = None,
    time: Any = None,
    model: str | None = None,
    source: str | None = None,
    position: Position | None = None,
    request: str | None = None,
) -> Call[Verdict]:
    """Compare a decision with the past, then make it part of the past.

    x, z, key, time, model, source, position    as of a Monitor
    request     an id of your own for this call, of 8 to 64 letters: a later call with the same id
                is the same request, and gets the same answer
    """

    def fields(rule: Rule, place: Place) -> Fields:
        own = made_key() if key is None and _makes_keys(rule, place) else key
        said = {"key": own, "time": time, "model": model, "source": source, "position": position}
        return _one(rule, place, x, z, said)

    return Call("observe", fields, verdict_of, True, request=request)


def observe_many(
    x: Any,
    z: Any = FROM_ROW,
    *,
    keys: Sequence[Any] | None = None,
    times: Any = None,
    models: Any = None,
    sources: Any = None,
    positions: Any = None,
    request: str | None = None,
) -> Call[Verdicts]:
    """The same verdicts as one by one; all are taken, or none.

    sources, positions  as of a Monitor; request: as of `observe`
    """

    def fields(rule: Rule, place: Place) -> Fields:
        said = {"times": times, "models": models, "sources": sources, "positions": positions}
        told = {**_many(rule, x, z, said), "witnesses": place.witnesses}
        return _with_keys(told, keys, _makes_keys(rule, place))

    return Call("observe_many", fields, verdicts_of, True, request=request)


def check(
    x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
) -> Call[Verdict]:
    """The verdict on a decision as if it came now; nothing is remembered."""
    said = {"time": time, "model": model}
    return Call("check", lambda rule, place: _one(rule, place, x, z, said), verdict_of)


def check_many(
    x: Any, z: Any = FROM_ROW, *, time: Any = None, models: Any = None
) -> Call[Verdicts]:
    """The verdicts of decisions, each as if it came now, alone; nothing is remembered."""
    said = {"time": time, "models": models}

    def fields(rule: Rule, place: Place) -> Fields:
        return {**_many(rule, x, z, said), "witnesses": place.witnesses}

    return Call("check_many", fields, verdicts_of)


def load(
    x: Any,
    z: Any = FROM_ROW,
    *,
    keys: Sequence[Any] | None = None,
    times: Any = None,
    models: Any = None,
    sources: Any = None,
    positions: Any = None,
) -> Call[range]:
    """Remember decisions without judging them; their rows."""

    def fields(rule: Rule, place: Place) -> Fields:
        said = {"times": times, "models": models, "sources": sources, "positions": positions}
        return _with_keys(_many(rule, x, z, said), keys, _makes_keys(rule, place))

    return Call("load", fields, lambda told, _: range(*told), True)


def lost(
    count: int,
    reason: str,
    *,
    first: int | None = None,
    last: int | None = None,
    since: Any = None,
    until: Any = None,
    request: str | None = None,
) -> Call[None]:
    """So many decisions were made and will never be observed; every later verdict says so.

    first, last, since, until   as of a Monitor; request: as of `observe`
    """
    numbers = {"first": first, "last": last, "since": since, "until": until}
    said = _some({"count": count, "reason": reason, **numbers})
    return Call("lost", said, _nothing, True, request=request)


def forget(rows: Any) -> Call[int]:
    """Erase rows: never a witness again. How many of them were still remembered."""
    return Call("forget", {"rows": row_numbers(rows)}, lambda told, _: int(told), True)


def _one(rule: Rule, place: Place, x: Any, z: Any, said: Fields) -> Fields:
    """One decision, as it is sent."""
    told = {"x": input_of(rule, x), **output_fields(z), "witnesses": place.witnesses}
    return {**told, **_some(said)}


def _many(rule: Rule, x: Any, z: Any, said: Fields) -> Fields:
    """Many decisions, as they are sent."""
    return {"x": inputs_of(rule, x), **output_fields(z, many=True), **_some(said)}


def _makes_keys(rule: Rule, place: Place) -> bool:
    """Whether decisions without a key are given one."""
    return place.make_keys and rule.key_column is None


def _with_keys(told: Fields, keys: Sequence[Any] | None, made: bool) -> Fields:
    """Many decisions, with their keys; `made`: those without one get one."""
    if made:
        several: Any = told.get("z", told["x"])
        keys = [made_key() if key is None else key for key in keys or [None] * len(several)]
    return told if keys is None else {**told, "keys": list(keys)}


def made_key() -> str:
    """A key that nobody else has."""
    return KEY_PREFIX + uuid.uuid4().hex


# With a ledger


def erase(*, key: Any = None, rows: Any = None) -> "Call[Erasure]":
    """Destroy inputs, outputs and keys, in memory and in every file of a ledger."""
    if (key is None) == (rows is None):
        raise TypeError("erase takes a key, or keys, or rows")

    def read(told: Any, _: Past | None) -> "Erasure":
        from likewise.ledger.erasure import Erasure

        return Erasure(*told)

    keys = list(key) if isinstance(key, list | tuple | set) else key
    said = {"key": keys} if rows is None else {"rows": row_numbers(rows)}
    return Call("erase", said, read, True)


def review(
    row: int | None,
    witness: int | None,
    disposition: str,
    *,
    reason: str,
    reviewer: str | None = None,
) -> Call[None]:
    """Write down what somebody makes of a contradiction; the chain has it from then on.

    reviewer    with a token that is whose it is, and may be left out; without, any name, which the
                ledger keeps as unverified
    """
    words = {"disposition": disposition, "reason": reason, **_some({"reviewer": reviewer})}
    return Call("review", {"row": row, "witness": witness, **words}, _nothing, True)


def truth(key: Any, value: Any) -> Call[None]:
    """Write down what turned out to be right for a decision; no verdict changes."""
    return Call("truth", {"key": key, "value": value}, _nothing, True)


def supersede(key: Any, output: Any, *, why: str, by: str | None = None) -> Call[Verdict]:
    """Overrule a decision: the verdict on the one that takes its place.

    by: who overrules; as the reviewer of `review`
    """
    said = {"key": key, "output": output, "why": why, **_some({"by": by})}
    return Call(
        "supersede", lambda _, place: {**said, "witnesses": place.witnesses}, verdict_of, True
    )


def stats(last: str | None = None) -> "Call[LedgerStats]":
    """How many decisions there were, how many could be compared, how many contradict."""

    def read(told: Any, _: Past | None) -> "LedgerStats":
        from likewise.ledger.stats import LedgerStats

        return LedgerStats(**told)

    return Call("stats", {"last": last}, read)


def head() -> "Call[Head]":
    """The end of the ledger's chain, to be kept elsewhere."""
    return Call("head", {}, lambda told, _: _head(told))


def verify(head: "Head | str | None" = None) -> "Call[Verification]":
    """Have the ledger's chain walked, there."""

    def read(told: Any, _: Past | None) -> "Verification":
        from likewise.ledger.verify import Verification

        return Verification(
            **{**told, "head": None if told["head"] is None else _head(told["head"])}
        )

    return Call("verify", {"head": None if head is None else str(head)}, read)


def flush() -> Call[None]:
    """Have everything that was answered on disk."""
    return Call("flush", {}, _nothing)


def positions() -> Call[dict[str, Position]]:
    """By source, the last position that is on disk: where to go on after a restart."""
    return Call("positions", {}, lambda told, _: dict(told))


# Looking back


def explain() -> Call[Explanation]:
    """What index is in use, why, and what it costs."""
    return Call("explain", {}, lambda told, _: Explanation(**told))


def row_of(key: Any) -> Call[int | None]:
    """The row of a key, if it is remembered."""
    return look("row_of", key=key)


def look(name: str, read: Callable[[Any], Any] | None = None, /, **fields: Any) -> Call[Any]:
    """One of the methods of a past."""

    def reading(told: Any, _: Past | None) -> Any:
        return told if read is None else read(told)

    return Call("past", {"look": name, **fields}, reading)


def row_numbers(rows: Any) -> Any:
    """Row numbers as they are sent; what is none is refused by the service."""
    return np.asarray(rows) if isinstance(rows, range | list | tuple | set) else rows


def _head(told: str) -> "Head":
    from likewise.ledger.heads import Head

    return Head.of(told)


def _nothing(_: Any, __: Past | None) -> None:
    return None


def _some(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
