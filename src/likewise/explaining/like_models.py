"""Which decisions had an earlier like case of their own model, and which one of another model.

A verdict says whether there was a like case at all, and stops at the first. Where models are
counted apart, each kind needs a denominator of its own, so all near pairs are looked at.

Invariant: a pair is looked at exactly if the later decision's verdict could name the earlier one.
Cost: one pass over all near pairs, MOST_PAIRS of them at most.
"""

import numpy as np

from likewise.engine.engine import threads_of
from likewise.engine.memory import Memory
from likewise.values.past import LikeModels

MOST_PAIRS = 100_000_000  # some twelve seconds
_CHUNK = 1 << 20


def like_models(memory: Memory, rows: range, *, most_pairs: int = MOST_PAIRS) -> LikeModels | None:
    """For each of these rows, whether there is an earlier like case within and across models.

    None where no model is known, where one of the rows up to the last is forgotten, so that what it
    was compared with is not there any more, or where there are more pairs than `most_pairs`.
    """
    known = np.arange(rows.stop)
    if not memory.models or not memory.engine.alive(known).all():
        return None
    count = memory.engine.rows
    codes = memory.models.codes(np.arange(count))
    within, across = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    seen = 0
    for pairs in memory.like_pairs(most=_CHUNK, threads=threads_of(None)):
        seen += len(pairs)
        if seen > most_pairs:
            return None
        same = codes[pairs.later] == codes[pairs.earlier]
        within[pairs.later[same]] = True
        across[pairs.later[~same]] = True
    part = slice(rows.start, rows.stop)
    return LikeModels(within[part], across[part])
