"""What travels: the bodies that clients send, and the answers, as types.

A decision on vectors has `x` and `z`; one on a table has `values`. JSON is read strictly: a name
that is not known is refused, and so is a value of another type, or a name that is there twice
(content_types.py). The same bodies with exact values are MessagePack (content_types.py,
exact_decisions.py).

Labels, keys and values that JSON has no form for travel as the ledger writes them: an object with
one entry, such as {"date": "2026-01-31"} (tables/codec.py).

The types of answers are for /openapi.json; a test holds the answers against them. Verdicts are in
verdict/verdict_body.py.
"""

from typing import Annotated, Any

import msgspec

from likewise.verdict.verdict_body import VerdictBody

Row = Annotated[int, msgspec.Meta(ge=0)]
Time = int | float | str | None
Position = Row | Annotated[list[Row], msgspec.Meta(min_length=2, max_length=2)]
"""A place in a source: a whole number, or a pair of them. The pair is no tuple: msgspec 0.22 reads
beyond its memory where a tuple and a number with bounds may stand at one place."""


# What comes


class DecisionBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One decision."""

    x: list[Any] | str | None = None
    z: Any = None
    values: dict[str, Any] | None = None
    key: str | int | None = None
    time: Time = None
    model: str | None = None
    source: str | None = None
    """With a ledger: the ordered sequence that it comes from, such as "decisions/3"."""
    position: Position | None = None
    """Its place there, above those that came before."""


class ColumnsBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A batch, column by column: `x` and `z`, or `values` by column."""

    x: list[Any] | None = None
    z: list[Any] | None = None
    values: dict[str, list[Any]] | None = None
    keys: list[str | int | None] | None = None
    times: list[Time] | None = None
    models: list[str | None] | str | None = None
    sources: list[str | None] | str | None = None
    positions: list[Position | None] | None = None
    type: str | None = None
    """The type of `x`, if it is not float64: "float32", "uint8"."""


class RowsBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A batch, decision by decision."""

    decisions: list[DecisionBody]


class VectorColumns(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The commonest batch, read in half the time: plain vectors of numbers."""

    x: list[list[float]]
    z: list[Any]
    keys: list[str | int | None] | None = None
    times: list[Time] | None = None
    models: list[str | None] | str | None = None
    sources: list[str | None] | str | None = None
    positions: list[Position | None] | None = None
    type: str | None = None


class CheckBatchBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A batch that is only checked, column by column: `x` and `z`, or `values` by column."""

    x: list[Any] | None = None
    z: list[Any] | None = None
    values: dict[str, list[Any]] | None = None
    models: list[str | None] | str | None = None
    time: Time = None
    """When all of them are made, if that is not now."""
    type: str | None = None


class LostBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Decisions that were made and will never be observed."""

    count: int
    reason: str
    """Why, in a word or a few: "full", "timeout", "crash"."""
    first: int | None = None
    """The sender's own number of the first of them."""
    last: int | None = None
    since: Any = None
    """When they were lost; as `time` of a decision."""
    until: Any = None


class PastBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is looked up in the past."""

    rows: list[int] | None = None
    """Of all but `values`, `row_of` and `like_models`."""
    row: int | None = None
    """Of `values`."""
    key: str | int | None = None
    """Of `row_of`."""
    column: str | None = None
    """Of `codes`; "" for the labels."""
    first: int | None = None
    """Of `like_models`: rows from here on."""
    stop: int | None = None
    """Of `like_models`: up to here."""


class ForgetBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Rows that are to be forgotten."""

    rows: list[int]


class TruthBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What turned out to be right."""

    key: str | int
    value: Any


class EraseBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is to be destroyed: keys, or rows."""

    keys: list[str | int] | None = None
    rows: list[int] | None = None


class SupersedeBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A decision is overruled."""

    key: str | int
    output: Any
    why: str
    by: str | None = None
    """Who overrules: with tokens the token's name, which may be left out; else any name."""


class ReviewBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What somebody makes of a contradiction."""

    row: Row
    disposition: str
    """justified, error, unfair, duplicate or unclear; open takes one back."""
    reason: str
    reviewer: str | None = None
    """With tokens the token's name, which may be left out; else any name."""
    witness: Row | None = None
    """Which of those that it contradicts; all of them unless given."""


class VerifyBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the ledger is compared with."""

    head: str | None = None
    """One that was kept elsewhere."""


# What is answered


class BatchBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The verdicts of a batch: counts of all, and in full those with a witness or an alarm."""

    first_row: Row
    """The row of the first decision; the others follow, unless `rows` says otherwise. Of decisions
    that are only checked: the row of the next one that comes."""
    decisions: Row
    violations: Row
    verdicts: list[VerdictBody]
    """With `verdicts=all`, every one."""
    comparable: Row | msgspec.UnsetType = msgspec.UNSET
    incomparable: list[Row] | msgspec.UnsetType = msgspec.UNSET
    """Places in the batch of decisions without any like case."""
    missing: Row | msgspec.UnsetType = msgspec.UNSET
    incomplete: list[Row] | msgspec.UnsetType = msgspec.UNSET
    """Places in the batch of decisions that were not compared with everything."""
    rows: list[Row] | msgspec.UnsetType = msgspec.UNSET
    """The row of each decision, where some were known before."""
    known: list[Row] | msgspec.UnsetType = msgspec.UNSET
    """Places in the batch of decisions that were sent before."""


class MonitorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A monitor, and what it has seen."""

    name: str
    rule: str
    """As TOML."""
    fingerprint: str
    rows: Row
    remembered: Row
    missing: Row
    durable: bool
    durability: str | None
    window: str | None
    comparable: bool
    exact: bool
    waiting: Row
    kind: str
    """contradictions, or slopes."""
    level: float | None
    """Of slopes: a steeper one is a violation; null: nothing is."""


class MonitorsBody(msgspec.Struct, frozen=True):
    monitors: list[str]


class PageBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of verdicts."""

    verdicts: list[dict[str, Any]]
    """Each with `time` and `review` beside the fields of a verdict."""
    next: Row | None
    """Ask again with `after` of this; null if there are no more."""
    source: str
    """ledger, or memory: then only the latest are known."""
    gone: bool
    """Whether earlier verdicts are no longer known."""


class SideBody(msgspec.Struct, frozen=True):
    """A decision as it is remembered."""

    row: Row
    erased: bool
    values: dict[str, Any] | None = None
    x: list[Any] | None = None
    output: Any = None
    key: Any = None
    time: str | None = None
    model: str | None = None
    source: str | None = None
    position: Position | None = None
    input_distance: float | msgspec.UnsetType | None = msgspec.UNSET
    output_distance: float | msgspec.UnsetType | None = msgspec.UNSET


class ReviewSaid(msgspec.Struct, frozen=True):
    row: Row
    witness: Row | None
    disposition: str
    reason: str | None
    reviewer: str
    time: str
    verified: bool
    """Whether a token or a proxy in front said the name; else whoever asked did."""


class LookBody(msgspec.Struct, frozen=True):
    """One decision, and those that it contradicts."""

    decision: SideBody
    count: Row | None
    """Witnesses; null if it was not judged, or that is not known any more."""
    omitted: Row
    comparable: bool | None
    missing: Row
    witnesses: list[SideBody]
    reviews: list[ReviewSaid]


class StatsBody(msgspec.Struct, frozen=True):
    """Counts of decisions, with their denominators."""

    decisions: Row
    judged: Row
    comparable: Row | None
    """Null if it was not asked of all of them."""
    violations: Row
    rate: float | None
    comparable_rate: float | None
    missing: Row
    since: str | None
    until: str | None
    source: str
    """ledger; or process: since the server was started."""
    asked: Row | None = None
    """With a ledger: judged decisions of which it is known whether they could be compared."""
    asked_comparable: Row | None = None
    """Of those, how many could be."""


class HeadBody(msgspec.Struct, frozen=True):
    head: str
    """To be kept elsewhere; /verify takes it."""
    rows: Row
    events: Row


class PositionsBody(msgspec.Struct, frozen=True):
    positions: dict[str, Position]
    """By source, the last one that is on disk: where to go on after a restart."""


class ErasedBody(msgspec.Struct, frozen=True):
    rows: list[Row]
    complete: bool
    """Whether nothing of them is left in any file; if not, a reader still looks at an old state."""


class ForgottenBody(msgspec.Struct, frozen=True):
    forgotten: Row
    """How many of the rows were still remembered."""


class LoadedBody(msgspec.Struct, frozen=True):
    """Decisions are remembered, and not judged."""

    first_row: Row
    decisions: Row


class DoneBody(msgspec.Struct, frozen=True):
    done: bool


class VerifiedBody(msgspec.Struct, frozen=True):
    verified: bool
    rows: Row
    problem: str | None
    row: Row | None
    first: Row
    """The first row that is still there."""
    erased: Row
    events: Row
    pending: Row
    """Decisions that were accepted and are not judged yet."""
    head: str | None
    """The end of the chain; null if the walk did not come that far."""


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why something was refused. What is not known, or does not apply, is left out."""

    code: str
    """Which error it is: bad-decision, missing-value, repeated-key, …"""
    message: str
    """The whole of it, for people."""
    problem: str | None = None
    """What is wrong with a decision, without what became of it."""
    advice: str | None = None
    """What to do about it."""
    place: Row | None = None
    """The decision's place in the batch, from 0."""
    column: str | None = None
    """The column that it is about."""
    key: Any = None
    """The key that was given before, or was erased."""
    row: Row | None = None
    """The row that has the key, or that is not there."""
    source: str | None = None
    """The source of an old position."""
    position: Position | None = None
    """The position that came."""
    last: Position | None = None
    """The last position of its source."""
    setting: str | None = None
    """The setting that makes no sense."""
    path: str | None = None
    """The file that cannot be used."""
    holder: str | None = None
    """The process that writes the file."""


class LineError(ErrorBody, frozen=True, omit_defaults=True, kw_only=True):
    """The answer to a line of a stream that is refused."""

    status: int
    """What a request of its own would have been answered with."""
    line: Row
    """Counted from 1."""


FACTS = frozenset(ErrorBody.__struct_fields__)
"""What a body says about an error."""


decode_decision = msgspec.json.Decoder(DecisionBody).decode
decode_columns = msgspec.json.Decoder(ColumnsBody).decode
decode_vectors = msgspec.json.Decoder(VectorColumns).decode
decode_rows = msgspec.json.Decoder(RowsBody).decode
decode_checks = msgspec.json.Decoder(CheckBatchBody).decode
encode = msgspec.json.Encoder().encode
