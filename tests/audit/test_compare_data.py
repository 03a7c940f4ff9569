"""`lw.compare` finds what `likewise compare` finds, in frames, files, ledgers and models."""

import json

import pandas as pd
import pytest

import likewise as lw
from tests.audit.test_audit_data import RULE, command_says, decisions
from tests.support.looping import each


def without_circumstances(numbers):
    plain = json.loads(json.dumps(numbers))
    plain.pop("command")
    for side in ("a", "b"):
        for name in ("command", "seconds", "machine_load", "made_at"):
            plain[side]["computed"].pop(name)
    return plain


@pytest.fixture
def folder(tmp_path):
    old, new = decisions(300), decisions(350)
    new["decision"] = ["yes", *new["decision"][1:]]
    old.to_csv(tmp_path / "old.csv", index=False)
    new.to_csv(tmp_path / "new.csv", index=False)
    both = pd.concat([old.assign(version="1"), new.assign(version="2")])
    both.to_csv(tmp_path / "both.csv", index=False)
    (tmp_path / "rule.toml").write_text(RULE.to_toml())
    lw.audit(tmp_path / "old.csv", RULE, ledger=tmp_path / "old.ledger")
    return tmp_path


CASES = {
    "files": (("old.csv", "new.csv"), {}, ()),
    "files in order of time": (
        ("old.csv", "new.csv"),
        {"time_column": "day", "within": "90 days"},
        ("--time-column", "day", "--within", "90 days"),
    ),
    "a ledger and a file": (("old.ledger", "new.csv"), {}, ()),
    "models": (("both.csv",), {"model_column": "version"}, ("--model-column", "version")),
    "models in turn": (
        ("both.csv",),
        {"model_column": "version", "first": "2", "second": "1"},
        ("--model-column", "version", "--first", "2", "--second", "1"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_comparison_equals_the_command(folder, case):
    names, settings, options = CASES[case]
    paths, rule = [folder / name for name in names], folder / "rule.toml"
    said = command_says("compare", *paths, "--rule", rule, "--json", *options)
    compared = lw.compare(*paths, rule=rule, **settings)
    assert without_circumstances(compared.to_dict()) == without_circumstances(said)
    assert said["persisting"]["count"] + said["new"]["count"] > 50


def test_frames_are_compared_like_files(folder):
    files = lw.compare(folder / "old.csv", folder / "new.csv", RULE)
    frames = lw.compare(pd.read_csv(folder / "old.csv"), pd.read_csv(folder / "new.csv"), RULE)
    for compared in (files, frames):
        assert compared.headline[0] in compared._repr_html_()
        assert len(repr(compared)) < 200
    assert frames.findings.new.count == files.findings.new.count
    assert (frames.findings.one.name, frames.findings.other.name) == ("a", "b")
    frames.save(folder / "page.html")
    assert (folder / "page.html").read_text() == frames.to_html()
    frames.save(folder / "numbers.json")
    saved = json.loads((folder / "numbers.json").read_text())
    assert saved == json.loads(json.dumps(frames.to_dict()))


@each(
    ("given", "message"),
    [
        (((decisions(),), {"rule": RULE}), "what is to be compared"),
        (((decisions(), decisions()), {}), "what is similar"),
        (((decisions(),), {"rule": RULE, "model_column": "brand"}), "no column"),
        (((decisions(),), {"rule": RULE, "model_column": "day"}), "two models"),
    ],
)
def test_what_cannot_be_compared_is_refused(given, message):
    arguments, settings = given
    with pytest.raises(lw.LikewiseError, match=message):
        lw.compare(*arguments, **settings)
