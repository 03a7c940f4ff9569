"""Writes a rule as users do, in TOML."""

import json
from typing import Any


def rule_text(features: dict[str, Any], output: dict[str, Any] | None = None, **head: Any) -> str:
    """Write a rule about columns.

    features: for each column its kind, the tolerance of a number, or all its settings
    output: the table of that name
    head: settings above all tables
    """
    tables = {"": head} | ({"output": output} if output else {})
    tables |= {f"features.{name}": _settings(said) for name, said in features.items()}
    lines = [""]
    for name, settings in tables.items():
        lines += [f"[{name}]"] * bool(name)
        lines += [f"{one} = {_value(value)}" for one, value in settings.items()]
    return "\n".join([*lines, ""])


def _settings(said: Any) -> dict[str, Any]:
    if isinstance(said, dict):
        return said
    return {"kind": said} if isinstance(said, str) else {"kind": "number", "tolerance": said}


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_value(one)}" for name, one in value.items()) + " }"
    return json.dumps(value)
