"""How a kernel is compiled, and how it reaches memory by address.

`entry` marks the few functions that Python calls: whole numbers in, among them the address of a
table, and one number out. `kernel` marks the functions that they are made of, `step` some of those
with a single caller, `small` those so short that a call would cost more than what they do. There
are three ways to have them:

    native   entries are functions of libraries that were compiled ahead of time (native.py)
    jit      Numba compiles entries when they are first called, and keeps them on disk; where no
             folder can be written to, each process compiles them again
    plain    under NUMBA_DISABLE_JIT=1 the same functions run as plain Python: that is how a kernel
             is debugged, so everything here has a plain form too

Only entries get a wrapper and a place in the disk cache, and steps are not compiled on their own,
because compiling is what a first use waits for. No fast-math: NaN must stay visible. No interpreter
lock.

Invariant: a view reads and writes the memory at its address and owns none of it.
Not here: who allocates that memory, and for how long (search/indexes/index_state.py).
"""

import ctypes
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from likewise.search.kernels.native import choose_level, load_entry

_level = choose_level()
_PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
way = "native" if _level is not None else "plain" if _PLAIN else "jit"
_BYTES = 1 << 46  # a view's nominal extent; its true one is the caller's business


def address_of(array: npt.NDArray[Any]) -> int:
    """Where an array lies. It stays there as long as somebody holds it."""
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
        """The array of `dtype` that starts at `address`."""
        memory: Any = (ctypes.c_char * _BYTES).from_address(int(address))
        return np.frombuffer(memory, dtype=dtype)

    def prefetch(address: int) -> None:
        """Ask for a cache line ahead of use: a hint, never needed for the answer."""

    def view_slot(dtype: Any) -> Any:
        """A function of a table and a slot: the array of `dtype` whose address the slot holds."""
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
