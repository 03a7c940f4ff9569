"""Compile entry kernels ahead of time: one library for each entry and level of x86-64.

python -m likewise.search.kernels.building                        all entries, for this machine
python -m likewise.search.kernels.building decide maintain_tree   these entries
python -m likewise.search.kernels.building --level all            for every level of x86-64
python -m likewise.search.kernels.building --level aarch64        with that processor's linker
"""

import argparse
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

from likewise.runtime.machine import count_cores
from likewise.search.kernels.native import (
    AARCH64,
    ENTRIES,
    LEVELS,
    entry_of,
    levels_here,
    library_path,
)

# Numba makes LLVM's code of an entry and of all that it calls, for the level's processor. Here one
# function is added that takes integers and returns one, everything else becomes internal, and LLVM
# emits an object, which the system's linker makes a library of. It needs nothing but the C
# library's `memset` and a few of its mathematical functions.
#
# Entries are distributed to as many processes as there are cores, so that all end at about the same
# time. A library is put in its place as soon as it is linked. native.py chooses and loads them.

_SECONDS = 900
_COSTS = {
    "decide": 21.5,
    "search_best": 15.0,
    "flat": 12.0,
    "maintain_tree": 11.0,
    "propose": 5.5,
    "remove_rows": 3.0,
    "start_bulk": 1.5,
}
"""Seconds that an entry takes to compile on one core; the others take about one."""
_WRAPPER = """
define i64 @likewise_{name}({parameters}) {{
  %answer = alloca i64
  %raised = alloca {{ i8*, i32, i8*, i8*, i32 }}*
  store i64 0, i64* %answer
  %status = call i32 @"{inner}"(i64* %answer, {{ i8*, i32, i8*, i8*, i32 }}** %raised, {parameters})
  %given = load i64, i64* %answer
  ret i64 %given
}}
"""


def _index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """Return an index as it is; Numba's negative ones count from the end, which no view has."""
    from numba import types

    return context.cast(builder, index, kind, types.intp)


def object_of(name: str, level: str) -> bytes:
    """Return the object code of an entry, with all that it calls."""
    from llvmlite import binding as llvm
    from numba import njit, types
    from numba.np import arrayobj

    from likewise.search.kernels.jit import INNER

    arrayobj.fix_integer_index = _index  # three instructions less for every value read or written
    plain = entry_of(name).py_func
    signature = (types.int64,) * plain.__code__.co_argcount
    function: Any = njit(**INNER)(plain)
    function.compile(signature)
    made = function.overloads[signature]
    module = llvm.parse_assembly(_with_wrapper(made, name, len(signature)))
    for symbol in (*module.functions, *module.global_variables):
        if not symbol.is_declaration and symbol.name != f"likewise_{name}":
            symbol.linkage = "internal"
    module.verify()
    triple, processor = module.triple, level
    if level == AARCH64:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        triple, processor = "aarch64-unknown-linux-gnu", "generic"
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(
        cpu=processor, features=_features(level), opt=3, reloc="pic", codemodel="small"
    )
    module.triple, module.data_layout = triple, str(machine.target_data)
    return bytes(machine.emit_object(module))


def _features(level: str) -> str:
    """Return a level's compiler features: use registers of 512 bits where there are any."""
    return "-prefer-256-bit" if level == "x86-64-v4" else ""


def _with_wrapper(made: Any, name: str, arguments: int) -> str:
    """Return the module's text with the wrapper function; mathematics by its names in C."""
    text: str = made.library.get_llvm_str()
    text = text.replace("numba_nextafterf", "nextafterf").replace("numba_nextafter", "nextafter")
    inner = made.fndesc.llvm_func_name
    parameters = ", ".join(f"i64 %a{i}" for i in range(arguments))
    wrapper = _WRAPPER.format(name=name, inner=inner, parameters=parameters)
    lines = (line for line in text.splitlines() if line.startswith("define"))
    definition = next(line for line in lines if inner in line)
    if "ptr" in definition:  # LLVM with pointers that have no type
        wrapper = wrapper.replace("i64*", "ptr").replace("{ i8*, i32, i8*, i8*, i32 }*", "ptr")
        wrapper = wrapper.replace("ptr*", "ptr")
    return text + wrapper


