"""What a watched model shows of its watcher: the same names on whatever is watched."""

from typing import Any, Self

from likewise.watching.records import Counts, Failure, Flagged
from likewise.watching.watcher import Watcher


class Looks:
    """What a watched model shows of its watcher."""

    _watcher: Watcher

    def _watching(self) -> Watcher:
        return self._watcher

    @property
    def monitor(self) -> Any:
        """The monitor that is told of each decision."""
        return self._watching().monitor

    @property
    def violations(self) -> tuple[Flagged, ...]:
        """The latest decisions that contradict earlier ones or raise alarms, the latest last."""
        return self._watching().violations

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The latest calls that could not be watched, the latest last."""
        return self._watching().failures

    @property
    def counts(self) -> Counts:
        """How many decisions were watched, contradicted others, were missed, raised alarms."""
        return self._watching().counts

    @property
    def waiting(self) -> int:
        """How many calls wait to be judged in another thread, or decisions for a service."""
        return self._watching().waiting

    def flush(self, seconds: float = 60.0) -> bool:
        """Wait until what was called is judged; whether that came about within `seconds`."""
        return self._watching().flush(seconds)

    def close(self) -> None:
        """Watch no more. The model goes on; a monitor that was made here is closed.

        What waits is judged first.
        """
        self._watching().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
