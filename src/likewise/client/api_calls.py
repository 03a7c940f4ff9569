"""The calls that a client makes: what is sent for each, and how its answer is read.

They know no connection: a client sends them and waits, an asynchronous one awaits them. The methods
of both are made from these functions (exchange.py), and have their signatures and docstrings.
Invariant: the service judges what a monitor in this process would judge: the same types, and the
same numbers to the last bit.
"""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

import numpy as np

from likewise.client.endpoint import Endpoint
from likewise.errors import BadRule, UnexpectedValue
from likewise.explaining.past import Past
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.rule.rule import Rule
from likewise.tables.frames import ColumnTable, as_row, read_single_row, table_columns
from likewise.tables.named_array import named_array_of
from likewise.tables.normalize import sequence_of
from likewise.tables.positions import Position
from likewise.verdict.exact_body import verdict_of, verdicts_of
from likewise.verdict.losses import Explanation
from likewise.verdict.precedents import Precedents, precedents_of
from likewise.verdict.verdicts import Verdict, Verdicts

if TYPE_CHECKING:
    from likewise.ledger.heads import Head
    from likewise.ledger.stats import LedgerStats
    from likewise.ledger.verification import Verification
    from likewise.monitor.erasure import Erasure

T = TypeVar("T")
Fields = dict[str, Any]
KEY_PREFIX = "lw-"
"""How keys begin that a client makes."""
_EXPLANATION_FIELDS = tuple(one.name for one in fields(Explanation))
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


@dataclass(frozen=True)
class Call(Generic[T]):
    """Describes one request to a route of a monitor, and how its answer is read.

    path        of the route, below the monitor's own
    fields      of the body, or a function of the rule and the endpoint that makes them; None for a
                GET
    read        reads the answer from its body and the past that rows can be looked up in
    is_write    whether it changes the history, so that it must not be made twice
    returns_witnesses   whether the answer names witnesses, of which the client may want few
    request     its id, if the caller repeats it himself
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
    """Holds what a service says about a monitor."""

    rule: Rule
    rows: int
    remembered: int
    missing_decisions: int
    durable: bool
    comparable: bool
    support: bool


def state() -> Call[MonitorState]:
    def read(body: Any, _: Past | None) -> MonitorState:
        names = ("rows", "remembered", "missing_decisions", "durable", "comparable", "support")
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

    x, z, key, time, model, source, position    as for a Monitor
    request     an id of your own for this call, of 8 to 64 letters: a later call with the same id
                is the same request, and gets the same answer
    """

    def fields(rule: Rule, endpoint: Endpoint) -> Fields:
        own_key = make_key() if key is None and _makes_keys(rule, endpoint) else key
        origin = {"model": model, "source": source, "position": position}
        return _encode_one(x, z, {"key": own_key, "time": time, **origin}, rule, endpoint)

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
    """Observe decisions in their order, with the verdicts of `observe`; all are taken, or none.

    sources, positions  as for a Monitor; request: as for `observe`
    threads             changes nothing: the cores are the service's
    """
    metadata = {"times": times, "models": models, "sources": sources, "positions": positions}
    fields = partial(_encode_batch, x, z, keys, metadata)
    return Call("/batch", fields, verdicts_of, True, True, request=request)


def check(
    x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
) -> Call[Verdict]:
    """Judge a decision as if it came now; nothing is remembered."""
    metadata = {"time": time, "model": model}
    fields = partial(_encode_one, x, z, metadata)
    return Call("/check", fields, verdict_of, returns_witnesses=True)


def check_many(
    x: Any, z: Any = FROM_ROW, *, time: Any = None, models: Any = None
) -> Call[Verdicts]:
    """Judge decisions, each as if it came now, alone; nothing is remembered."""
    metadata = {"time": time, "models": models}
    fields = partial(_encode_many, x, z, metadata)
    return Call("/batch/check", fields, verdicts_of, returns_witnesses=True)


