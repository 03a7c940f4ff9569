"""One promise of everything that hands decisions to a monitor (docs/delivery.md).

Nothing is connected before the first decision, no caller waits longer than the stated bound, what
is lost is counted and told, and a service that is back is noticed within about a second. So too
where the monitor is in this process, and its disk is slow or somebody else uses it.
"""

import asyncio
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
from likewise.sources.follower import Follower
from likewise.sources.judge_messages import StreamJudge, make_binder
from likewise.sources.protocol import Gap, Record, make_poll_result
from likewise.sources.sinks import StreamSink
from tests.queueing.slow import slow_disk, slow_ledger
from tests.support.served_monitors import Serving

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
        except lw.errors.Violation as violation:
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
        return self.buffer.stats.total_lost

    def close(self):
        self.buffer.close(5.0)


class WatchingABuffer(Buffering):
    def __init__(self, client, queue_calls=65_536):
        super().__init__(client, queue_calls)
        self.watched = lw.watch(approve, self.buffer, on_failure="record")

    def decide(self, x):
        return self.watched(x)


class Middleware:
    """A prediction service with `lw.WatchRequests`."""

    waits = False

    def __init__(self, client, queue_calls=None):
        self.buffer = None
        if queue_calls is not None:
            self.buffer = lw.buffered(client, queue_calls, when_full="drop_newest")
        self.app = lw.WatchRequests(self.serve, self.buffer or client, path="/")

    async def serve(self, scope, receive, send):
        message = await receive()
        answer = json.dumps(approve(json.loads(message["body"])["x"])).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer})

    def decide(self, x):
        answers = []

        async def receive():
            return {"type": "http.request", "body": json.dumps({"x": x}).encode()}

        async def send(message):
            answers.append(message.get("body"))

        asyncio.run(self.app({"type": "http", "path": "/"}, receive, send))
        return json.loads(answers[-1])

    def flush(self, seconds):
        return self.app.flush(seconds)

    def lost(self):
        return self.app.counts.dropped

    def close(self):
        self.app.close()
        if self.buffer is not None:
            self.buffer.close(5.0)


EVERY = [Watching, Decorated, Raising, Estimating, Buffering, WatchingABuffer, Middleware]
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
        assert delivering.lost() == 0 == place.monitor.missing_decisions
        delivering.close()


@every
def test_a_service_that_is_away_delays_no_start_and_is_noticed_when_it_is_there(kind, place):
    if kind is Estimating:
        pytest.importorskip("sklearn.tree")  # whose import is no part of the start
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
        assert delivering.lost() == 0 == place.monitor.missing_decisions
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
        if kind is Middleware:  # which submits in a thread
            delivering.app.flush(0.1)
        assert delivering.lost() >= 100
        place.up()
        delivering.decide(x[0])
        assert delivering.flush(30)
        delivering.decide(x[1])
        assert delivering.flush(30)
        assert place.monitor.missing_decisions == delivering.lost()
        assert place.monitor.rows + place.monitor.missing_decisions == 202
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
                except lw.errors.BadFile:
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


def interrupt_often(delivering):
    """Interrupt calls at moments that are spread over them, as a signal would."""

    class Interrupted(BaseException):
        pass

    def interrupt(*_):
        raise Interrupted

    before, interrupted = signal.signal(signal.SIGALRM, interrupt), 0
    try:
        for i in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 * (1 + i % 10))
                for _ in range(200):
                    delivering.decide([i / 100, 0.5])
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 10, "a test on nothing"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a __del__
@pytest.mark.parametrize("kind", EVERY[:-1], ids=lambda kind: kind.__name__)  # not an event loop
def test_an_interrupted_caller_leaves_nothing_behind_that_blocks(kind, place):
    with lw.connect(place.url, "here") as client:
        delivering, begin = kind(client), time.perf_counter()
        interrupt_often(delivering)
        assert time.perf_counter() - begin < 30
        place.up()
        delivering.decide([0.5, 0.5])
        assert delivering.flush(60) and place.monitor.rows > 0
        delivering.close()


def test_who_waits_for_verdicts_chooses_what_happens_without_one(place):
    with lw.connect(place.url, "here") as client:
        watched = lw.watch(approve, client, on_violation="raise", wait_seconds=0.05)
        assert watched([0.5, 0.5]) == "no" and watched([0.6, 0.5]) == "yes"
        assert watched.counts.unknown == 2
        strict = lw.watch(approve, client, on_violation="raise", when_unknown="raise")
        with pytest.raises(lw.errors.Unreachable):
            strict([0.5, 0.5])
        assert strict.counts.unknown == 1
        place.up()
        assert watched.flush(30) and strict.flush(30)
        assert watched([0.9, 0.9]) == "yes"  # nobody waits right after a wait in vain
        assert watched.flush(30)
        patient = lw.watch(approve, client, on_violation="raise", wait_seconds=20)
        patient([0.49, 0.1])
        with pytest.raises(lw.errors.Violation) as raised:
            patient([0.51, 0.1])
        assert raised.value.answer == "yes" and patient.counts.unknown == 0
        for one in (watched, strict, patient):
            one.close()


# A monitor in this process


