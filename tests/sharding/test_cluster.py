"""A ledger whose rows are searched by shards: restarts, epochs, windows, erasure, shards down.

Shards are in this process here, and are handed from one coordinator to the next; tests/sharding/
test_on_ray.py has them elsewhere.
"""

import shutil
from dataclasses import replace

import numpy as np
import pytest

import likewise as lw
from likewise.monitor.opening import LedgerOptions
from likewise.service.recent_verdicts import trim_verdicts
from likewise.sharding.protocol import ClusterSettings, Fenced, ShardDown
from likewise.verdict.context import VerdictContext
from likewise.verdict.verdict_body import write_bodies
from likewise.verdict.witnesses import NO_WITNESSES
from tests.support.oracle import Oracle
from tests.support.refusals import raises
from tests.support.sharded import FailingShards, LocalShards, in_process

RULE = lw.Rule("linf", 0.1)
SMALL = ClusterSettings(shards=3, segment_rows=7, micro_batch=5, keep=True)


def stream(count: int = 200, seed: int = 1) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 5, (count, 3)) * 0.1, rng.integers(0, 3, count).tolist()


def named(verdicts) -> list[list[int]]:
    return [verdict.witnesses.rows.tolist() for verdict in verdicts]


def expected(X, Z) -> list[list[int]]:
    return [one.rows.tolist() for one in Oracle(RULE).observe_many(X, Z)]


class CountingShards(LocalShards):
    """Counts the rows that come without being judged."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.replayed = 0

    def send(self, shard, call, *given):
        if call == "add":
            self.replayed += len(given[2])
        return super().send(shard, call, *given)


class CallingShards(LocalShards):
    """Counts calls."""

    calls = 0

    def send(self, shard, call, *given):
        self.calls += 1
        return super().send(shard, call, *given)


class StoppedShards(LocalShards):
    """Shards of which some are down."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.down: set[int] = set()

    def send(self, shard, call, *given):
        if shard in self.down:
            return None, ShardDown("down")
        return super().send(shard, call, *given)

    def ensure_running(self, shard, seconds):
        if shard in self.down:
            raise ShardDown("down")


def test_shards_that_are_kept_are_found_again_and_get_no_row_twice(tmp_path):
    X, Z = stream()
    backend, found = CountingShards(3), []
    for start in range(0, 200, 40):
        with in_process(tmp_path / "ledger", RULE, backend) as monitor:
            found += named(monitor.observe_many(X[start : start + 40], Z[start : start + 40]))
    assert found == expected(X, Z)
    assert backend.replayed == 0
    with lw.open(tmp_path / "ledger") as monitor:  # one process goes on
        assert monitor.ledger.verify().ok and len(monitor) == 200
        more = monitor.observe_many(X[:50], Z[:50])
    with in_process(tmp_path / "ledger", None, backend) as monitor:
        again = monitor.check_many(X[50:80], Z[50:80])
    both = np.concatenate([X, X[:50], X[50:80]]), [*Z, *Z[:50], *Z[50:80]]
    assert named(more) == expected(*both)[200:250]
    assert 0 < backend.replayed <= 50
    with lw.Monitor(RULE) as alone:
        alone.load(both[0][:250], both[1][:250])
        assert named(again) == named(alone.check_many(X[50:80], Z[50:80]))


def test_shards_with_rows_that_the_ledger_does_not_have_are_cut_back(tmp_path):
    X, Z = stream(60)
    backend = LocalShards(3)
    with in_process(tmp_path / "ledger", RULE, backend) as monitor:
        monitor.observe_many(X[:30], Z[:30])
        held = [shard.ping() for shard in backend.shards]
        engine = monitor.core.engine
        engine.observe_many(X[30:45], Z[30:45])  # shards have them, the ledger never will
        assert [shard.ping() for shard in backend.shards] != held
        monitor.core.sequencer.midway = False
        monitor.core.closed = True  # as if the process had been killed
        monitor.core.ledger.release()
    with in_process(tmp_path / "ledger", RULE, backend) as monitor:
        assert monitor.rows == 30
        other = X[30:] + 0.1, Z[30:]
        found = named(monitor.observe_many(*other))
    both = np.concatenate([X[:30], other[0]]), Z
    assert found == expected(*both)[30:]


