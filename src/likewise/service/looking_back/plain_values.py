"""Values of a history as JSON has them."""

from typing import Any

from likewise.values.codec import json_value
from likewise.values.positions import Position


def plain_row(values: dict[str, Any]) -> dict[str, Any]:
    """The same for each column of a row."""
    return {name: json_value(value) for name, value in values.items()}


def plain_position(position: Position) -> int | list[int]:
    """A position for JSON, which has no pairs."""
    return list(position) if isinstance(position, tuple) else position
