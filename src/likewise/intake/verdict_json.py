"""What whoever sends decisions is answered: the fields of a verdict, fresh or from a ledger.

The names are those of `Verdict.to_dict()` (values/verdict_fields.py). An answer leaves out `over`;
where decisions are known by their positions it leaves out keys, which nobody has given. An answer
from a ledger has no `comparable`, no `neighbours` and no `alarm`, which a ledger does not keep.
"""

from collections.abc import Callable
from typing import Any

from likewise.ledger.ledger import Entry
from likewise.values.verdict_fields import put_together, verdict_dict
from likewise.values.verdicts import Verdict


def answer(verdict: Verdict, witnesses: int | None = None, *, keyed: bool) -> dict[str, Any]:
    """A new verdict, with so many of its nearest witnesses."""
    return verdict_dict(verdict, witnesses, keyed=keyed, over=False)


def stored_answer(
    entry: Entry,
    witnesses: int | None,
    keys_of: Callable[[list[int]], list[Any]] | None,
) -> dict[str, Any]:
    """A verdict that a ledger has, with so many of the witnesses that it keeps.

    keys_of: the keys of rows; None where decisions are known by their positions
    """
    nearest = entry.nearest[:witnesses]
    keys = None if keys_of is None else keys_of([witness.row for witness in nearest])
    return put_together(
        entry.row,
        entry.count or 0,
        nearest,
        key=entry.key,
        witness_keys=keys,
        missing=entry.missing,
    )
