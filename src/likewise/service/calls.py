"""A request to one of the hot routes, read and admitted."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from likewise.service.hosted import Hosted
from likewise.service.settings import Token


@dataclass(frozen=True, slots=True)
class Call:
    hosted: Hosted
    token: Token | None
    query: dict[str, str]
    content_type: str
    body: bytes


Hot = Callable[[Call], Awaitable[bytes]]
"""What answers one: the body of the answer, or Refused, or a LikewiseError."""
