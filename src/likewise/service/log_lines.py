"""Lines of the log, as text or as JSON.

Invariant: no line has a value of a person. What this project logs has none (runtime/log.py); of
an exception, which may quote one, only its type and the places in the code are written.
"""

import json
import logging
import sys
import threading
import traceback
from typing import Any, TextIO

from likewise.values.times import iso_text_of_seconds

FORMATS = ("text", "json")


class JsonLogLines(logging.Formatter):
    """Each line an object: time, level, logger, message, and the fields of an event."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        raised = _raised(record)
        if raised is not None:
            line["raised"], line["at"] = raised
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """The same for people, still in one line."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {record.name}: {record.getMessage()}"
        raised = _raised(record)
        if raised is not None:
            line += f" ({raised[0]} at {', '.join(raised[1])})"
        return line.replace("\n", "\\n").replace("\r", "\\r")


def write_log(form: str, stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Have what is logged from now on written, to standard error unless told otherwise.

    Warnings, and exceptions that nobody can catch, are logged, too: Python would write lines of
    its own.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLogLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(capture=True)
    threading.excepthook = sys.unraisablehook = _log_uncaught


def _log_uncaught(raised: Any) -> None:
    """Log an exception that ended a thread, or that came up while an object was cleared away."""
    about = raised.exc_type, raised.exc_value, raised.exc_traceback
    logging.getLogger("likewise").error("an exception was not caught", exc_info=about)


def _time(record: logging.LogRecord) -> str:
    return iso_text_of_seconds(record.created)


def _raised(record: logging.LogRecord) -> tuple[str, list[str]] | None:
    """The type of an exception, and where it came through, innermost last."""
    if not record.exc_info or record.exc_info[0] is None:
        return None
    kind, _, trace = record.exc_info
    frames = traceback.extract_tb(trace)[-8:]
    return kind.__name__, [f"{frame.filename}:{frame.lineno}" for frame in frames]