def linker(level: str) -> str | None:
    """Return a command that links the level's objects, if there is one."""
    here = level in levels_here() or (level in LEVELS and bool(set(LEVELS) & set(levels_here())))
    names = ("cc", "gcc", "clang") if here else (f"{level}-linux-gnu-gcc", "ld.lld")
    return next(filter(None, map(shutil.which, names)), None)


def _seconds(names: list[str]) -> float:
    return sum(_COSTS.get(name, 1.0) for name in names)


def _deal(work: list[tuple[str, str]], processes: int) -> list[tuple[str, list[str]]]:
    """Distribute entries to processes, the longest first, each to the one with least to do.

    A process has one level, because Numba has one processor for each process.
    """
    shares: list[tuple[str, list[str]]] = []
    for level, name in sorted(work, key=lambda one: -_seconds([one[1]])):
        mine = [share for share in shares if share[0] == level]
        if not mine or len(shares) < processes:
            mine = [(level, [])]
            shares += mine
        min(mine, key=lambda share: _seconds(share[1]))[1].append(name)
    return shares


def _compile(level: str, names: list[str], tell: TextIO) -> None:
    """Compile and link some entries in another process."""
    processor = level
    if level == AARCH64:
        processor = "generic" if AARCH64 in levels_here() else "x86-64-v2"
    settings = {
        "LIKEWISE_KERNELS": "jit",
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": _features(level),
        "NUMBA_DISABLE_JIT": "0",
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
    }
    command = [sys.executable, "-m", "likewise.search.kernels.building", "--here", "--level", level]
    with subprocess.Popen(
        [*command, *names],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line.rstrip(), file=tell, flush=True)
        if process.wait(_SECONDS):
            raise RuntimeError(f"compiling {', '.join(names)} for {level} failed: see above")


def build(levels: list[str], names: list[str], tell: TextIO) -> list[Path]:
    """Build the libraries that are missing, and report it; return the paths of all."""
    work = [(lv, name) for lv in levels for name in names if not library_path(lv, name).exists()]
    if work:
        cores, started = count_cores(), time.monotonic()
        shares = _deal(work, cores)
        about = max(_seconds(mine) for _, mine in shares) * -(-len(shares) // cores)
        what = ", ".join(dict.fromkeys(name for _, name in work))
        where = ", ".join(dict.fromkeys(level for level, _ in work))
        print(
            f"likewise: compiling {what} for {where}, about {about:.0f} s ...",
            file=tell,
            flush=True,
        )
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(lambda share: _compile(share[0], share[1], tell), shares))
        print(f"likewise: compiled in {time.monotonic() - started:.0f} s", file=tell, flush=True)
    return [library_path(level, name) for level in levels for name in names]


def _build_here(level: str, name: str) -> None:
    """Compile and link an entry in this process; its library appears all at once."""
    place, found = library_path(level, name), str(linker(level))
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        compiled, made = Path(scratch) / "entry.o", Path(scratch) / place.name
        compiled.write_bytes(object_of(name, level))
        more = [] if found.endswith("ld.lld") else ["-nostartfiles", "-lm"]
        command = [found, "-shared", "-s", "-o", str(made), str(compiled), *more]
        subprocess.run(command, check=True, timeout=_SECONDS)
        made.chmod(0o755)
        made.rename(place)
    for other in place.parent.glob(f"{name}-*.so"):  # built from other text
        if other != place:
            other.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--level", help="one, all, or here (all that run here)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="ENTRY", help="these entries; all unless given")
    chosen = parser.parse_args()
    if chosen.here:
        from likewise.search.kernels.jit import announcement

        announcement.was_made = True  # by whoever started this process
        gc.disable()  # it ends soon, and a tenth of the time would go to collecting
        for name in chosen.names:
            began = time.monotonic()
            _build_here(chosen.level, name)
            print(f"  {chosen.level} {name}, {time.monotonic() - began:.1f} s", flush=True)
        return
    levels = levels_here()[:1] if chosen.level is None else [chosen.level]
    levels = {"all": list(LEVELS), "here": levels_here()}.get(chosen.level, levels)
    if not levels:
        print("Kernels are built for Linux on x86-64 and aarch64; here Numba compiles them.")
        return
    if not all(map(linker, levels)):
        print("There is no linker, such as cc or ld.lld, so Numba compiles the kernels.")
        return
    build(levels, chosen.names or list(ENTRIES), sys.stdout)


if __name__ == "__main__":
    main()
