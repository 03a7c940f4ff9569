"""From an address, or the name of a file, to a source."""

from pathlib import Path

from likewise.sources.line_file import LineFile
from likewise.sources.protocol import Source
from likewise.streams.address import address_of, is_address


def source_of(text: str) -> tuple[Source, str]:
    """The source of an address or of a file of JSON lines, and the format of its records.

    Nothing is connected yet: `seek` does that.
    """
    if not is_address(text):
        return LineFile(Path(text)), "json"
    address = address_of(text)
    if address.kind == "redis":
        from likewise.streams.redis import RedisSource

        return RedisSource(address), address.format
    if address.kind == "nats":
        from likewise.streams.nats import NatsSource

        return NatsSource(address), address.format
    from likewise.streams.kafka import KafkaSource

    return KafkaSource(address), address.format
