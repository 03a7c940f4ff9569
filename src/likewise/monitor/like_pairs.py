"""Find similar pairs: every two decisions whose inputs are near, whatever their outputs.

Invariant: a pair is found exactly if the later decision's verdict would name the earlier one, were
their outputs different: by distance, slack, missing values, columns that must differ, and models.
Cost: reading and building once, then one search for each decision; memory for what is remembered
and for a chunk of pairs (search/engine/near_pairs.py).
Not here: outputs, and counting pairs by group (explaining/).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from likewise.errors import BadDecision
from likewise.monitor.factory import make_reader
from likewise.monitor.memory import Memory
from likewise.monitor.monitor import Monitor
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.rule.rule import Rule
from likewise.search.engine.engine import Engine, threads_of
from likewise.search.engine.near_pairs import NearPairs
from likewise.tables.model_names import check_names
from likewise.tables.setting_checks import check_whole_number

CHUNK_PAIRS = 1 << 20


def like_pairs(
    rule: Rule,
    x: Any,
    z: Any = FROM_ROW,
    *,
    models: Any = None,
    most: int = CHUNK_PAIRS,
    threads: int | None = None,
) -> Iterator[NearPairs]:
    """Yield every pair of decisions that are near, in chunks.

    x, z     as for `observe_many`; outputs do not matter, so those of vectors may be left out, too
    models   which model made them, as for `observe_many`
    most     how many pairs a chunk may have, or the number of decisions if that is larger
    threads  how many cores may share the work; all of them by default

    Pairs come in no particular order, but all pairs of one later decision come in the same chunk.
    If missing values match everything (`missing = "match"`), pairs with such a row come last.

    >>> for pairs in like_pairs(Rule("linf", 0.1), [[0.0], [0.5], [0.05], [0.55]]):
    ...     print(pairs.later, pairs.earlier, pairs.distances.round(3))
    [2 3] [0 1] [0.05 0.05]
    """
    check_whole_number("most", most)
    reader = make_reader(rule)
    batch = reader.read_many(reader.embed_inputs(x, many=True), ())
    batch.outputs = np.zeros(len(batch.vectors))
    batch.models = check_names(models, len(batch.vectors))
    plain = replace(reader.vector_rule, output="number", delta=0.0, favourable=None)
    memory = Memory(reader, Engine(plain))
    memory.load(batch)
    return memory.like_pairs(most=most, threads=threads_of(threads))


def find_remembered_like_pairs(
    monitor: Monitor, *, most: int = CHUNK_PAIRS, threads: int | None = None
) -> Iterator[NearPairs]:
    """Yield every near pair of the decisions that a monitor remembers; they are not read again.

    Raises BadDecision if the monitor takes or forgets a decision meanwhile.

    >>> monitor = Monitor(Rule("linf", 0.1))
    >>> _ = monitor.observe_many([[0.0], [0.5], [0.05], [0.55]], ["yes"] * 4)
    >>> pairs = next(find_remembered_like_pairs(monitor))
    >>> pairs.later.tolist(), pairs.earlier.tolist()
    ([2, 3], [0, 1])
    """
    check_whole_number("most", most)
    before = monitor.rows, len(monitor)
    for pairs in monitor.core.memory.like_pairs(most=most, threads=threads_of(threads)):
        yield pairs
        if (monitor.rows, len(monitor)) != before:
            raise BadDecision(
                "the monitor has taken or forgotten decisions during the search for similar pairs.",
                advice="Search again, and do not use the monitor meanwhile.",
            )