def test_shards_do_not_keep_what_one_process_has_written_otherwise(tmp_path):
    X, Z = stream(60)
    backend = LocalShards(3)
    monitor = in_process(tmp_path / "ledger", RULE, backend)
    monitor.observe_many(X[:30], Z[:30])
    monitor.core.engine.observe_many(X[30:45], Z[30:45])  # shards have them, the ledger never will
    monitor.core.sequencer.midway = False
    monitor.core.closed = True  # as if the process had been killed
    monitor.core.ledger.release()
    other = X[30:] + 0.1, Z[30:]
    with lw.open(tmp_path / "ledger") as alone:
        alone.observe_many(*other)
    with in_process(tmp_path / "ledger", RULE, backend) as monitor:
        found = named([monitor.check(x, 9) for x in X[:10]])
    alone = lw.Monitor(RULE)
    alone.load(np.concatenate([X[:30], other[0]]), Z)
    assert found == named([alone.check(x, 9) for x in X[:10]])


def test_a_second_coordinator_fences_the_first(tmp_path):
    X, Z = stream(80)
    backend = LocalShards(3)
    first = in_process(tmp_path / "ledger", RULE, backend)
    first.observe_many(X[:40], Z[:40])
    first.flush()
    shutil.copytree(tmp_path / "ledger", tmp_path / "copy")
    second = in_process(tmp_path / "copy", RULE, backend)
    found = named(second.observe_many(X[40:], Z[40:]))
    assert found == expected(X, Z)[40:]
    for _ in range(2):
        with raises(Fenced):
            first.observe_many(X[40:50], Z[40:50])
        with raises(Fenced):
            first.observe(X[40], Z[40])
    assert first.rows == 40
    first.close()
    third = in_process(tmp_path / "ledger", RULE, backend)  # of the same epoch as the second
    with pytest.raises(Fenced):
        third.observe_many(X[40:50], Z[40:50])
    third.close()
    assert named([second.check(X[0], Z[0])]) == [
        [j for j in range(80) if Z[j] != Z[0] and np.abs(X[j] - X[0]).max() <= 0.1 + 1e-9]
    ]
    second.close()
    fourth = in_process(tmp_path / "ledger", RULE, backend)  # the epoch after: it takes over
    rest = X[40:][::-1], Z[40:][::-1]
    found = named(fourth.observe_many(*rest))
    assert found == expected(np.concatenate([X[:40], rest[0]]), [*Z[:40], *rest[1]])[40:]
    fourth.close()


@pytest.mark.parametrize("often", [0.0, 0.05])
def test_windows_erasure_and_overruling_are_as_with_one_process(tmp_path, often):
    X, Z = stream(600, 2)
    keeping = LedgerOptions(durability="off", window="300 rows", max_ahead="any")
    backend = FailingShards(3, 1, often)
    alone = lw.open(tmp_path / "alone", RULE, durability="off", window="300 rows", max_ahead="any")
    cluster = in_process(tmp_path / "ledger", RULE, backend, keeping=keeping, comparable=False)
    with alone, cluster:
        for start in range(0, 600, 60):
            part = slice(start, start + 60)
            keys = [f"k{row}" for row in range(start, start + 60)]
            said = [
                monitor.observe_many(X[part], Z[part], keys=keys) for monitor in (alone, cluster)
            ]
            assert [one.to_dict() for one in said[1]] == [one.to_dict() for one in said[0]]
            erased = [monitor.erase(key=f"k{start + 7}").rows for monitor in (alone, cluster)]
            assert erased[0] == erased[1]
            again = [
                monitor.ledger.supersede(f"k{start + 9}", 5, by="me", why="so").to_dict()
                for monitor in (alone, cluster)
            ]
            assert again[0] == again[1]
            if start == 300:
                cluster.close()
                cluster = in_process(
                    tmp_path / "ledger", RULE, backend, keeping=keeping, comparable=False
                )
        assert sum(one.violation for one in said[0]) > 20
        assert cluster.ledger.verify().ok
        assert cluster.ledger.path.joinpath("ledger.sqlite").exists()
    cluster.close()


