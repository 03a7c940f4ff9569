"""Maps errors to HTTP: the class of an error decides the status, its text says what to do.

400 the request makes no sense    401 no token    403 the token does not allow it
404 no such monitor, row or route    405 wrong method    409 another decision has the key
410 the decision with the key was erased    413 too large    422 the decision cannot be compared
429 too many requests or decisions    503 not ready, or the disk fails
"""

import os
from pathlib import Path
from typing import Any

from likewise.errors import (
    BadDecision,
    BadFile,
    BadRow,
    BadRule,
    ErasedKey,
    LikewiseError,
    OldPosition,
    RepeatedKey,
)
from likewise.service.body_types import FACTS, ErrorBody, encode

_STATUS = (
    ((RepeatedKey, OldPosition), 409),
    (ErasedKey, 410),
    (BadDecision, 422),
    (BadRow, 404),
    (BadRule, 400),
    (BadFile, 503),
)


class Refusal(Exception):
    """Refuses a request before a monitor is asked.

    retry_seconds   when it may be tried again, for Retry-After
    code            the code in the body, if it is not "refused"
    """

    code = "refused"

    def __init__(
        self,
        status: int,
        message: str,
        *,
        retry_seconds: float | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code or self.code
        self.retry_seconds = retry_seconds


def status_of(error: LikewiseError | Refusal) -> int:
    if isinstance(error, Refusal):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 400)


def http_error(error: LikewiseError | Refusal) -> tuple[int, bytes, float | None]:
    """Return status, body, and the seconds after which to try again."""
    status, body = status_of(error), encode(ErrorBody(**error_fields(error)))
    if isinstance(error, Refusal):
        return status, body, error.retry_seconds
    return status, body, 1.0 if status == 503 else None


def code_of(error: Exception) -> tuple[str, Exception | None]:
    """Return the code of an error for the log, and the error itself if it is a fault of ours."""
    if isinstance(error, LikewiseError):
        return error.code, None
    return type(error).__name__, error


def message_of(error: LikewiseError | Refusal) -> str:
    """Return the text of an error, with the names of files but not of their folders."""
    text = str(error)
    if isinstance(error, BadFile) and error.path is not None:
        for folder in Path(error.path).parents:
            if folder.name:
                text = text.replace(f"{folder}{os.sep}", "").replace(str(folder), folder.name)
    return text


def error_fields(error: LikewiseError | Refusal) -> dict[str, Any]:
    """Return the code, the message and the facts of an error, as bodies have them."""
    facts = {} if isinstance(error, Refusal) else error.facts()
    fields = {name: value for name, value in facts.items() if name in FACTS}
    if fields.get("path") is not None:
        fields["path"] = Path(fields["path"]).name
    return {"code": error.code, "message": message_of(error), **fields}
