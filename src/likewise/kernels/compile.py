"""How a kernel is compiled, and how it reaches memory by address.

`kernel` marks the functions that kernels are made of, `step` some of those with a single caller,
`entry` the few that Python calls: only these get a wrapper and a place in the disk cache (where no
folder can be written to, each process compiles them again), and steps are not compiled on their
own, because compiling is what a first use waits for. No fast-math (NaN must stay visible), no
interpreter lock. Under NUMBA_DISABLE_JIT=1 the same functions run as plain Python: that is how a
kernel is debugged, so everything here has a plain form too.

Invariant: a view reads and writes the memory at its address and owns none of it.
Not here: who allocates that memory, and for how long (indexes/state.py).
"""

import ctypes
import warnings
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from likewise.runtime.forking import held_while_loading

_inner = {
    "_nrt": False,
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
kernel = njit(**_inner)
step = njit(inline="always", **_inner)
_outer = {"_nrt": False, "nogil": True, "error_model": "numpy"}
kept = True
"""Whether compiled kernels are kept for the next process."""


def entry(function: Any) -> Any:
    """Compile a function that Python calls; keep it on disk if there is a place for that."""
    global kept  # noqa: PLW0603 - there is one cache for all kernels
    if kept:
        try:
            return njit(cache=True, **_outer)(function)
        except RuntimeError as error:  # all that Numba says where it finds no folder
            if "no locator available" not in str(error):
                raise
        kept = False
        warnings.warn(
            "likewise compiles its kernels in every process that uses them, which takes a minute,"
            " because there is no folder to keep them in: neither the folder of the package nor a"
            " home folder can be written to. Set NUMBA_CACHE_DIR to a folder that can.",
            RuntimeWarning,
            stacklevel=2,
        )
    return njit(**_outer)(function)


held_while_loading(global_compiler_lock._lock)
_BYTES = 1 << 46  # a view's nominal extent; its true one is the caller's business


if config.DISABLE_JIT:

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

    def _array_at(context: Any, builder: Any, array_type: Any, address: Any) -> Any:
        array = context.make_array(array_type)(context, builder)
        size = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
        populate_array(
            array,
            data=builder.inttoptr(address, array.data.type),
            shape=[context.get_constant(types.intp, _BYTES)],
            strides=[context.get_constant(types.intp, size)],
            itemsize=context.get_constant(types.intp, size),
            meminfo=None,
        )
        return array._getvalue()

    @intrinsic
    def view(typing_context: Any, address: Any, dtype: Any) -> Any:
        """The array of `dtype` that starts at `address`."""
        array_type = types.Array(dtype.dtype, 1, "C")

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _array_at(context, builder, array_type, args[0])

        return array_type(types.int64, dtype), generate

    def view_slot(dtype: Any) -> Any:
        """A function of a table and a slot: the array of `dtype` whose address the slot holds."""
        array_type = types.Array(from_dtype(np.dtype(dtype)), 1, "C")

        @intrinsic
        def of(typing_context: Any, table: Any, slot: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                slots = context.make_array(signature.args[0])(context, builder, args[0])
                place = builder.gep(slots.data, [args[1]])
                return _array_at(context, builder, array_type, builder.load(place))

            return array_type(table, types.int64), generate

        return of

    @intrinsic
    def prefetch(typing_context: Any, address: Any) -> Any:
        """Ask for a cache line ahead of use: a hint, never needed for the answer."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(args[0], cgutils.voidptr_t)
            flag = ir.IntType(32)
            form = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, flag, flag, flag])
            hint = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0")
            builder.call(hint, [pointer, flag(0), flag(3), flag(1)])
            return context.get_dummy_value()

        return types.void(types.int64), generate
