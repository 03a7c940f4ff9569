"""Mark kernels for compilation, and let them reach memory by address.

Python calls `entry` functions: integers in, among them the address of a table, one integer out.
They are made of `kernel` functions, of `step` (with a single caller) and of `small` ones.
Invariant: a view reads and writes the memory at its address and owns none of it.
Not here: who allocates that memory, and for how long (search/indexes/index_state.py).
"""

import ctypes
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from likewise.search.kernels.native import choose_level, load_entry

# There are three ways to run kernels:
#
#     native   entries are functions of libraries that were compiled ahead of time (native.py)
#     jit      Numba compiles entries when they are first called, and caches them on disk; where no
#              folder can be written to, each process compiles them again
#     plain    under NUMBA_DISABLE_JIT=1 the same functions run as plain Python: that is how a
#              kernel is debugged, so everything here has a plain form too
#
# Only entries get a wrapper and a place in the disk cache, and steps are not compiled on their own,
# because compilation is what a first use waits for. `small` marks functions so short that a call
# would cost more than what they do. No fast-math: NaN must stay visible. No interpreter lock.

_level = choose_level()
_PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
way = "native" if _level is not None else "plain" if _PLAIN else "jit"
_BYTES = 1 << 46  # a view's nominal extent; its caller knows the true one


def address_of(array: npt.NDArray[Any]) -> int:
    """Return the address of an array; it stays valid as long as the array lives."""
    assert array.flags.c_contiguous
    return int(array.ctypes.data)


if TYPE_CHECKING or way != "jit":

    def kernel(function: Any) -> Any:
        return function

    step = small = kernel

    def entry(function: Any) -> Any:
        """Return the function of the library, or the plain one."""
        if _level is None:
            return function
        return load_entry(_level, function.__name__, function.__code__.co_argcount)

    def view(address: int, dtype: Any) -> Any:
        """Return the array of `dtype` that starts at `address`."""
        memory: Any = (ctypes.c_char * _BYTES).from_address(int(address))
        return np.frombuffer(memory, dtype=dtype)

    def prefetch(address: int) -> None:
        """Prefetch a cache line: a hint, never needed for the answer."""

    def view_slot(dtype: Any) -> Any:
        """Return a function that returns the array whose address a table's slot holds."""
        return lambda table, slot: view(table[slot], dtype)

else:
    try:
        from likewise.search.kernels.jit import (
            entry,
            kernel,
            prefetch,
            small,
            step,
            view,
            view_slot,
        )
    except ModuleNotFoundError as error:
        raise ImportError(
            "likewise has no compiled kernels for this machine, and Numba, which would compile"
            " them, is not installed: pip install numba"
        ) from error

__all__ = [
    "address_of",
    "entry",
    "kernel",
    "prefetch",
    "small",
    "step",
    "view",
    "view_slot",
    "way",
]
