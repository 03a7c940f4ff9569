"""Redis Streams as a source of decisions and a target for verdicts.

A position is the id of an entry: milliseconds and a sequence number. XRANGE reads from the last
entry that was read, itself included: if it is still there, nothing behind it was trimmed.
Invariant: no entry is skipped without a `Gap`, whose size nobody knows. Entries that XDEL took out
of the middle are noticed only by servers that count deletions (Redis 7).
Cost: a poll holds some megabytes. Not here: consumer groups; the ledger has the positions.
"""

import re
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from likewise.errors import BadRule, Unreachable
from likewise.sources.address import Address, missing_extra
from likewise.sources.judge_messages import next_poll_size
from likewise.sources.protocol import (
    Gap,
    PollResult,
    Record,
    check_position,
    just_before,
    make_poll_result,
)
from likewise.tables.positions import Position, to_position_numbers

FIELD = "decision"
"""The field of an entry that has the decision."""
_FIELD = FIELD.encode()
_Id = tuple[int, int]
_BEGINNING: _Id = (0, 0)
_FIRST_POLL_SIZE = 64  # entries of the first poll, when their size is not known yet
_ANSWER_SECONDS = 30.0
_LONGEST_WAIT = 5.0  # seconds of one XREAD, far less than an answer may take
_SENT_TOGETHER = 4096  # lines of one script, which take the server some 10 milliseconds
_TEMPORARY_ERRORS = {
    "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM", "READONLY",
    "TRYAGAIN", "UNBLOCKED",
}  # fmt: skip
"""Words with which a server says that it cannot do something now, but perhaps later."""
_WORDS_OF_CLASSES = {
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "TryAgainError": "TRYAGAIN",
}
"""The word of errors that have it only in the name of their class."""
_ADD_ALL = """
local before = {}
for i = 2, ARGV[1] + 1 do before[i - 1] = ARGV[i] end
for i = ARGV[1] + 2, #ARGV do
  before[ARGV[1] + 1] = ARGV[i]
  redis.call('XADD', KEYS[1], unpack(before))
end
"""
"""Adds an entry for each line, in one write. As separate commands each would be answered, and the
server would force them to disk a hundred at a time."""


