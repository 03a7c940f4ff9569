"""Find the libraries of compiled kernels, choose the ones for this processor, load them.

building.py makes one library for each entry kernel and level of x86-64 and puts it into
`built/<level>/`. Its name ends in a digest of the entry's source text, so a library built from
other text is never loaded. Loading needs no compiler, no linker and no writable folder. In a clone,
a missing library is compiled at the first call; a line on standard error says so.
"""

import ctypes
import hashlib
import importlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from likewise.runtime.forking import ForkSafeLock

# LIKEWISE_KERNELS=jit         compile at run time, with Numba
# LIKEWISE_KERNELS=x86-64-v2   use the libraries of this level, and no other

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
    "search_best": "nearest",
    "maintain_tree": "maintain_tree",
    "remove_rows": "remove",
    "propose": "propose",
    "start_bulk": "rebuild",
    "take_from_blocks": "flat_blocks",
    "erase_rows": "remove",
}
"""The module of each entry kernel."""
_ALWAYS = ("building", "compile", "jit")  # modules that shape the code of every entry
_IMPORTED = re.compile(r"^ *from likewise\.search\.kernels(?:\.(\w+)| import (\w+))", re.MULTILINE)
_building = ForkSafeLock()


def sources(name: str) -> list[str]:
    """Return the modules that an entry is made of."""
    modules = [ENTRIES[name]]
    for module in modules:  # grows while it is read
        text = (HERE / f"{module}.py").read_text(encoding="utf-8")
        known = (*modules, *_ALWAYS, "native")
        modules += [a or b for a, b in _IMPORTED.findall(text) if (a or b) not in known]
    return [*modules, *_ALWAYS]


@cache
def text_mark(name: str) -> str:
    """Return a digest of the source text of all modules that an entry is made of."""
    digest = hashlib.sha256()
    for module in sources(name):
        digest.update((HERE / f"{module}.py").read_bytes())
    return digest.hexdigest()[:16]


def library_path(level: str, name: str) -> Path:
    """Return where the library of an entry is, or would be."""
    return FOLDER / level / f"{name}-{text_mark(name)}.so"


def levels_here() -> list[str]:
    """Return the levels that this machine can run, best first."""
    machine = platform.machine() if sys.platform == "linux" else ""
    if machine not in ("x86_64", "AMD64"):
        return [AARCH64] if machine == AARCH64 else []
    names = list(LEVELS)
    while names and not set(" ".join(LEVELS[name] for name in names).split()) <= _processor():
        names.pop(0)
    return names


@cache
def _processor() -> frozenset[str]:
    """Return the processor's features; if unknown, those of nearly every x86-64 processor."""
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as lines:
            line = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        line = ""
    return frozenset((line or LEVELS["x86-64-v2"]).split())


def choose_level() -> str | None:
    """Return the best level that was built and runs here; None where Numba compiles kernels."""
    wanted = os.environ.get("LIKEWISE_KERNELS", "")
    if wanted == "jit" or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return None
    if wanted and wanted not in (*LEVELS, AARCH64):
        raise ImportError(
            f"LIKEWISE_KERNELS is {wanted!r}; expected jit, or one of {', '.join(LEVELS)}"
        )
    built = (level for level in levels_here() if (FOLDER / level).is_dir())
    return wanted or next(built, None)


def entry_of(name: str) -> Any:
    """Return an entry kernel, however it is compiled."""
    return getattr(importlib.import_module(f"likewise.search.kernels.{ENTRIES[name]}"), name)


def load_entry(level: str, name: str, arguments: int) -> Callable[..., int]:
    """Return an entry of a level's library: integers in, one out, without the interpreter lock.

    If its library is missing, the first call compiles it.
    """
    if library_path(level, name).exists():
        return _function(level, name, arguments)
    loaded: list[Callable[..., int]] = []

    def call(*numbers: int) -> int:
        if not loaded:
            with _building.lock:
                _compile(level, name)
                loaded.append(_function(level, name, arguments))
        return loaded[0](*numbers)

    return call


def _compile(level: str, name: str) -> None:
    """Build the library of an entry in another process (building.py)."""
    path = os.pathsep.join([str(HERE.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "likewise.search.kernels.building", "--level", level, name]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, stdout=2, check=True)


def _function(level: str, name: str, arguments: int) -> Callable[..., int]:
    function = ctypes.CDLL(str(library_path(level, name)))[f"likewise_{name}"]
    function.argtypes = [ctypes.c_int64] * arguments
    function.restype = ctypes.c_int64
    return function
