"""The wheel, in an environment that has NumPy and nothing else, where nothing can be written.

It is built as a user's pip builds it, but for the download of what builds it.
"""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from likewise.search.kernels import native
from likewise.search.kernels.building import linker

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("wheel")]

ROOT = Path(__file__).resolve().parents[1]
JUDGE = """
import json, sys
import likewise as lw
import numpy as np

rng = np.random.default_rng(0)
X, Z = rng.random((600, 3)), rng.integers(0, 2, 600)
with lw.Monitor(lw.Rule("linf", 0.1)) as monitor:
    one_by_one = [monitor.observe(x, z).witnesses.rows.tolist() for x, z in zip(X[:300], Z[:300])]
    in_a_batch = [one.witnesses.rows.tolist() for one in monitor.observe_many(X[300:], Z[300:])]
    forgotten = monitor.forget(range(50))
curve = lw.calibrate(lw.Rule("l2", 0.1), X, Z)
with lw.Monitor(lw.Rule("cosine", 0.01), index="flat") as scan:
    scanned = int(scan.observe_many(X, Z).counts.sum())
from likewise.search.kernels.compile import way
print(json.dumps({
    "way": way, "file": lw.__file__, "rows": one_by_one + in_a_batch, "forgotten": forgotten,
    "nearest": float(np.nansum(curve.distances[np.isfinite(curve.distances)])), "scanned": scanned,
    "compiler": sorted({"numba", "llvmlite"} & set(sys.modules)),
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    level = native.levels_here()[:1]
    if not level or linker(level[0]) is None:
        pytest.skip("no kernels can be built here: no Linux, another processor or no linker")
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    here = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run([*pip, *here], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """A Python that has the wheel and NumPy; no folder of it can be written to."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    for path in Path(sysconfig.get_paths()["purelib"]).glob("numpy*"):
        (packages / path.name).symlink_to(path)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(packages)
    for place in (packages, *packages.joinpath("likewise").rglob("*")):
        if place.is_dir() and place.name != "__pycache__":
            (place / "__pycache__").touch()  # a file: it can be no folder, not even for root
            place.chmod(0o555)
    yield folder / "bin" / "python"
    for place in (packages, *packages.joinpath("likewise").rglob("*")):
        if place.is_dir():
            place.chmod(0o755)


def run(python: Path | str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    hidden = ("PYTHON", "NUMBA", "LIKEWISE", "HOME", "XDG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return subprocess.run(
        [str(python), "-c", code],
        env={**kept, "HOME": os.devnull},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_wheel_judges_where_there_is_nothing_else(python, tmp_path):
    done = run(python, JUDGE, tmp_path)
    assert done.returncode == 0, done.stderr
    told, here = json.loads(done.stdout), json.loads(run(sys.executable, JUDGE, tmp_path).stdout)
    assert told["way"] == "native" and told["compiler"] == []
    assert Path(told.pop("file")) != Path(here.pop("file"))
    assert told == {**here, "way": "native", "compiler": []}
    assert sum(map(bool, told["rows"])) > 300 and told["scanned"] > 100, "a test on nothing"
    assert run(python, "import numba", tmp_path).returncode == 1


def test_wheel_says_that_it_needs_numpy_alone(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        text = packed.read(metadata).decode()
    needed = [line for line in text.splitlines() if line.startswith("Requires-Dist:")]
    assert [line for line in needed if "extra ==" not in line] == ["Requires-Dist: numpy>=2.0"]
    level = native.levels_here()[0]
    for name in native.ENTRIES:
        assert (
            f"likewise/search/kernels/built/{level}/{native.library_path(level, name).name}"
            in names
        )
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl")


def test_wheel_without_kernels_asks_for_numba(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    here = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    done = subprocess.run(
        [*pip, *here],
        env={**os.environ, "LIKEWISE_BUILD": "none"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = tmp_path.glob("*-py3-none-any.whl")
    with zipfile.ZipFile(made) as packed:
        (metadata,) = (name for name in packed.namelist() if name.endswith("/METADATA"))
        assert "Requires-Dist: numba>=0.61" in packed.read(metadata).decode().splitlines()
        assert not [name for name in packed.namelist() if name.endswith(".so")]


def test_wheel_has_what_pages_load_and_its_licences(wheel):
    with zipfile.ZipFile(wheel) as packed:
        there = set(packed.namelist())
    static = {path.name for path in (ROOT / "src/likewise/pages/static").iterdir()}
    assert {"likewise.js", "pages.css", "uPlot.LICENSE", "SHA256SUMS"} <= static
    assert {f"likewise/pages/static/{name}" for name in static} <= there
    assert "likewise/reports/style.css" in there
    templates = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.html")}
    assert "likewise/pages/frame.html" in templates
    assert templates <= there
