"""A request to one of the hot routes, read and admitted."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from likewise.service.hosted import Hosted
from likewise.service.settings import Token


class AdmittedCall(NamedTuple):
    """What a hot route is given."""

    hosted: Hosted
    token: Token | None
    query: Mapping[str, str]
    content_type: bytes
    body: bytes


Hot = Callable[[AdmittedCall], Awaitable[bytes]]
"""What answers one: the body of the answer, or Refusal, or a LikewiseError."""