def test_placing_outlives_a_window_that_leaves_everything_behind(tmp_path):
    X, Z = stream(200, 4)
    X, Z = np.tile(X, (500, 1)), Z * 500
    keeping = LedgerOptions(durability="off", window="20 rows", max_ahead="any")
    settings, backend = _with(shards=3, segment_rows=5_000, micro_batch=1_000), CountingShards(3)
    more = {"keeping": keeping, "settings": settings}
    with in_process(tmp_path / "ledger", RULE, backend, **more) as monitor:
        monitor.load(X, Z)
        assert monitor.core.ledger.journal.store.first > 0, "no file of records has left"
    loaded = backend.replayed
    with in_process(tmp_path / "ledger", RULE, backend, **more) as monitor:
        told = monitor.observe(X[0], 9)
        epochs = [
            (one.body["epoch"], one.body["plans"])
            for one in lw.Ledger(tmp_path / "ledger").events()
            if one.kind == "cluster"
        ]
    assert (1, [[0, 3, 5_000]]) in epochs and epochs[-1] == (2, [[0, 3, 5_000]])
    assert backend.replayed == loaded, "rows that shards had were sent again"
    window = {"durability": "off", "window": "20 rows", "max_ahead": "any"}
    with lw.open(tmp_path / "alone", RULE, **window) as alone:
        alone.load(X, Z)
        assert alone.observe(X[0], 9).to_dict() == told.to_dict()
    assert len(told.witnesses) > 0


def test_more_shards_move_nothing_and_fewer_are_refused(tmp_path):
    X, Z = stream(200)
    with in_process(tmp_path / "ledger", RULE, LocalShards(2), settings=_with(shards=2)) as monitor:
        found = named(monitor.observe_many(X[:100], Z[:100]))
    backend = CountingShards(4)
    with in_process(tmp_path / "ledger", RULE, backend, settings=_with(shards=4)) as monitor:
        found += named(monitor.observe_many(X[100:], Z[100:]))
        assert [shard.ping() > 0 for shard in backend.shards] == [True] * 4
    assert backend.replayed == 100
    assert found == expected(X, Z)
    with raises(lw.errors.BadRule, setting="shards"):
        in_process(tmp_path / "ledger", RULE, LocalShards(2), settings=_with(shards=2))


def _with(**changes) -> ClusterSettings:
    return ClusterSettings(**{"segment_rows": 7, "micro_batch": 5, "keep": True, **changes})


