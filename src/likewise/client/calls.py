"""The calls that a client makes: what is sent for each, and how its answer is read.

They know no connection: a client sends them and waits, an asynchronous one awaits them
(client.py, asynchronous.py).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from likewise.client.sent import input_of, inputs_of, output_fields
from likewise.intake.packed_verdicts import verdict_of, verdicts_of
from likewise.rules.rule import Rule
from likewise.values.errors import BadDecision
from likewise.values.explanation import Explanation
from likewise.values.past import Codes, LikeModels, Past, Points, Span
from likewise.values.positions import Position
from likewise.values.verdicts import Verdict, Verdicts

if TYPE_CHECKING:
    from likewise.ledger.erasure import Erasure
    from likewise.ledger.heads import Head
    from likewise.ledger.stats import LedgerStats
    from likewise.ledger.verify import Verification

T = TypeVar("T")
_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call.

    read        the answer, from what was told and the past that rows can be looked up in
    changes     whether it changes the history, so that it must not be made twice
    request     its id, if whoever calls repeats it himself
    """

    verb: str
    fields: dict[str, Any]
    read: Callable[[Any, Past | None], T]
    changes: bool = False
    request: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.request is not None and not _ID.fullmatch(self.request):
            raise BadDecision(
                f"the request is {self.request!r}; expected an id of 8 to 64 letters, digits, dots,"
                " hyphens or underscores. Nothing was stored."
            )


@dataclass(frozen=True)
class State:
    """What a service says about a monitor."""

    rule: Rule
    rows: int
    remembered: int
    missing: int
    durable: bool
    comparable: bool


def state() -> Call[State]:
    return Call(
        "state", {}, lambda told, _: State(**{**told, "rule": Rule.from_toml(told["rule"])})
    )


def positions() -> "Call[dict[str, Position]]":
    return Call("positions", {}, lambda told, _: dict(told))


def observe(
    rule: Rule, x: Any, z: Any, witnesses: int | None, request: str | None, **given: Any
) -> Call[Verdict]:
    fields = {"x": input_of(rule, x), **output_fields(z), "witnesses": witnesses, **_some(given)}
    return Call("observe", fields, verdict_of, True, request=request)


def observe_many(
    rule: Rule, x: Any, z: Any, witnesses: int | None, request: str | None, **given: Any
) -> Call[Verdicts]:
    fields = {
        "x": inputs_of(rule, x),
        **output_fields(z, many=True),
        "witnesses": witnesses,
        **_some(given),
    }
    return Call("observe_many", fields, verdicts_of, True, request=request)


def check(rule: Rule, x: Any, z: Any, witnesses: int | None, **given: Any) -> Call[Verdict]:
    fields = {"x": input_of(rule, x), **output_fields(z), "witnesses": witnesses, **_some(given)}
    return Call("check", fields, verdict_of)


def check_many(rule: Rule, x: Any, z: Any, witnesses: int | None, **given: Any) -> Call[Verdicts]:
    fields = {
        "x": inputs_of(rule, x),
        **output_fields(z, many=True),
        "witnesses": witnesses,
        **_some(given),
    }
    return Call("check_many", fields, verdicts_of)


def load(rule: Rule, x: Any, z: Any, **given: Any) -> Call[range]:
    fields = {"x": inputs_of(rule, x), **output_fields(z, many=True), **_some(given)}
    return Call("load", fields, lambda told, _: range(*told), True)


def lost(request: str | None, **given: Any) -> Call[None]:
    return Call("lost", _some(given), _nothing, True, request=request)


def forget(rows: Any) -> Call[int]:
    return Call("forget", {"rows": row_numbers(rows)}, lambda told, _: int(told), True)


def erase(key: Any, rows: Any) -> "Call[Erasure]":
    if (key is None) == (rows is None):
        raise TypeError("erase takes a key, or keys, or rows")

    def read(told: Any, _: Past | None) -> "Erasure":
        from likewise.ledger.erasure import Erasure

        return Erasure(*told)

    keys = list(key) if isinstance(key, list | tuple | set) else key
    fields = {"key": keys} if rows is None else {"rows": row_numbers(rows)}
    return Call("erase", fields, read, True)


def explain() -> Call[Explanation]:
    return Call("explain", {}, lambda told, _: Explanation(**told))


def review(**given: Any) -> Call[None]:
    return Call("review", given, _nothing, True)


def truth(**given: Any) -> Call[None]:
    return Call("truth", given, _nothing, True)


def supersede(witnesses: int | None, **given: Any) -> Call[Verdict]:
    return Call("supersede", {**given, "witnesses": witnesses}, verdict_of, True)


def stats(last: str | None) -> "Call[LedgerStats]":
    def read(told: Any, _: Past | None) -> "LedgerStats":
        from likewise.ledger.stats import LedgerStats

        return LedgerStats(**told)

    return Call("stats", {"last": last}, read)


def head() -> "Call[Head]":
    return Call("head", {}, lambda told, _: _head(told))


def verify(known: Any) -> "Call[Verification]":
    def read(told: Any, _: Past | None) -> "Verification":
        from likewise.ledger.verify import Verification

        return Verification(
            **{**told, "head": None if told["head"] is None else _head(told["head"])}
        )

    return Call("verify", {"head": None if known is None else str(known)}, read)


def flush() -> Call[None]:
    return Call("flush", {}, _nothing)


# Looking back


def look(name: str, read: Callable[[Any], Any] | None = None, /, **fields: Any) -> Call[Any]:
    """One of the methods of a past."""

    def reading(told: Any, _: Past | None) -> Any:
        return told if read is None else read(told)

    return Call("past", {"look": name, **fields}, reading)


def codes_of(told: Any) -> Codes:
    return Codes(told["codes"], told["values"])


def points_of(told: Any) -> Points:
    return Points(told["vectors"], told["left_open"], Rule.from_toml(told["rule"]))


def span_of(told: Any) -> Span | None:
    return None if told is None else Span(**told)


def like_models_of(told: Any) -> LikeModels | None:
    return None if told is None else LikeModels(**told)


def row_numbers(rows: Any) -> Any:
    """Row numbers as they are sent; what is none is refused by the service."""
    return np.asarray(rows) if isinstance(rows, range | list | tuple | set) else rows


def joined_codes(parts: Sequence[Codes]) -> Codes:
    """Codes of several stretches of rows. The values of the last are those of all, or more."""
    return Codes(np.concatenate([part.codes for part in parts]), parts[-1].values)


def _head(told: str) -> "Head":
    from likewise.ledger.heads import Head

    return Head.of(told)


def _nothing(_: Any, __: Past | None) -> None:
    return None


def _some(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
