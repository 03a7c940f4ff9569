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

from tests.support.documentation_pages import steps
from tests.support.programs import run_python

pytestmark = pytest.mark.early

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MADE_UP = (
    "reportMissingImports",  # a package that a page names need not be here
    "reportMissingTypeStubs",
    "reportPossiblyUnboundVariable",  # a page's loops run
    "reportRedeclaration",
)
MYPY = """
[mypy]
strict = True
ignore_missing_imports = True

[mypy-docs.*]
disallow_untyped_defs = False
disallow_incomplete_defs = False
disallow_untyped_calls = False
"""
MISTAKES = {
    "metric": 'lw.Rule("l3", 0.1)',
    "kind": 'lw.Feature("numbre", tolerance=1)',
    "durability": 'lw.open("folder", durability="sometimes")',
    "policy": 'lw.watch(len, lw.Rule("l2", 1), on_violation="panic")',
    "argument of a watched function": 'lw.watch(len, lw.Rule("l2", 1))(1, 2, 3)',
    "field of a verdict": 'lw.Monitor(lw.Rule("l2", 1)).observe([1], 0).violations',
}


@pytest.fixture(scope="module")
def modules(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "docs").mkdir()
    (folder / "docs" / "__init__.py").touch()
    for page in PAGES:
        markdown = page.read_text(encoding="utf-8")
        lines = [""] * (markdown.count("\n") + 1)
        for step in steps("", markdown):
            if step.language == "python" and step.file is None:
                start = int(step.place.rpartition(" ")[2])
                written = step.text.splitlines()
                lines[start : start + len(written)] = written
        if any(lines):
            where, *parts = page.relative_to(ROOT).with_suffix("").parts
            name = f"{where}/{'_'.join(parts)}" if parts else where
            (folder / f"{name}.py".replace("-", "_")).write_text(
                "\n".join(lines) + "\n", encoding="utf-8"
            )
    assert len(list(folder.rglob("*.py"))) > 20
    for i, line in enumerate(MISTAKES.values()):
        text = f"import likewise as lw\n\n{line}\n"
        (folder / f"mistake_{i}.py").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def by_mypy(modules) -> list[str]:
    (modules / "mypy.ini").write_text(MYPY, encoding="utf-8")
    cache = ("--cache-dir", str(ROOT / ".cache" / "mypy-pages"))
    done = run_python("-m", "mypy", "--config-file", "mypy.ini", *cache, ".", code=1, cwd=modules)
    return [line for line in done.stdout.splitlines() if ": error:" in line]


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
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: error: {one['message']}"
        for one in said["generalDiagnostics"]
        if one["severity"] == "error"
    ]


@pytest.fixture(scope="module")
def by_basedpyright(modules) -> list[str]:
    return basedpyright(modules, "standard", "**/*.py")


@pytest.mark.long
@pytest.mark.parametrize("checker", ["by_mypy", "by_basedpyright"])
def test_pages_are_typed_and_mistakes_are_noticed(checker, request):
    said = request.getfixturevalue(checker)
    assert [line for line in said if not line.startswith("mistake_")] == []
    for i, mistake in enumerate(MISTAKES):
        assert any(line.startswith(f"mistake_{i}.py:3: error:") for line in said), mistake


@pytest.mark.long
def test_readme_is_typed_for_the_strictest(modules):
    assert basedpyright(modules, "strict", "README.py") == []
