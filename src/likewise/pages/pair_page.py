"""One pair: the two decisions side by side, other witnesses, and all that people said of it.

With a ledger it is read from there, so also what no monitor remembers any more can be seen. In
memory the values are those that the monitor has, and the verdict is one of the latest.
"""

from dataclasses import dataclass
from typing import Any

from likewise.errors import BadRow
from likewise.explaining.pair_card import DecisionOrigin, pair_card
from likewise.explaining.pairs import make_pair
from likewise.ledger.ledger import Ledger
from likewise.ledger.notes import Review
from likewise.pages.page_state import Visit
from likewise.pages.review_form import CHOICES
from likewise.pages.screen import PageData, PagePart, Screen
from likewise.reports.stored_pairs import entry_of, stored_pair, whereabouts
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
    """What is known of a pair."""

    rule: Rule
    row: int
    witness: Witness
    pair: Pair | None
    """None if one of the two was erased, or has left the window."""
    later: DecisionOrigin
    earlier: DecisionOrigin
    keys: tuple[Any, Any]
    """Of the later and of the earlier one."""
    count: int
    """How many decisions it contradicts, those that are not kept included."""
    comparable: bool | None
    missing: int
    others: tuple[dict[str, Any], ...]
    """The other witnesses, the nearest first."""
    reviews: tuple[Review, ...]
    """Of the later decision, whichever of its witnesses they name; in order."""

    @property
    def last_review_event(self) -> int:
        """The number of the last review's event: whether something has been said since."""
        return max((review.event for review in self.reviews), default=-1)

    @property
    def disposition(self) -> str:
        return self.reviews[-1].disposition if self.reviews else "open"

    def card(self) -> str:
        """As HTML; only while there is a pair."""
        assert self.pair is not None
        return pair_card(self.pair, self.rule, later=self.later, earlier=self.earlier)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "row": self.row,
            "witness": self.witness.row,
            "pair": None if self.pair is None else self.pair.to_dict(),
            "time": self.later.time,
            "witness_time": self.earlier.time,
            "key": json_value(self.keys[0]),
            "witness_key": json_value(self.keys[1]),
            "count": self.count,
            "comparable": self.comparable,
            "missing": self.missing,
            "others": list(self.others),
            "disposition": self.disposition,
            "reviews": [
                {
                    "event": review.event,
                    "row": review.row,
                    "witness": review.witness,
                    "disposition": review.disposition,
                    "reason": review.reason,
                    "reviewer": review.reviewer,
                    "verified": review.verified,
                    "time": review.time,
                }
                for review in self.reviews
            ],
        }


async def load_pair(hosted: ServedMonitor, row: int, witness: int | None) -> PairDetails:
    """A pair by its rows; without a witness, the decision beside its nearest one."""
    hosted.monitor.insist_on_contradictions()
    if not hosted.monitor.durable:
        verdict = hosted.recent.find(row)
        return await hosted.run_in_thread(lambda: _load_memory_pair(hosted, row, witness, verdict))
    await hosted.flush()
    return await hosted.read_ledger(lambda ledger: load_ledger_pair(ledger, row, witness))


def _select_witness(row: int, witness: int | None, nearest: tuple[Witness, ...]) -> Witness:
    for one in nearest:
        if witness is None or one.row == witness:
            return one
    if not nearest:
        raise BadRow(f"row {row} contradicts no earlier one that is known here.", row=row)
    raise BadRow(
        f"row {witness} is not among those known here that row {row} contradicts.", row=witness
    )


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
        entry.missing,
        tuple(_other(ledger, one) for one in others[:MOST_OTHERS]),
        tuple(ledger.reviews(row)),
    )


def _other(ledger: Ledger, witness: Witness) -> dict[str, Any]:
    entry = entry_of(ledger, witness.row)
    if entry is None:
        return _other_witness(witness, None, None, None, None, erased=True)
    return _other_witness(
        witness, entry.output, entry.key, entry.model, entry.time, erased=entry.erased
    )


def _other_witness(
    witness: Witness, output: Any, key: Any, model: str | None, time: str | None, *, erased: bool
) -> dict[str, Any]:
    return {
        "row": witness.row,
        "distance": json_value(witness.input_distance),
        "output": json_value(output),
        "key": json_value(key),
        "model": model,
        "time": time,
        "erased": erased,
    }


def _load_memory_pair(
    hosted: ServedMonitor, row: int, witness: int | None, verdict: Verdict | None
) -> PairDetails:
    monitor = hosted.monitor
    if verdict is None:
        raise BadRow(
            f"the verdict of row {row} is not among the latest, which are all that a monitor in"
            " memory knows."
        )
    past, nearest = monitor.past, tuple(verdict.witnesses.nearest(MOST_OTHERS + 1))
    chosen = _select_witness(row, witness, nearest)
    rows = [row, chosen.row]
    others = [one for one in nearest if one.row != chosen.row]
    told = [one.row for one in others]
    sides = past.outputs(told), past.keys(told), past.models(told), past.alive(told)
    columns = zip(others, *sides, strict=True)
    return PairDetails(
        monitor.rule,
        row,
        chosen,
        make_pair(past, row, chosen) if past.alive(rows).all() else None,
        DecisionOrigin(),
        DecisionOrigin(),
        tuple(past.keys(rows)),
        verdict.count,
        verdict.comparable,
        verdict.missing,
        tuple(
            _other_witness(one, output, key, model, None, erased=not alive)
            for one, output, key, model, alive in columns
        ),
        (),
    )


# The screen


async def load(visit: Visit) -> PageData:
    told = visit.request.path_params
    row = parse_whole("the row", told["row"])
    witness = parse_whole("the witness", told["witness"]) if "witness" in told else None
    look = await load_pair(visit.hosted, row, witness)
    await visit.record_look("pair", row=row, witness=look.witness.row)
    return PageData(
        look.to_dict(),
        lambda: {
            "look": look,
            "missing": missing_in_words(look.missing),
            "more": look.count - 1 - len(look.others),
            "holder": visit.state.leases.find_holder(look.row),
            "dispositions": CHOICES,
        },
    )


_TITLE, _TEMPLATE = "Row {row:,} and row {witness:,}", "pages/pair.html"
PARTS: tuple[PagePart, ...] = (
    Screen("pairs/{row}/{witness}", "read", _TITLE, load, _TEMPLATE),
    Screen("pairs/{row}", "read", _TITLE, load, _TEMPLATE),
)
