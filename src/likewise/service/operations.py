"""What can be asked of the service, said once: for /openapi.json, the reference and the tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Query:
    """A parameter of a query."""

    name: str
    about: str
    kind: type = str
    choices: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    scope: str | None
    """What a token must allow; None: no token is needed."""
    about: str
    answers: Any = None
    """The type of the JSON that is answered; None if it is none."""
    media: str = "application/json"
    """What is answered, if not JSON."""
    takes: Mapping[str, Any] = field(default_factory=dict)
    """The type of a body by its media type; None where it is none of JSON."""
    queries: tuple[Query, ...] = ()
    status: int = 200
    hot: bool = False
    """Whether app.py serves it, without a framework."""
    headers: tuple[Query, ...] = ()
