"""All that a client can ask, by name: what it needs, and what happens if it comes twice."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from likewise.service.hosted import Hosted
from likewise.service.remote import case_work, deciding, looking
from likewise.service.remote.deciding import Fields

Answering = Callable[[Hosted, Fields], Awaitable[Any]]


@dataclass(frozen=True)
class Verb:
    """Something that a client can ask.

    do          answers it
    scopes      a token needs one of these
    changes     whether it changes the history, so that a request that comes twice is done once
    again       what is done with a request to a ledger that an earlier process may have done;
                None: it is in doubt
    audited     whether the ledger's chain says that it was asked (service/auditing.py)
    signed      the field with the name of who does it, if it is written under one
    """

    do: Answering
    scopes: tuple[str, ...] = ("observe",)
    changes: bool = False
    again: Answering | None = None
    audited: bool = False
    signed: str | None = None


VERBS: dict[str, Verb] = {
    "observe": Verb(deciding.observe, changes=True, again=deciding.observe_again),
    "observe_many": Verb(deciding.observe_many, changes=True, again=deciding.observe_many_again),
    "check": Verb(deciding.check),
    "check_many": Verb(deciding.check_many),
    "load": Verb(deciding.load, changes=True),
    "lost": Verb(deciding.lost, changes=True),
    "state": Verb(looking.state, ("observe", "read")),
    "positions": Verb(looking.positions, ("observe", "read")),
    "past": Verb(looking.past, ("read",)),
    "explain": Verb(looking.explain, ("read",)),
    "stats": Verb(looking.stats, ("read",)),
    "head": Verb(looking.head, ("read",)),
    "verify": Verb(looking.verify, ("read",), audited=True),
    "forget": Verb(case_work.forget, ("erase",), True, case_work.forget, audited=True),
    "erase": Verb(case_work.erase, ("erase",), True, case_work.erase, audited=True),
    "review": Verb(case_work.review, ("review",), True, audited=True, signed="reviewer"),
    "truth": Verb(case_work.truth, ("review",), True, audited=True),
    "supersede": Verb(case_work.supersede, ("review",), True, audited=True, signed="by"),
    "flush": Verb(case_work.flush),
}
"""Erasing twice has done no more than erasing once."""
