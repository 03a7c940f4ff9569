"""The declaration of a burst: so many near inputs in a short time that they raise an alarm.

Someone who probes a model for flaws sends an input again and again, each time changed a little. All
answers may be consistent; the number of near-duplicates is the sign.
Invariant: a burst is frozen, and checked when it is made.
Not here: how near inputs are counted (search/engine/near_pairs.py).
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likewise.embedders.embedding import DECLARE_INPUT_ADVICE
from likewise.errors import BadRule
from likewise.rule.rule import Rule
from likewise.tables.printing import format_value
from likewise.tables.setting_checks import check_whole_number


def require_same_rule(stored: Rule, given: Rule | None, path: Path, *, models: bool) -> Rule:
    """Return the rule to continue with; raise BadRule if it, or a model, is not the ledger's."""
    if given is not None and not given.is_same_except_models(stored):
        raise BadRule(
            f"the ledger {str(path)!r} was begun under another rule:\n"
            f"{difference(stored, given)}\nOpen it without a rule, or begin another"
            " ledger. Nothing was changed."
        )
    rule = stored if given is None else given
    for column, embedder in rule.embedders().items() if models else ():
        differs = embedder.embedding.mark.describe_difference(stored.embedders()[column].mark)
        if differs:
            of = f" of column {column!r}" if column else ""
            raise BadRule(
                f"the embedder {embedder.text!r}{of} is not the model that the ledger"
                f" {str(path)!r} was begun with: {differs}. Vectors of two models cannot be"
                " compared: bring that model back, or begin another ledger. Nothing was changed."
            )
    return rule


def require_check_vectors(rule: Rule) -> None:
    """Raise BadRule unless each embedder has a check vector, so that a ledger notices others."""
    for embedder in rule.embedders().values():
        if not embedder.mark.check:
            raise BadRule(
                f"embed is {embedder.text!r}, and no input is known to try it with, so a ledger"
                f" would not notice another model. {DECLARE_INPUT_ADVICE}",
                setting="embed",
            )


def difference(stored: Rule, given: Rule) -> str:
    """Return a line for each entry that differs.

    >>> print(difference(Rule("l1", 2), Rule("l1", 3)))
      epsilon is 2.0 in the ledger, and 3.0 was given
    """
    before, now = _entries(stored), _entries(given)
    return "\n".join(
        f"  {format_value(name)} is {before.get(name, 'not set')} in the ledger, and"
        f" {now.get(name, 'not set')} was given"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    )


def _entries(rule: Rule) -> dict[str, str]:
    """Return the repr of each entry of a rule's TOML, by its dotted name."""
    entries: dict[str, str] = {}

    def flatten(table: dict[str, Any], prefix: str) -> None:
        for name, value in table.items():
            if isinstance(value, dict):
                flatten(value, f"{prefix}{name}.")
            else:
                entries[prefix + name] = repr(value)

    flatten(tomllib.loads(rule.to_toml()), "")
    return entries


@dataclass(frozen=True, slots=True)
class Burst:
    """Counts the near inputs among the last decisions, and says how many raise an alarm.

    last    how many decisions back: row r is compared with rows r - last to r - 1. Forgotten rows
            are not replaced by earlier ones.
    alarm   how many neighbours raise an alarm; None: they are only counted.

    >>> import likewise as lw
    >>> monitor = lw.Monitor(lw.Rule("linf", 0.1), burst=lw.Burst(last=1000, alarm=3))
    >>> for step in range(4):
    ...     verdict = monitor.observe([0.50 + step / 100, 0.30], "no")
    >>> verdict.neighbours, verdict.alarm, verdict.violation
    (3, True, False)
    """

    last: int
    alarm: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "last", check_whole_number("last", self.last))
        if self.alarm is None:
            return
        object.__setattr__(self, "alarm", check_whole_number("alarm", self.alarm))
        if self.alarm > self.last:
            raise BadRule(
                f"alarm is {self.alarm} and last is {self.last}; expected an alarm of at most"
                f" {self.last}, since there are never more neighbours than decisions compared",
                setting="alarm",
            )

    def __str__(self) -> str:
        alarm = "no alarm" if self.alarm is None else f"alarm from {self.alarm:,} neighbours on"
        return f"near inputs among the last {self.last:,} decisions are counted, {alarm}"
