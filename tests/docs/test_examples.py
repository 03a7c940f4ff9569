"""The documents keep their word: examples run, names are explained, links lead somewhere."""

import builtins
import contextlib
import dataclasses
import doctest
import importlib
import io
import re
import runpy
import tomllib
from pathlib import Path

import pytest

import likewise as lw
from likewise.monitor.monitor_ledger import MonitorLedger
from likewise.rule import feature, rule
from likewise.search.indexes.registry import METRICS
from tests.support.looping import each

ROOT = Path(__file__).resolve().parents[2]
MADE = {"build", "dist", "__pycache__"}

FENCE = re.compile(r"^```(\w*|\{[\w-]+\})\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OF_THE_CORE = {"check_process", "drain", "is_own_process", "release"}
LINK = re.compile(r"\]\(([^)\s]+)\)")


def files(*endings: str) -> list[Path]:
    """Files of the project with such an ending; what the recipes made is left out."""
    tops = [path for path in ROOT.iterdir() if path.name not in MADE and path.name[0] != "."]
    found = [path for path in tops if path.is_file()]
    found += [path for top in tops if top.is_dir() for path in top.rglob("*.*")]
    return sorted(
        path
        for path in found
        if path.name.endswith(endings) and not MADE & set(path.relative_to(ROOT).parts)
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


@each("name", PAGES)
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


@pytest.mark.parametrize("name", METRICS)
def test_index_is_explained(name):
    assert f'`"{name}"`' in text("docs/indexes/README.md")


MODULES = (
    "rule.rule",
    "rule.burst",
    "rule.difference",
    "monitor.monitor",
    "monitor.calibration",
    "monitor.migration",
    "monitor.opening",
    "ledger.ledger",
    "ledger.heads",
    "ledger.retention",
    "watching.watch_model",
    "watching.estimator",
    "queueing.buffer",
    "queueing.answers",
    "verdict.losses",
    "tables.printing",
    "monitor.sensitivity",
    "reports.findings",
    "verdict.html",
)


GALLERY = [f"examples.gallery.{name}" for name in ("gallery", "pictures", "texts")]


@each("module", ["likewise", *(f"likewise.{name}" for name in MODULES), *GALLERY])
def test_docstring_examples_answer_what_they_say(module):
    failed, attempted = doctest.testmod(importlib.import_module(module))
    assert attempted > 0
    assert failed == 0


def prose(*pages: str) -> str:
    """The text of these pages without the directives that autodoc fills in."""
    whole = "\n".join(text(page) for page in pages)
    return re.sub(r"^```\{eval-rst\}\n.*?^```$", "", whole, flags=re.MULTILINE | re.DOTALL)


REFERENCE = names(sorted((ROOT / "docs" / "reference").glob("*.md")))


@each("name", lw.__all__)
def test_public_name_is_explained_in_words(name):
    explained = prose("README.md", "ARCHITECTURE.md", *REFERENCE)
    assert re.search(rf"\b{name}\b", explained), f"no reference and no overview explains {name}"


@each(
    "name",
    sorted(
        {
            *rule.METRICS,
            *rule.OUTPUTS,
            *rule.OUTPUT_METRICS,
            *rule.STORAGES,
            *rule.COMPARES,
            *feature.KINDS,
            *feature.MISSING,
        }
    ),
)
def test_choice_of_a_rule_is_in_its_reference(name):
    assert f'`"{name}"`' in text("docs/reference/rules.md")


@each("name", [field.name for kind in (lw.Rule, lw.Feature) for field in dataclasses.fields(kind)])
def test_setting_of_a_rule_is_in_its_reference(name):
    assert re.search(rf"`{name}\b", text("docs/reference/rules.md"))


@each("name", [name for name in vars(lw.Monitor) if not name.startswith("_")])
def test_method_of_a_monitor_is_in_its_reference(name):
    written = f"`{name}`" if isinstance(vars(lw.Monitor)[name], property) else f"`{name}("
    assert written in text("docs/reference/monitors.md")


@each("name", [name for name in vars(MonitorLedger) if not name.startswith("_")])
def test_method_of_a_monitors_ledger_is_in_its_reference(name):
    if name in OF_THE_CORE:
        return
    written = f"`{name}`" if isinstance(vars(MonitorLedger)[name], property) else f"`{name}("
    assert written in text("docs/reference/monitors.md")


@each("name", ["docs/reference/monitors.md", "docs/reference/ledgers.md"])
def test_what_a_reference_names_is_there(name):
    defined = re.compile(r"(?:class|def) (\w+)|^ *(\w+)(?:: [^=\n]+)? = ", re.MULTILINE)
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    known = {found[1] or found[2] for found in defined.finditer(code)} | set(vars(builtins))
    named = re.findall(r"`(?:[\w.]+\.)?([A-Z][a-z]\w+|[a-z_]\w*(?=\())", text(name))
    assert len(named) > 50
    assert not set(named) - known - {"Future"}


def test_readme_stays_a_front_door():
    assert len(text("README.md").encode()) < 7_000, "references belong into docs/reference"


TOLD = [name for name in names(files(".md")) if not name.startswith(("CHANGELOG", "decisions"))]
NAMED_PACKAGE = re.compile(r"pip install[^\n`]*?[ '\"]likewise\b")


@each("name", TOLD)
def test_page_installs_from_a_clone(name):
    found = NAMED_PACKAGE.search(text(name))
    assert found is None, f"{name} says {found[0]!r}, but likewise is not published"


def test_every_extra_is_on_the_page_about_installing():
    project = tomllib.loads(text("pyproject.toml"))["project"]
    page = text("docs/how-to/install.md")
    listed = re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(project["optional-dependencies"])


@each("name", TOLD)
def test_extra_that_a_page_names_is_one(name):
    extras = tomllib.loads(text("pyproject.toml"))["project"]["optional-dependencies"]
    for listed in re.findall(r"(?:likewise|['\"]\.)\[([\w,-]+)\]", text(name)):
        assert set(listed.split(",")) <= set(extras), f"{name} names [{listed}]"


@each("name", names(files(".md")))
def test_relative_links_lead_to_files(name):
    prose = FENCE.sub("", text(name))
    for link in LINK.findall(prose):
        if re.match(r"[a-z]+:|#", link):
            continue
        target = (ROOT / name).parent / link.partition("#")[0]
        assert target.is_file(), f"{name} links to {link}, which is no file: the site has none"


def anchors(name: str) -> set[str]:
    """The places of a page that a link can name: its headings, as GitHub and the site call them."""
    headings = re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text(name)), re.MULTILINE)
    shown = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one) for one in headings]
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in shown}


@each("name", names(files(".md")))
def test_links_lead_to_headings(name):
    for link in LINK.findall(FENCE.sub("", text(name))):
        page, mark, anchor = link.partition("#")
        if not mark or re.match(r"[a-z]+:", link):
            continue
        target = (ROOT / name).parent / page if page else ROOT / name
        if target.suffix == ".md":
            found = anchors(str(target.resolve().relative_to(ROOT)))
            assert anchor in found, f"{name} links to {link}, which is no heading"


@each("name", names(files(".md")))
def test_picture_of_the_report_is_described_without_its_figures(name):
    """The picture is made anew now and then, and its figures with it."""
    for described in re.findall(r"!\[([^\]]*)\]\([^)]*\breport\.png\)", text(name)):
        assert described and not re.search(r"\d", described), f"{name}: {described}"


@each("name", names(files(".md", ".py", ".svg", ".toml")))
def test_file_does_not_know_where_it_is_kept(name):
    here = re.compile(rf"(?<![\w.$}}/]){re.escape(str(ROOT))}(?![\w-])")
    assert not here.search(text(name)), f"{name} contains the path of this checkout"
