"""Shows two decisions of a ledger side by side, even if no monitor remembers them any more.

Invariant: None if one of the two was erased, or has left the window; nothing of it is shown.
"""

from functools import partial
from typing import Any

from likewise.errors import BadRow
from likewise.explaining.pair_card import DecisionOrigin, pair_card
from likewise.explaining.pairs import measure_gaps, vector_pair
from likewise.ledger.ledger import Entry, Ledger
from likewise.verdict.side_by_side import Pair
from likewise.verdict.witnesses import Witness


def stored_pair(
    ledger: Ledger, entry: Entry, witness: Witness, *, keys: bool = True
) -> Pair | None:
    """Show a decision beside one of its witnesses.

    keys: whether to show the key column
    """
    other = entry_of(ledger, witness.row)
    if entry.erased or other is None or other.erased:
        return None
    rule = ledger.rule
    models = entry.model, other.model
    if rule.features is None:
        inputs = [ledger.values(row)["input"] for row in (entry.row, witness.row)]
        outputs = [entry.output, other.output]
        return vector_pair(rule, entry.row, witness, inputs, outputs, models)
    names = rule.output_columns or ("output",)
    key = rule.key_column if keys else None
    mine, theirs = (_values(ledger, one, names, key) for one in (entry, other))
    gaps = measure_gaps(rule.features, mine, theirs)
    return Pair(
        entry.row, witness, mine, theirs, gaps, names, partial(pair_card, rule=rule), models=models
    )


def entry_of(ledger: Ledger, row: int) -> Entry | None:
    """Read a decision; None if it has left the window."""
    try:
        return ledger.entry(row)
    except BadRow:
        return None


def whereabouts(entry: Entry) -> DecisionOrigin:
    """Return when a decision was made, for its card."""
    return DecisionOrigin(time=entry.time.removesuffix("Z").replace("T", " ").partition(".")[0])


def _values(
    ledger: Ledger, entry: Entry, outputs: tuple[str, ...], key_column: str | None
) -> dict[str, Any]:
    values = {name: _restore_number(value) for name, value in ledger.values(entry.row).items()}
    several = list(entry.output) if len(outputs) > 1 else [entry.output]
    key = {} if key_column is None else {key_column: entry.key}
    return {**dict(zip(outputs, several, strict=True)), **key, **values}


def _restore_number(value: Any) -> Any:
    """Return a number as it was written; None where a value was missing."""
    if isinstance(value, float):
        if value != value:  # noqa: PLR0124 - NaN
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value
