"""A request that was admitted: its token is known and may do what is asked."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request

from likewise.service.door import Door
from likewise.service.hosted import Hosted
from likewise.service.media import EXACT_BYTES, read_body
from likewise.service.service import Service
from likewise.service.settings import Token

_T = TypeVar("_T")


class AdmittedCall(NamedTuple):
    """What a hot route is given: the body was read."""

    hosted: Hosted
    query: Mapping[str, str]
    content_type: bytes
    accept: bytes
    body: bytes


Hot = Callable[[AdmittedCall], Awaitable[bytes]]
"""What answers one: the body of the answer, or Refusal, or a LikewiseError."""


class HotRoute(NamedTuple):
    """A route that app.py serves without a framework.

    if_unknown  what to do with a request to a ledger that an earlier process may have done;
                None: it is in doubt
    """

    answer: Hot
    if_unknown: Hot | None = None


@dataclass(frozen=True, slots=True)
class AdmittedRequest:
    """What any other route is given."""

    service: Service
    door: Door
    request: Request
    token: Token | None
    content: bytes | None = None
    """The body, if it was read already."""

    @property
    def hosted(self) -> Hosted:
        """The monitor that the path names; Refusal if it cannot be asked now."""
        return self.service.named(self.parameter("name"))

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    def parameter(self, name: str) -> str:
        """A part of the path."""
        text: str = self.request.path_params[name]
        return text

    async def body(self) -> bytes:
        """The whole body, within its bounds."""
        if self.content is not None:
            return self.content
        return await self.door.body(self.request.scope, self.request.receive)

    async def read(self, kind: type[_T]) -> _T:
        """The body as a value of a type; Refusal if it is none."""
        return read_body(kind, self._header("content-type"), await self.body())

    @property
    def accept(self) -> bytes:
        return self._header("accept")

    @property
    def exact(self) -> bool:
        """Whether the answer is wanted with exact values."""
        return EXACT_BYTES in self.accept

    def _header(self, name: str) -> bytes:
        return self.request.headers.get(name, "").encode("latin-1")


Answering = Callable[[AdmittedRequest], Awaitable[Any]]
"""What answers one: with a value that is JSON, or a Response."""
