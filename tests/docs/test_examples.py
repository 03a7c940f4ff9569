"""The documents keep their word: examples run, names are explained, links lead somewhere."""

import contextlib
import dataclasses
import doctest
import importlib
import io
import re
import runpy
from pathlib import Path

import pytest

import likewise as lw
from likewise import rule
from likewise.indexes.names import METRICS

ROOT = Path(__file__).resolve().parents[2]
MADE = {"build", "dist", "__pycache__"}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def files(*endings: str) -> list[Path]:
    """Files of the project with such an ending; what the recipes made is left out."""
    return sorted(
        path
        for ending in endings
        for path in ROOT.rglob(f"*{ending}")
        if not any(part in MADE or part.startswith(".") for part in path.relative_to(ROOT).parts)
    )


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def examples(markdown: str) -> list[tuple[str, str | None]]:
    """Each block of Python, with the block of text that directly follows it, if one does."""
    blocks = list(FENCE.finditer(markdown))
    found = []
    for i, block in enumerate(blocks):
        if block[1] != "python":
            continue
        expected = None
        if i + 1 < len(blocks) and blocks[i + 1][1] == "text":
            between = markdown[block.end() : blocks[i + 1].start()]
            expected = None if between.strip() else blocks[i + 1][2]
        found.append((block[2], expected))
    return found


PAGES = names(sorted((ROOT / "docs" / "indexes").glob("*.md")))


@pytest.mark.parametrize("name", ["README.md", *PAGES])
def test_examples_print_what_they_say(name):
    found = examples(text(name))
    assert any(expected for _, expected in found), f"no example of {name} shows its output"
    namespace: dict[str, object] = {}
    for i, (code, expected) in enumerate(found):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{name}, example {i}", "exec"), namespace)
        if expected is not None:
            assert printed.getvalue() == expected, f"{name}, example {i}"


def test_pictures_of_the_indexes_are_what_their_script_draws():
    script = runpy.run_path(str(ROOT / "docs/indexes/pictures.py"))
    drawn = {f"{name}.svg": str(draw()) for name, draw in script["PICTURES"].items()}
    kept = {Path(name).name: text(name) for name in names(files(".svg")) if "indexes" in name}
    assert drawn == kept, "python docs/indexes/pictures.py draws them anew"


@pytest.mark.parametrize("page", ["README.md", "docs/indexes/README.md"])
@pytest.mark.parametrize("name", METRICS)
def test_index_is_explained(name, page):
    assert f'`"{name}"`' in text(page)


MODULES = (
    "rule",
    "burst",
    "monitors.robustness",
    "monitors.calibration",
    "monitors.slope",
    "monitors.ledgered",
    "monitors.difference",
    "history.ledger.look",
    "history.ledger.verify",
    "history.ledger.window",
    "watching.watched",
    "watching.estimator",
)


@pytest.mark.parametrize("module", ["likewise", *(f"likewise.{name}" for name in MODULES)])
def test_docstring_examples_answer_what_they_say(module):
    failed, attempted = doctest.testmod(importlib.import_module(module))
    assert attempted > 0
    assert failed == 0


@pytest.mark.parametrize("name", lw.__all__)
def test_public_name_is_explained(name):
    explained = text("README.md") + text("ARCHITECTURE.md")
    assert re.search(rf"\b{name}\b", explained), f"neither README nor ARCHITECTURE mentions {name}"


@pytest.mark.parametrize(
    "name", sorted({*rule.METRICS, *rule.OUTPUTS, *rule.OUTPUT_METRICS, *rule.STORAGES})
)
def test_choice_of_a_rule_is_in_the_readme(name):
    assert f'`"{name}"`' in text("README.md")


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(lw.Rule)])
def test_setting_of_a_rule_is_in_the_readme(name):
    assert re.search(rf"\b{name}\b", text("README.md"))


@pytest.mark.parametrize("name", [name for name in vars(lw.Monitor) if not name.startswith("_")])
def test_method_of_a_monitor_is_in_the_readme(name):
    assert re.search(rf"\b{name}\(", text("README.md"))


@pytest.mark.parametrize("name", names(files(".md")))
def test_relative_links_lead_to_files(name):
    prose = FENCE.sub("", text(name))
    for link in LINK.findall(prose):
        if re.match(r"[a-z]+:|#", link):
            continue
        target = (ROOT / name).parent / link.partition("#")[0]
        assert target.exists(), f"{name} links to {link}, which is not there"


@pytest.mark.parametrize("name", names(files(".md", ".py", ".svg", ".toml")))
def test_file_does_not_know_where_it_is_kept(name):
    here = re.compile(rf"(?<![\w.$}}/]){re.escape(str(ROOT))}(?![\w-])")
    assert not here.search(text(name)), f"{name} contains the path of this checkout"
