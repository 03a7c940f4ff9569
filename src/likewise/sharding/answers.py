"""What a shard answers to a search, short for the way and whole again.

A popular decision has thousands of witnesses, and what they take is copied several times on the
way. Rows of a shard mostly fit into four bytes, and distances of labels are all the same.

Invariant: `whole(short(answers))` is `answers`, to the last bit.
"""

import numpy as np

from likewise.engine.row_engine import Answers


def short(answers: Answers) -> Answers:
    """The same in fewer bytes: as it travels."""
    counts, rows, near, far = answers
    if len(rows) and rows.max() <= np.iinfo(np.int32).max:
        rows = rows.astype(np.int32)
    if len(far) > 1 and (far == far[0]).all():
        far = far[:1].copy()
    return counts, rows, near, far


def whole(answers: Answers) -> Answers:
    """What `short` was made of."""
    counts, rows, near, far = answers
    if len(far) != len(near):
        far = np.full(len(near), far[0])
    return counts, rows.astype(np.int64, copy=False), near, far
