"""Shards in this process, for tests and to measure the parts of a cluster without one."""

from collections.abc import Collection
from typing import Any

from likewise.sharding.shard import Shard


class LocalShards:
    """Holds shards. A call is made when it is sent; its handle is the answer or the error."""

    def __init__(self, count: int) -> None:
        self.shards = [Shard() for _ in range(count)]

    def send(self, shard: int, call: str, *arguments: Any) -> Any:
        try:
            return self.shards[shard].call(call, *arguments), None
        except Exception as error:
            return None, error

    def result(self, handle: Any, seconds: float | None = None) -> Any:
        answer, error = handle
        if error is not None:
            raise error
        return answer

    def ensure_running(self, shard: int, seconds: float | None) -> None:
        """Do nothing: the shard is in this process."""

    def lose(self, shard: int) -> None:
        """Have a shard lose its rows, as a process does that is killed."""
        self.shards[shard] = Shard()

    def describe(self) -> str:
        return f"{len(self.shards)} shards in this process"

    def end(self, shard: int, coordinators: Collection[str]) -> None:
        if self.shards[shard].owner() in (None, *coordinators):
            self.lose(shard)

    def close(self) -> None:
        """Do nothing: the shards end with this object."""
