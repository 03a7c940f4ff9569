"""The types hold for whoever uses them: two checkers read the examples of the documentation.

Each page becomes one module, its blocks at their own lines. README and the pages are read as a
strict user would; but functions that a page makes up need no annotations, and packages that other
people wrote need no types.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation_pages import steps

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
UNTYPED = ("--allow-untyped-defs", "--allow-untyped-calls", "--ignore-missing-imports")
MADE_UP = (
    "reportMissingImports",  # a package that a page names need not be here
    "reportMissingTypeStubs",
    "reportPossiblyUnboundVariable",  # a page's loops run
    "reportRedeclaration",
)


@pytest.fixture(scope="module")
def modules(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for page in PAGES:
        markdown = page.read_text(encoding="utf-8")
        lines = [""] * (markdown.count("\n") + 1)
        for step in steps("", markdown):
            if step.language == "python" and step.file is None:
                start = int(step.place.rpartition(" ")[2])
                written = step.text.splitlines()
                lines[start : start + len(written)] = written
        if any(lines):
            name = "_".join(page.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
            (folder / f"{name}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def mypy(folder: Path, *arguments: str) -> str:
    cache = ("--cache-dir", str(ROOT / ".cache" / "mypy-pages"))
    strict = (sys.executable, "-m", "mypy", "--strict", "--config-file=", *cache)
    done = subprocess.run(
        [*strict, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def basedpyright(folder: Path, mode: str, *files: str) -> list[str]:
    settings = {
        "include": files,
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": mode,
        "useLibraryCodeForTypes": False,
        **dict.fromkeys(MADE_UP, False),
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    said = json.loads(done.stdout)
    assert said["summary"]["filesAnalyzed"] > 0
    return [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}"
        for one in said["generalDiagnostics"]
        if one["severity"] == "error"
    ]


def test_readme_is_typed_for_the_strict(modules):
    assert not mypy(modules, "README.py")
    assert not basedpyright(modules, "strict", "README.py")


def test_pages_are_typed(modules):
    assert len(list(modules.glob("*.py"))) > 20
    assert not mypy(modules, *UNTYPED, ".")
    assert not basedpyright(modules, "standard", "*.py")


MISTAKES = {
    "metric": 'lw.Rule("l3", 0.1)',
    "kind": 'lw.Feature("numbre", tolerance=1)',
    "durability": 'lw.open("folder", durability="sometimes")',
    "policy": 'lw.watch(len, lw.Rule("l2", 1), on_violation="panic")',
    "argument of a watched function": 'lw.watch(len, lw.Rule("l2", 1))(1, 2, 3)',
    "field of a verdict": 'lw.Monitor(lw.Rule("l2", 1)).observe([1], 0).violations',
}


def test_mistakes_are_noticed(modules, tmp_path):
    for i, line in enumerate(MISTAKES.values()):
        text = f"import likewise as lw\n\n{line}\n"
        (tmp_path / f"mistake_{i}.py").write_text(text, encoding="utf-8")
    by_mypy = mypy(tmp_path, ".")
    by_pyright = basedpyright(tmp_path, "standard", "*.py")
    for i, mistake in enumerate(MISTAKES):
        assert f"mistake_{i}.py:3: error" in by_mypy, mistake
        assert any(one.startswith(f"mistake_{i}.py:3:") for one in by_pyright), mistake