@every
def test_a_ledger_on_a_slow_disk_gets_everything_in_order_and_delays_nobody(kind, tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as ledger:
        delivering = kind(ledger)
        x = inputs(60)
        timed(delivering, x[:5])
        assert delivering.flush(30)
        with slow_disk(seconds=3.0) as disk:
            assert timed(delivering, x[5:]) < BOUND
            until = time.monotonic() + 10
            while not disk.waits and time.monotonic() < until:
                time.sleep(0.01)
            assert disk.waits, "a test on nothing"
            disk.seconds = 0.0
            assert delivering.flush(30)
        assert answers_of(ledger) == [approve(one) for one in x]
        assert delivering.lost() == 0 == ledger.missing_decisions
        delivering.close()


@every
def test_what_finds_no_room_before_a_slow_disk_is_counted_and_told(kind, tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as ledger:
        delivering = kind(ledger, queue_calls=20)
        x = inputs(200)
        timed(delivering, x[:10])
        assert delivering.flush(30)
        with slow_disk(seconds=30.0) as disk:
            assert timed(delivering, x[10:]) < BOUND
            if kind is Middleware:
                delivering.app.flush(0.1)
            assert delivering.lost() >= 100
            disk.seconds = 0.0
            assert delivering.flush(30)
        delivering.decide(x[0])
        assert delivering.flush(30)
        assert ledger.missing_decisions == delivering.lost()
        assert ledger.rows + ledger.missing_decisions == 201
        delivering.close()


@every
def test_a_monitor_that_somebody_else_uses_for_long_delays_nobody(kind):
    monitor = lw.Monitor(RULE)
    delivering = kind(monitor)
    x = inputs(60)
    timed(delivering, x[:5])
    assert delivering.flush(30)
    used, over = threading.Event(), threading.Event()

    def use():
        with monitor.core.enter():
            used.set()
            over.wait(30)

    user = threading.Thread(target=use)
    user.start()
    assert used.wait(30)
    assert timed(delivering, x[5:]) < BOUND
    over.set()
    user.join()
    assert delivering.flush(30)
    assert answers_of(monitor) == [approve(one) for one in x]
    delivering.close()


watching = pytest.mark.parametrize("kind", EVERY[:4], ids=lambda kind: kind.__name__)


@watching
def test_a_ledger_that_is_closed_first_has_what_waited(kind, tmp_path):
    x = inputs(30)
    with slow_disk(seconds=0.3), lw.open(tmp_path / "ledger", RULE) as ledger:
        delivering = kind(ledger)
        assert timed(delivering, x) < BOUND
    with lw.open(tmp_path / "ledger") as ledger:
        assert answers_of(ledger) == [approve(one) for one in x]
    delivering.close()


@watching
def test_callers_wait_for_a_ledger_no_longer_than_they_say_and_once_in_vain(kind, tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as ledger:
        delivering = kind(ledger, wait_seconds=0.3)
        timed(delivering, inputs(5))
        assert delivering.watched.counts.decisions == 5  # their verdicts were waited for
        with slow_disk(seconds=30.0) as disk:
            begin = time.perf_counter()
            assert 0.25 < timed(delivering, inputs(1)) < 0.3 + BOUND
            timed(delivering, inputs(20))
            assert time.perf_counter() - begin < 0.6 + BOUND
            disk.seconds = 0.0
            assert delivering.watched.flush(30)
        assert delivering.watched.counts.decisions == 26 == ledger.rows
        assert delivering.watched.counts.unknown == (21 if kind is Raising else 0)
        delivering.close()


@watching
def test_an_interrupted_caller_of_a_ledger_leaves_nothing_behind_that_blocks(kind, tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as ledger:
        delivering = kind(ledger)
        interrupt_often(delivering)
        delivering.decide([0.5, 0.5])
        assert delivering.flush(60)
        counts = delivering.watched.counts
        assert counts.decisions == ledger.rows > 0 == counts.failures
        delivering.close()


def test_verdicts_that_a_ledger_gives_too_late_are_the_users_choice(tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as ledger:
        strict = lw.watch(approve, ledger, on_violation="raise", when_unknown="raise")
        assert strict([0.49, 0.1]) == "no"
        with slow_disk(seconds=30.0) as disk:
            with pytest.raises(lw.errors.Unreachable):
                strict([0.51, 0.1])
            disk.seconds = 0.0
            assert strict.flush(30)
        assert (strict.counts.violations, strict.counts.unknown) == (1, 1)
        with pytest.raises(lw.errors.Violation) as raised:
            lw.watch(approve, ledger, on_violation="raise", wait_seconds=20)([0.52, 0.1])
        assert raised.value.answer == "yes"
        strict.close()


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
        assert watched.counts.dropped == 0 and watched.waiting_count > 300
        assert not buffer.close(0.0)
        assert buffer.stats.accepted > 300 and buffer.stats.total_lost == 0
    with lw.open(tmp_path / "ledger") as ledger:
        assert (
            answers_of(ledger)[1:] == [approve(one) for one in x] and ledger.missing_decisions == 0
        )


def test_a_watch_of_a_buffer_leaves_its_verdicts_to_it():
    monitor = lw.Monitor(RULE)
    with lw.buffered(monitor) as buffer:
        with pytest.raises(lw.errors.BadRule):
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
        return make_poll_result(some, gaps)

    def _waiting(self):
        return [one for one in self._records if one.position > self._read]

    def _insist(self):
        if not self.is_up:
            raise lw.errors.Unreachable("the broker does not answer.")


@contextmanager
def followed(broker, monitor):
    """A follower of a broker, in a thread."""
    bind = make_binder(monitor.rule, output_column="z")
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
        assert (follower.counts.lost, monitor.missing_decisions) == (0, 0)


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
        assert (follower.counts.lost, monitor.missing_decisions) == (0, 0)


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
        assert follower.counts.lost == monitor.missing_decisions == 170
        assert answers_of(monitor) == [approve(one) for one in x[:10] + x[-20:]]


def test_a_stream_goes_on_where_the_ledger_ends(tmp_path):
    broker, x = Broker(), inputs(90)
    for stop in (30, 60, 90):
        timed(broker, x[stop - 30 : stop])
        with monitor_of("ledger", tmp_path) as monitor, followed(broker, monitor):
            wait_for_rows(monitor, stop, 30)
            assert answers_of(monitor) == [approve(one) for one in x[:stop]]
