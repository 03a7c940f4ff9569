"""A rule or a ledger that came from somebody else runs nothing until the caller says so."""

import pickle
import sys

import numpy as np
import pytest

import likewise as lw
from likewise import Embedder, Feature
from likewise.errors import BadDecision
from tests.support.letter_embedders import letters
from tests.support.refusals import raises

BODY = """
import pathlib
pathlib.Path({marker!r}).write_text("imported")
def embed(batch):
    return [[float(len(one)), float(one.count("e"))] for one in batch]
"""
TEXTS = ["some text", "some test", "another"]
NAMES = [
    "python:foreign_code:embed",
    "torch:foreign_code:embed",
    "sentence-transformers:foreign_code",
]


class Foreign:
    """A module on the path that leaves a mark when it is imported."""

    def __init__(self, folder):
        self.marker = folder / "imported.txt"
        (folder / "foreign_code.py").write_text(BODY.format(marker=str(self.marker)))

    @property
    def ran(self):
        return self.marker.exists() or "foreign_code" in sys.modules

    def forget(self):
        sys.modules.pop("foreign_code", None)
        self.marker.unlink(missing_ok=True)


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Foreign(tmp_path)
    yield made
    made.forget()


def rule_of(name, table):
    if not table:
        return lw.Rule("l2", 1.5, embed=name)
    features = {
        "id": Feature("key"),
        "said": Feature("text", embed=name, tolerance=1.5, missing="match"),
        "age": Feature("number", tolerance=5),
    }
    return lw.Rule("l2", features=features, output_column="z")


def rows(texts, first=0):
    return [
        {"id": f"p{i}", "said": text, "age": 30, "z": ["yes", "no"][i % 2]}
        for i, text in enumerate(texts, first)
    ]


def begun(path, rule):
    with lw.open(path, rule) as monitor:
        if rule.features is None:
            return monitor.observe_many(TEXTS, ["yes", "no", "yes"], keys=["p0", "p1", "p2"])
        return monitor.observe_many(rows(TEXTS))


@pytest.fixture(params=[False, True], ids=["texts", "table"])
def ledger(request, tmp_path, foreign):
    """A ledger whose rule names a function, in a process that has not imported it."""
    begun(tmp_path / "led", rule_of(NAMES[0], request.param))
    assert foreign.ran, "else the test proves nothing"
    foreign.forget()
    return tmp_path / "led"


@pytest.mark.parametrize("table", [False, True], ids=["texts", "table"])
@pytest.mark.parametrize("name", NAMES)
def test_reading_comparing_and_writing_a_rule_imports_nothing(foreign, name, table):
    before = set(sys.modules)
    text = rule_of(name, table).to_toml()
    rule = lw.Rule.from_toml(text)
    assert rule == lw.Rule.from_toml(rule.to_toml())
    assert hash(rule) == hash(pickle.loads(pickle.dumps(rule)))
    assert [one.text for one in rule.embedders().values()] == [name]
    assert rule.is_same_except_models(lw.Rule.from_toml(text))
    assert not foreign.ran
    assert {"torch", "sentence_transformers"} & (set(sys.modules) - before) == set()


def test_opening_a_ledger_without_its_rule_runs_nothing_it_names(ledger, foreign):
    with lw.open(ledger) as monitor:
        assert (len(monitor), monitor.ledger.verify().ok, monitor.row_of("p1")) == (3, True, 1)
        assert monitor.past.inputs([0]).shape[0] == 1
        assert str(monitor.explain())
        assert len(monitor.rule.fingerprint) == 64
        assert monitor.erase(key="p1").rows == (1,)
    assert lw.replay(ledger).ok
    with lw.Ledger(ledger) as looked_at:
        assert looked_at.verify().ok
        assert len(list(looked_at.columns())) == 1
    with lw.open(ledger, models=False) as monitor:
        assert len(monitor) == 2
    assert not foreign.ran


def test_embedding_without_models_is_refused_and_says_how_to_have_them(ledger, foreign):
    with lw.open(ledger) as monitor:
        table = monitor.rule.features is not None
        one = (rows(["x"], 9)[0],) if table else ("x", "yes")
        many = (rows(["x"], 9),) if table else (["x"], ["yes"])
        for call, given in (
            (monitor.observe, one),
            (monitor.check, one),
            (monitor.observe_many, many),
            (monitor.load, many),
        ):
            with raises(BadDecision):
                call(*given)
        assert monitor.rows == 3
    assert not foreign.ran


def test_what_needs_no_model_is_judged_and_explained_without_one(tmp_path, foreign):
    begun(tmp_path / "led", rule_of(NAMES[0], table=True))
    foreign.forget()
    with lw.open(tmp_path / "led") as monitor:
        verdict = monitor.observe({"id": "p9", "said": None, "age": 31, "z": "other"})
        assert verdict.witnesses.rows.tolist() == [0, 1, 2]
        assert "said" in str(verdict.explain())
    assert lw.replay(tmp_path / "led").ok
    assert not foreign.ran


@pytest.mark.parametrize("how", ["models=True", "the rule", "the rule and models=True"])
def test_the_caller_who_asks_for_models_has_them(ledger, foreign, how):
    with lw.Ledger(ledger) as looked_at:
        rule = lw.Rule.from_toml(looked_at.rule.to_toml())
    given = rule if "rule" in how else None
    settings = {"models": True} if "models" in how else {}
    with lw.open(ledger, given, **settings) as monitor:
        one = ("some tent", "maybe") if rule.features is None else (rows(["some tent"], 9)[0],)
        assert 0 in monitor.observe(*one).witnesses.rows.tolist()
    assert foreign.ran


def test_a_rule_given_with_models_false_runs_nothing(ledger, foreign):
    with lw.Ledger(ledger) as looked_at:
        rule = lw.Rule.from_toml(looked_at.rule.to_toml())
    with lw.open(ledger, rule, models=False) as monitor:
        assert len(monitor) == 3
    assert not foreign.ran


def test_the_stored_rule_is_not_loaded_where_the_caller_gave_another_name(tmp_path, foreign):
    begun(tmp_path / "led", rule_of(NAMES[0], table=False))
    foreign.forget()

    def own(batch):
        return [[float(len(one)), float(one.count("e"))] for one in batch]

    with lw.open(tmp_path / "led", rule_of(own, table=False)) as monitor:
        assert monitor.observe("some text", "no").violation
    assert not foreign.ran


@pytest.mark.parametrize("name", NAMES)
def test_an_embedder_that_is_found_by_name_is_code(name):
    assert Embedder(name).names_code


@pytest.mark.parametrize("embed", ["wordllama", "onnx:m.onnx", letters, np.stack])
def test_data_and_the_callers_own_function_are_not_code_that_a_rule_names(embed):
    assert not Embedder(embed).names_code
