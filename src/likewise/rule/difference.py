"""Is a rule the one that a ledger was begun under, and are its models? If not, how do they differ?

Rules are compared entry by entry, models by their marks: what an embedder is called may change,
what it is may not.
"""

import tomllib
from pathlib import Path
from typing import Any

from likewise.embedders.embedding import SAY_AN_INPUT
from likewise.errors import BadRule
from likewise.rule.rule import Rule
from likewise.tables.printing import text_of


def the_same_rule(kept: Rule, given: Rule | None, path: Path, *, models: bool) -> Rule:
    """The rule to go on with; raise BadRule if it, or a model, is another than the ledger's."""
    if given is not None and not given.same_but_for_models(kept):
        raise BadRule(
            f"the ledger {str(path)!r} was begun under another rule:\n"
            f"{difference(kept, given)}\nOpen it without a rule, or begin another"
            " ledger. Nothing was changed."
        )
    rule = kept if given is None else given
    for column, embedder in rule.embedders().items() if models else ():
        differs = embedder.loaded.mark.differs_from(kept.embedders()[column].mark)
        if differs:
            of = f" of column {column!r}" if column else ""
            raise BadRule(
                f"the embedder {embedder.text!r}{of} is not the model that the ledger"
                f" {str(path)!r} was begun with: {differs}. Vectors of two models cannot be"
                " compared: bring that model back, or begin another ledger. Nothing was changed."
            )
    return rule


def insist_on_checks(rule: Rule) -> None:
    """A ledger wants to notice another model, so an input must be known to try each with."""
    for embedder in rule.embedders().values():
        if not embedder.mark.check:
            raise BadRule(
                f"embed is {embedder.text!r}, and no input is known to try it with, so a ledger"
                f" would not notice another model. {SAY_AN_INPUT}",
                setting="embed",
            )


def difference(kept: Rule, given: Rule) -> str:
    """A line for each entry that differs.

    >>> print(difference(Rule("l1", 2), Rule("l1", 3)))
      epsilon is 2.0 in the ledger, and 3.0 was given
    """
    mine, theirs = _entries(kept), _entries(given)
    return "\n".join(
        f"  {text_of(name)} is {_shown(mine, name)} in the ledger, and {_shown(theirs, name)} was"
        " given"
        for name in dict.fromkeys([*mine, *theirs])
        if _shown(mine, name) != _shown(theirs, name)
    )


def _shown(entries: dict[str, Any], name: str) -> str:
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
