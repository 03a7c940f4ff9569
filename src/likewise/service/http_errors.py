"""How a refusal is told over HTTP: the class says the status, the text says what to do.

400 the request makes no sense        401 no token            403 the token does not allow it
404 no such monitor, row or route     405 the route takes other methods
409 another decision has the key
410 the decision with the key was erased                      413 too large
422 the decision cannot be compared   429 too much at once    503 not ready, or the disk refuses
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
    (RepeatedKey, 409),
    (OldPosition, 409),
    (ErasedKey, 410),
    (BadDecision, 422),
    (BadRow, 404),
    (BadRule, 400),
    (BadFile, 503),
)


class Refusal(Exception):
    """Refused before a monitor was asked.

    retry   seconds after which it may be tried again, for Retry-After
    code    of the body, if it is not "refused"
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


def status_of(error: LikewiseError) -> int:
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 400)


def http_error(error: LikewiseError | Refusal) -> tuple[int, bytes, float | None]:
    """Status, body, and when to try again."""
    body = encode(ErrorBody(**error_fields(error)))
    if isinstance(error, Refusal):
        return error.status, body, error.retry_seconds
    status = status_of(error)
    return status, body, 1.0 if status == 503 else None


def message_of(error: LikewiseError | Refusal) -> str:
    """The text of an error, with names of files but not of the folders that they are in."""
    text = str(error)
    if isinstance(error, BadFile) and error.path is not None:
        for folder in Path(error.path).parents:
            if folder.name:
                text = text.replace(f"{folder}{os.sep}", "").replace(str(folder), folder.name)
    return text


def error_fields(error: LikewiseError | Refusal) -> dict[str, Any]:
    """Return the code, the message and the facts of an error, as bodies have them."""
    facts = {} if isinstance(error, Refusal) else error.facts()
    told = {name: value for name, value in facts.items() if name in FACTS}
    if told.get("path") is not None:
        told["path"] = Path(told["path"]).name
    return {"code": error.code, "message": message_of(error), **told}
