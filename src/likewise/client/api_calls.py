"""The calls that a client makes: what is sent for each, and how its answer is read.

They know no connection: a client sends them and waits, an asynchronous one awaits them. The methods
of both are made of these functions (methods.py), and have their signatures and docstrings.
"""

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

import numpy as np

from likewise.client.endpoint import Endpoint
from likewise.client.sent_values import input_of, inputs_of, output_fields
from likewise.errors import BadRule, UnexpectedValue
from likewise.explaining.past import Past
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.rule.rule import Rule
from likewise.tables.positions import Position
from likewise.verdict.exact_body import verdict_of, verdicts_of
from likewise.verdict.index_report import Explanation
from likewise.verdict.verdicts import Verdict, Verdicts

if TYPE_CHECKING:
    from likewise.ledger.heads import Head
    from likewise.ledger.stats import LedgerStats
    from likewise.ledger.verification import Verification
    from likewise.monitor.erasure import Erasure

T = TypeVar("T")
Fields = dict[str, Any]
KEY_PREFIX = "lw-"
"""Of keys that a client makes."""
_EXPLANATION_FIELDS = tuple(one.name for one in fields(Explanation))
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call: a request to a route of a monitor, and how its answer is read.

    path        of the route, behind the monitor's own
    fields      of the body; where they depend on the monitor's rule, a function of that and of the
                client's settings; None: it is a GET
    read        the answer, from its body and the past that rows can be looked up in
    changes     whether it changes the history, so that it must not be made twice
    names       whether the answer names witnesses, of which the client may want few
    request     its id, if whoever calls repeats it himself
    """

    path: str
    fields: Fields | Callable[[Rule, Endpoint], Fields] | None
    read: Callable[[Any, Past | None], T]
    is_write: bool = False
    returns_witnesses: bool = False
    request: str | None = field(default=None, kw_only=True)

    @property
    def method(self) -> str:
        return "GET" if self.fields is None else "POST"

    def __post_init__(self) -> None:
        if self.request is not None and not _REQUEST_ID.fullmatch(self.request):
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
    def read(body: Any, _: Past | None) -> MonitorState:
        names = ("rows", "remembered", "missing", "durable", "comparable")
        return MonitorState(Rule.from_toml(body["rule"]), **{name: body[name] for name in names})

    return Call("", None, read)


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

    def fields(rule: Rule, place: Endpoint) -> Fields:
        own = make_key() if key is None and _makes_keys(rule, place) else key
        said = {"key": own, "time": time, "model": model, "source": source, "position": position}
        return _encode_one(rule, x, z, said)

    return Call("/observe", fields, verdict_of, True, True, request=request)


def observe_many(
    x: Any,
    z: Any = FROM_ROW,
    *,
    keys: Sequence[Any] | None = None,
    times: Any = None,
    models: Any = None,
    sources: Any = None,
    positions: Any = None,
    threads: int | None = None,
    request: str | None = None,
) -> Call[Verdicts]:
    """The same verdicts as one by one; all are taken, or none.

    sources, positions  as of a Monitor; request: as of `observe`
    threads             changes nothing: the cores are the service's
    """

    def fields(rule: Rule, place: Endpoint) -> Fields:
        said = {"times": times, "models": models, "sources": sources, "positions": positions}
        return _add_keys(_encode_many(rule, x, z, said), keys, _makes_keys(rule, place))

    return Call("/batch", fields, verdicts_of, True, True, request=request)


def check(
    x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
) -> Call[Verdict]:
    """The verdict on a decision as if it came now; nothing is remembered."""
    said = {"time": time, "model": model}
    return Call(
        "/check", lambda rule, _: _encode_one(rule, x, z, said), verdict_of, returns_witnesses=True
    )


def check_many(
    x: Any, z: Any = FROM_ROW, *, time: Any = None, models: Any = None
) -> Call[Verdicts]:
    """The verdicts of decisions, each as if it came now, alone; nothing is remembered."""
    said = {"time": time, "models": models}
    return Call(
        "/batch/check",
        lambda rule, _: _encode_many(rule, x, z, said),
        verdicts_of,
        returns_witnesses=True,
    )


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

    def fields(rule: Rule, place: Endpoint) -> Fields:
        said = {"times": times, "models": models, "sources": sources, "positions": positions}
        return _add_keys(_encode_many(rule, x, z, said), keys, _makes_keys(rule, place))

    def read(body: Any, _: Past | None) -> range:
        return range(body["first_row"], body["first_row"] + body["decisions"])

    return Call("/batch/load", fields, read, True)


def record_loss(
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
    said = _drop_none({"count": count, "reason": reason, **numbers})
    return Call("/lost", said, _read_nothing, True, request=request)


def forget(rows: Any) -> Call[int]:
    """Erase rows: never a witness again. How many of them were still remembered."""
    return Call("/forget", {"rows": encode_rows(rows)}, _field_reader("forgotten"), True)


def _encode_one(rule: Rule, x: Any, z: Any, optional: Fields) -> Fields:
    """One decision, as it is sent."""
    return {**input_of(rule, x), **output_fields(z), **_drop_none(optional)}


def _encode_many(rule: Rule, x: Any, z: Any, optional: Fields) -> Fields:
    """Many decisions, as they are sent."""
    return {**inputs_of(rule, x), **output_fields(z, many=True), **_drop_none(optional)}


def _makes_keys(rule: Rule, endpoint: Endpoint) -> bool:
    """Whether decisions without a key are given one."""
    return endpoint.make_keys and rule.key_column is None


def _add_keys(body: Fields, keys: Sequence[Any] | None, make_missing: bool) -> Fields:
    """Many decisions, with their keys; `made`: those without one get one."""
    if make_missing:
        several = body.get("z")
        if several is None:
            several = next(iter(body["values"].values()))
        keys = [make_key() if key is None else key for key in keys or [None] * len(several)]
    return body if keys is None else {**body, "keys": list(keys)}


def make_key() -> str:
    """A key that nobody else has."""
    return KEY_PREFIX + uuid.uuid4().hex


# With a ledger


def erase(*, key: Any = None, rows: Any = None) -> "Call[Erasure]":
    """Destroy inputs, outputs and keys, in memory and in every file of a ledger."""
    if (key is None) == (rows is None):
        raise TypeError("erase takes a key, or keys, or rows")

    def read(told: Any, _: Past | None) -> "Erasure":
        from likewise.monitor.erasure import Erasure

        return Erasure(tuple(told["rows"]), told["complete"])

    keys = list(key) if isinstance(key, list | tuple | set) else [key]
    said = {"keys": keys} if rows is None else {"rows": encode_rows(rows)}
    return Call("/erase", said, read, True)


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
    words = {"disposition": disposition, "reason": reason, **_drop_none({"reviewer": reviewer})}
    return Call("/reviews", {"row": row, "witness": witness, **words}, _read_nothing, True)


def truth(key: Any, value: Any) -> Call[None]:
    """Write down what turned out to be right for a decision; no verdict changes."""
    return Call("/truths", {"key": key, "value": value}, _read_nothing, True)


def supersede(key: Any, output: Any, *, why: str, by: str | None = None) -> Call[Verdict]:
    """Overrule a decision: the verdict on the one that takes its place.

    by: who overrules; as the reviewer of `review`
    """
    said = {"key": key, "output": output, "why": why, **_drop_none({"by": by})}
    return Call("/supersede", said, verdict_of, True, True)


def stats(last: str | None = None) -> "Call[LedgerStats]":
    """How many decisions there were, how many could be compared, how many contradict."""

    def read(body: Any, _: Past | None) -> "LedgerStats":
        from likewise.ledger.stats import LedgerStats
        from likewise.tables.times import to_microseconds

        if body["source"] != "ledger":
            raise BadRule("this monitor is in memory only; lw.open(folder, rule) has a ledger")
        counts = {name: body[name] for name in ("decisions", "judged", "asked", "violations")}
        since, until = body["since"], body["until"]
        return LedgerStats(
            **counts,
            comparable=body["asked_comparable"],
            missing=body["missing"],
            since=None if since is None else to_microseconds(since),
            until=None if until is None else to_microseconds(until),
        )

    return Call("/stats" if last is None else f"/stats?last={quote(str(last))}", None, read)


def head() -> "Call[Head]":
    """The end of the ledger's chain, to be kept elsewhere."""
    return Call("/head", None, lambda told, _: _parse_head(told["head"]))


