"""Administrative calls are written into the ledger's chain before they are done.

An event "administration" says who asked, what, and of how many or which rows. No values of people
are in it. So nothing is done that the chain does not say; what was asked and then refused is there
too.

Invariant: a name is verified if a token or a proxy in front says it, and whoever has such a name
writes under no other.
"""

from typing import Any, NamedTuple

from likewise.runtime.log import logger
from likewise.service.http_errors import Refusal
from likewise.service.served_monitor import ServedMonitor
from likewise.service.settings import Token


class Actor(NamedTuple):
    """Who asks; the name is "" if nothing says it."""

    name: str
    verified: bool

    @classmethod
    def from_token(cls, token: Token | None) -> "Actor":
        return cls("", False) if token is None else cls(token.name, True)

    def resolve_name(self, name: Any, what: str) -> Any:
        """The name under which they write; Refusal if they give that of somebody else.

        name    which they give, or None
        what    what it is called in the request
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


def record_action(hosted: ServedMonitor, actor: Actor, what: str, **more: Any) -> None:
    """In the monitor's turn: have the chain say what was asked; a monitor in memory has none."""
    logger.info(
        "%s of %s, asked by %s", what, hosted.name, actor.name or "a client without a token"
    )
    if hosted.monitor.durable:
        hosted.monitor.record_administration(actor.name, what, verified=actor.verified, **more)
