"""Limits on what a decision may carry, checked before a monitor is asked."""

import time as clock
from typing import Any

from likewise.ledger.times import microseconds
from likewise.service.refusals import Refused
from likewise.service.settings import Limits


def checked(limits: Limits, label: Any, key: Any, model: Any) -> None:
    """Raise Refused if a label, a key or the name of a model is too long."""
    for what, value, most in (
        ("the output", label, limits.label_bytes),
        ("the key", key, limits.key_bytes),
        ("the model", model, limits.label_bytes),
    ):
        if isinstance(value, str) and len(value) > most // 4 and len(value.encode()) > most:
            raise Refused(413, f"{what} has more than {most} bytes.")


def checked_time(limits: Limits, time: Any) -> Any:
    """A time that a client gives, if it is near enough to the server's."""
    if time is None:
        return None
    skew = limits.skew_seconds
    if skew == 0:
        raise Refused(422, "a time is given, but this server takes its own: leave it out.")
    apart = microseconds(time) / 1e6 - clock.time()
    if abs(apart) > skew:
        side = "ahead of" if apart > 0 else "behind"
        raise Refused(
            422,
            f"the time is {abs(apart):,.0f} s {side} the server's; at most {skew:g} are taken.",
        )
    return time
