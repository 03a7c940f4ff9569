"""Where benchmarks write: a folder on a real disk, since a system's temporary one may be memory."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def scratch() -> Path:
    """Return the folder `build` of the project, or the one that LIKEWISE_SCRATCH names."""
    folder = Path(os.environ.get("LIKEWISE_SCRATCH") or ROOT / "build")
    folder.mkdir(exist_ok=True)
    return folder
