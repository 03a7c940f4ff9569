"""Writes administrative calls into the ledger's chain before they are carried out.

An event "administration" says who asked for what, and for how many or which rows, without values of
people. So the chain has every such call, also one that was then refused.
Invariant: a name is verified if a token or a proxy in front gave it, and a caller with such a name
writes under no other.
"""

from typing import Any, NamedTuple

from likewise.runtime.log import logger
from likewise.service.http_errors import Refusal
from likewise.service.served_monitor import ServedMonitor
from likewise.service.settings import Token


class Actor(NamedTuple):
    """Says who asks; the name is "" if it is not known."""

    name: str
    verified: bool

    @classmethod
    def from_token(cls, token: Token | None) -> "Actor":
        return cls("", False) if token is None else cls(token.name, True)

    def resolve_name(self, name: Any, what: str) -> Any:
        """Return the name to write under; raise Refusal if the request gives another one.

        name    the name in the request, or None
        what    the name of its field
        """
        if not self.verified:
            if name is None:
                raise Refusal(422, f"there is no {what}: without tokens a request has to name one.")
            return name
        if name is not None and name != self.name:
            raise Refusal(
                403,
                f"{what} is {str(name)[:100]!r}, but the token is that of {self.name!r}: leave it"
                " out, or use a token of theirs.",
            )
        return self.name


def record_action(served: ServedMonitor, actor: Actor, what: str, **more: Any) -> None:
    """Write what was asked into the chain, in the monitor's turn; only log it without a ledger."""
    logger.info(
        "%s of %s, asked by %s", what, served.name, actor.name or "a client without a token"
    )
    if served.monitor.durable:
        served.monitor.record_administration(actor.name, what, verified=actor.verified, **more)
