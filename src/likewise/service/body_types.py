"""Defines the types of the bodies that clients send, and of answers (for /openapi.json).

A decision on vectors has `x` and `z`; one on a table has `values`. Values that JSON has no form for
are objects with one entry, such as {"date": "2026-01-31"} (tables/codec.py).
Invariant: JSON is strict; unknown or repeated names and other types are refused (content_types.py).
Not here: MessagePack with exact values (decision_bodies.py), verdicts (verdict/verdict_body.py).
"""

from typing import Annotated, Any, TypeVar

import msgspec

from likewise.verdict.verdict_body import VerdictBody

Row = Annotated[int, msgspec.Meta(ge=0)]
Time = int | float | str | None
Position = Row | Annotated[list[Row], msgspec.Meta(min_length=2, max_length=2)]
"""A place in a source: a whole number, or a pair of them. The pair is no tuple, since msgspec 0.22
reads beyond its memory where a value may be a tuple or a number with bounds."""


# Requests


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


class _BatchFields(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Has the fields of every batch that is remembered."""

    keys: list[str | int | None] | None = None
    times: list[Time] | None = None
    models: list[str | None] | str | None = None
    sources: list[str | None] | str | None = None
    positions: list[Position | None] | None = None
    type: str | None = None
    """The type of `x`, if it is not float64: "float32", "uint8"."""


class ColumnsBody(_BatchFields, forbid_unknown_fields=True, frozen=True):
    """A batch, column by column: `x` and `z`, or `values` by column."""

    x: list[Any] | None = None
    z: list[Any] | None = None
    values: dict[str, list[Any]] | None = None


class RowsBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A batch, decision by decision."""

    decisions: list[DecisionBody]


class VectorColumns(_BatchFields, forbid_unknown_fields=True, frozen=True):
    """A batch of plain vectors of numbers, which is read in half the time."""

    x: list[list[float]]
    z: list[Any]


class CheckBatchBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A batch that is only checked, column by column: `x` and `z`, or `values` by column."""

    x: list[Any] | None = None
    z: list[Any] | None = None
    values: dict[str, list[Any]] | None = None
    models: list[str | None] | str | None = None
    time: Time = None
    """When all of them are made, if not now."""
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
    """Says what to look up in the past."""

    rows: list[int] | None = None
    """For all lookups but `values`, `row_of` and `like_models`."""
    row: int | None = None
    """For `values`."""
    key: str | int | None = None
    """For `row_of`."""
    column: str | None = None
    """For `codes`; "" for the labels."""
    first: int | None = None
    """For `like_models`: the first row."""
    stop: int | None = None
    """For `like_models`: the row after the last."""


class LikeBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A case without an output, to see how similar ones were decided."""

    x: list[Any] | str | None = None
    values: dict[str, Any] | None = None
    """The key may be left out, and so may columns that are not compared."""
    model: str | None = None
    time: Time = None
    person: Any = None
    """Whose decisions are left out."""
    limit: Row | None = None
    """How many cases are listed, the nearest; unless given, as many as the server's limit."""


class ForgetBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Rows to forget."""

    rows: list[int]


class TruthBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Says what turned out to be right for a decision."""

    key: str | int
    value: Any


class EraseBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Decisions to destroy, by key or by row."""

    keys: list[str | int] | None = None
    rows: list[int] | None = None


class SupersedeBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Overrules a decision."""

    key: str | int
    output: Any
    why: str
    by: str | None = None
    """Who overrules: with tokens the name of the token, which may be left out; else any name."""


class ReviewBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A review of a contradiction."""

    row: Row
    disposition: str
    """justified, error, unfair, duplicate or unclear; open withdraws a review."""
    reason: str
    reviewer: str | None = None
    """With tokens the name of the token, which may be left out; else any name."""
    witness: Row | None = None
    """Which of the contradicted decisions; all of them unless given."""


class VerifyBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Says what to compare the ledger with."""

    head: str | None = None
    """A head that was stored elsewhere."""


# Answers


class OutputCountBody(msgspec.Struct, frozen=True):
    output: Any
    count: Row


class CaseReviewBody(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    disposition: str
    reason: str | None = None
    """With the scope `review`."""
    reviewer: str | None = None
    """With the scope `review`."""
    time: str
    verified: bool


class OverrulingBody(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    row: Row
    """The decision that was overruled."""
    why: str | None = None
    """With the scope `review`."""
    by: str | None = None
    """With the scope `review`."""
    time: str
    verified: bool


class PrecedentBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A past decision near the case."""

    row: Row
    input_distance: float
    output: Any
    key: Any = None
    """With the scope `review`."""
    time: str | None = None
    model: str | None = None
    reviews: list[CaseReviewBody] = []
    supersedes: OverrulingBody | None = None
    """The decision in whose place this one was put."""


class PrecedentsBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The past decisions near a case, whatever their outputs."""

    near: Row
    """How many there are in all."""
    counts: list[OutputCountBody]
    """How many have each output, most frequent first; at most 1,000 outputs."""
    cases: list[PrecedentBody]
    """The nearest of them, nearest first; equally near ones by row."""
    other_outputs: Row = 0
    """How many further outputs are not counted one by one."""
    not_compared: Row = 0
    """Past decisions that were not compared, since their shards were down."""


class BatchBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The verdicts of a batch: counts of all, and in full those with a witness or an alarm."""

    first_row: Row
    """The row of the first decision; the others follow, unless `rows` says otherwise. If decisions
    are only checked: the row of the next decision that comes."""
    decisions: Row
    violations: Row
    verdicts: list[VerdictBody]
    """With `verdicts=all`, every one."""
    comparable: Row | msgspec.UnsetType = msgspec.UNSET
    incomparable: list[Row] | msgspec.UnsetType = msgspec.UNSET
    """Places in the batch of decisions without any similar case."""
    missing_decisions: Row | msgspec.UnsetType = msgspec.UNSET
    partly_compared: list[Row] | msgspec.UnsetType = msgspec.UNSET
    """Places in the batch of decisions that were not compared with the whole history."""
    rows: list[Row] | msgspec.UnsetType = msgspec.UNSET
    """The row of each decision, if some were sent before."""
    repeated: list[Row] | msgspec.UnsetType = msgspec.UNSET
    """Places in the batch of decisions that were sent before."""


class MonitorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A monitor, and what it has seen."""

    name: str
    rule: str
    """As TOML."""
    fingerprint: str
    rows: Row
    remembered: Row
    missing_decisions: Row
    durable: bool
    durability: str | None
    window: str | None
    comparable: bool
    support: bool
    exact: bool
    waiting: Row
    kind: str
    """contradictions, or slopes."""
    slope_limit: float | None
    """For slopes: a steeper one is a violation; null: nothing is."""


class MonitorsBody(msgspec.Struct, frozen=True):
    monitors: list[str]


class PageBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of verdicts."""

    verdicts: list[dict[str, Any]]
    """Each has the fields of a verdict, `time` and `review`."""
    next: Row | None
    """The value of `after` for the next page; null if there are no more."""
    source: str
    """ledger; or memory, which has only the latest verdicts."""
    earlier_unavailable: bool
    """Whether earlier verdicts are no longer available."""


class SideBody(msgspec.Struct, frozen=True):
    """A decision as the history has it."""

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


class ReviewNoteBody(msgspec.Struct, frozen=True):
    row: Row
    witness: Row | None
    disposition: str
    reason: str | None
    reviewer: str
    time: str
    verified: bool
    """Whether a token or a proxy in front gave the name; else the request did."""


class DecisionDetailsBody(msgspec.Struct, frozen=True):
    """One decision, and those that it contradicts."""

    decision: SideBody
    count: Row | None
    """Number of witnesses; null if it was not judged, or if that is no longer available."""
    omitted_witnesses: Row
    comparable: bool | None
    missing_decisions: Row
    witnesses: list[SideBody]
    reviews: list[ReviewNoteBody]


class StatsBody(msgspec.Struct, frozen=True):
    """Counts of decisions, with their denominators."""

    decisions: Row
    judged: Row
    comparable: Row | None
    """Null if it is not known of all of them."""
    violations: Row
    rate: float | None
    rate_among_comparable: float | None
    missing_decisions: Row
    since: str | None
    until: str | None
    source: str
    """ledger; or process: since the server was started."""
    comparability_known: Row | None = None
    """With a ledger: judged decisions of which it is known whether they could be compared."""
    known_comparable: Row | None = None
    """How many of those could be compared."""


class HeadBody(msgspec.Struct, frozen=True):
    head: str
    """Store it elsewhere; /verify takes it."""
    rows: Row
    events: Row


class PositionsBody(msgspec.Struct, frozen=True):
    positions: dict[str, Position]
    """The last position on disk of each source, where to continue after a restart."""


class ErasedBody(msgspec.Struct, frozen=True):
    rows: list[Row]
    complete: bool
    """Whether nothing of them is left in any file; if not, a reader still uses an old state."""


class ForgottenBody(msgspec.Struct, frozen=True):
    forgotten: Row
    """How many of the rows were still in the history."""


class LoadedBody(msgspec.Struct, frozen=True):
    """Decisions that were stored without being judged."""

    first_row: Row
    decisions: Row


class DoneBody(msgspec.Struct, frozen=True):
    done: bool


class VerifiedBody(msgspec.Struct, frozen=True):
    ok: bool
    rows: Row
    problem: str | None
    bad_row: Row | None
    first_row: Row
    """The first row that the ledger still has."""
    erased: Row
    events: Row
    pending: Row
    """Decisions that were accepted and are not judged yet."""
    head: str | None
    """The end of the chain; null if the verification did not get that far."""


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Says why something was refused. Fields that do not apply are left out."""

    code: str
    """Which error it is: bad-decision, missing-value, repeated-key, …"""
    message: str
    """The whole text, for people."""
    problem: str | None = None
    """What is wrong with a decision, without the consequences."""
    advice: str | None = None
    """What to do about it."""
    place: Row | None = None
    """The decision's place in the batch, from 0."""
    column: str | None = None
    """The column with the problem."""
    key: Any = None
    """The key that was used before, or was erased."""
    row: Row | None = None
    """The row that has the key, or that does not exist."""
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
    """The status that a request with this decision would have been answered with."""
    line: Row
    """Counted from 1."""


FACTS = frozenset(ErrorBody.__struct_fields__)
"""Names of the facts about an error that a body may have."""


_Body = TypeVar("_Body", bound=msgspec.Struct)


def copy_fields(kind: type[_Body], source: Any, /, **others: Any) -> _Body:
    """Make a body of the attributes that `source` has under the same names, and of other fields."""
    names = kind.__struct_fields__
    return kind(**{name: getattr(source, name) for name in names if name not in others}, **others)


decode_decision = msgspec.json.Decoder(DecisionBody).decode
decode_columns = msgspec.json.Decoder(ColumnsBody).decode
decode_vectors = msgspec.json.Decoder(VectorColumns).decode
decode_rows = msgspec.json.Decoder(RowsBody).decode
decode_checks = msgspec.json.Decoder(CheckBatchBody).decode
encode = msgspec.json.Encoder().encode
