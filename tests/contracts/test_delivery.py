"""One promise of everything that hands decisions to a monitor (docs/delivery.md).

Nothing is connected before the first decision, no caller waits longer than the stated bound, what
is lost is counted and told, and a service that is back is noticed within about a second.
"""

import json
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import likewise as lw
from likewise.sources.protocol import Gap, Record, polled
from likewise.streams.following import Follower
from likewise.streams.judging import StreamJudge, binding_of
from likewise.streams.sinks import StreamSink
from tests.buffering.slow import slow_ledger
from tests.served_monitors import Serving

RULE = lw.Rule(metric="linf", epsilon=0.05)
BOUND = 1.0
"""Seconds, of machines that are busy with other things; what is promised is 0.05."""


def approve(x):
    return "yes" if x[0] > 0.5 else "no"


class Watching:
    """A callable that is watched."""

    waits = False

    def __init__(self, client, **settings):
        self.watched = lw.watch(approve, client, on_failure="record", **settings)

    def decide(self, x):
        return self.watched(x)

    def flush(self, seconds):
        return self.watched.flush(seconds)

    def lost(self):
        return self.watched.counts.dropped

    def close(self):
        self.watched.close()


class Decorated(Watching):
    def __init__(self, client, **settings):
        self.watched = lw.watch(rule=client, on_failure="record", **settings)(approve)


class Raising(Watching):
    """A watch that waits for each verdict."""

    waits = True

    def __init__(self, client, **settings):
        self.watched = lw.watch(
            approve, client, on_violation="raise", on_failure="record", **settings
        )

    def decide(self, x):
        try:
            return self.watched(x)
        except lw.Violation as violation:
            return violation.answer


class Estimating(Watching):
    def __init__(self, client, **settings):
        tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier()
        tree.fit([[0.0, 0.0], [0.4, 1.0], [0.6, 0.0], [1.0, 1.0]], ["no", "no", "yes", "yes"])
        self.watched = lw.watch(tree, client, on_failure="record", **settings)

    def decide(self, x):
        return self.watched.predict([x])[0]


class Buffering:
    """A buffer that somebody submits to."""

    waits = False

    def __init__(self, client, queue_calls=65_536):
        self.buffer = lw.buffered(client, queue_calls, when_full="drop_newest")

    def decide(self, x):
        self.buffer.submit(x, approve(x))
        return approve(x)

    def flush(self, seconds):
        return self.buffer.flush(seconds)

    def lost(self):
        return self.buffer.stats.all_lost

    def close(self):
        self.buffer.close(5.0)


class WatchingABuffer(Buffering):
    def __init__(self, client, queue_calls=65_536):
        super().__init__(client, queue_calls)
        self.watched = lw.watch(approve, self.buffer, on_failure="record")

    def decide(self, x):
        return self.watched(x)


EVERY = [Watching, Decorated, Raising, Estimating, Buffering, WatchingABuffer]
every = pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)


