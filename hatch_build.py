"""The build of the wheel: kernels are compiled into it where that can be done.

A wheel with kernels needs NumPy alone. One without (another system or processor, no linker, an
editable install) needs Numba, which compiles them at run time, and says so in its metadata.

    LIKEWISE_BUILD=all      for every level of x86-64, to be given to others; else for this machine
    LIKEWISE_BUILD=aarch64  for that processor, where there is a linker for it
    LIKEWISE_BUILD=none     no kernels
"""

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NUMBA = "numba>=0.61"


class Kernels(BuildHookInterface[Any]):
    """Has the kernels compiled, and puts them into the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, str(Path(self.root) / "src"))
        from likewise.search.kernels import building, native

        wanted = os.environ.get("LIKEWISE_BUILD", "here")
        chosen = {"all": list(native.LEVELS), native.AARCH64: [native.AARCH64], "none": []}
        levels = chosen.get(wanted, native.levels_here()[:1])
        can_build = levels and all(building.linker(level) for level in levels)
        if version == "editable" or not can_build:
            build_data["dependencies"] = [NUMBA]
            return
        for path in building.build(levels, list(native.ENTRIES), sys.stdout):
            inside = path.relative_to(Path(self.root) / "src")
            build_data["force_include"][str(path)] = str(inside)
        build_data["pure_python"] = False
        system = "linux" if wanted == "here" else "manylinux_2_29"
        machine = native.AARCH64 if native.AARCH64 in levels else "x86_64"
        build_data["tag"] = f"py3-none-{system}_{machine}"
