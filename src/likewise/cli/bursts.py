"""Bursts on the command line: `--burst N --alarm K`; without --burst, nothing is counted."""

from likewise.cli.endings import Stop
from likewise.rules.burst import Burst


def burst_of(last: int | None, alarm: int | None) -> Burst | None:
    """What the two options ask for."""
    if last is None:
        if alarm is not None:
            raise Stop("--alarm is about neighbours: say among how many decisions, with --burst.")
        return None
    return Burst(last, alarm)
