"""Create a ledger: its folder and database, and the first event, which holds the rule."""

import contextlib
from pathlib import Path
from typing import Any

from likewise.errors import BadFile
from likewise.ledger import folder
from likewise.ledger.hashes import GENESIS
from likewise.ledger.protocol import FormatWriter
from likewise.ledger.reader import FORMATS
from likewise.ledger.schema import FORMAT
from likewise.ledger.stored import ChainEnd
from likewise.rule.rule import Rule
from likewise.verdict.slope import SlopeQuestion
from likewise.version import __version__


def create_ledger(store: FormatWriter, path: Path, body: dict[str, Any]) -> None:
    """Create a ledger whose first event has this body, written by `store`."""
    format = FORMATS[FORMAT]
    try:
        # Only closing a connection ends its transaction: Python's connections are garbage cycles.
        with contextlib.closing(folder.create(path)) as database:
            folder.create_tables(path, database)
            first = {**body, **format.first_body()}
            format.add_event(store, database, "rule", first, ChainEnd(0, 0, GENESIS))
            database.execute("COMMIT")
    except (*folder.FAILURES, OSError) as error:
        raise BadFile(f"{str(path)!r} cannot become a ledger: {error}.", path=path) from None


def first_body(
    rule: Rule, origin: dict[str, Any] | None, marks: Rule | None, question: SlopeQuestion | None
) -> dict[str, Any]:
    """Return the body of the first event of a new ledger.

    origin: what the ledger was made from
    """
    body = rule_body(rule, FORMAT, marks, question)
    return body if origin is None else {**body, "origin": origin}


def rule_body(
    rule: Rule, version: int, marks: Rule | None = None, question: SlopeQuestion | None = None
) -> dict[str, Any]:
    """Return the body of an event about a rule, its models, and another question.

    marks: a rule with the same models as `rule`, so that they need not be loaded for it
    """
    embedders = {column: mark.to_dict() for column, mark in (marks or rule).marks().items()}
    body: dict[str, Any] = {
        "format": version,
        "rule": rule.to_toml(),
        "fingerprint": rule.fingerprint if marks is None else marks.fingerprint,
        "likewise": __version__,
    }
    if question is not None:
        body["question"] = question.to_dict()
    return {**body, "embedders": embedders} if embedders else body