def verify(head: "Head | str | None" = None) -> "Call[Verification]":
    """Have the ledger's chain walked, there."""

    def read(body: Any, _: Past | None) -> "Verification":
        from likewise.ledger.verification import Verification

        counts = {name: body[name] for name in ("first", "rows", "erased", "events", "pending")}
        found = None if body["head"] is None else _parse_head(body["head"])
        return Verification(**counts, head=found, bad_row=body["row"], problem=body["problem"])

    return Call("/verify", {"head": None if head is None else str(head)}, read)


def flush() -> Call[None]:
    """Have everything that was answered on disk."""
    return Call("/flush", {}, _read_nothing)


def positions() -> Call[dict[str, Position]]:
    """By source, the last position that is on disk: where to go on after a restart."""

    def read(body: Any, _: Past | None) -> dict[str, Position]:
        return {source: decode_position(last) for source, last in body["positions"].items()}

    return Call("/positions", None, read)


# Looking back


def explain() -> Call[Explanation]:
    """What index is in use, why, and what it costs."""
    return Call(
        "/explain",
        None,
        lambda body, _: Explanation(**{name: body[name] for name in _EXPLANATION_FIELDS}),
    )


def row_of(key: Any) -> Call[int | None]:
    """The row of a key, if it is remembered."""
    return query_past("row_of", key=key)


def query_past(name: str, read: Callable[[Any], Any] | None = None, /, **fields: Any) -> Call[Any]:
    """One of the methods of a past."""

    def read_answer(body: Any, _: Past | None) -> Any:
        return body[name] if read is None else read(body[name])

    return Call(f"/past/{name}", fields, read_answer)


def decode_position(position: Any) -> Any:
    """A position as it was given: bodies have no pairs."""
    return tuple(position) if isinstance(position, list) else position


def encode_rows(rows: Any) -> Any:
    """Row numbers as they are sent; what is none is refused by the service."""
    if isinstance(rows, np.ndarray):
        return rows.tolist()
    return list(rows) if isinstance(rows, range | list | tuple | set) else rows


def _parse_head(told: str) -> "Head":
    from likewise.ledger.heads import Head

    return Head.of(told)


def _field_reader(name: str) -> Callable[[Any, Past | None], Any]:
    """Return what reads one field of an answer."""
    return lambda body, _: body[name]


def _read_nothing(_: Any, __: Past | None) -> None:
    return None


def _drop_none(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
