"""Names that decision 59 replaced are nowhere on the wire any more."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from likewise.verdict.context import VerdictContext
from likewise.verdict.verdicts import Verdicts

GOLDEN = Path(__file__).parent
DECISION = GOLDEN.parents[1] / "decisions" / "0059-names-on-the-wire.md"
OTHERS = {
    "first",  # of the events of losses
    "gone",  # pairs of `compare`
    "none",  # the last of the counts of `compare`
    "of",  # the whole of a share
    "others",  # pairs of `compare` with other cases
    "rate",  # among all decisions
    "row",  # of a decision
    "verified",  # whether a reviewer's name was checked
    "why",  # of who overrules a decision
}
"""Old names that stay where they mean something else."""


def names_in(body: Any) -> Iterator[str]:
    if isinstance(body, dict):
        yield from body
        body = list(body.values())
    if isinstance(body, list):
        for one in body:
            yield from names_in(one)
    if isinstance(body, str):  # a body in a body, as in events
        yield from re.findall(r'"(\w+)":', body)


def test_old_names_are_no_longer_on_the_wire():
    rows = re.findall(r"^\| (`.+?) \|", DECISION.read_text(encoding="utf-8"), re.MULTILINE)
    old = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {"left_out", "asked_comparable", "begun"} <= old
    # MessagePack has the fields of verdicts
    found = {field.name for field in fields(Verdicts)} | set(VerdictContext._fields)
    for path in sorted(GOLDEN.rglob("*.json")):
        found |= set(names_in(json.loads(path.read_text(encoding="utf-8"))))
    assert {"missing_decisions", "compared_with", "rate_among_comparable"} <= found
    assert found & old == OTHERS
