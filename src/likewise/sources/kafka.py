"""Kafka topics as a source of decisions and a target for verdicts (confluent-kafka).

Each partition is a sequence ("topic/3") with offsets for positions. It is read from the ledger's
offset; no group is joined and nothing is committed. The ledger keeps the order of arrival.
Invariant: no offset is skipped without a `Gap`, except those that compaction and transactions take
out of the middle. Verdicts go to the first partition, in the order of rows.
Cost: librdkafka reads ahead, at most _AHEAD_KILOBYTES.
"""

import logging
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from likewise.errors import BadFile, BadRule, Unreachable
from likewise.sources.address import Address, missing_extra
from likewise.sources.protocol import Gap, PollResult, Record, check_position, make_poll_result
from likewise.tables.positions import Position

_AHEAD_KILOBYTES = 16_384
_ANSWER_SECONDS = 10.0
_PARTITIONS_SECONDS = 60.0  # after which a topic is asked whether it has more partitions
_PERMANENT_ERRORS = {
    "_INVALID_ARG": "the client refuses its settings",
    "_CONF_UNKNOWN": "the client refuses its settings",
    "_CONF_INVALID": "the client refuses its settings",
    "_AUTHENTICATION": "the client refuses its settings",
    "TOPIC_EXCEPTION": "no topic can have this name",
    "TOPIC_AUTHORIZATION_FAILED": "the server does not let us use this topic",
    "GROUP_AUTHORIZATION_FAILED": "the server does not let us use the group likewise",
    "CLUSTER_AUTHORIZATION_FAILED": "the server does not let us in",
    "SASL_AUTHENTICATION_FAILED": "the server does not let us in",
    "MSG_SIZE_TOO_LARGE": "the topic takes no messages of that size",
}
"""Errors that waiting does not mend, and what they mean."""
_silent_logger = logging.getLogger("likewise.kafka")
_silent_logger.addHandler(logging.NullHandler())
_silent_logger.propagate = False  # librdkafka logs every attempt to connect


