"""The clients of streams are extras; who has none is told which one to install."""

from likewise.values.errors import BadRule


def missing_extra(error: ModuleNotFoundError, extra: str) -> BadRule:
    """What to say where a client is not installed."""
    return BadRule(f"{error.name} is missing: pip install 'likewise[{extra}]'.")