def like(
    x: Any,
    *,
    limit: int | None = None,
    model: str | None = None,
    time: Any = None,
    person: Any = None,
) -> Call[Precedents]:
    """Find the past decisions near an input, whatever their outputs; nothing is remembered.

    limit, model, time, person  as for a Monitor; the service lists at most as many as its limit

    The token needs the scope "read", and for keys, reviewers and reasons "review".
    """
    optional = _drop_none({"limit": limit, "model": model, "time": time, "person": person})

    def fields(rule: Rule, _: Endpoint) -> Fields:
        return {**_input_of(rule, x), **optional}

    return Call("/like", fields, lambda body, _: precedents_of(body))


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
    """Remember decisions without judging them; return their rows."""
    metadata = {"times": times, "models": models, "sources": sources, "positions": positions}

    def read(body: Any, _: Past | None) -> range:
        return range(body["first_row"], body["first_row"] + body["decisions"])

    return Call("/batch/load", partial(_encode_batch, x, z, keys, metadata), read, True)


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
    """Record that decisions were made and will never be observed; later verdicts say so.

    first, last, since, until   as for a Monitor; request: as for `observe`
    """
    span = {"first": first, "last": last, "since": since, "until": until}
    fields = _drop_none({"count": count, "reason": reason, **span})
    return Call("/lost", fields, _read_nothing, True, request=request)


def forget(rows: Any) -> Call[int]:
    """Forget rows, so that they are never witnesses again; return how many were remembered."""
    return Call("/forget", {"rows": encode_rows(rows)}, lambda body, _: body["forgotten"], True)


def _encode_one(x: Any, z: Any, optional: Fields, rule: Rule, _: Endpoint) -> Fields:
    """Return the body of a request about one decision."""
    return {**_input_of(rule, x), **_output_fields(z), **_drop_none(optional)}


def _encode_many(x: Any, z: Any, optional: Fields, rule: Rule, _: Endpoint) -> Fields:
    """Return the body of a request about many decisions."""
    return {**_inputs_of(rule, x), **_output_fields(z, many=True), **_drop_none(optional)}


def _input_of(rule: Rule, x: Any) -> dict[str, Any]:
    """Return the input of one decision, as a field of its body."""
    if rule.features is not None:
        return {"values": _encode_row(x)}
    return {"x": x if rule.embed is not None else named_array_of(x, "the input")}


def _inputs_of(rule: Rule, x: Any) -> dict[str, Any]:
    """Return the inputs of many decisions, as a field of their body."""
    if rule.features is None:
        return {"x": x if rule.embed is not None else named_array_of(x, "the input")}
    if isinstance(x, list | tuple):
        return {"values": [row if row is not None else one for one in x for row in [as_row(one)]]}
    if isinstance(x, ColumnTable):
        return {"values": x.columns}
    plain = isinstance(x, np.ndarray) and x.dtype.names is None
    named = isinstance(x, Mapping | np.ndarray) or hasattr(x, "columns")
    return {"values": table_columns(x) if named and not plain else x}


def _output_fields(z: Any, *, many: bool = False) -> dict[str, Any]:
    """Return the output, or the outputs of many; nothing where the rows have them."""
    if z is FROM_ROW:
        return {}
    return {"z": sequence_of(z) if many else z}


def _encode_row(x: Any) -> Any:
    row = as_row(x)
    if row is not None:
        return dict(row)
    if not hasattr(x, "columns"):
        return x
    return read_single_row(x, "Give tables to observe_many.")


def _encode_batch(
    x: Any, z: Any, keys: Sequence[Any] | None, optional: Fields, rule: Rule, endpoint: Endpoint
) -> Fields:
    """Return the body of a request that remembers many decisions, and makes keys where wanted."""
    body = _encode_many(x, z, optional, rule, endpoint)
    if _makes_keys(rule, endpoint):
        column = body.get("z")
        if column is None:
            column = next(iter(body["values"].values()))
        keys = [make_key() if key is None else key for key in keys or [None] * len(column)]
    return body if keys is None else {**body, "keys": list(keys)}


def _makes_keys(rule: Rule, endpoint: Endpoint) -> bool:
    """Tell whether decisions without a key are given one."""
    return endpoint.make_keys and rule.key_column is None


def make_key() -> str:
    """Make a key that nobody else has."""
    return KEY_PREFIX + uuid.uuid4().hex


# With a ledger


def erase(*, key: Any = None, rows: Any = None) -> "Call[Erasure]":
    """Destroy inputs, outputs and keys, in memory and in every file of a ledger."""
    if (key is None) == (rows is None):
        raise TypeError("erase takes a key, or keys, or rows")

    def read(body: Any, _: Past | None) -> "Erasure":
        from likewise.monitor.erasure import Erasure

        return Erasure(tuple(body["rows"]), body["complete"])

    keys = list(key) if isinstance(key, list | tuple | set) else [key]
    fields = {"keys": keys} if rows is None else {"rows": encode_rows(rows)}
    return Call("/erase", fields, read, True)


