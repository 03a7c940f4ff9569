"""Replaces values that differ from run to run, before they are compared with golden files.

A value is replaced because it is known (a folder, a token, an address), or because its field is
named here and it has the form that the field promises. So a time that is no longer a time, or a
count where a duration was, shows in the golden file.

Times of the last days are replaced, others are not: tests give decisions times of 2024.
"""

import platform
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from importlib import metadata
from typing import Any

import likewise as lw


def _recent_time(value: Any) -> Any:
    """Times from forty days ago until now: windows of the overview begin long before the test."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    if moment.tzinfo is None:
        return value
    now = datetime.now(UTC)
    recent = now - timedelta(days=40) <= moment <= now + timedelta(minutes=1)
    return "<recent time>" if recent else value


def _number(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "<number>" if is_number else value


def _head(value: Any) -> Any:
    """The end of a ledger's chain, alone or at the end of a sentence: its hash depends on times."""
    if not isinstance(value, str):
        return value
    return re.sub(r"(likewise-head \d+ \d+ \d+) [0-9a-f]{64}$", r"\1 <hash>", value)


def _identifier(value: Any) -> Any:
    is_random = isinstance(value, str) and re.fullmatch(r"[0-9a-f-]{12,64}", value)
    return "<identifier>" if is_random else value


def _version(value: Any) -> Any:
    return "<version>" if value == lw.__version__ else value


def _python(value: Any) -> Any:
    return "<version>" if value == platform.python_version() else value


def _packages(value: Any) -> Any:
    """Names and versions; the versions are those that are installed."""
    if not isinstance(value, list):
        return value
    return [
        [name, "<version>" if version == metadata.version(name) else version]
        for name, version in value
    ]


def _windows(value: Any) -> Any:
    """Windows of time: which have closed, and what is in them, depends on the clock."""
    return "<windows>" if isinstance(value, list) else value


def _recent_rate(value: Any) -> Any:
    """The fields of the last window that has closed; their values depend on the clock."""
    return ["<recent rate>", *sorted(value)] if isinstance(value, dict) else value


TIMES = (
    "acknowledged",
    "computed_at",
    "ended",
    "last_decision",
    "last_written",
    "made_at",
    "since",
    "start",
    "started",
    "time",
    "until",
    "witness_time",
)
NUMBERS = (
    "calls",
    "decisions_per_second",
    "disk_free_bytes",
    "disk_size_bytes",
    "last_decision_age_seconds",
    "machine_load",
    "mean_seconds",
    "median_seconds_at_most",
    "memory_bytes",
    "oldest_age_seconds",
    "p99_seconds_at_most",
    "readers",
    "requests",
    "seconds",
    "seconds_left",
    "share_visited",
)
FIELDS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(TIMES, _recent_time),
    **dict.fromkeys(NUMBERS, _number),
    "head": _head,
    "id": _identifier,
    "likewise-instance": _identifier,
    "message": _head,
    "packages": _packages,
    "python": _python,
    "recent": _recent_rate,
    "version": _version,
    "windows": _windows,
}


class Placeholders:
    """Knows what is to be replaced in the values of one test."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def know(self, text: str, placeholder: str) -> None:
        """Replace a text, wherever it stands."""
        assert len(text) >= 5, "too short to be found without mistakes"
        self._known[text] = f"<{placeholder}>"

    def replaced(self, value: Any, name: str = "") -> Any:
        """A value as it is stored; `name` is that of its field."""
        if name in FIELDS:
            value = FIELDS[name](value)
        if isinstance(value, str):
            for text, placeholder in self._known.items():
                value = value.replace(text, placeholder)
            return value
        if isinstance(value, Mapping):
            return {self.replaced(key): self.replaced(one, key) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [
                self.replaced(one, "" if isinstance(one, list | tuple) else name) for one in value
            ]
        return value
