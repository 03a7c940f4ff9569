"""The references are what the code says, and the site leaves no page out."""

import re
import runpy
from pathlib import Path

import typer.main

import likewise as lw
from likewise.cli.commands import app
from tests.support import documentation_pages
from tests.support.looping import each

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
COMMAND = typer.main.get_command(app)
COMMANDS = {"likewise": COMMAND, **{f"likewise {k}": one for k, one in COMMAND.commands.items()}}


def text(*parts: str) -> str:
    return DOCS.joinpath(*parts).read_text(encoding="utf-8")


def test_command_line_page_is_what_its_script_writes():
    script = runpy.run_path(str(DOCS / "reference" / "commands.py"))
    written = script["page"]()
    assert written == text("reference", "command-line.md"), "python docs/reference/commands.py"


@each("name", COMMANDS)
def test_command_is_on_its_page_with_every_option(name):
    whole = text("reference", "command-line.md")
    (section,) = re.findall(rf"^## {name}$(.*?)(?=^## |\Z)", whole, re.MULTILINE | re.DOTALL)
    for one in COMMANDS[name].params:
        for option in (*one.opts, *one.secondary_opts) if one.param_type_name == "option" else ():
            assert f"`{option}`" in section, f"{option} is missing"


@each("name", [name for name in lw.__all__ if not name.startswith("__")])
def test_public_name_is_in_the_python_reference(name):
    directive = rf"^\.\. (?:auto\w+|py:function):: likewise\.{name}\b"
    assert re.search(directive, text("reference", "python.md"), re.MULTILINE)


def test_every_page_is_in_the_navigation_of_the_site():
    site = runpy.run_path(str(DOCS / "site" / "navigation.py"))
    listed = {page for section in site["SECTIONS"].values() for page in section}
    for parent, children in site["CHILDREN"].items():
        listed |= {str(Path(parent).with_name(child)) for child in children}
    there = {str(page.relative_to(ROOT).with_suffix("")) for page in DOCS.rglob("*.md")}
    assert there - listed == {site["FRONT"]}
    for page in listed:
        assert list(ROOT.glob(f"{page}.md")), f"{page} is not there"


def test_report_has_the_sections_that_its_how_to_goes_through():
    told = text("how-to", "read-the-report.md").partition("## From top to bottom")[2]
    reports = ROOT / "src" / "likewise" / "reports"
    code = "".join(
        (reports / name).read_text(encoding="utf-8")
        for name in (
            *("page.html", "parts.html", "group_section.py"),
            *("group_section.html", "model_section.html"),
        )
    )
    named = re.findall(r"^\*\*(.+?)[.?]?\*\*", told.partition("\n## ")[0], re.MULTILINE)
    assert len(named) == 9
    for name in named:
        assert name in code, f"the report has no {name!r}"


@each(
    ("expected", "printed", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n…\n", "a\nb\nc\n", True),
        ("a\n…\nc\n", "a\nb\nc\n", True),
        ("…\nc\n", "a\nb\nc\n", True),
        ("…\nb\n", "a\nb\nc\n", False),
        ("a\n…\nb\n…\n", "a\nc\n", False),
        ("a\n…\na\n", "a\n", False),
        ("in 0.1 s\n", "in 2.5 s\n", True),
        ("in 0.1 s\n", "in 0.1 m\n", False),
        (f"head {'0' * 64}\n", f"head {'a1' * 32}\n", True),
        (f"head {'0' * 64}\n", f"head {'a1' * 31}\n", False),
    ],
)
def test_output_is_compared_line_by_line_but_for_times_and_hashes(expected, printed, same):
    assert (documentation_pages.differing(expected, printed) is None) == same


def test_hash_that_is_shown_twice_is_one_hash():
    one, other = "0" * 64, "1" * 64
    assert documentation_pages.same_hashes(
        [(f"{one}\n", f"{other}\n"), (f"a {one}\n", f"a {other}\n")]
    )
    assert not documentation_pages.same_hashes(
        [(f"{one}\n", f"{other}\n"), (f"a {one}\n", f"a {one}\n")]
    )


def test_blocks_are_taken_as_the_page_says():
    markdown = (
        "<!-- file: a.toml -->\n```toml\nx = 1\n```\n\n```sh\ntrue\n```\n\n```text\nout\n```\n\n"
        "<!-- not run: why -->\n```sh\nfalse\n```\n\n```yaml\nno\n```\n\n```python\n1\n```\n"
        "Words.\n\n```text\nnot its output\n```\n"
        "\n```{eval-rst}\n.. autoclass:: x\n```\n\n```python\n2\n```\n"
    )
    found = [
        (one.language, one.file, one.expected)
        for one in documentation_pages.steps("page", markdown)
    ]
    assert found == [
        ("toml", "a.toml", None),
        ("sh", None, "out\n"),
        ("python", None, None),
        ("python", None, None),
    ]


def test_service_page_has_every_route_setting_and_limit_with_its_default():
    from msgspec.structs import fields

    from likewise.service.app import App
    from likewise.service.service import Service
    from likewise.service.settings import (
        SCOPES,
        Limits,
        MonitorSettings,
        ServerSettings,
        ServiceSettings,
        Token,
    )

    page = text("reference", "service.md")
    app = App(Service(ServiceSettings({"default": MonitorSettings(rule="rule.toml")})))
    for one in app.operations:
        scope = one.scope or ""
        assert f"| `{one.method} {one.path}` | {scope}".rstrip() in page, one.path
        for query in one.queries:
            assert f"`{query.name}" in page, query.name
    for kind in (ServerSettings, MonitorSettings, Token):
        for one in fields(kind):
            assert f"`{one.name}`" in page, f"{kind.__name__}: {one.name}"
    for one in fields(Limits):
        assert f"| `{one.name}` | {int(one.default):,} |" in page, f"{one.name}: {one.default}"
    assert all(f"`{scope}`" in page for scope in SCOPES)
