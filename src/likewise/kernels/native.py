"""Kernels that were compiled ahead of time: found, chosen for this processor, and loaded.

`kernels/building.py` makes one library for each level of x86-64 and puts it into `built/`, in a
folder named after the text of all kernels: what was built from other text is never loaded. Loading
takes no compiler, no linker and no folder that can be written to.

    LIKEWISE_KERNELS=jit         compile at run time, with Numba
    LIKEWISE_KERNELS=x86-64-v2   this library, and no other
"""

import ctypes
import hashlib
import importlib
import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDER = HERE / "built"
LEVELS = {
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    "x86-64-v2": "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
}
"""Best first: what the processor has beyond the next level, by the names of /proc/cpuinfo."""
AARCH64 = "aarch64"
ENTRIES = {
    "decide": "decide",
    "flat": "flat",
    "hunt": "nearest",
    "tend": "grow",
    "remove_rows": "remove",
    "propose": "propose",
    "start_bulk": "rebuild",
    "unseat_rows": "seats",
    "erase_rows": "remove",
    "read_matrix": "json_numbers",
    "digest_rows": "sha256",
}
"""The module of each entry kernel; those that take longest to compile first."""


@cache
def text_mark() -> str:
    """The same for the same text of all kernels."""
    digest = hashlib.sha256()
    for path in sorted(HERE.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def library_path(level: str) -> Path:
    return FOLDER / text_mark() / f"{level}.so"


def levels_here() -> list[str]:
    """The levels that this machine can run, best first."""
    machine = platform.machine() if sys.platform == "linux" else ""
    if machine not in ("x86_64", "AMD64"):
        return [AARCH64] if machine == AARCH64 else []
    names = list(LEVELS)
    while names and not set(" ".join(LEVELS[name] for name in names).split()) <= _processor():
        names.pop(0)
    return names


@cache
def _processor() -> frozenset[str]:
    """What the processor has; where nobody says, what nearly every one of x86-64 has."""
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as lines:
            line = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        line = ""
    return frozenset((line or LEVELS["x86-64-v2"]).split())


def load() -> ctypes.CDLL | None:
    """The best library that is there and can run here; None where kernels are compiled instead."""
    wanted = os.environ.get("LIKEWISE_KERNELS", "")
    if wanted == "jit" or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return None
    if wanted and wanted not in (*LEVELS, AARCH64):
        raise ImportError(
            f"LIKEWISE_KERNELS is {wanted!r}; expected jit, or one of {', '.join(LEVELS)}"
        )
    for level in [wanted] if wanted else levels_here():
        path = library_path(level)
        if path.exists():
            return ctypes.CDLL(str(path))
    if wanted:
        raise ImportError(f"LIKEWISE_KERNELS is {wanted!r}, which was not built for this version")
    return None


def entry_of(name: str) -> Any:
    """An entry kernel, whichever way it is had."""
    return getattr(importlib.import_module(f"likewise.kernels.{ENTRIES[name]}"), name)


def function_of(library: ctypes.CDLL, name: str, arguments: int) -> "ctypes._NamedFuncPointer":
    """An entry of the library: whole numbers in, one out; without the interpreter's lock."""
    function = library[f"likewise_{name}"]
    function.argtypes = [ctypes.c_int64] * arguments
    function.restype = ctypes.c_int64
    return function
