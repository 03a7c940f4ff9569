"""Compile all entry kernels ahead of time: one library for each level of x86-64.

    python -m likewise.kernels.building             for this machine
    python -m likewise.kernels.building --all       for every level
    python -m likewise.kernels.building aarch64     for another processor, with a linker for it

Numba makes LLVM's code of an entry and of all that it calls, for the level's processor. Here one
function is added that takes whole numbers and answers one, everything else becomes internal, and
LLVM emits an object, which the system's linker makes a library of. It needs nothing but the C
library's `memset` and a few functions of its mathematics.

Each level is compiled in a process of its own, as many at a time as there are cores; so are halves
of the entries where there is only one level to compile.

Not here: choosing and loading (native.py).
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from likewise.kernels.native import (
    AARCH64,
    ENTRIES,
    FOLDER,
    LEVELS,
    entry_of,
    levels_here,
    library_path,
    text_mark,
)

_SECONDS = 900
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
    """An index as it is. Numba lets a negative one count from the end; a view has no end."""
    from numba import types

    return context.cast(builder, index, kind, types.intp)


def object_of(name: str, level: str) -> bytes:
    """The object code of an entry, with all that it calls."""
    from llvmlite import binding as llvm
    from numba import njit, types
    from numba.np import arrayobj

    from likewise.kernels.jit import INNER

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
    """What the compiler is told of a level: registers of 512 bits are to be used where they are."""
    return "-prefer-256-bit" if level == "x86-64-v4" else ""


def _with_wrapper(made: Any, name: str, arguments: int) -> str:
    """The module's text, with the function that others call; mathematics by its names in C."""
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
    """A command that makes a library of the level's objects, if there is one."""
    here = level in levels_here() or (level in LEVELS and bool(set(LEVELS) & set(levels_here())))
    names = ("cc", "gcc", "clang") if here else (f"{level}-linux-gnu-gcc", "ld.lld")
    return next(filter(None, map(shutil.which, names)), None)


def _cores() -> int:
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available else os.cpu_count() or 1


def _compile(level: str, names: list[str], folder: Path) -> None:
    """Objects of some entries, in a process of its own: Numba has one processor for each."""
    processor = level
    if level == AARCH64:
        processor = "generic" if AARCH64 in levels_here() else "x86-64-v2"
    settings = {
        "LIKEWISE_KERNELS": "jit",
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": _features(level),
        "NUMBA_DISABLE_JIT": "0",
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
    }
    command = [sys.executable, "-m", "likewise.kernels.building"]
    subprocess.run(
        [*command, "--objects", str(folder), "--level", level, *names],
        env={**os.environ, **settings},
        check=True,
        timeout=_SECONDS,
    )


def build(levels: list[str]) -> list[Path]:
    """Make the libraries that are not there yet; where they are."""
    wanted = [level for level in levels if not library_path(level).exists()]
    if not wanted:
        return [library_path(level) for level in levels]
    cores = _cores()
    shares = max(1, min(cores // len(wanted), len(ENTRIES)))
    names, started = list(ENTRIES), time.monotonic()
    work = [(level, names[part::shares]) for level in wanted for part in range(shares)]
    print(f"Compiling kernels for {', '.join(wanted)}: about a minute ...", flush=True)
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(cores) as pool:
        folder = Path(scratch)
        list(pool.map(lambda one: _compile(one[0], one[1], folder), work))
        for level in wanted:
            objects = [str(folder / f"{level}-{name}.o") for name in names]
            _put(level, objects, folder)
    for other in FOLDER.iterdir():  # what was built from text that is no more
        if other.name != text_mark():
            shutil.rmtree(other)
    print(f"Compiled in {time.monotonic() - started:.0f} s: {library_path(wanted[0]).parent}")
    return [library_path(level) for level in levels]


def _put(level: str, objects: list[str], scratch: Path) -> None:
    """Link the objects, and have the library in its place all at once."""
    made, place = scratch / f"{level}.so", library_path(level)
    place.parent.mkdir(parents=True, exist_ok=True)
    found = str(linker(level))
    more = [] if found.endswith("ld.lld") else ["-nostartfiles", "-lm"]
    command = [found, "-shared", "-s", "-o", str(made), *objects, *more]
    subprocess.run(command, check=True, timeout=_SECONDS)
    partial = Path(tempfile.mkdtemp(dir=place.parent)) / made.name
    shutil.copyfile(made, partial)
    partial.chmod(0o755)
    partial.rename(place)
    partial.parent.rmdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every level, not only this machine's")
    parser.add_argument("--objects", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--level", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="LEVEL", help="these levels")
    chosen = parser.parse_args()
    if chosen.objects is not None:
        for name in chosen.names:
            path = chosen.objects / f"{chosen.level}-{name}.o"
            path.write_bytes(object_of(name, chosen.level))
            print(f"  {chosen.level} {name}", flush=True)
        return
    levels = chosen.names or (list(LEVELS) if chosen.all else levels_here()[:1])
    if not levels:
        print("Kernels are built for Linux on x86-64 and aarch64; here Numba compiles them.")
        return
    if not all(map(linker, levels)):
        print("There is no linker, such as cc or ld.lld, so Numba compiles the kernels.")
        return
    build(levels)


if __name__ == "__main__":
    main()
