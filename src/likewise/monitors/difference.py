"""How two rules differ, entry by entry."""

import tomllib
from typing import Any

from likewise.rule import Rule


def difference(kept: Rule, given: Rule) -> str:
    """A line for each entry that differs.

    >>> print(difference(Rule("l1", 2), Rule("l1", 3)))
      epsilon is 2.0 in the ledger, and 3.0 was given
    """
    mine, theirs = _entries(kept), _entries(given)
    return "\n".join(
        f"  {name} is {_shown(mine, name)} in the ledger, and {_shown(theirs, name)} was given"
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