class RedisSource:
    """Reads the entries of one or more streams."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.name = str(address)
        self._client: Any = None
        self._at: dict[str, _Id] = {}
        self._emptied: set[str] = set()  # streams emptied behind the last entry that was read
        self._new_starts: dict[str, _Id] = {}  # where streams begin that start with new entries
        self._poll_size = _FIRST_POLL_SIZE

    def owns(self, source: str) -> bool:
        return source in self._address.streams

    def seek(self, positions: Mapping[str, Position]) -> None:
        if self._client is None:
            self._client = _connect(self._address)
            self._client.set_response_callback("XRANGE", _keep_answer)
        self._emptied.clear()
        with _translate_errors(self._address):
            self._client.ping()
            for stream in self._address.streams:
                if stream in positions:
                    at = positions[stream]
                    self._at[stream] = check_position(stream, at, tuple, "id of a Redis entry")
                elif self._address.start == "new":
                    info = self._stream_info(stream)
                    self._at[stream] = _BEGINNING if not info else info["last-generated-id"]
                    self._new_starts[stream] = self._at[stream]
                else:
                    self._at[stream] = _BEGINNING

    def poll(self, most: int, seconds: float) -> PollResult:
        until = clock.monotonic() + seconds
        while True:
            with _translate_errors(self._address):
                records, gaps = self._read_entries(most)
                left = until - clock.monotonic()
                if records or left <= 0 or self._new_starts:
                    starts, self._new_starts = self._new_starts, {}
                    return make_poll_result(records, tuple(gaps), starts=starts)
                waiting = {stream: _format_id(at) for stream, at in self._at.items()}
                block = max(1, round(1000 * min(left, _LONGEST_WAIT)))
                self._client.xread(waiting, count=1, block=block)

    def _read_entries(self, most: int) -> tuple[list[Record], list[Gap]]:
        """Read entries behind the last ones that were read."""
        each = max(1, min(self._poll_size, most) // len(self._at))
        pipeline = self._client.pipeline(transaction=False)
        for stream, at in self._at.items():
            pipeline.xrange(stream, min=_format_id(at) if at > _BEGINNING else "-", count=each + 1)
        records: list[Record] = []
        gaps: list[Gap] = []
        for stream, entries in zip(list(self._at), pipeline.execute(), strict=True):
            new, gap = self._read_behind(stream, entries, each)
            records += new
            gaps += [] if gap is None else [gap]
            if new:
                self._at[stream] = to_position_numbers(new[-1].position)
                self._emptied.discard(stream)
        if len(self._at) > 1:
            records.sort(key=lambda record: to_position_numbers(record.position))
        self._poll_size = next_poll_size(self._poll_size, records, most)
        return records, gaps

    def _read_behind(
        self, stream: str, entries: Sequence[Any], each: int
    ) -> tuple[list[Record], Gap | None]:
        """Return the records behind the last one that was read, and the gap before them."""
        at = self._at[stream]
        ids = [_parse_id(number) for number, _ in entries[:1]]
        if at == _BEGINNING:
            return _make_records(stream, entries[:each]), None
        if ids == [at]:
            return _make_records(stream, entries[1:]), None
        if ids and at == just_before(ids[0]):  # the gap was reported
            return _make_records(stream, entries[:each]), None
        if not ids:
            info = {} if stream in self._emptied else self._stream_info(stream)
            if info.get("last-generated-id") == at:
                self._emptied.add(stream)  # emptied, but nothing was added since
            return [], None
        gap = None if stream in self._emptied else self._find_gap(stream, at, ids[0])
        return _make_records(stream, entries[:each]), gap

    def _find_gap(self, stream: str, at: _Id, first: _Id) -> Gap | None:
        """Return the gap if more is gone than the last entry that was read; None if not."""
        info = self._stream_info(stream)
        oldest = info.get("first-entry")
        deleted = info.get("max-deleted-entry-id", _BEGINNING)
        if oldest is not None and oldest < at and deleted <= at:
            return None  # it alone was deleted: older ones are still there
        why = (
            f"the stream {stream} was trimmed, or deleted and written again: the entry"
            f" {_format_id(at)}, the last that was read, is gone, and {_format_id(first)} is"
            " the next"
        )
        if "entries-added" in info:  # since Redis 7
            removed = info["entries-added"] - info["length"]
            why += f" (of this stream the server has removed {removed:,} entries, read or not)"
        return Gap(stream, at, first, None, why)

    def _stream_info(self, stream: str) -> dict[str, Any]:
        """Return what the server says about a stream; nothing if there is no such stream."""
        import redis

        try:
            info: dict[str, Any] = self._client.xinfo_stream(stream)
        except redis.ResponseError as error:
            if "no such key" in str(error):
                return {}
            raise
        entry = info.pop("first-entry", None)
        if entry:
            info["first-entry"] = entry[0]
        ids = {"first-entry", "last-generated-id", "max-deleted-entry-id"} & info.keys()
        return info | {name: _parse_id(info[name]) for name in ids}

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


class RedisTarget:
    """Writes lines as entries of a stream, each in one field."""

    knows_last_line = True

    def __init__(self, address: Address, field: str) -> None:
        if len(address.streams) != 1:
            raise BadRule(f"{address}: expected one stream to write to.")
        self.name = str(address)
        self._address = address
        self._field = field
        self._stream = address.streams[0]
        maxlen = address.parameters.get("maxlen")
        self._trim = () if maxlen is None else ("MAXLEN", "~", maxlen)
        self._client: Any = None

    def _get_client(self) -> Any:
        if self._client is None:
            self._client = _connect(self._address)
        return self._client

    def send(self, lines: Sequence[bytes]) -> None:
        before = [*self._trim, "*", self._field]
        with _translate_errors(self._address):
            client = self._get_client()
            for start in range(0, len(lines), _SENT_TOGETHER):
                part = lines[start : start + _SENT_TOGETHER]
                client.eval(_ADD_ALL, 1, self._stream, len(before), *before, *part)

    def read_last_line(self) -> bytes | None:
        with _translate_errors(self._address):
            entries = self._get_client().xrevrange(self._stream, count=1)
        if not entries:
            return None
        body: bytes | None = entries[0][1].get(self._field.encode())
        return body

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def _connect(address: Address) -> Any:
    """Return a client that repeats nothing by itself: lines sent twice would be there twice."""
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ModuleNotFoundError as error:
        raise missing_extra(error, "redis") from None
    host, port = address.hosts[0]
    files = address.parameters
    tls = {
        "ssl": True,
        "ssl_ca_certs": files.get("ca_file"),
        "ssl_certfile": files.get("cert_file"),
        "ssl_keyfile": files.get("key_file"),
    }
    return redis.Redis(
        host,
        port,
        address.database,
        username=files.get("user"),
        password=address.read_password(),
        socket_timeout=_ANSWER_SECONDS,
        socket_connect_timeout=5.0,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        **(tls if address.tls else {}),
    )


@contextmanager
def _translate_errors(address: Address) -> Iterator[None]:
    """Raise Unreachable for errors of the client that may pass, BadRule for others."""
    import redis

    try:
        yield
    except (redis.AuthenticationError, redis.exceptions.AuthorizationError) as error:
        raise BadRule(f"{address} does not let us in: {type(error).__name__}.") from None
    except redis.exceptions.NoPermissionError as error:  # its text names the command
        raise BadRule(f"{address} does not let us do it: {str(error)[:200]}") from None
    except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
        raise Unreachable(f"{address} does not answer ({type(error).__name__}).") from None
    except redis.ResponseError as error:
        words, why = _error_words(error)
        if words & {"NOAUTH", "NOPERM", "WRONGPASS"}:
            raise BadRule(f"{address} does not let us in: {why}.") from None
        if "WRONGTYPE" in words:
            raise BadRule(
                f"{address} is no stream, but another kind of key; expected a stream, or a name"
                " that is free. Name another one, or remove that key."
            ) from None
        if words & _TEMPORARY_ERRORS:
            raise Unreachable(f"{address} cannot do it now: {why}.") from None
        raise BadRule(
            f"{address} answers with an error that waiting does not mend: {why}. Nothing more was"
            " read. See what the server says about it, and start again."
        ) from None


def _error_words(error: Exception) -> tuple[set[str], str]:
    """Return the words in capitals of an error, which say its kind, and its text.

    The client may put the command before the text, and drops the first word where it has a class
    for it; an old server puts the error of a script's command behind its own.
    """
    why = str(error).rpartition(" caused error: ")[2].rstrip(".")
    why = re.sub(r"^.*running script .*@user_script: ?\d+: *-?", "", why)
    first = getattr(error, "status_code", None) or _WORDS_OF_CLASSES.get(type(error).__name__, "")
    first = "" if first == "ERR" else first  # ERR says nothing
    return {first, *re.findall(r"\b[A-Z]{3,}\b", why)}, f"{first} {why}".strip()[:100]


def _keep_answer(answer: Any, **_: Any) -> Any:
    """Return entries as the server sends them, [id, [field, value, …]], which is quickest."""
    return answer


def _make_records(stream: str, entries: Sequence[Any]) -> list[Record]:
    numbers = map(int, b"-".join([number for number, _ in entries]).split(b"-") if entries else ())
    ids = zip(numbers, numbers, strict=True)  # the first two numbers, the next two, …
    return [
        Record(stream, at, fields[1])
        if len(fields) == 2 and fields[0] == _FIELD
        else Record(stream, at, b"", flaw=_describe_flaw(fields))
        for at, (_, fields) in zip(ids, entries, strict=True)
    ]


def _describe_flaw(fields: Sequence[bytes]) -> str:
    names = ", ".join(name.decode(errors="replace") for name in fields[::2])
    return f"the entry has the fields {names[:100]}; expected one, {FIELD}"


def _parse_id(text: bytes | str) -> _Id:
    text = text if isinstance(text, str) else text.decode()
    first, _, second = text.partition("-")
    return int(first), int(second)


def _format_id(number: _Id) -> str:
    return f"{number[0]}-{number[1]}"
