"""Connections: what a client sends outside of bodies is bounded, in bytes and in time."""

import asyncio
import contextlib
import socket

import pytest
import uvicorn

from likewise.service.connections import Connections
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, ServiceSettings
from tests.support.serving import SECONDS

HEAD_BYTES = 2000
LIMITS = Limits(head_bytes=HEAD_BYTES, body_seconds=5.0)
GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: here\r\n"
EARLY = b"POST /early HTTP/1.1\r\nHost: here\r\n"


class App:
    """Reads a body and answers with its length; /early answers first, /held when it is let."""

    def __init__(self):
        self.let_go = asyncio.Event()
        self.begun = asyncio.Event()

    async def __call__(self, scope, receive, send):
        self.begun.set()
        length, more = 0, not scope["path"].startswith("/early")
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            length, more = length + len(message["body"]), message["more_body"]
        if scope["path"] == "/held":
            await self.let_go.wait()
        body = b"%d" % length
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Listening:
    """The connections of a server in this loop."""

    def __init__(self, connections, app, port):
        self.connections, self.app, self.port = connections, app, port
        self.service = connections.service
        self.writers = []

    async def connect(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def disconnect(self):
        for writer in self.writers:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def exchange(self, *pieces, answers=1):
        """Send pieces, each when the one before was read; the statuses and bodies of answers."""
        reader, writer = await self.connect()
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        found = [await read_answer(reader) for _ in range(answers)]
        return found


async def read_answer(reader):
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
    return int(head.split()[1]), await reader.readexactly(length)


@contextlib.asynccontextmanager
async def listening(limits=LIMITS):
    service = Service(ServiceSettings({"none": MonitorSettings(rule="none.toml")}, limits=limits))
    connections, app = Connections(service), App()
    config = uvicorn.Config(
        connections.wrap(app),
        http=connections.make_protocol,
        lifespan="off",
        log_config=None,
        ws="none",
        timeout_keep_alive=10 * SECONDS,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = asyncio.create_task(server.serve([listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        served = Listening(connections, app, listener.getsockname()[1])
        try:
            yield served
        finally:
            await served.disconnect()
            app.let_go.set()
            server.should_exit = True
            await asyncio.wait_for(running, SECONDS)


def run(test):
    async def called():
        async with listening() as served:
            await asyncio.wait_for(test(served), SECONDS)

    asyncio.run(called())


async def send_endlessly(writer, piece):
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)


async def is_cut(reader):
    """Whether the server ends the connection without a word."""
    try:
        return await asyncio.wait_for(reader.read(), SECONDS) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("kind", ["target", "one header", "many headers", "blank lines"])
def test_an_endless_head_is_refused(kind):
    endless = {
        "target": (b"GET /", b"a" * 500),
        "one header": (POST + b"a: ", b"a" * 500),
        "many headers": (POST, b"a: b\r\n" * 100),
        "blank lines": (b"", b"\r\n" * 300),
    }
    first, more = endless[kind]

    async def test(served):
        for before in (b"", GET):
            reader, writer = await served.connect()
            writer.write(before + first)
            sending = asyncio.create_task(send_endlessly(writer, more))
            if before:
                assert await read_answer(reader) == (200, b"0")
            status, body = await read_answer(reader)
            assert status == 431 and b'"code":"refused"' in body
            sending.cancel()
        assert served.service.refused == {"431": 2}

    run(test)


def test_a_whole_head_that_is_too_long_is_refused_however_it_comes():
    head = POST + b"a: " + b"b" * HEAD_BYTES + b"\r\n\r\n"

    async def test(served):
        for pieces in ([head], cut(head, 100)):
            ((status, _),) = await served.exchange(*pieces)
            assert status == 431
        assert await served.exchange(b"\x00" * 10 * HEAD_BYTES) == [
            (400, b"Invalid HTTP request received.")
        ]

    run(test)


def test_what_is_within_the_limits_passes_untouched():
    body = b"a" * 10_000
    chunks = b"".join(b"%x;e=f\r\n%b\r\n" % (len(body), body) for _ in range(3))
    fits = b"a: " + b"b" * (HEAD_BYTES - len(POST) - 100) + b"\r\n"
    cases = {
        POST + b"Content-Length: 10000\r\n\r\n" + body: b"10000",
        POST + fits + b"Content-Length: 10000\r\n\r\n" + body: b"10000",
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nt: u\r\n\r\n": b"30000",
        GET: b"0",
    }

    async def test(served):
        for sent, length in cases.items():
            assert await served.exchange(sent) == [(200, length)]
            pieces = cut(sent, 1500)
            assert await served.exchange(*pieces) == [(200, length)]
        together = list(cases) * 3
        expected = [(200, length) for length in list(cases.values()) * 3]
        assert await served.exchange(b"".join(together), answers=len(together)) == expected

    run(test)


def cut(data, size):
    return [data[i : i + size] for i in range(0, len(data), size)]


@pytest.mark.parametrize("kind", ["behind a request", "in trailers", "in a size of a chunk"])
def test_an_endless_head_beside_an_answer_ends_the_connection(kind):
    chunked = b"POST /held HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
    first, more = {
        "behind a request": (GET.replace(b"/ ", b"/held ") + POST, b"a: b\r\n" * 100),
        "in trailers": (chunked + b"0\r\n", b"a: b\r\n" * 100),
        "in a size of a chunk": (chunked + b"1;", b"a" * 500),
    }[kind]

    async def test(served):
        reader, writer = await served.connect()
        writer.write(first)
        await served.app.begun.wait()
        sending = asyncio.create_task(send_endlessly(writer, more))
        assert await is_cut(reader)
        sending.cancel()

    run(test)


def test_a_body_that_comes_after_its_answer_is_passed_over():
    head = EARLY + b"Content-Length: 1000000\r\n\r\n"

    async def test(served):
        reader, writer = await served.connect()
        writer.write(head)
        assert await read_answer(reader) == (200, b"0")
        for piece in cut(b"a" * 1_000_000, 50_000):
            writer.write(piece)
            await writer.drain()
        writer.write(GET)
        assert await read_answer(reader) == (200, b"0")

    run(test)


LATE = LIMITS.body_seconds + 1
HALVES = {
    "nothing": (b"", b""),
    "half a head": (b"", POST),
    "half a head behind a request": (GET + POST, b""),
    "half a head after an answer": (GET, POST),
    "blank lines": (GET, b"\r\n"),
    "half a body, answered": (
        POST.replace(b"/ ", b"/early ") + b"Content-Length: 9\r\n\r\n",
        b"ab",
    ),
}


@pytest.mark.parametrize("kind", HALVES)
def test_a_connection_that_sends_half_a_request_is_ended_in_time(kind):
    answered, half = HALVES[kind]

    async def test(served):
        reader, writer = await served.connect()
        if answered:
            writer.write(answered)
            assert await read_answer(reader) == (200, b"0")
        writer.write(half)
        ended = asyncio.ensure_future(is_cut(reader))
        now = 100.0
        while not ended.done():  # what was sent may still be on its way
            served.connections.end_slow(now)
            served.connections.end_slow(now + LATE - 2)
            served.connections.end_slow(now := now + LATE)
            await asyncio.sleep(0.01)
        assert await ended

    run(test)


def test_a_connection_is_not_ended_while_it_is_idle_or_answered_or_moves():
    async def test(served):
        idle, held, moving = [await served.connect() for _ in range(3)]
        idle[1].write(GET)
        assert (await read_answer(idle[0]))[0] == 200
        served.app.begun.clear()
        held[1].write(GET.replace(b"/ ", b"/held "))
        await served.app.begun.wait()
        for i in range(5):
            moving[1].write(POST + b"\r\n" + POST)
            assert (await read_answer(moving[0]))[0] == 200
            served.connections.end_slow(i * (LATE - 2))
            moving[1].write(b"\r\n")
            assert (await read_answer(moving[0]))[0] == 200
        for i in range(3):
            served.connections.end_slow(i * 1000.0)
        served.app.let_go.set()
        assert (await read_answer(held[0]))[0] == 200
        idle[1].write(GET)
        assert (await read_answer(idle[0]))[0] == 200

    run(test)


def test_a_closed_connection_whose_client_does_not_read_is_cut():
    async def test(served):
        reader, writer = await served.connect()
        writer.write(GET)
        assert (await read_answer(reader))[0] == 200
        (connection,) = served.connections
        transport = connection.transport
        transport.write(b"a" * 50_000_000)
        transport.close()
        served.connections.end_slow(0.0)
        served.connections.end_slow(LATE - 2)
        assert list(served.connections) == [connection]
        served.connections.end_slow(LATE)
        while list(served.connections):
            await asyncio.sleep(0)

    run(test)