class KafkaSource:
    """Reads the records of all partitions of a topic."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.name = str(address)
        self._topic = address.streams[0]
        self._consumer: Any = None
        self._at: dict[str, int] = {}
        self._gaps: list[Gap] = []
        self._new_starts: dict[str, int] = {}  # where partitions begin that start with new records
        self._is_away = False
        self._partitions_checked_at = 0.0

    def owns(self, source: str) -> bool:
        topic, _, partition = source.rpartition("/")
        return topic == self._topic and partition.isdigit()

    def seek(self, positions: Mapping[str, Position]) -> None:
        kafka = _import_kafka()
        self.close()
        self._is_away = False
        settings = {
            "group.id": "likewise",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "queued.max.messages.kbytes": _AHEAD_KILOBYTES,
            "error_cb": self._on_error,
            **_client_settings(self._address),
        }
        with _translate_errors(self._address, kafka):
            self._consumer = kafka.Consumer(settings)
            places = []
            self._at, self._gaps = {}, []
            for partition in self._list_partitions():
                offset = self._find_offset(kafka, partition, positions)
                places.append(kafka.TopicPartition(self._topic, partition, offset))
            self._consumer.assign(places)
        self._partitions_checked_at = clock.monotonic()

    def _on_error(self, error: Any) -> None:
        self._is_away = self._is_away or error.name() == "_ALL_BROKERS_DOWN"

    def _list_partitions(self) -> list[int]:
        partitions = _list_partitions(self._consumer, self._address)
        if not partitions:
            raise Unreachable(f"{self.name}: there is no such topic yet.")
        return partitions

    def _find_offset(self, kafka: Any, partition: int, positions: Mapping[str, Position]) -> int:
        """Return the offset to go on from in a partition; note what is gone."""
        source = f"{self._topic}/{partition}"
        place = kafka.TopicPartition(self._topic, partition)
        low, high = self._consumer.get_watermark_offsets(place, timeout=_ANSWER_SECONDS)
        position = positions.get(source)
        if position is None and self._address.start == "new" and high > 0:
            position = self._new_starts[source] = high - 1
        if position is None:
            return int(low)
        self._at[source] = position = check_position(source, position, int, "offset")
        if position + 1 > high:
            raise BadFile(
                f"{source} ends at offset {high - 1}, and the ledger at {position}: the topic was"
                " deleted and created again. Begin another ledger, or name the topic differently.",
                path=source,
            )
        if position + 1 < low:
            why = f"offsets {position + 1} to {low - 1} of {source} expired before they were read"
            self._gaps.append(Gap(source, position, low, low - position - 1, why))
        return int(max(low, position + 1))

    def poll(self, most: int, seconds: float) -> PollResult:
        kafka = _import_kafka()
        with _translate_errors(self._address, kafka):
            if clock.monotonic() - self._partitions_checked_at > _PARTITIONS_SECONDS:
                self._partitions_checked_at = clock.monotonic()
                if len(self._list_partitions()) != len(self._consumer.assignment()):
                    self.seek(self._at)
            first = self._consumer.poll(0.0 if self._new_starts else seconds)
            messages = [] if first is None else [first]
            if messages and most > 1:
                messages += self._consumer.consume(most - 1, timeout=0.0)
        records = []
        for message in messages:
            if message.error() is None:
                records.append(self._make_record(message))
            elif message.error().name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
                self._note_positions(records)
                self.seek(self._at)  # this notes what is gone
                break
            else:
                _raise_if_permanent(self._address, message.error().name())
                if message.error().fatal():
                    raise Unreachable(f"{self.name}: {message.error().name()}.")
        if self._is_away and not records:
            raise Unreachable(f"{self.name}: no broker answers.")
        self._note_positions(records)
        return self._make_poll_result(records)

    def _note_positions(self, records: Sequence[Record]) -> None:
        self._at |= {record.source: int(record.position) for record in records}  # type: ignore[arg-type]

    def _make_poll_result(self, records: Sequence[Record]) -> PollResult:
        """Return records and the gaps right before them; other gaps wait for their records."""
        sources = {record.source: record.position for record in reversed(records)}
        due = [gap for gap in self._gaps if sources.get(gap.source, -1) >= gap.before]  # type: ignore[operator]
        self._gaps = [gap for gap in self._gaps if gap not in due]
        starts, self._new_starts = self._new_starts, {}
        return make_poll_result(records, tuple(due), starts=starts)

    def _make_record(self, message: Any) -> Record:
        source = f"{self._topic}/{message.partition()}"
        headers = {
            str(name).lower(): (value or b"").decode(errors="replace")
            for name, value in message.headers() or ()
        }
        body = message.value()
        if body is None:
            return Record(source, message.offset(), b"", headers, "the message has no body")
        return Record(source, message.offset(), body, headers)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


class KafkaTarget:
    """Sends lines as messages to the first partition of a topic."""

    knows_last_line = True

    def __init__(self, address: Address) -> None:
        self.name = str(address)
        self._address = address
        self._topic = address.streams[0]
        self._producer: Any = None
        self._failures: list[str] = []

    def send(self, lines: Sequence[bytes]) -> None:
        kafka = _import_kafka()
        with _translate_errors(self._address, kafka):
            if self._producer is None:
                settings = {"enable.idempotence": True, "linger.ms": 5}
                self._producer = kafka.Producer({**settings, **_client_settings(self._address)})
            self._failures = []
            for line in lines:
                self._produce(line)
            left = self._producer.flush(_ANSWER_SECONDS)
        if left or self._failures:
            self.close()
            for name in self._failures:
                _raise_if_permanent(self._address, name)
            why = self._failures[0] if self._failures else f"{left} messages wait"
            raise Unreachable(f"{self.name} does not take messages ({why}).")

    def _produce(self, line: bytes) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, line, partition=0, on_delivery=self._on_delivery
                )
                return
            except BufferError:  # its queue is full
                self._producer.poll(0.1)

    def _on_delivery(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failures.append(error.name())

    def read_last_line(self) -> bytes | None:
        kafka = _import_kafka()
        with _translate_errors(self._address, kafka):
            settings = {"group.id": "likewise", **_client_settings(self._address)}
            consumer = kafka.Consumer(settings)
            try:
                if not _list_partitions(consumer, self._address):
                    return None
                place = kafka.TopicPartition(self._topic, 0)
                low, high = consumer.get_watermark_offsets(place, timeout=_ANSWER_SECONDS)
                if high <= low:
                    return None
                consumer.assign([kafka.TopicPartition(self._topic, 0, high - 1)])
                message = consumer.poll(_ANSWER_SECONDS)
            finally:
                consumer.close()
        if message is None or message.error() is not None:
            raise Unreachable(f"{self.name} does not say what it holds.")
        body: bytes | None = message.value()
        return body

    def close(self) -> None:
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(0)
            self._producer = None


def _list_partitions(consumer: Any, address: Address) -> list[int]:
    """Return the partitions of a topic; none if there is no such topic."""
    name = address.streams[0]
    topic = consumer.list_topics(name, timeout=_ANSWER_SECONDS).topics[name]
    if topic.error is None:
        return sorted(topic.partitions)
    if topic.error.name() == "UNKNOWN_TOPIC_OR_PART":
        return []
    _raise_if_permanent(address, topic.error.name())
    raise Unreachable(f"{address} cannot be read now ({topic.error.name()}).")


def _import_kafka() -> Any:
    try:
        import confluent_kafka
    except ModuleNotFoundError as error:
        raise missing_extra(error, "kafka") from None
    return confluent_kafka


def _client_settings(address: Address) -> dict[str, Any]:
    """Return settings of the client: brokers, logger, and the lines of the address's file."""
    brokers = ",".join(f"{host}:{port}" for host, port in address.hosts)
    settings: dict[str, Any] = {"logger": _silent_logger, "bootstrap.servers": brokers}
    for line in (address.read_secret("config_file") or "").splitlines():
        name, equals, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not equals:
            raise BadRule(f"{address}: config_file has a line without =; expected name = value.")
        settings[name.strip()] = value.strip()
    return settings


def _raise_if_permanent(address: Address, name: str) -> None:
    """Raise BadRule if waiting does not mend an error of that name."""
    if name in _PERMANENT_ERRORS:
        raise BadRule(f"{address}: {_PERMANENT_ERRORS[name]} ({name}).") from None


@contextmanager
def _translate_errors(address: Address, kafka: Any) -> Iterator[None]:
    """Raise Unreachable for errors of the client that may pass, BadRule for others."""
    try:
        yield
    except kafka.KafkaException as error:
        name = error.args[0].name()
        _raise_if_permanent(address, name)
        raise Unreachable(f"{address} does not answer ({name}).") from None