class Place:
    """A port at which a service is, or is away, or takes connections and never answers."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.serving = self._hung = None
        self.monitor = lw.Monitor(RULE)

    def up(self):
        if self._hung is not None:
            self._hung.close()
            self._hung = None
        self.serving = Serving(port=self.port)
        name = self.serving.host(self.monitor)
        self.serving.service.monitors["here"] = self.serving.service.monitors.pop(name)

    def away(self):
        if self.serving is not None:
            self.serving.service.monitors = {}  # the monitor lives on
            self.serving.close()
            self.serving = None

    def hang(self):
        self.away()
        self._hung = socket.create_server(("127.0.0.1", self.port), backlog=100)

    def close(self):
        self.away()
        if self._hung is not None:
            self._hung.close()


@pytest.fixture
def place():
    place = Place()
    yield place
    place.close()


def inputs(count, seed=1):
    return np.random.default_rng(seed).random((count, 2)).tolist()


def timed(delivering, x):
    """Decide; the longest that one decision took."""
    longest = 0.0
    for one in x:
        begin = time.perf_counter()
        assert delivering.decide(one) in ("yes", "no")
        longest = max(longest, time.perf_counter() - begin)
    return longest


def answers_of(monitor):
    return monitor.past.outputs(range(monitor.rows))


@every
def test_a_service_that_is_up_gets_everything_in_order(kind, place):
    place.up()
    with lw.connect(place.url, "here") as client:
        delivering = kind(client)
        x = inputs(60)
        assert timed(delivering, x) < BOUND
        assert delivering.flush(30)
        assert answers_of(place.monitor) == [approve(one) for one in x]
        assert delivering.lost() == 0 == place.monitor.missing
        delivering.close()


@every
def test_a_service_that_is_away_delays_no_start_and_is_noticed_when_it_is_there(kind, place):
    with lw.connect(place.url, "here") as client:
        begin = time.perf_counter()
        delivering = kind(client)
        assert time.perf_counter() - begin < BOUND
        x = inputs(30)
        assert timed(delivering, x) < BOUND
        time.sleep(2.0)  # for the pauses to become as long as they get
        place.up()
        begin = time.perf_counter()
        assert delivering.flush(30)
        assert time.perf_counter() - begin < 4.0
        assert answers_of(place.monitor) == [approve(one) for one in x]
        assert delivering.lost() == 0 == place.monitor.missing
        delivering.close()


@every
@pytest.mark.parametrize("how", ["away", "hang"])
def test_what_is_lost_while_it_is_away_is_counted_and_told(kind, how, place):
    place.up()
    with lw.connect(place.url, "here", timeout=2.0) as client:
        delivering = kind(client, queue_calls=20)
        x = inputs(200)
        timed(delivering, x[:10])
        assert delivering.flush(30)
        getattr(place, how)()
        assert timed(delivering, x[10:]) < BOUND
        assert delivering.lost() >= 100
        place.up()
        delivering.decide(x[0])
        assert delivering.flush(30)
        delivering.decide(x[1])
        assert delivering.flush(30)
        assert place.monitor.missing == delivering.lost()
        assert place.monitor.rows + place.monitor.missing == 202
        delivering.close()


@every
def test_a_forked_process_delivers_for_itself_or_says_so(kind, place):
    place.up()
    with lw.connect(place.url, "here") as client:
        delivering = kind(client)
        timed(delivering, inputs(5))
        assert delivering.flush(30)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = b"?"
            try:
                try:
                    delivering.decide([0.7, 0.7])
                    said = b"delivered" if delivering.flush(20) else b"waits"
                except lw.BadFile:
                    said = b"refused"
            finally:
                os.write(write, said)
                os._exit(0)
        os.waitpid(child, 0)
        said = os.read(read, 100)
        delivering.decide([0.2, 0.9])
        assert delivering.flush(30)
        owned = kind not in (Buffering, WatchingABuffer)
        if owned:
            assert said == b"delivered" and place.monitor.rows == 7
        else:
            assert said in (b"refused", b"delivered") and place.monitor.rows == 6
        delivering.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a __del__
@every
def test_an_interrupted_caller_leaves_nothing_behind_that_blocks(kind, place):
    class Interrupted(BaseException):
        pass

    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with lw.connect(place.url, "here") as client:
            delivering = kind(client)
            begin, interrupted = time.perf_counter(), 0
            for i in range(60):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0002 * (1 + i % 10))
                    for _ in range(200):
                        delivering.decide([i / 100, 0.5])
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Interrupted:
                    interrupted += 1
            assert interrupted > 10, "a test on nothing"
            assert time.perf_counter() - begin < 30
            place.up()
            delivering.decide([0.5, 0.5])
            assert delivering.flush(60) and place.monitor.rows > 0
            delivering.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_who_waits_for_verdicts_chooses_what_happens_without_one(place):
    with lw.connect(place.url, "here") as client:
        watched = lw.watch(approve, client, on_violation="raise", wait_seconds=0.05)
        assert watched([0.5, 0.5]) == "no" and watched([0.6, 0.5]) == "yes"
        assert watched.counts.unknown == 2
        strict = lw.watch(approve, client, on_violation="raise", when_unknown="raise")
        with pytest.raises(lw.Unreachable):
            strict([0.5, 0.5])
        assert strict.counts.unknown == 1
        place.up()
        assert watched.flush(30) and strict.flush(30)
        assert watched([0.9, 0.9]) == "yes"  # nobody waits right after a wait in vain
        assert watched.flush(30)
        patient = lw.watch(approve, client, on_violation="raise", wait_seconds=20)
        patient([0.49, 0.1])
        with pytest.raises(lw.Violation) as raised:
            patient([0.51, 0.1])
        assert raised.value.answer == "yes" and patient.counts.unknown == 0
        for one in (watched, strict, patient):
            one.close()


def test_watching_a_ledger_through_a_buffer_does_not_wait_for_its_disk(tmp_path, monkeypatch):
    slow = threading.Event()
    fsync = os.fsync

    def slowly(file):
        if slow.is_set():
            time.sleep(1.5)
        fsync(file)

    with lw.open(tmp_path / "ledger", RULE) as ledger, lw.buffered(ledger) as buffer:
        watched = lw.watch(approve, buffer)
        watched([0.1, 0.1])
        assert buffer.flush(30)
        monkeypatch.setattr(os, "fsync", slowly)
        slow.set()
        begin = time.perf_counter()
        for one in inputs(20):
            watched(one)
        assert time.perf_counter() - begin < BOUND
        slow.clear()
        assert buffer.flush(30) and ledger.rows == 21


def test_watching_a_ledger_through_a_full_buffer_that_accepts_does_not_wait_for_judging(tmp_path):
    """Judging everything would take 40 seconds; what is accepted is judged when it is reopened."""
    x = inputs(400)
    with slow_ledger(tmp_path / "ledger", RULE, seconds=0.1) as ledger:
        ledger.observe([0.0, 0.0], "no")
        buffer = lw.buffered(ledger, 200, when_full="accept", batch_rows=1)
        watched = lw.watch(approve, buffer)
        begin = time.perf_counter()
        for one in x:
            watched(one)
        assert time.perf_counter() - begin < 10
        assert watched.counts.dropped == 0 and watched.waiting > 300
        assert not buffer.close(0.0)
        assert buffer.stats.accepted > 300 and buffer.stats.all_lost == 0
    with lw.open(tmp_path / "ledger") as ledger:
        assert answers_of(ledger)[1:] == [approve(one) for one in x] and ledger.missing == 0


def test_a_watch_of_a_buffer_leaves_its_verdicts_to_it():
    monitor = lw.Monitor(RULE)
    with lw.buffered(monitor) as buffer:
        with pytest.raises(lw.BadRule):
            lw.watch(approve, buffer, on_violation="raise")
        watched = lw.watch(approve, buffer)
        watched([0.49, 0.1]), watched([0.51, 0.1])
        assert watched.flush(30)
        assert [one.verdict.violation for one in buffer.results()] == [False, True]
        watched.close()
        assert buffer.submit([0.0, 0.0], "no").lost is None


# Streams: whoever decides tells a broker, and a follower reads there


class Broker:
    """Keeps the last decisions that it is told, and may be away from whoever reads."""

    name = "broker"

    def __init__(self, keeps=100_000):
        self._keeps = keeps
        self._records = []
        self._gone = self._read = 0
        self.is_up = True

    def decide(self, x):
        number = self._gone + len(self._records) + 1
        body = json.dumps({"a": x[0], "b": x[1], "z": approve(x)}).encode()
        self._records = [*self._records, Record("decisions", number, body)]
        self._gone += len(self._records[: -self._keeps])
        self._records = self._records[-self._keeps :]
        return approve(x)

    def owns(self, source):
        return source == "decisions"

    def seek(self, positions):
        self._insist()
        self._read = positions.get("decisions", 0)

    def poll(self, most, seconds):
        self._insist()
        until = time.monotonic() + seconds
        while not (waiting := self._waiting()) and time.monotonic() < until:
            time.sleep(0.01)
            self._insist()
        gaps = ()
        if waiting and waiting[0].position > self._read + 1:
            first, lost = waiting[0].position, waiting[0].position - self._read - 1
            gaps = (Gap("decisions", self._read, first, lost, "the broker forgot decisions"),)
        some = waiting[:most]
        self._read = some[-1].position if some else self._read
        return polled(some, gaps)

    def _waiting(self):
        return [one for one in self._records if one.position > self._read]

    def _insist(self):
        if not self.is_up:
            raise lw.Unreachable("the broker does not answer.")


@contextmanager
def followed(broker, monitor):
    """A follower of a broker, in a thread."""
    bind = binding_of(monitor.rule, output_column="z")
    follower = Follower(
        broker, StreamJudge(monitor, bind), StreamSink(None, None), tell=lambda line: None
    )
    thread = threading.Thread(target=follower.run)
    begin = time.perf_counter()
    thread.start()
    assert time.perf_counter() - begin < BOUND
    try:
        yield follower
    finally:
        follower.stop()
        thread.join(30)
        assert not thread.is_alive()


def wait_for_rows(monitor, rows, seconds):
    until = time.perf_counter() + seconds
    while monitor.rows < rows and time.perf_counter() < until:
        time.sleep(0.01)
    assert monitor.rows == rows


@contextmanager
def monitor_of(kind, folder):
    with lw.Monitor(RULE) if kind == "memory" else lw.open(folder / "ledger", RULE) as monitor:
        yield monitor


stored = pytest.mark.parametrize("kind", ["memory", "ledger"])


@stored
def test_a_stream_that_is_there_is_read_in_order(kind, tmp_path):
    broker, x = Broker(), inputs(60)
    with monitor_of(kind, tmp_path) as monitor, followed(broker, monitor) as follower:
        assert timed(broker, x) < BOUND
        wait_for_rows(monitor, 60, 30)
        assert answers_of(monitor) == [approve(one) for one in x]
        assert (follower.counts.lost, monitor.missing) == (0, 0)


@stored
def test_a_stream_that_is_away_delays_nobody_and_is_noticed_when_it_is_back(kind, tmp_path):
    broker, x = Broker(), inputs(30)
    broker.is_up = False
    with monitor_of(kind, tmp_path) as monitor, followed(broker, monitor) as follower:
        assert timed(broker, x[:20]) < BOUND
        time.sleep(1.0)
        broker.is_up = True
        wait_for_rows(monitor, 20, 6.0)
        broker.is_up = False
        time.sleep(0.2)
        assert timed(broker, x[20:]) < BOUND
        broker.is_up = True
        wait_for_rows(monitor, 30, 6.0)
        assert answers_of(monitor) == [approve(one) for one in x]
        assert (follower.counts.lost, monitor.missing) == (0, 0)


@stored
def test_what_a_stream_forgot_while_it_was_away_is_counted_and_told(kind, tmp_path):
    broker, x = Broker(keeps=20), inputs(200)
    with monitor_of(kind, tmp_path) as monitor, followed(broker, monitor) as follower:
        timed(broker, x[:10])
        wait_for_rows(monitor, 10, 30)
        broker.is_up = False
        time.sleep(0.2)
        assert timed(broker, x[10:]) < BOUND
        broker.is_up = True
        wait_for_rows(monitor, 30, 30)
        assert follower.counts.lost == monitor.missing == 170
        assert answers_of(monitor) == [approve(one) for one in x[:10] + x[-20:]]


def test_a_stream_goes_on_where_the_ledger_ends(tmp_path):
    broker, x = Broker(), inputs(90)
    for stop in (30, 60, 90):
        timed(broker, x[stop - 30 : stop])
        with monitor_of("ledger", tmp_path) as monitor, followed(broker, monitor):
            wait_for_rows(monitor, stop, 30)
            assert answers_of(monitor) == [approve(one) for one in x[:stop]]
