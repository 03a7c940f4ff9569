"""What waits to be written is joined and cut as it came."""

import numpy as np

from likewise.ledger.stored_witnesses import Kept
from likewise.ledger.write_buffer import Pending, Queue


def pending(count: int, models: list | None = None) -> Pending:
    zeros = np.zeros(count, np.int64)
    return Pending(zeros, None, zeros, zeros, Kept.none(), models=models)


def test_models_are_joined_and_cut_as_keys_are():
    queue = Queue(0, 0, {})
    for some in (pending(2), pending(1, ["a"]), pending(2, [None, "b"])):
        queue = queue.and_then(some, {})
    joined = queue.joined()
    assert joined.models == [None, None, "a", None, "b"]
    assert joined.part(1, 4).models == [None, "a", None]
    without = Queue(0, 0, {}).and_then(pending(2), {}).and_then(pending(1), {}).joined()
    assert without.models is None and without.part(0, 2).models is None
