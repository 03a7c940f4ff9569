"""Declares the operations of the service once, for its routes, /openapi.json and the reference."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from inspect import getdoc
from typing import Any, TypeVar, get_type_hints

from likewise.service.content_types import JSON
from likewise.service.request_guard import HotHandler, RequestHandler

_Handler = TypeVar("_Handler", bound=Callable[..., Awaitable[Any]])
_Registers = Callable[[RequestHandler], RequestHandler]
MONITOR = "/v1/monitors/{name}"


@dataclass(frozen=True)
class RequestParameter:
    """Describes a parameter of a query, or a header."""

    name: str
    about: str
    kind: type = str
    choices: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True)
class Operation:
    """Describes one method of one path."""

    method: str
    path: str
    scope: str | None
    """The scope that a token needs; None: no token is needed."""
    summary: str
    answers: Any = None
    """The type of the JSON answer; None if the answer is not JSON."""
    media: str = "application/json"
    """The media type of the answer."""
    takes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """The types that a body may have, by its media type; empty if it is not JSON."""
    queries: tuple[RequestParameter, ...] = ()
    status: int = 200
    hot: bool = False
    """Whether app.py serves it, without a framework."""
    headers: tuple[RequestParameter, ...] = ()
    call: Any = None
    """Its RequestHandler, or its HotHandler if it is hot; None if a module makes the route."""
    if_unknown: HotHandler | None = None
    """Answers a hot request to a ledger that an earlier process may have carried out; None: such a
    request is in doubt."""
    exact: bool = False
    """Whether bodies and answers may also have exact values (content_types.py)."""
    also: str | None = None
    """Another scope that allows it."""
    once: bool = False
    """Whether each request is carried out once (repeated_requests.py); else it changes nothing."""
    idempotent: bool = False
    """Whether it may be repeated if an earlier process may have carried it out."""
    any_slashes: bool = False
    """Whether the path may end in slashes, for clients that do not follow redirects."""


class Operations(list[Operation]):
    """Collects the operations of a module, each a function that answers requests.

    The summary is the first paragraph of the function's docstring, and the type of the answer is
    its return type, unless `answers` or `media` says something else.
    """

    def get(self, path: str, scope: str | None, **more: Any) -> _Registers:
        return self._add("GET", path, scope, more)

    def post(self, path: str, scope: str, json: type | None = None, **more: Any) -> _Registers:
        """json: the type of the body, if it is JSON"""
        if json is not None:
            more["takes"] = {JSON: (json,)}
        return self._add("POST", path, scope, more)

    def hot(
        self, verb: str, answers: type, *json: type, **more: Any
    ) -> Callable[[HotHandler], HotHandler]:
        """Add a POST that app.py serves; the parameters are those of `Operation`.

        json    the types that its body may have
        """
        takes = {JSON: json, **more.pop("takes", {})} if json else {}
        fields = {"answers": answers, "takes": takes, "hot": True, "exact": True, **more}
        return self._add("POST", f"{MONITOR}/{verb}", "observe", fields)

    def _add(
        self, method: str, path: str, scope: str | None, more: dict[str, Any]
    ) -> Callable[[_Handler], _Handler]:
        def register(call: _Handler) -> _Handler:
            answers = None if "media" in more else get_type_hints(call)["return"]
            fields = {"answers": answers, **more}
            self.append(Operation(method, path, scope, _summarize(call), call=call, **fields))
            return call

        return register


def _summarize(call: Callable[..., Any]) -> str:
    """Return the first paragraph of a function's docstring."""
    return " ".join((getdoc(call) or "").partition("\n\n")[0].removesuffix(".").split())
