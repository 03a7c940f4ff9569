"""Templates escape every value, whoever forgets it; `Markup` is made in a few agreed places."""

import builtins
import re
from pathlib import Path

import pytest

import likewise as lw
from likewise.verdict.html import render
from tests.support.hostile_text import STRINGS

SOURCE = Path(lw.__file__).parent
TAGS = re.compile(r"</(?:td|th|tr|p|a|li|dd|h[1-6]|section|form|bdi|span)>")
TRUSTED = {"verdict/html.py", "reports/document.py", "reports/charts.py"}
"""Where a text is said to be HTML: what a template wrote, style sheets and scripts, pictures."""


def test_html_is_trusted_in_agreed_places_only():
    found = set()
    for path in (*SOURCE.rglob("*.py"), *SOURCE.rglob("*.html")):
        text = path.read_text("utf-8")
        said = re.search(r"Markup\(|\|\s*safe\b|autoescape (?:false|off)", text)
        if said:
            found.add(str(path.relative_to(SOURCE)))
    assert found == TRUSTED


def test_html_is_written_in_templates_and_in_pictures_only():
    """Scripts, tables and links in strings of Python would not be escaped."""
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if TAGS.search(path.read_text("utf-8"))
    }
    assert found <= {"verdict/html.py"}


def test_every_value_of_a_template_is_escaped_and_readable():
    for hostile in STRINGS:
        told = {"title": hostile, "columns": [hostile], "lines": [[hostile]], "count": 1}
        page = str(render("verdict/verdict.html", **told))
        inside = re.sub(r"</?(?:table|caption|tr|th|td)(?: scope=col)?>", "", page)
        assert "<" not in inside and ">" not in inside
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069]", page)


def test_a_name_that_a_template_does_not_get_is_an_error():
    jinja2 = pytest.importorskip("jinja2")
    with pytest.raises(jinja2.UndefinedError):
        render("verdict/verdict.html", title="t", count=1)


def test_notebooks_show_text_without_jinja(monkeypatch):
    monitor = lw.Monitor(lw.Rule("linf", 1.0))
    verdicts = monitor.observe_many([[0.0], [0.5]], ["a", "b"])
    explained = verdicts[1].explain()
    for shown in (verdicts, verdicts[1], explained, explained.pairs[0]):
        assert shown._repr_html_().startswith("<")
    monkeypatch.setattr("likewise.verdict.html.find_spec", lambda name: None)
    real = builtins.__import__

    def without(name, *more):
        assert name.partition(".")[0] not in ("jinja2", "markupsafe")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    for shown in (verdicts, verdicts[1], explained, explained.pairs[0]):
        assert shown._repr_html_() is None
