"""Compile kernels with Numba, on the machine that they run on.

Used for development, for processors that the wheel has no kernels for, and by building.py.
Cost: the first call of each entry waits for the compiler, and the first wait of a process is
announced on standard error; later processes find the code on disk.
"""

import sys
import warnings
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, event
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from likewise.runtime.forking import register_loading_lock
from likewise.search.kernels.native import entry_of

_BYTES = 1 << 46  # a view's nominal extent; its caller knows the true one
INNER = {
    "_nrt": False,
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
kernel = njit(**INNER)
step = njit(inline="always", **INNER)
small = njit(forceinline=True, **INNER)
_outer = {"_nrt": False, "nogil": True, "error_model": "numpy"}
is_cached = True
"""Whether compiled kernels are cached for the next process."""


def entry(function: Any) -> Any:
    """Compile a function that Python calls; cache it on disk if there is a place for that."""
    global is_cached  # noqa: PLW0603 - there is one cache for all kernels
    if is_cached:
        try:
            return njit(cache=True, **_outer)(function)
        except RuntimeError as error:  # the only hint that Numba found no folder is its text
            if "no locator available" not in str(error):
                raise
        is_cached = False
        warnings.warn(
            "likewise compiles its kernels in every process that uses them, which takes a minute,"
            " because there is no folder to keep them in: neither the folder of the package nor a"
            " home folder can be written to. Set NUMBA_CACHE_DIR to a folder that can.",
            RuntimeWarning,
            stacklevel=2,
        )
    return njit(**_outer)(function)


def compile_entry(name: str) -> None:
    """Compile and cache an entry before it is called."""
    function = entry_of(name)
    function.compile((types.int64,) * function.py_func.__code__.co_argcount)


register_loading_lock(global_compiler_lock._lock)


class Announcement(event.Listener):  # type: ignore[misc]
    """Announces once that kernels are being compiled, so that nobody waits in silence."""

    was_made = False

    def on_start(self, event: Any) -> None:
        if not self.was_made and event.data["dispatcher"].__module__.startswith("likewise."):
            self.was_made = True
            often = "once on this machine" if is_cached else "in each process"
            line = f"likewise: Numba is compiling kernels, {often}; this takes up to a minute ..."
            sys.stderr.write(f"{line}\n")

    def on_end(self, event: Any) -> None:
        """Do nothing: compilation is announced, not timed."""


announcement = Announcement()
event.register("numba:compile", announcement)


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
    """Return the array of `dtype` that starts at `address`."""
    array_type = types.Array(dtype.dtype, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _array_at(context, builder, array_type, args[0])

    return array_type(types.int64, dtype), generate


def view_slot(dtype: Any) -> Any:
    """Return a function that returns the array whose address a table's slot holds."""
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
    """Prefetch a cache line: a hint, never needed for the answer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], cgutils.voidptr_t)
        flag = ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, flag, flag, flag])
        hint = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0")
        builder.call(hint, [pointer, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate
