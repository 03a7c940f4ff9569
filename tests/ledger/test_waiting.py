"""Decisions that were accepted and not judged are judged when the ledger is opened again."""

import numpy as np
import pytest

import likewise as lw
from likewise.ledger import schema
from likewise.ledger.store import Store
from likewise.ledger.write_buffer import Entries, UnwrittenDecisions
from tests.support.segments import small_segments

RULE = lw.Rule("linf", 0.1)


def accepted(x, labels, first):
    """Entries of decisions without verdicts."""
    count = len(x)
    times = np.arange(first, first + count) * 1_000_000 + 1_700_000_000_000_000
    keys = [f"case {first + i}" for i in range(count)]
    return Entries(
        UnwrittenDecisions.of(times, keys, times * 0, None, witnesses=0, models=None),
        inputs=np.ascontiguousarray(x).view(np.uint8).reshape(count, -1),
        outputs=np.array([["ab".index(label)] for label in labels], float),
        waiting=True,
    )


@pytest.mark.parametrize("judged", [0, 1, 70])
def test_waiting_decisions_get_the_verdicts_that_they_would_have_had(tmp_path, judged):
    rng = np.random.default_rng(5)
    x, z = rng.random((200, 2)), rng.choice(["a", "b"], 200).tolist()
    z[:2] = ["a", "b"]
    twin = lw.Monitor(RULE).observe_many(x, z)
    with small_segments():
        if judged:
            with lw.open(tmp_path, RULE) as monitor:
                monitor.observe_many(x[:judged], z[:judged])
        store = Store(tmp_path, RULE, sync=True)
        if not judged:
            store.set_layout(schema.RecordLayout.of_vectors((2,), "float64", 1))
        for start, stop in ((judged, 120), (120, 200)):
            entries = accepted(x[start:stop], z[start:stop], start)
            known = min(judged, 2)
            entries.words = [("", code, "ab"[code]) for code in range(known, 2)] * (start == judged)
            store.append(entries)
        assert (store.rows, store.judged) == (200, judged)
        store.close()
        with lw.Ledger(tmp_path) as ledger:
            verified = ledger.verify()
            assert verified.ok and verified.rows == 200
            assert ledger.stats().decisions == judged
        with lw.open(tmp_path) as monitor:
            assert monitor.rows == 200
            assert monitor.ledger.verify().ok
            near = np.abs(x - x[0]).max(axis=1) <= 0.1 * (1 + 1e-9)
            expected = sum(near[i] and z[i] == "a" for i in range(200))
            assert monitor.observe(x[0], "b", key="later").count == expected > 0
    with lw.Ledger(tmp_path) as ledger:
        counts = [entry.count for entry in ledger.entries()][:200]
        kinds = {kind for (kind,) in ledger.reader.all("SELECT DISTINCT kind FROM event")}
    assert counts == twin.counts.tolist() and sum(counts) > 100
    assert {"decisions", "verdicts"} <= kinds
    assert lw.replay(tmp_path).ok
