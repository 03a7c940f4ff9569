"""The page of one pair: both decisions side by side, other witnesses, and all reviews.

With a ledger the pair is read from there, so it can be shown even if the monitor has forgotten it.
A monitor in memory shows the values it remembers, and only pairs of its latest verdicts.
"""

from dataclasses import asdict, dataclass
from typing import Any

from likewise.errors import BadRow
from likewise.explaining.pairs import DecisionOrigin, make_pair, pair_card
from likewise.explaining.past import Past
from likewise.ledger.ledger import Entry, Ledger
from likewise.ledger.notes import Review
from likewise.pages.frame import PageData, PagePart, Screen
from likewise.pages.page_state import Visit
from likewise.pages.review_form import CHOICES
from likewise.reports.selected_pairs import entry_of, stored_pair, whereabouts
from likewise.rule.rule import Rule
from likewise.service.routes.query_values import parse_whole
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.codec import json_value
from likewise.tables.printing import missing_in_words
from likewise.verdict.side_by_side import Pair
from likewise.verdict.verdicts import Verdict
from likewise.verdict.witnesses import Witness

MOST_OTHERS = 50


@dataclass(frozen=True)
class PairDetails:
    """Holds what is known about a pair."""

    rule: Rule
    row: int
    witness: Witness
    pair: Pair | None
    """None if one of the two was erased, or has left the window."""
    later: DecisionOrigin
    earlier: DecisionOrigin
    keys: tuple[Any, Any]
    """The keys of the later and of the earlier decision."""
    count: int
    """How many decisions the later one contradicts, including those that are not stored."""
    comparable: bool | None
    missing_decisions: int
    others: tuple[dict[str, Any], ...]
    """The other witnesses, the nearest first."""
    reviews: tuple[Review, ...]
    """Reviews of the later decision, whichever of its witnesses they name; in order."""

    @property
    def last_review_event(self) -> int:
        """The number of the last review's event; -1 if there is no review."""
        return max((review.event for review in self.reviews), default=-1)

    @property
    def disposition(self) -> str:
        return self.reviews[-1].disposition if self.reviews else "open"

    def card(self) -> str:
        """Return the pair as HTML; there must be a pair."""
        assert self.pair is not None
        return pair_card(self.pair, self.rule, later=self.later, earlier=self.earlier, zone="")

    def to_dict(self) -> dict[str, Any]:
        names = ("row", "count", "comparable", "missing_decisions", "disposition")
        return {
            **{name: getattr(self, name) for name in names},
            "witness": self.witness.row,
            "pair": self.pair and self.pair.to_dict(),
            "time": self.later.time,
            "witness_time": self.earlier.time,
            "key": json_value(self.keys[0]),
            "witness_key": json_value(self.keys[1]),
            "other_witnesses": list(self.others),
            "reviews": [asdict(review) for review in self.reviews],
        }


async def load_pair(served: ServedMonitor, row: int, witness: int | None) -> PairDetails:
    """Load a pair by its rows; without a witness, the decision beside its nearest one."""
    served.monitor.core.require_contradictions()
    if not served.monitor.durable:
        verdict = served.recent.find(row)
        return await served.run_in_thread(_load_memory_pair, served, row, witness, verdict)
    await served.flush()
    return await served.read_ledger(load_ledger_pair, row, witness)


def _select_witness(row: int, witness: int | None, nearest: tuple[Witness, ...]) -> Witness:
    for one in nearest:
        if witness is None or one.row == witness:
            return one
    if not nearest:
        raise BadRow(f"row {row} contradicts no earlier decision that is known here.", row=row)
    what = f"row {witness} is not among the decisions known here that row {row} contradicts."
    raise BadRow(what, row=witness)


