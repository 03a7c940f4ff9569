"""What waits to be written is joined and cut as it came."""

from dataclasses import astuple

import numpy as np

import likewise as lw
from likewise.ledger.entries import NO_STORED_WITNESSES
from likewise.ledger.verdict_facts import facts_of_many
from likewise.ledger.write_buffer import UnwrittenDecisions, WriteQueue
from likewise.tables.positions import check_position
from likewise.verdict.verdicts import Verdict
from likewise.verdict.witnesses import Witnesses


def pending(count: int, models: list | None = None) -> UnwrittenDecisions:
    zeros = np.zeros(count, np.int64)
    return UnwrittenDecisions(
        zeros, None, zeros, zeros, NO_STORED_WITNESSES, facts_of_many(None, count), models
    )


def test_models_are_joined_and_cut_as_keys_are():
    queue = WriteQueue(0, 0, {})
    for some in (pending(2), pending(1, ["a"]), pending(2, [None, "b"])):
        queue = queue.append(some, {})
    joined = queue.join_all()
    assert joined.models == [None, None, "a", None, "b"]
    assert joined.part(1, 4).models == [None, "a", None]
    without = WriteQueue(0, 0, {}).append(pending(2), {}).append(pending(1), {}).join_all()
    assert without.models is None and without.part(0, 2).models is None


def single(row, witnesses=(), key=None, model=None, place=None, **beside):
    """A decision that came alone; witnesses are rows and distances."""
    rows, near, far = np.array(witnesses, np.float64).reshape(-1, 3).T
    found = Witnesses(rows.astype(np.int64), near, far)
    verdict = Verdict(row, found, Verdict(row, found).context._replace(**beside))
    return UnwrittenDecisions.of_one(
        np.array([100 + row]), [key], row // 2, verdict, witnesses=2, models=[model], places=place
    )


def test_decisions_that_came_one_by_one_are_joined_with_batches_between_them():
    queue = WriteQueue(10, 10, {})
    nearest = [(3, 0.5, 1.0), (4, 0.25, 1.0), (7, 0.125, 2.0)]
    for some in (
        single(10),
        single(11, nearest, "a", "m", check_position("s", 4)),
        pending(2, [None, "b"]),
        single(14, nearest[:1], model="c"),
    ):
        queue = queue.append(some, {})
    joined = queue.join_all()
    assert (len(joined), queue.stop) == (5, 15)
    assert joined.times.tolist() == [110, 111, 0, 0, 114]
    assert joined.firsts.tolist() == [5, 5, 0, 0, 7]
    assert joined.counts.tolist() == [0, 3, 0, 0, 1]
    assert joined.keys == [None, "a", None, None, None]
    assert joined.models == [None, "m", None, "b", "c"]
    assert joined.places.sources == [None, "s", None, None, None]
    assert joined.witnesses.owners.tolist() == [1, 1, 4]
    assert joined.witnesses.records.tolist() == [nearest[1], nearest[2], nearest[0]]


def test_what_is_kept_of_single_decisions_is_what_is_kept_of_a_batch():
    rng = np.random.default_rng(5)
    x, z = rng.random((300, 2)), rng.integers(0, 2, 300).tolist()
    monitor = lw.Monitor(lw.Rule("linf", 0.2), comparable=True)
    verdicts = monitor.observe_many(x, z)
    times, firsts = np.arange(300), np.zeros(300, np.int64)
    together = UnwrittenDecisions.of(times, None, firsts, verdicts, witnesses=3, models=None)
    queue = WriteQueue(0, 0, {})
    for i, verdict in enumerate(verdicts):
        one = UnwrittenDecisions.of_one(
            times[i : i + 1], None, 0, verdict, witnesses=3, models=None
        )
        queue = queue.append(one, {})
    joined = queue.join_all()
    for name in ("times", "firsts", "counts", "facts"):
        assert np.array_equal(getattr(joined, name), getattr(together, name)), name
    assert joined.keys is joined.models is joined.places is None
    assert np.array_equal(joined.witnesses.owners, together.witnesses.owners)
    assert np.array_equal(joined.witnesses.records, together.witnesses.records)
    nearest = together.witnesses.nearest_first()
    for i, verdict in enumerate(verdicts):
        expected = [tuple(one) for one in map(astuple, verdict.witnesses.nearest(3))]
        assert nearest.of(i).tolist() == expected
    assert verdicts.counts.max() > 3