def review(
    row: int | None,
    witness: int | None,
    disposition: str,
    *,
    reason: str,
    reviewer: str | None = None,
) -> Call[None]:
    """Record somebody's review of a contradiction in the ledger's chain.

    reviewer    may be left out with a token, which says whose it is; without one, any name, which
                the ledger keeps as unverified
    """
    words = {"disposition": disposition, "reason": reason, **_drop_none({"reviewer": reviewer})}
    return Call("/reviews", {"row": row, "witness": witness, **words}, _read_nothing, True)


def truth(key: Any, value: Any) -> Call[None]:
    """Record what turned out to be right for a decision; no verdict changes."""
    return Call("/truths", {"key": key, "value": value}, _read_nothing, True)


def supersede(key: Any, output: Any, *, why: str, by: str | None = None) -> Call[Verdict]:
    """Overrule a decision; return the verdict on the one that takes its place.

    by      who overrules, as the reviewer of `review`
    """
    fields = {"key": key, "output": output, "why": why, **_drop_none({"by": by})}
    return Call("/supersede", fields, verdict_of, True, True)


def stats(last: str | None = None) -> "Call[LedgerStats]":
    """Count decisions: how many there were, could be compared, and contradict."""

    def read(body: Any, _: Past | None) -> "LedgerStats":
        from likewise.ledger.stats import LedgerStats
        from likewise.tables.times import to_microseconds

        if body["source"] != "ledger":
            raise BadRule("this monitor is in memory only; lw.open(folder, rule) has a ledger")
        names = ("decisions", "judged", "comparability_known", "violations", "missing_decisions")
        counts = {name: body[name] for name in names}
        since, until = (
            None if body[name] is None else to_microseconds(body[name])
            for name in ("since", "until")
        )
        comparable = body["known_comparable"]
        return LedgerStats(**counts, comparable=comparable, since=since, until=until)

    return Call("/stats" if last is None else f"/stats?last={quote(str(last))}", None, read)


def head() -> "Call[Head]":
    """Return the end of the ledger's chain, to be kept elsewhere."""
    return Call("/head", None, lambda body, _: _parse_head(body["head"]))


def verify(head: "Head | str | None" = None) -> "Call[Verification]":
    """Have the service verify the ledger's chain."""

    def read(body: Any, _: Past | None) -> "Verification":
        from likewise.ledger.verification import Verification

        counts = {name: body[name] for name in ("first_row", "rows", "erased", "events", "pending")}
        end = None if body["head"] is None else _parse_head(body["head"])
        return Verification(**counts, head=end, bad_row=body["bad_row"], problem=body["problem"])

    return Call("/verify", {"head": None if head is None else str(head)}, read)


def flush() -> Call[None]:
    """Have everything that was answered written to disk."""
    return Call("/flush", {}, _read_nothing)


def positions() -> Call[dict[str, Position]]:
    """Return the last position of each source that is on disk: where to go on after a restart."""

    def read(body: Any, _: Past | None) -> dict[str, Position]:
        return {source: decode_position(last) for source, last in body["positions"].items()}

    return Call("/positions", None, read)


# Looking back


def explain() -> Call[Explanation]:
    """Say what index is in use, why, and what it costs."""
    return Call(
        "/explain",
        None,
        lambda body, _: Explanation(**{name: body[name] for name in _EXPLANATION_FIELDS}),
    )


def row_of(key: Any) -> Call[int | None]:
    """Return the row of a key, or None if it is not remembered."""
    return query_past("row_of", key=key)


def query_past(name: str, read: Callable[[Any], Any] | None = None, /, **fields: Any) -> Call[Any]:
    """Call one of the methods of the monitor's past."""

    def read_answer(body: Any, _: Past | None) -> Any:
        return body[name] if read is None else read(body[name])

    return Call(f"/past/{name}", fields, read_answer)


def decode_position(position: Any) -> Any:
    """Return a position as it was given: bodies have lists for pairs."""
    return tuple(position) if isinstance(position, list) else position


def encode_rows(rows: Any) -> Any:
    """Return row numbers as they are sent; what is none is refused by the service."""
    if isinstance(rows, np.ndarray):
        return rows.tolist()
    return list(rows) if isinstance(rows, range | list | tuple | set) else rows


def _parse_head(text: str) -> "Head":
    from likewise.ledger.heads import Head

    return Head.of(text)


def _read_nothing(_: Any, __: Past | None) -> None:
    return None


def _drop_none(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if value is not None}
