"""Compares a rule and its models with those of a ledger, and describes how they differ.

Rules are compared entry by entry, models by their marks: the name of an embedder may change, the
model may not.
"""

import tomllib
from pathlib import Path
from typing import Any

from likewise.embedders.embedding import DECLARE_INPUT_ADVICE
from likewise.errors import BadRule
from likewise.rule.rule import Rule
from likewise.tables.printing import format_value


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
