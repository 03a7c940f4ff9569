"""A rule that names code is run by command only where `--trust-code` is said."""

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import likewise as lw
from likewise.cli import main
from tests.support.commands import installed
from tests.support.onnx_models import picture_model
from tests.support.rule_texts import rule_text

RULE = rule_text(
    {"id": "key", "message": {"kind": "text", "embed": "EMBED", "tolerance": 1.5}},
    output={"column": "verdict"},
    metric="l2",
)
WITHOUT_KEY = RULE.replace('[features.id]\nkind = "key"\n', "")
BODY = """
import pathlib
pathlib.Path({marker!r}).write_text("imported")
def embed(batch):
    return [[float(len(one)), float(one.count("e"))] for one in batch]
"""
PYTHON = "python:foreign_code:embed"
NAMES = [PYTHON, "torch:foreign_code:embed", "sentence-transformers:foreign_code"]
ROWS = [("some text", "ham"), ("some test", "spam"), ("another thing", "ham")]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A file of decisions, and a module on the path that leaves a mark when it is imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    marker = str(tmp_path / "imported.txt")
    (tmp_path / "foreign_code.py").write_text(BODY.format(marker=marker))
    lines = [f"m{i},{text},{verdict}\n" for i, (text, verdict) in enumerate(ROWS)]
    (tmp_path / "data.csv").write_text("id,message,verdict\n" + "".join(lines))
    yield tmp_path
    sys.modules.pop("foreign_code", None)


@pytest.fixture
def send(monkeypatch):
    """Lines on standard input."""
    with ExitStack() as opened:

        def lay_out(text):
            Path("lines.jsonl").write_text(text)
            monkeypatch.setattr(sys, "stdin", opened.enter_context(Path("lines.jsonl").open()))

        yield lay_out


def ran():
    return Path("imported.txt").exists() or "foreign_code" in sys.modules


def forget():
    sys.modules.pop("foreign_code", None)
    Path("imported.txt").unlink(missing_ok=True)


def written(name=PYTHON, text=RULE):
    Path("rule.toml").write_text(text.replace("EMBED", name))
    return "rule.toml"


def lines(first=0, keyed=True):
    rows = (
        {"id": f"m{i}", "message": text, "verdict": verdict}
        for i, (text, verdict) in enumerate(ROWS, first)
    )
    kept = ({name: one[name] for name in one if keyed or name != "id"} for one in rows)
    return "".join(json.dumps(one) + "\n" for one in kept)


COMMANDS = {
    "audit": ("audit", "data.csv"),
    "audit with a report": ("audit", "data.csv", "--report", "page.html"),
    "audit with a time": ("audit", "data.csv", "--time-column", "id"),
    "audit into a ledger": ("audit", "data.csv", "--ledger", "led"),
    "calibrate": ("calibrate", "data.csv"),
    "watch": ("watch",),
    "watch into a ledger": ("watch", "--ledger", "led"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", COMMANDS)
def test_a_rule_that_names_code_is_refused_before_anything_is_imported(which, name, capsys):
    before = set(sys.modules)
    assert main([*COMMANDS[which], "--rule", written(name)]) == 2
    told = capsys.readouterr()
    assert "--trust-code" in told.err and repr(name) in told.err and "rule.toml" in told.err
    assert told.out == ""
    assert not ran()
    assert not {"foreign_code", "torch", "sentence_transformers"} & (set(sys.modules) - before)
    assert not Path("led").exists() and not Path("page.html").exists()


@pytest.mark.parametrize("which", [one for one in COMMANDS if one != "audit with a time"])
def test_with_trust_code_it_runs(which, capsys, send):
    send(lines())
    assert main([*COMMANDS[which], "--rule", written(), "--trust-code"]) == 0
    assert ran()
    assert "1" in capsys.readouterr().out


@pytest.mark.long
def test_the_installed_command_asks_and_obeys():
    refused = installed("audit", "data.csv", "--rule", written(), code=2)
    assert "--trust-code" in refused.stderr and "Traceback" not in refused.stderr
    assert not ran()
    installed("audit", "data.csv", "--rule", written(), "--trust-code")
    assert ran()


def test_a_setting_beside_the_name_hides_nothing(capsys):
    text = RULE.replace('"EMBED"', f'{{name = "{PYTHON}", batch = 3}}')
    Path("rule.toml").write_text(text)
    assert main(["audit", "data.csv", "--rule", "rule.toml"]) == 2
    assert "--trust-code" in capsys.readouterr().err and not ran()


def test_one_column_of_several_is_enough_to_ask(capsys):
    text = RULE.replace("EMBED", "wordllama") + (
        f'[features.verdict_text]\nkind = "text"\nembed = "{PYTHON}"\ntolerance = 1\n'
    )
    Path("rule.toml").write_text(text)
    assert main(["audit", "data.csv", "--rule", "rule.toml"]) == 2
    told = capsys.readouterr().err
    assert "'verdict_text'" in told and "--trust-code" in told and not ran()


def test_a_rule_whose_models_are_data_is_not_asked_about(capsys, here):
    assert main(["audit", "data.csv", "--rule", written("wordllama")]) == 0
    picture_model(here / "model.onnx", (4, 4, 3))
    text = RULE.replace('"text"', '"image"').replace("EMBED", "onnx:model.onnx")
    Path("rule.toml").write_text(text)
    assert main(["audit", "data.csv", "--rule", "rule.toml"]) == 3
    told = capsys.readouterr().err
    assert "is no picture" in told and "--trust-code" not in told


# A ledger has its rule inside


@pytest.fixture(params=[RULE, WITHOUT_KEY], ids=["with a key", "without"])
def ledger(request):
    """Made where the code is trusted; then it is somebody else's. Lines that go on with it."""
    rule = lw.Rule.from_toml(request.param.replace("EMBED", PYTHON))
    keyed = request.param is RULE
    with lw.open("led", rule) as monitor:
        for row in map(json.loads, lines(keyed=keyed).splitlines()):
            monitor.observe(row, key=None if keyed else monitor.rows + 1)
    assert ran(), "else the test proves nothing"
    forget()
    return lines(3, keyed)


def test_watching_into_a_ledger_whose_rule_names_code_is_refused(ledger, capsys, send):
    send(ledger)
    assert main(["watch", "--ledger", "led"]) == 2
    told = capsys.readouterr()
    assert "the rule of the ledger led" in told.err and repr(PYTHON) in told.err
    assert "--trust-code" in told.err
    assert told.out == "" and not ran()
    with lw.Ledger("led") as looked_at:
        assert looked_at.rows == 3


def test_watching_into_it_goes_on_with_trust_code(ledger, capsys, send):
    send(ledger)
    assert main(["watch", "--ledger", "led", "--trust-code"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["row"] for one in told] == [3, 4, 5] and ran()
    assert [0 in [w["row"] for w in one["witnesses"]] for one in told] == [False, True, False]


def test_looking_at_such_a_ledger_runs_nothing(ledger, capsys):
    for words in (
        ("show", "led", "1"),
        ("report", "led", "--out", "page.html"),
        ("verify", "led"),
        ("replay", "led"),
        ("erase", "led", "--row", "1", "--yes"),
        ("replay", "led"),
        ("verify", "led"),
    ):
        assert main(list(words)) == 0, (words, capsys.readouterr().err)
    assert not ran()
