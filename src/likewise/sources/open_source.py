"""Makes the source of an address or a file, and the target of an address."""

from pathlib import Path

from likewise.errors import BadRule
from likewise.sources.address import is_address, parse_address
from likewise.sources.line_source import LineFile
from likewise.sources.protocol import Source
from likewise.sources.sinks import LineTarget


def make_source(text: str) -> tuple[Source, str]:
    """Return the source of an address or a file of JSON lines, and the format of its records.

    Nothing is connected yet: `seek` does that.
    """
    if not is_address(text):
        return LineFile(Path(text)), "json"
    address = parse_address(text)
    if address.kind == "redis":
        from likewise.sources.redis import RedisSource

        return RedisSource(address), address.format
    if address.kind == "nats":
        from likewise.sources.nats import NatsSource

        return NatsSource(address), address.format
    from likewise.sources.kafka import KafkaSource

    return KafkaSource(address), address.format


def make_target(text: str, field: str) -> LineTarget:
    """Return the target of an address.

    field   the name of a line in an entry of a Redis stream
    """
    if not is_address(text):
        raise BadRule(f"{text!r} is no address; expected redis://…, nats://… or kafka://…")
    address = parse_address(text)
    if address.kind == "redis":
        from likewise.sources.redis import RedisTarget

        return RedisTarget(address, field)
    if address.kind == "nats":
        from likewise.sources.nats import NatsTarget

        return NatsTarget(address)
    from likewise.sources.kafka import KafkaTarget

    return KafkaTarget(address)
