"""The head of a chain, as text that can be kept elsewhere."""

from dataclasses import dataclass

from likewise.ledger.hashes import DIGEST
from likewise.ledger.schema import FORMAT, SCHEMAS
from likewise.ledger.stored import Altered
from likewise.values.errors import BadFile


@dataclass(frozen=True)
class Head:
    """The end of a chain at some moment, to be kept where the ledger's owner cannot reach it.

    >>> Head.of("likewise-head 2 5 3 " + 64 * "0").rows
    5
    """

    rows: int
    events: int
    link: bytes
    version: int = FORMAT
    """Of the ledger's format."""

    def __str__(self) -> str:
        return f"likewise-head {self.version} {self.rows} {self.events} {self.link.hex()}"

    @classmethod
    def of(cls, text: str) -> "Head":
        try:
            name, version, rows, events, link = text.split()
            head = cls(int(rows), int(events), bytes.fromhex(link), int(version))
        except ValueError:
            name = ""
        if name != "likewise-head" or head.version not in SCHEMAS or len(head.link) != DIGEST:
            raise BadFile(
                f"{text[:200]!r} is no head; expected 'likewise-head {FORMAT} ROWS EVENTS HASH'"
            )
        return head


def written_anew(head: Head, where: str) -> Altered:
    return Altered(
        None,
        f"after {where} the chain is not the one that the head given ({head}) belongs to: it was"
        " written anew",
    )


def check_met(head: Head | None, met: bool, first: int, rows: int) -> None:
    """Raise Altered if a walk over the rows from `first` up to `rows` did not come by a head."""
    if met or head is None:
        return
    if head.rows < first:
        raise Altered(
            None,
            f"the head given ({head}) is from before row {first:,}, the first that the window has"
            " kept, so whether it was on the chain can no longer be told",
        )
    raise Altered(
        None,
        f"the head given ({head}) is not on this chain, which has {rows:,} rows: it was cut, or"
        " written anew",
    )
