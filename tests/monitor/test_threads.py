"""A monitor may be shared by threads: every verdict is right for the row it was given."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import likewise as lw
from tests.support.oracle import Oracle, assert_same_verdict

RULE = lw.Rule("linf", 0.1)
N = 1_200


@pytest.fixture(autouse=True)
def impatient_interpreter() -> Iterator[None]:
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def stream() -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(11)
    return rng.integers(0, 5, (N, 4)) * 0.1, [f"label {i}" for i in rng.integers(0, 3, N)]


def at_once(count: int, work: Callable[[int], None]) -> None:
    """Run work(0) .. work(count - 1) in threads that start together; raise what any raised."""
    start, errors = threading.Barrier(count), []

    def run(part: int) -> None:
        try:
            start.wait()
            work(part)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(part,)) for part in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def assert_serial(seen: dict[int, tuple[Any, Any, lw.Verdict]]) -> None:
    """The verdicts are those of the decisions put one by one, in the order of their rows."""
    assert sorted(seen) == list(range(N)), "rows are dense, and given once"
    oracle, pairs = Oracle(RULE), 0
    for row in range(N):
        x, z, verdict = seen[row]
        expected = oracle.observe(x, z)
        assert_same_verdict(verdict, expected)
        pairs += len(expected.rows)
    assert pairs > 1_000


def test_observe_from_four_threads_is_as_if_from_one():
    X, Z = stream()
    monitor, said = lw.Monitor(RULE), []

    def work(part: int) -> None:
        for i in range(part, N, 4):
            said.append((X[i], Z[i], monitor.observe(X[i], Z[i])))

    at_once(4, work)
    assert len(said) == len(monitor) == N
    assert_serial({verdict.row: (x, z, verdict) for x, z, verdict in said})


@pytest.mark.parametrize("threads", [1, 2])
def test_observe_many_from_two_threads_is_as_if_from_one(threads):
    X, Z = stream()
    monitor, said = lw.Monitor(RULE), []

    def work(part: int) -> None:
        for start in range(part * 50, N, 100):
            batch = slice(start, start + 50)
            verdicts = monitor.observe_many(X[batch], Z[batch], threads=threads)
            first = int(verdicts.rows[0])
            assert verdicts.rows.tolist() == list(range(first, first + 50)), (
                "a batch stays together"
            )
            said.extend(zip(X[batch], Z[batch], verdicts, strict=True))

    at_once(2, work)
    assert len(said) == len(monitor) == N
    assert_serial({verdict.row: (x, z, verdict) for x, z, verdict in said})


def test_all_verbs_at_once_keep_rows_apart_and_raise_nothing():
    X, Z = stream()
    monitor, loaded, judged = lw.Monitor(RULE), [], []

    def load(i: int) -> None:
        rows = monitor.load(X[i : i + 10], Z[i : i + 10])
        loaded.extend(zip(rows, range(i, i + 10), strict=True))

    def observe(i: int) -> None:
        verdicts = [monitor.observe(X[j], Z[j]) for j in range(i, i + 5)]
        verdicts += monitor.observe_many(X[i + 5 : i + 10], Z[i + 5 : i + 10], threads=2)
        judged.extend(zip(verdicts, range(i, i + 10), strict=True))

    def check(i: int) -> None:
        verdict = monitor.check(X[i], Z[i])
        assert verdict.row is None
        assert np.all(np.diff(verdict.witnesses.rows) > 0)
        assert np.all(verdict.witnesses.input_distances <= 0.1 * (1 + 1e-9))

    def forget(i: int) -> None:
        assert monitor.forget(range(len(monitor) // 2)) >= 0

    verbs = [load, observe, check, forget]

    def work(part: int) -> None:
        for i in range(0, N, 10):
            verbs[part](i)

    at_once(4, work)
    place = dict(loaded) | {verdict.row: i for verdict, i in judged}
    assert sorted(place) == list(range(2 * N)), "rows are dense, and given once"
    for verdict, i in judged:
        for witness in verdict.witnesses:
            j = place[witness.row]
            assert witness.row < verdict.row
            assert witness.input_distance == np.abs(X[i] - X[j]).max()
            assert Z[i] != Z[j]
    assert 0 < len(monitor) <= 2 * N


def test_check_beside_observe_sees_some_moment_of_the_past():
    X, Z = stream()
    monitor, looks = lw.Monitor(RULE), []

    def work(part: int) -> None:
        if part == 0:
            for x, z in zip(X, Z, strict=True):
                monitor.observe(x, z)
            return
        for i in range(0, N, 4):
            before = len(monitor)
            verdict = monitor.check(X[i], "new")
            looks.append((before, len(monitor), i, verdict.witnesses.rows.tolist()))

    at_once(2, work)
    everything = Oracle(RULE)
    everything.load(X, Z)
    assert len(looks) == N // 4
    for before, after, i, rows in looks:
        all_rows = everything.check(X[i], "new").rows
        moments = [all_rows[all_rows < moment].tolist() for moment in range(before, after + 1)]
        assert rows in moments, f"between {before} and {after} rows"
