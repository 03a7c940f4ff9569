"""Is a rule the one that a ledger was begun under, and are its models? If not, how do they differ?

Rules are compared entry by entry, models by their marks: what an embedder is called may change,
what it is may not.
"""

import tomllib
from pathlib import Path
from typing import Any

from likewise.embedders.embedding import DECLARE_INPUT_ADVICE
from likewise.errors import BadRule
from likewise.rule.rule import Rule
from likewise.tables.printing import format_value


def require_same_rule(kept: Rule, given: Rule | None, path: Path, *, models: bool) -> Rule:
    """The rule to go on with; raise BadRule if it, or a model, is another than the ledger's."""
    if given is not None and not given.is_same_except_models(kept):
        raise BadRule(
            f"the ledger {str(path)!r} was begun under another rule:\n"
            f"{difference(kept, given)}\nOpen it without a rule, or begin another"
            " ledger. Nothing was changed."
        )
    rule = kept if given is None else given
    for column, embedder in rule.embedders().items() if models else ():
        differs = embedder.embedding.mark.describe_difference(kept.embedders()[column].mark)
        if differs:
            of = f" of column {column!r}" if column else ""
            raise BadRule(
                f"the embedder {embedder.text!r}{of} is not the model that the ledger"
                f" {str(path)!r} was begun with: {differs}. Vectors of two models cannot be"
                " compared: bring that model back, or begin another ledger. Nothing was changed."
            )
    return rule


def require_check_vectors(rule: Rule) -> None:
    """A ledger wants to notice another model, so an input must be known to try each with."""
    for embedder in rule.embedders().values():
        if not embedder.mark.check:
            raise BadRule(
                f"embed is {embedder.text!r}, and no input is known to try it with, so a ledger"
                f" would not notice another model. {DECLARE_INPUT_ADVICE}",
                setting="embed",
            )


def difference(kept: Rule, given: Rule) -> str:
    """A line for each entry that differs.

    >>> print(difference(Rule("l1", 2), Rule("l1", 3)))
      epsilon is 2.0 in the ledger, and 3.0 was given
    """
    mine, theirs = _entries(kept), _entries(given)
    return "\n".join(
        f"  {format_value(name)} is {_format_entry(mine, name)} in the ledger, and"
        f" {_format_entry(theirs, name)} was"
        " given"
        for name in dict.fromkeys([*mine, *theirs])
        if _format_entry(mine, name) != _format_entry(theirs, name)
    )


def _format_entry(entries: dict[str, Any], name: str) -> str:
    return repr(entries[name]) if name in entries else "not set"


def _entries(rule: Rule) -> dict[str, Any]:
    flat: dict[str, Any] = {}

    def lay_out(table: dict[str, Any], prefix: str) -> None:
        for name, value in table.items():
            if isinstance(value, dict):
                lay_out(value, f"{prefix}{name}.")
            else:
                flat[prefix + name] = value

    lay_out(tomllib.loads(rule.to_toml()), "")
    return flat
