"""Rows in a file: nothing but the rows, as they came, and hardly any of them in memory."""

import json
import sys
import textwrap

import numpy as np
import pytest

import likewise as lw
from tests.support.oracle import Oracle, assert_same_verdict, assert_same_verdicts
from tests.support.play import Foreseen, play, steps_through
from tests.support.programs import run_python
from tests.support.refusals import raises
from tests.support.strategies import METRICS
from tests.support.wide_streams import INDEXES, clusters, pictures, thirty_labels

RULE = lw.Rule("linf", 11, slack=0)
SENT = ("uint8", "int8", "int16", "uint32", "float16", "float32", "float64", "int64")
EVERY_INDEX = [(metric, index) for metric in METRICS for index in INDEXES[metric]]

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def some(n: int = 400, seed: int = 3) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    return pictures(rng, "linf", n), thirty_labels(rng, n)


def read(path, dtype, *shape: int) -> np.ndarray:
    return np.array(np.memmap(path, dtype=dtype, mode="r").reshape(-1, *shape))


@pytest.mark.parametrize("sent", SENT)
def test_the_file_holds_the_rows_that_were_sent_and_nothing_else(sent, tmp_path):
    X, Z = some()
    X = (X // 2).astype(sent)
    kept = {"float16": "float32", "int64": "float64"}.get(sent, sent)
    with lw.Monitor(RULE, row_file=tmp_path / "rows") as monitor:
        monitor.observe(X[0], Z[0])
        monitor.observe_many(X[1:150], Z[1:150])
        monitor.check(X[399], Z[399])
        monitor.load(X[150:390], Z[150:390])
        for x, z in zip(X[390:], Z[390:], strict=True):
            monitor.observe(x, z)
        while_open = np.memmap(tmp_path / "rows", dtype=kept, mode="r")[: X.size]
        assert while_open.tobytes() == X.astype(kept).tobytes()
        assert monitor.past.inputs(range(400)).tobytes() == X.astype(kept).tobytes()
    assert (tmp_path / "rows").read_bytes() == X.astype(kept).tobytes()
    assert np.array_equal(read(tmp_path / "rows", kept, 8, 8, 3), X)


@pytest.mark.parametrize(("metric", "index"), EVERY_INDEX)
def test_verdicts_are_those_of_rows_in_memory(metric, index, tmp_path):
    rng = np.random.default_rng(4)
    X, Z = clusters(rng, 900, 60).astype(np.float32), thirty_labels(rng, 900)
    radius = {"linf": 0.4, "l1": 7.0, "l2": 1.1, "cosine": 0.01}[metric]
    rule = lw.Rule(metric, radius)
    with lw.Monitor(rule, index=index, row_file=str(tmp_path / "rows")) as monitor:
        expected = play(
            monitor, Foreseen(rule, X, Z), X, Z, steps_through(len(X), seed=index == "live")
        )
    assert sum(len(one.rows) for one in expected) > 500


def test_forgotten_rows_are_overwritten_in_the_file(tmp_path):
    X, Z = some()
    gone = [0, 7, *range(100, 140), 399]
    with lw.Monitor(RULE, row_file=tmp_path / "rows") as monitor:
        monitor.load(X, Z)
        monitor.forget(gone)
        kept = X.copy()
        kept[gone] = 0
        assert np.memmap(tmp_path / "rows", mode="r")[: X.size].tobytes() == kept.tobytes()
        assert monitor.observe(X[0], "new").row == 400
    assert (tmp_path / "rows").read_bytes() == kept.tobytes() + X[0].tobytes()


def test_a_refused_decision_leaves_nothing_in_the_file(tmp_path):
    X, Z = some()
    X = X.astype(np.float32)
    bad = X[:50].copy()
    bad[30, 2, 2, 1] = np.nan
    with lw.Monitor(RULE, row_file=tmp_path / "rows") as monitor:
        for call in (monitor.observe_many, monitor.load):
            with pytest.raises(lw.errors.BadDecision):
                call(bad, Z[:50])
        monitor.observe_many(X, Z)
        with pytest.raises(lw.errors.BadDecision):
            monitor.observe(bad[30], 1)
        with pytest.raises(lw.errors.BadDecision):
            monitor.load(bad, Z[:50])
        assert len(monitor) == 400
    assert (tmp_path / "rows").read_bytes() == X.tobytes()


def test_a_monitor_that_saw_nothing_leaves_no_rows(tmp_path):
    with lw.Monitor(RULE, row_file=tmp_path / "rows") as monitor:
        assert monitor.check(np.ones(50), 1).row is None
    assert not (tmp_path / "rows").exists() or (tmp_path / "rows").stat().st_size == 0


def test_a_file_with_something_in_it_is_refused_and_unchanged(tmp_path):
    X, Z = some()
    path = tmp_path / "letters"
    path.write_bytes(b"something dear to someone")
    before = path.stat().st_mtime_ns
    for call in ("observe", "check", "load", "observe_many"):
        with raises(lw.errors.BadFile):
            getattr(lw.Monitor(RULE, row_file=path), call)(
                *((X, Z) if call in ("load", "observe_many") else (X[0], Z[0]))
            )
    assert path.read_bytes() == b"something dear to someone"
    assert path.stat().st_mtime_ns == before
    assert issubclass(lw.errors.BadFile, lw.LikewiseError) and issubclass(
        lw.errors.BadFile, ValueError
    )


def test_an_empty_file_may_be_used(tmp_path):
    X, Z = some()
    (tmp_path / "rows").touch()
    with lw.Monitor(RULE, row_file=tmp_path / "rows") as monitor:
        monitor.load(X, Z)
    assert (tmp_path / "rows").read_bytes() == X.tobytes()


def test_two_monitors_do_not_share_a_file(tmp_path):
    X, Z = some()
    with lw.Monitor(RULE, row_file=tmp_path / "rows") as first:
        first.load(X[:10], Z[:10])
        with (
            pytest.raises(lw.errors.BadFile),
            lw.Monitor(RULE, row_file=tmp_path / "rows") as second,
        ):
            second.observe(X[0], Z[0])
        first.load(X[10:20], Z[10:20])
    with pytest.raises(lw.errors.BadFile), lw.Monitor(RULE, row_file=tmp_path / "rows") as third:
        third.observe(X[0], Z[0])
    assert (tmp_path / "rows").read_bytes() == X[:20].tobytes()


@pytest.mark.parametrize("place", ["no/such/folder/rows", "."])
def test_a_place_where_no_file_can_be_is_refused(place, tmp_path):
    with pytest.raises(lw.errors.BadFile), lw.Monitor(RULE, row_file=tmp_path / place) as monitor:
        monitor.observe(np.ones(40), 1)
    assert list(tmp_path.iterdir()) == []


def test_what_a_closed_monitor_refuses_leaves_its_file_alone(tmp_path):
    X, Z = some()
    monitor = lw.Monitor(RULE, row_file=tmp_path / "rows")
    monitor.load(X, Z)
    monitor.close()
    for call in (monitor.observe_many, monitor.load):
        with pytest.raises(lw.errors.BadDecision):
            call(X, Z)
    assert (tmp_path / "rows").read_bytes() == X.tobytes()


def test_rows_outlive_an_error_inside_the_with_block(tmp_path):
    X, Z = some()
    with pytest.raises(ZeroDivisionError), lw.Monitor(RULE, row_file=tmp_path / "rows") as monitor:
        monitor.load(X, Z)
        raise ZeroDivisionError
    assert (tmp_path / "rows").read_bytes() == X.tobytes()


@pytest.mark.long
def test_verdicts_stay_exact_while_the_file_grows_again_and_again(tmp_path):
    """Rows of a megabyte, so that the file and its mapping move several times."""
    rng = np.random.default_rng(6)
    X = np.tile(rng.integers(0, 200, (5, 1_000_000), dtype=np.uint8), (20, 1))
    X[:, 777_777] += np.arange(len(X), dtype=np.uint8) % 13
    Z = (np.arange(len(X)) % 2).tolist()
    rule = lw.Rule("linf", 5)
    with lw.Monitor(rule, row_file=tmp_path / "rows") as monitor:
        for start in range(0, len(X), 20):
            monitor.observe_many(X[start : start + 19], Z[start : start + 19])
            monitor.observe(X[start + 19], Z[start + 19])
        marks = X[:, 777_777].astype(int)
        for row in range(0, len(X), 23):
            alike = np.arange(len(X)) % 5 == row % 5
            near = alike & (np.abs(marks - marks[row]) <= 5) & (np.array(Z) != Z[row])
            witnesses = monitor.check(X[row], Z[row]).witnesses
            assert near.sum() > 2
            assert witnesses.rows.tolist() == np.flatnonzero(near).tolist()
    assert np.array_equal(np.memmap(tmp_path / "rows", mode="r").reshape(X.shape), X)


# In a process of its own

MEMORY = """
import json, sys
import numpy as np
import likewise as lw
from pathlib import Path

def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096

def run(n):
    rng = np.random.default_rng(1)
    start, most, found = resident(), 0, 0
    path = Path(sys.argv[1], f"rows-{n}") if sys.argv[1] else None
    with lw.Monitor(lw.Rule(METRIC, RADIUS), row_file=path) as monitor:
        for batch in range(n // 100):
            X = rng.integers(0, 200, (100, WIDTH), dtype=np.uint8)
            X[::10] = X[0]
            Z = list(range(100))
            if batch % 2:
                found += monitor.observe_many(X, Z).pairs
            else:
                found += sum(len(monitor.observe(x, z).witnesses) for x, z in zip(X, Z))
            most = max(most, resident() - start)
        told = monitor.explain()
    return {"growth": most, "found": found, "memory": told.bytes_per_decision,
            "disk": told.bytes_on_disk}

run(300)  # everything is imported and compiled
print(json.dumps(run(ROWS)))
"""


def in_a_process(code: str, *arguments: str) -> dict:
    done = run_python("-c", textwrap.dedent(code), *arguments)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
@linux
@pytest.mark.parametrize(
    ("metric", "radius", "rows"),
    [("linf", 8, 3_000), pytest.param("l2", 100, 16_000, marks=pytest.mark.slow)],
)
def test_rows_on_disk_are_not_in_memory(metric, radius, rows, tmp_path):
    width = 40_000
    settings = f"ROWS, WIDTH, METRIC, RADIUS = {rows}, {width}, {metric!r}, {radius}\n"
    on_disk = in_a_process(settings + MEMORY, str(tmp_path))
    in_memory = in_a_process(settings + MEMORY, "")
    whole = rows * width
    assert (tmp_path / f"rows-{rows}").stat().st_size == whole
    assert on_disk["found"] == in_memory["found"] == 45 * rows // 100
    assert in_memory["growth"] > 0.9 * whole, "the control: rows in memory are resident"
    assert on_disk["growth"] < 0.5 * whole
    assert in_memory["memory"] > width > 10 * on_disk["memory"]
    assert on_disk["disk"] >= width and in_memory["disk"] == 0


FULL = """
import json, resource, signal, sys
import numpy as np
import likewise as lw

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (80 << 20, hard))

def row(i):
    x = np.full((2_000, 1_500), 50, dtype=np.uint8)
    x[1_999, 1_499] = i
    return x

said = []
monitor = lw.Monitor(lw.Rule("linf", 200), row_file=sys.argv[1])
def attempt(call, *arguments):
    try:
        call(*arguments)
    except lw.errors.BadFile as error:
        said.append(str(error))
    else:
        raise AssertionError("the disk was not full")

stored = 0
while not said and stored < 200:
    try:
        verdict = monitor.observe(row(stored), stored)
    except lw.errors.BadFile as error:
        said.append(str(error))
    else:
        assert verdict.row == stored == len(verdict.witnesses)
        stored += 1
attempt(monitor.observe, row(7), -1)
attempt(monitor.observe_many, np.stack([row(i) for i in range(9)]), list(range(9)))
attempt(monitor.load, np.stack([row(i) for i in range(9)]), list(range(9)))
length = len(monitor)
assert np.array_equal(monitor.past.inputs([stored - 1])[0], row(stored - 1))
checked = monitor.check(row(0), -1).witnesses.rows.tolist()
assert monitor.forget([3]) == 1
again = monitor.check(row(0), -1).witnesses.rows.tolist()
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
after = monitor.observe(row(5), -1)
monitor.close()
print(json.dumps({"said": said, "stored": stored, "length": length, "checked": checked,
                  "again": again, "row": after.row, "after": after.witnesses.rows.tolist()}))
"""


@pytest.mark.long
@linux
def test_a_full_disk_is_said_and_the_monitor_goes_on(tmp_path):
    told = in_a_process(FULL, str(tmp_path / "rows"))
    stored = told["stored"]
    assert 10 < stored < 30
    assert told["length"] == stored
    for message in told["said"]:
        assert "rows" in message and "nothing was stored" in message.lower(), message
    assert len(told["said"]) == 4
    everything = list(range(stored))
    assert told["checked"] == everything
    assert told["again"] == told["after"] == [row for row in everything if row != 3]
    assert told["row"] == stored
    content = np.memmap(tmp_path / "rows", mode="r").reshape(-1, 3_000_000)
    assert len(content) == stored + 1
    assert content[:, -1].tolist() == [0 if row == 3 else row for row in everything] + [5]


def test_oracle_and_file_agree_on_a_stream_of_pictures(tmp_path):
    X, Z = some(300, seed=9)
    expected = Oracle(RULE).observe_many(X, Z)
    assert sum(len(one.rows) for one in expected) > 300
    with lw.Monitor(RULE, row_file=tmp_path / "rows") as monitor:
        for x, z, one in zip(X[:150], Z[:150], expected, strict=False):
            assert_same_verdict(monitor.observe(x, z), one)
        assert_same_verdicts(monitor.observe_many(X[150:], Z[150:]), expected[150:])
