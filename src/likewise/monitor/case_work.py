"""Record what people do with decisions later: reviews, overruled decisions, what turned out.

Each is an event of the ledger's chain. The words of people can be destroyed with the rows that
they are about (ledger/notes.py).
"""

from typing import Any

import numpy as np

from likewise.errors import BadRow
from likewise.ledger.notes import LedgerNote, check_text, review_note
from likewise.monitor.journal import Journal
from likewise.monitor.memory import Memory
from likewise.monitor.readers.protocol import Batch
from likewise.search.outputs import LabelCodec
from likewise.tables.codec import write_word
from likewise.tables.keys import Keys


def review(
    journal: Journal,
    row: int | None,
    witness: int | None,
    disposition: Any,
    reason: Any,
    reviewer: Any,
    verified: bool,
) -> None:
    """Record what somebody says about a contradiction."""
    if row is None:
        raise BadRow("a decision that was only checked is not remembered, and cannot be reviewed.")
    journal.flush()
    reader = journal.store.reader
    if row not in reader.find_flagged(row, row + 1):
        raise BadRow(
            f"row {row} contradicts no earlier one, so there is nothing to review.", row=row
        )
    if witness is not None and not reader.first_kept() <= witness < row:
        raise BadRow(
            f"row {witness} is no earlier row than {row}. Nothing was written.", row=witness
        )
    journal.note(review_note(row, witness, disposition, reason, reviewer, verified))


def tell_truth(journal: Journal, row: int, value: Any) -> None:
    """Record what turned out to be right for a decision."""
    journal.note(LedgerNote("truth", {"row": row}, write_word(value, "what turned out"), row))


def find_row_to_supersede(memory: Memory, keys: Keys, key: Any) -> int:
    """Return the row of a decision, or raise BadRow if it cannot be overruled."""
    row = keys.row_on_disk(key)
    if not memory.engine.are_remembered(np.array([row]))[0]:
        raise BadRow(
            f"the decision with the key {key!r}, row {row}, was overruled before, or has left the"
            " window. Nothing was changed."
        )
    return row


def read_replacement(journal: Journal, memory: Memory, row: int, output: Any) -> Batch:
    """Return a remembered row with another output, as a decision to be taken."""
    layout, history = journal.store.reader.layout, memory.engine.history
    assert layout is not None and history is not None
    packed = memory.reader.pack(layout.dtype, history.rows, row, row + 1).copy()  # outlives the row
    batch = memory.reader.unpack(layout.dtype, packed, np.zeros(1, np.bool_))
    batch.outputs = [output]
    if memory.models:
        batch.models = list(memory.models.names(np.array([row])))
    if isinstance(memory.engine.outputs, LabelCodec):
        write_word(output, "the output")
    return batch


def superseded_note(row: int, by_row: int, by: Any, why: Any, verified: bool) -> LedgerNote:
    """Make the note that `by_row` takes the place of `row`."""
    name = check_text(by, "who overrules")
    body = {"row": row, "by_row": by_row, "by": name, "verified": verified}
    return LedgerNote("superseded", body, check_text(why, "the reason"), row, by_row)
