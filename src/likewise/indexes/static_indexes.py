"""Indexes that are built once over given points, by name (periodic.py has streams)."""

from importlib import import_module
from typing import Any

from likewise.indexes.protocol import MakeStatic

STATIC = {"kdtree": "kdtree.KDTree", "snn": "snn.Sorted"}
"""By name: module and class."""


def load_index(home: str) -> Any:
    """Import the class of an index; `home` is its module and its name there."""
    module, name = home.split(".")
    return getattr(import_module(f"likewise.indexes.{module}"), name)


def static_maker(static: str | MakeStatic) -> MakeStatic:
    """What builds a static index, from its name or as it is."""
    made: MakeStatic = load_index(STATIC[static]) if isinstance(static, str) else static
    return made