def test_what_was_answered_without_a_shard_says_so_and_is_told_later(tmp_path):
    X, Z = stream(200)
    backend, due = StoppedShards(3), expected(X, Z)
    settings = _with(shards=3, when_down="incomplete", patience_seconds=0.01)
    monitor = in_process(tmp_path / "ledger", RULE, backend, settings=settings)
    whole = monitor.observe_many(X[:100], Z[:100])
    assert (
        named(whole) == due[:100]
        and whole.not_compared is None
        and monitor.ledger.incomplete_count == 0
    )
    backend.down = {1}
    backend.lose(1)
    partly = list(monitor.observe_many(X[100:140], Z[100:140]))
    single = monitor.observe(X[140], Z[140])
    mine = {row for row in range(200) if row // 7 % 3 == 1}
    assert all(one.not_compared >= 33 and not one.clean for one in [*partly, single])
    assert single.to_dict()["not_compared"] == single.not_compared
    quiet = lw.Verdict(7, NO_WITNESSES, VerdictContext(not_compared=3))
    assert quiet.to_dict()["not_compared"] == 3 and not quiet.clean
    assert "incomplete: not compared with" in single._repr_html_()
    batch = replace(whole, not_compared=np.arange(100))
    places = np.flatnonzero(batch.violations)[-5:]
    bodies = write_bodies(batch, 3, places)
    assert [one["not_compared"] for one in bodies] == places.tolist()
    assert trim_verdicts(batch, places, 1).not_compared.tolist() == places.tolist()
    assert named([*partly, single]) == [
        [row for row in rows if row not in mine] for rows in due[100:141]
    ]
    assert monitor.ledger.incomplete_count == 41 and monitor.ledger.collect_late_verdicts() == []
    assert monitor.check(X[0], Z[0]).not_compared > 0 and monitor.ledger.incomplete_count == 41
    monitor.close()
    monitor = in_process(tmp_path / "ledger", RULE, backend, settings=settings)
    assert monitor.ledger.incomplete_count == 41  # the chain says so
    backend.down = set()
    for state in monitor.core.shards.fleet._states:
        state.down_since = None
    late = {
        verdict.row: verdict.witnesses.rows.tolist()
        for verdict in monitor.ledger.collect_late_verdicts()
    }
    told = {
        row: [other for other in due[row] if other in mine]
        for row in range(100, 141)
        if mine.intersection(due[row])
    }
    assert late == told and len(told) > 20
    assert monitor.ledger.incomplete_count == 0 and monitor.ledger.collect_late_verdicts() == []
    rest = monitor.observe_many(X[141:], Z[141:])
    assert named(rest) == due[141:] and rest.not_compared is None
    kinds = [event.kind for event in lw.Ledger(tmp_path / "ledger").events()]
    assert "incomplete" in kinds and "late" in kinds
    assert monitor.ledger.verify().ok
    monitor.close()


def test_decisions_that_come_together_are_taken_as_one_by_one(tmp_path):
    X, Z = stream(120)
    decisions = [
        lw.Decision(x, z, key=f"k{i}", model=("a", None)[i % 2])
        for i, (x, z) in enumerate(zip(X, Z, strict=True))
    ]
    decisions[40] = decisions[40]._replace(key="k3")  # another decision has it
    decisions[60] = decisions[60]._replace(x=[np.nan, 0, 0])
    decisions[80] = decisions[7]  # sent again
    backend = CallingShards(3)
    with (
        in_process(tmp_path / "ledger", RULE, backend) as monitor,
        lw.open(tmp_path / "alone", RULE, durability="off") as alone,
    ):
        for start, stop in ((0, 5), (5, 30), (30, 90), (90, 120)):
            before = backend.calls
            mine = monitor.core.observe_each(decisions[start:stop])
            theirs = alone.core.observe_each(decisions[start:stop])
            for one, other in zip(mine, theirs, strict=True):
                if isinstance(other, lw.LikewiseError):
                    assert type(one) is type(other)
                else:
                    assert one.to_dict() == other.to_dict()
            if start == 90:
                assert backend.calls - before < 60, "a round trip for each decision"
        assert monitor.rows == alone.rows == 117


def test_a_cluster_says_what_it_is(tmp_path):
    with in_process(tmp_path / "ledger", RULE) as monitor:
        monitor.observe_many(*stream(50))
        told = monitor.explain()
    assert told.index == "shards" and "3 shards in this process" in told.form
    assert "rows of each so far: 21, 15, 14" in told.form


@pytest.mark.parametrize(
    "settings",
    [
        {"shards": 0},
        {"micro_batch": 2.5},
        {"when_down": "hope"},
        {"cpus": -1},
        {"index": "kdtree"},
        {"slope": True},
        {"slope_limit": 3.0},
        {"inputs": "disk"},
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, settings):
    with raises(lw.errors.BadRule):
        lw.cluster(tmp_path / "ledger", RULE, **settings)
    assert not (tmp_path / "ledger").exists()
