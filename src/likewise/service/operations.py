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
    takes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """The types that a body may have, by its media type; none where it is not JSON."""
    queries: tuple[Query, ...] = ()
    status: int = 200
    hot: bool = False
    """Whether app.py serves it, without a framework."""
    headers: tuple[Query, ...] = ()
