"""Values of a history as JSON has them, and as a query can say them."""

from typing import Any

import numpy as np

from likewise.values.plain import json_value
from likewise.values.positions import Position


def plain(value: Any) -> Any:
    """A value for JSON; the numbers of a vector one by one."""
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(part) for part in (value.tolist() if hasattr(value, "tolist") else value)]
    return json_value(value)


def plain_row(values: dict[str, Any]) -> dict[str, Any]:
    """The same for each column of a row."""
    return {name: plain(value) for name, value in values.items()}


def plain_position(position: Position) -> int | list[int]:
    """A position for JSON, which has no pairs."""
    return list(position) if isinstance(position, tuple) else position


def as_text(value: Any) -> str:
    """How a query says a value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(plain(value))
