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

    def close(self) -> None:
        """Watch no more. The model goes on; a monitor that was made here is closed."""
        self._watching().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
