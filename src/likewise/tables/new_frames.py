"""Makes frames of pandas, Polars or PyArrow: as the caller uses them, else as is installed."""

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

LIBRARIES = ("pandas", "polars", "pyarrow")


def find_library(table: Any) -> str | None:
    """Return the library of a frame; None for anything else."""
    library = type(table).__module__.partition(".")[0]
    return library if library in LIBRARIES else None


def make_frame(columns: Mapping[str, Any], library: str | None = None) -> Any:
    """Return a frame of these columns, by pandas if it is installed, else by Polars.

    library: pandas, polars or pyarrow, if it has to be this one
    """
    if library is None:
        library = next((one for one in LIBRARIES if one in sys.modules or find_spec(one)), None)
    if library is None:
        raise ImportError(
            "a frame needs pandas or Polars, and neither is installed: pip install pandas"
        )
    module = import_module(library)
    if library == "pyarrow":
        return module.table(dict(columns))
    return module.DataFrame(dict(columns))
