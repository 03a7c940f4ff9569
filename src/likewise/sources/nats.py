"""NATS JetStream as a source of decisions and a target for verdicts.

A position is the number of a message in its stream. An unacknowledged consumer is created behind
the ledger's position, and again after every failure; it holds no state that matters.
Invariant: no message is skipped without a `Gap`. Read with all subjects, numbers follow each other;
with one subject, gaps are noticed only at the beginning, and without their size.
Cost: the client needs an event loop, which runs in a thread of its own.
"""

import asyncio
import ssl
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any, TypeVar

from likewise.errors import BadFile, BadRule, Unreachable
from likewise.sources.address import Address, missing_extra
from likewise.sources.judge_messages import next_poll_size
from likewise.sources.protocol import Gap, PollResult, Record, check_position, make_poll_result
from likewise.tables.positions import Position

_ANSWER_SECONDS = 5.0
_IDLE_SECONDS = 300.0  # after which the server forgets an idle consumer
_EMPTY_STATUSES = ("404", "408")  # no messages now; none in time
_NO_ROOM_CODES = (10002, 10026)  # of an account, or of consumers: there may be room later
_T = TypeVar("_T")


class _Connection:
    """Keeps a connection, which ends with the first failure; the next call makes another.

    Its event loop runs in a thread.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True, name="likewise-nats")
        self._thread.start()
        self.client: Any = None
        self.lost = asyncio.Event()

    def run(self, call: Coroutine[Any, Any, _T]) -> _T:
        with _translate_errors(self.address):
            return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    async def jetstream(self) -> Any:
        """Return the client of streams; connect if there is no connection."""
        if self.client is None or not self.client.is_connected:
            await self.end()
            self.lost = asyncio.Event()
            self.client = await _connect(self.address, self._on_end)
        return self.client.jetstream(timeout=_ANSWER_SECONDS)

    async def _on_end(self) -> None:
        self.lost.set()

    async def wait_unless_lost(self, call: "asyncio.Future[_T]") -> _T:
        """Wait for an answer; raise Unreachable once the connection is gone."""
        lost = asyncio.ensure_future(self.lost.wait())
        futures: list[asyncio.Future[Any]] = [call, lost]
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
        if not call.done():
            call.cancel()
            raise Unreachable(f"{self.address}: the connection was lost.")
        return call.result()

    async def end(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            with suppress(Exception):
                await asyncio.wait_for(client.close(), 1.0)

    def close(self) -> None:
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self.end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class NatsSource:
    """Reads the messages of a stream, of all its subjects or of those that match one."""

    def __init__(self, address: Address) -> None:
        self.name = str(address)
        self._stream = address.streams[0]
        self._subject = address.parameters.get("subject")
        self._start = address.start
        self._connection = _Connection(address)
        self._next = ""
        self._at: int | None = None
        self._delivered_count = 0
        self._gap: Gap | None = None
        self._new_starts: dict[str, int] = {}  # where the stream begins if it starts with new ones
        self._poll_size = 64
        self._messages: list[Any] = []
        self._requested_count = 0
        self._done: asyncio.Future[str] | None = None

    def owns(self, source: str) -> bool:
        return source == self._stream

    def seek(self, positions: Mapping[str, Position]) -> None:
        position = positions.get(self._stream)
        position = check_position(self._stream, position, int, "number of a message")
        self._connection.run(self._start_consumer(position))

    async def _start_consumer(self, position: int | None) -> None:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        await self._connection.end()
        jetstream = await self._connection.jetstream()
        info = await jetstream.stream_info(self._stream)
        first, last = info.state.first_seq, info.state.last_seq
        self._gap = None
        if position is None and self._start == "new":
            position = last
            self._new_starts = {self._stream: last}
        self._at = position
        begin = max(first, 1) if position is None else position + 1
        if begin > last + 1:
            raise BadFile(
                f"the stream {self._stream} ends at message {last}, and the ledger at {position}:"
                " the stream was deleted and created again. Begin another ledger, or name the"
                " stream differently."
            )
        if position is not None and begin < first and self._subject is not None:
            why = (
                f"messages {begin} to {first - 1} of the stream {self._stream} are gone; how many"
                f" of them were of {self._subject} is not known"
            )
            self._gap = Gap(self._stream, position, first, None, why)
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=begin,
            ack_policy=AckPolicy.NONE,
            filter_subject=self._subject,
            inactive_threshold=_IDLE_SECONDS,
            mem_storage=True,
        )
        consumer = await jetstream.add_consumer(self._stream, config=config)
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{consumer.name}"
        self._delivered_count = 0
        client = self._connection.client
        self._inbox = client.new_inbox()
        await client.subscribe(self._inbox, cb=self._on_message)

    async def _on_message(self, message: Any) -> None:
        """Take a message, or the status that ends a request."""
        status = (message.headers or {}).get("Status") if not message.data else None
        done = self._done
        if done is None or done.done():
            return
        if status is not None:
            done.set_result(status)
            return
        self._messages.append(message)
        if len(self._messages) >= self._requested_count:
            done.set_result("")

    async def _request_messages(self, most: int, wait: float) -> list[Any]:
        """Return up to `most` messages that are there; or, if it may wait, the next one."""
        import json

        request = {"batch": 1, "expires": round(1e9 * wait)} if wait else {"batch": most}
        request |= {} if wait else {"no_wait": True}
        self._messages, self._requested_count = [], request["batch"]
        self._done = asyncio.get_running_loop().create_future()
        await self._connection.client.publish(
            self._next, json.dumps(request).encode(), reply=self._inbox
        )
        try:
            answered = self._connection.wait_unless_lost(self._done)
            status: str = await asyncio.wait_for(answered, wait + _ANSWER_SECONDS)
        except TimeoutError:
            raise Unreachable(f"{self.name} does not answer.") from None
        finally:
            messages, self._messages, self._done = self._messages, [], None
        if status and status not in _EMPTY_STATUSES:
            raise Unreachable(f"{self.name} has forgotten who asks ({status}).")
        return messages

    def poll(self, most: int, seconds: float) -> PollResult:
        return self._connection.run(self._poll(most, seconds))

    async def _poll(self, most: int, seconds: float) -> PollResult:
        messages = await self._request_messages(min(most, self._poll_size), 0.0)
        starts, self._new_starts = self._new_starts, {}
        if not messages and seconds > 0 and not starts:
            messages = await self._request_messages(1, seconds)
        records: list[Record] = []
        gap = None
        for message in messages:
            number, delivered = _parse_reply(message.reply)
            if delivered != self._delivered_count + 1:
                raise Unreachable(f"{self.name}: a message did not arrive.")
            if self._subject is None and self._at is not None and number > self._at + 1:
                if records:  # the next batch begins behind the gap, and reports it first
                    self._delivered_count = -1
                    break
                gap = await self._confirm_gap(number)
            self._delivered_count, self._at = delivered, number
            records.append(self._make_record(message, number))
        if self._delivered_count < 0:
            await self._start_consumer(self._at)
        if records and self._gap is not None:
            gap, self._gap = self._gap, None
        self._poll_size = next_poll_size(self._poll_size, records, most)
        return make_poll_result(records, () if gap is None else (gap,), starts=starts)

    async def _confirm_gap(self, number: int) -> Gap:
        """Return the gap before a message; raise Unreachable if what is before it still exists."""
        from nats.js.errors import NotFoundError

        at = self._at or 0
        jetstream = await self._connection.jetstream()
        with suppress(NotFoundError):
            await jetstream.get_msg(self._stream, at + 1)
            raise Unreachable(f"{self.name}: message {at + 1} did not arrive.")
        why = f"messages {at + 1} to {number - 1} of the stream {self._stream} are gone"
        return Gap(self._stream, at, number, number - at - 1, why)

    def _make_record(self, message: Any, number: int) -> Record:
        headers = {name.lower(): value for name, value in (message.headers or {}).items()}
        return Record(self._stream, number, message.data, headers)

    def close(self) -> None:
        self._connection.close()


class NatsTarget:
    """Sends lines as messages of a subject, each acknowledged by the stream that keeps them."""

    knows_last_line = True

    def __init__(self, address: Address) -> None:
        self.name = str(address)
        self._stream = address.streams[0]
        subject = address.parameters.get("subject")
        if subject is None:
            raise BadRule(f"{address}: to write, name a subject of the stream: &subject=verdicts")
        self._subject = subject
        self._connection = _Connection(address)

    def send(self, lines: Sequence[bytes]) -> None:
        self._connection.run(self._send(lines))

    async def _send(self, lines: Sequence[bytes]) -> None:
        try:
            jetstream = await self._connection.jetstream()
            for start in range(0, len(lines), 256):
                part = lines[start : start + 256]
                sending = (
                    jetstream.publish(self._subject, line, stream=self._stream) for line in part
                )
                await self._connection.wait_unless_lost(asyncio.gather(*sending))
        except BaseException as error:
            if type(error).__name__ == "NoStreamResponseError":
                await self._check_subject()
            await self._connection.end()
            raise

    async def _check_subject(self) -> None:
        """Raise BadRule if the stream exists, and takes nothing under our subject."""
        jetstream = await self._connection.jetstream()
        subjects = (await jetstream.stream_info(self._stream)).config.subjects or []
        if not any(_is_match(pattern, self._subject) for pattern in subjects):
            raise BadRule(
                f"{self.name}: the stream {self._stream} takes {', '.join(subjects) or 'nothing'},"
                f" and not the subject {self._subject!r}. Name one of its subjects, or add this."
            )

    def read_last_line(self) -> bytes | None:
        return self._connection.run(self._read_last_line())

    async def _read_last_line(self) -> bytes | None:
        from nats.js.errors import NotFoundError

        jetstream = await self._connection.jetstream()
        await jetstream.stream_info(self._stream)  # raises NotFoundError if there is no such stream
        try:
            message = await jetstream.get_last_msg(self._stream, self._subject)
        except NotFoundError:
            return None
        body: bytes | None = message.data
        return body

    def close(self) -> None:
        self._connection.close()


async def _connect(address: Address, on_end: Any) -> Any:
    try:
        import nats
    except ModuleNotFoundError as error:
        raise missing_extra(error, "nats") from None
    settings: dict[str, Any] = {}
    files = address.parameters
    if address.tls:
        context = ssl.create_default_context(cafile=files.get("ca_file"))
        if "cert_file" in files:
            context.load_cert_chain(files["cert_file"], files.get("key_file"))
        settings["tls"] = context
    if "user" in files:
        settings |= {"user": files["user"], "password": address.read_password()}
    if "token_file" in files:
        settings["token"] = address.read_secret("token_file")
    if "creds_file" in files:
        settings["user_credentials"] = files["creds_file"]

    async def ignore(error: Exception) -> None:
        """Do nothing: whoever called gets the error."""

    scheme = "tls" if address.tls else "nats"
    client = nats.NATS()
    try:
        await client.connect(
            [f"{scheme}://{host}:{port}" for host, port in address.hosts],
            allow_reconnect=False,
            connect_timeout=5,
            reconnect_time_wait=0,  # the caller tries again, with pauses
            error_cb=ignore,
            disconnected_cb=on_end,
            closed_cb=on_end,
            **settings,
        )
    except BaseException:
        with suppress(Exception):  # the client would leave its socket open
            await client.close()
        raise
    return client


def _is_match(pattern: str, subject: str) -> bool:
    """Tell whether a subject fits a pattern: * is any one part, > all further ones."""
    patterns, parts = pattern.split("."), subject.split(".")
    if patterns[-1] == ">" and len(parts) >= len(patterns):
        patterns, parts = patterns[:-1], parts[: len(patterns) - 1]
    return len(patterns) == len(parts) and all(
        expected in ("*", part) for expected, part in zip(patterns, parts, strict=True)
    )


def _parse_reply(reply: str) -> tuple[int, int]:
    """Return the number of a message in the stream, and in what the consumer was sent."""
    parts = reply.split(".")
    at = 7 if len(parts) > 9 else 5
    return int(parts[at]), int(parts[at + 1])


@contextmanager
def _translate_errors(address: Address) -> Iterator[None]:
    """Raise Unreachable for errors of the client that may pass, BadRule for others."""
    try:
        import nats.errors
        import nats.js.errors
    except ModuleNotFoundError as error:
        raise missing_extra(error, "nats") from None
    try:
        yield
    except (BadRule, Unreachable):
        raise
    except nats.js.errors.NotFoundError:
        raise BadRule(f"{address}: there is no such stream. Make it first.") from None
    except nats.js.errors.BadRequestError as error:
        if error.err_code in _NO_ROOM_CODES:
            raise Unreachable(f"{address} has no room now: {error.description}.") from None
        raise BadRule(
            f"{address} refuses what is asked of this stream: {str(error.description)[:200]}."
            " Waiting does not mend that: see what kind of stream it is, or name another."
        ) from None
    except nats.errors.AuthorizationError:
        raise BadRule(f"{address} does not let us in.") from None
    except (nats.errors.Error, OSError, TimeoutError) as error:
        if "authorization" in str(error).lower():
            raise BadRule(f"{address} does not let us in.") from None
        raise Unreachable(f"{address} does not answer ({type(error).__name__}).") from None