def load_ledger_pair(ledger: Ledger, row: int, witness: int | None) -> PairDetails:
    entry = ledger.entry(row)
    chosen = _select_witness(row, witness, entry.nearest)
    other = entry_of(ledger, chosen.row)
    others = [one for one in entry.nearest if one.row != chosen.row]
    return PairDetails(
        ledger.rule,
        row,
        chosen,
        stored_pair(ledger, entry, chosen),
        whereabouts(entry),
        DecisionOrigin() if other is None else whereabouts(other),
        (entry.key, None if other is None else other.key),
        entry.count or 0,
        entry.comparable,
        entry.missing_decisions,
        tuple(_describe_other(ledger, one) for one in others[:MOST_OTHERS]),
        tuple(ledger.reviews(row)),
    )


def _describe_other(ledger: Ledger, witness: Witness) -> dict[str, Any]:
    """Describe a further witness; its distance stays if its decision is gone."""
    entry, gone = entry_of(ledger, witness.row), _describe_decision(witness.row, erased=True)
    decision = gone if entry is None else describe_entry(entry)
    return decision | {"distance": json_value(witness.input_distance)}


def _describe_decision(
    row: int,
    key: Any = None,
    output: Any = None,
    model: str | None = None,
    time: str | None = None,
    *,
    erased: bool,
) -> dict[str, Any]:
    plain = {"row": row, "key": json_value(key), "time": time, "output": json_value(output)}
    return {**plain, "model": model, "erased": erased}


def describe_entry(entry: Entry) -> dict[str, Any]:
    """Describe a decision of a ledger for a page."""
    values = entry.key, entry.output, entry.model, entry.time
    return _describe_decision(entry.row, *values, erased=entry.erased)


def describe_rows(past: Past, rows: list[int]) -> list[dict[str, Any]]:
    """Describe decisions that a monitor in memory remembers, as `describe_entry` does."""
    columns = past.keys(rows), past.outputs(rows), past.models(rows), past.alive(rows)
    return [
        _describe_decision(row, key, output, model, erased=not alive)
        for row, key, output, model, alive in zip(rows, *columns, strict=True)
    ]


def _load_memory_pair(
    served: ServedMonitor, row: int, witness: int | None, verdict: Verdict | None
) -> PairDetails:
    monitor = served.monitor
    if verdict is None:
        raise BadRow(
            f"the verdict of row {row} is not among the latest, which are all that a monitor in"
            " memory knows."
        )
    past, nearest = monitor.past, tuple(verdict.witnesses.nearest(MOST_OTHERS + 1))
    chosen = _select_witness(row, witness, nearest)
    rows = [row, chosen.row]
    others = [one for one in nearest if one.row != chosen.row]
    decisions = describe_rows(past, [one.row for one in others])
    return PairDetails(
        monitor.rule,
        row,
        chosen,
        make_pair(past, row, chosen, support=verdict.support) if past.alive(rows).all() else None,
        DecisionOrigin(),
        DecisionOrigin(),
        tuple(past.keys(rows)),
        verdict.count,
        verdict.comparable,
        verdict.missing_decisions,
        tuple(
            decision | {"distance": json_value(one.input_distance)}
            for one, decision in zip(others, decisions, strict=True)
        ),
        (),
    )


# The screen


async def load(visit: Visit) -> PageData:
    path = visit.request.path_params
    row = parse_whole("the row", path["row"])
    witness = parse_whole("the witness", path["witness"]) if "witness" in path else None
    details = await load_pair(visit.served, row, witness)
    await visit.record_look("pair", row=row, witness=details.witness.row)
    return PageData(
        details.to_dict(),
        lambda: {
            "details": details,
            "missing": missing_in_words(details.missing_decisions),
            "more": details.count - 1 - len(details.others),
            "holder": visit.state.leases.find_holder(details.row),
            "dispositions": CHOICES,
        },
    )


_TITLE, _TEMPLATE = "Row {row:,} and row {witness:,}", "pages/pair.html"
PARTS: tuple[PagePart, ...] = (
    Screen("pairs/{row}/{witness}", "read", _TITLE, load, _TEMPLATE),
    Screen("pairs/{row}", "read", _TITLE, load, _TEMPLATE),
)
