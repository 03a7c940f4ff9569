"""Where verdict lines and dead letters go: a stream, or whatever else takes lines.

A target says which line it holds last. So after a restart the lines that were not sent yet are
known, without a count of them anywhere else: one ledger writes to one target.

Invariant: lines are sent in order, and `send` returns once all of them are kept. `Unreachable`:
some of them may be; all are sent again. So a line may be there twice, and none is missing.
"""

from collections.abc import Sequence
from typing import Protocol

from likewise.streams.address import address_of, is_address
from likewise.values.errors import BadRule


class LineTarget(Protocol):
    """Takes lines."""

    name: str
    remembers: bool
    """Whether it can say which line it holds last."""

    def send(self, lines: Sequence[bytes]) -> None:
        """Keep these lines."""

    def last(self) -> bytes | None:
        """The last line that it holds; None if it holds none, or cannot tell."""

    def close(self) -> None: ...


def target_of(text: str, field: str) -> LineTarget:
    """The target of an address.

    field: what a line is called in an entry of a Redis stream
    """
    if not is_address(text):
        raise BadRule(f"{text!r} is no address; expected redis://…, nats://… or kafka://…")
    address = address_of(text)
    if address.kind == "redis":
        from likewise.streams.redis import RedisTarget

        return RedisTarget(address, field)
    if address.kind == "nats":
        from likewise.streams.nats import NatsTarget

        return NatsTarget(address, field)
    from likewise.streams.kafka import KafkaTarget

    return KafkaTarget(address, field)
