"""Ledgers of texts and pictures: which model they were begun with, and what erasing leaves."""

import gc
import shutil
import sys

import numpy as np
import pytest

import likewise as lw
from likewise import Embedder, Feature
from likewise.monitor.readers.encoding import ERASED
from tests.support.letter_embedders import letter_vector, letters, some_texts
from tests.support.onnx_models import picture_model
from tests.support.refusals import raises

PICTURE = np.arange(12, dtype=np.uint8).reshape(4, 3)


def table_rule(embed, tolerance=1.0, **settings):
    features = {
        "id": Feature("key"),
        "said": Feature("text", embed=embed, tolerance=tolerance, **settings),
        "age": Feature("number", tolerance=5),
    }
    return lw.Rule("l2", features=features, output_column="z")


def people(texts, first=0):
    return [
        {"id": f"p{i}", "said": text, "age": 30 + i % 3, "z": ["yes", "no"][i % 2]}
        for i, text in enumerate(texts, first)
    ]


def holding(folder, needle):
    """The files in which these bytes are."""
    return sorted(path.name for path in folder.iterdir() if needle in path.read_bytes())


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module with the function `embed`, and forgets it again."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(body, name="embedder_of_this_test"):
        sys.modules.pop(name, None)
        (tmp_path / f"{name}.py").write_text(f"def embed(batch):\n    return {body}\n")
        return f"python:{name}:embed"

    yield write
    sys.modules.pop("embedder_of_this_test", None)


LONG = "[[float(len(one)), float(one.count('e'))] for one in batch]"


# The model is another


@pytest.mark.parametrize("given", [True, False], ids=["with the rule", "without"])
@pytest.mark.parametrize(
    "body",
    [
        LONG.replace("'e'", "'t'"),
        "[[float(len(one))] for one in batch]",
        "[[0.5] * 3 for one in batch]",
        "1 / 0",
    ],
    ids=["other numbers", "shorter", "longer", "broken"],
)
@pytest.mark.parametrize("table", [False, True], ids=["texts", "table"])
def test_a_function_of_the_same_name_that_answers_otherwise(tmp_path, module, given, body, table):
    name, path = module(LONG), tmp_path / "led"
    rule = table_rule(name) if table else lw.Rule("l2", 1, embed=name)
    row = people(["some text"])[0] if table else "some text"
    with lw.open(path, rule) as monitor:
        monitor.observe(*((row,) if table else (row, "z")))
    module(body)
    again = lw.Rule.from_toml(rule.to_toml()) if given else None
    with raises(lw.errors.BadRule):
        lw.open(path, again, models=True)
    module(LONG)
    with lw.open(path, models=True) as monitor:
        assert monitor.rows == 1, "nothing was changed, and with the model back it goes on"


def test_an_onnx_file_with_other_weights_is_noticed_and_a_moved_one_accepted(tmp_path):
    first, moved = tmp_path / "a.onnx", tmp_path / "b.onnx"
    picture_model(first, (4, 3))
    path, rule = tmp_path / "led", lw.Rule("l2", 1, embed=f"onnx:{first}")
    with lw.open(path, rule) as monitor:
        monitor.observe(PICTURE, "yes")
    shutil.move(first, moved)
    with raises(lw.errors.BadRule):
        lw.open(path, models=True)
    with lw.open(path, lw.Rule("l2", 1, embed=f"onnx:{moved}")) as monitor:
        assert monitor.observe(PICTURE, "no").witnesses.rows.tolist() == [0]
    picture_model(first, (4, 3), seed=1)
    for given in (None, lw.Rule("l2", 1, embed=f"onnx:{first}")):
        with raises(lw.errors.BadRule):
            lw.open(path, given, models=True)
    shutil.copy(moved, first)
    with lw.open(path, models=True) as monitor:
        assert monitor.rows == 2


def test_weights_that_the_fixed_input_does_not_see_are_noticed_too(tmp_path):
    """The digest is of the file, whatever the check vector says."""
    path = tmp_path / "a.onnx"
    picture_model(path, (4, 3))
    with lw.open(tmp_path / "led", lw.Rule("l2", 1, embed=f"onnx:{path}")):
        pass
    import onnx

    model = onnx.load(str(path))
    model.doc_string = "another file"
    onnx.save(model, str(path))
    with raises(lw.errors.BadRule):
        lw.open(tmp_path / "led", models=True)


def test_pictures_prepared_otherwise_are_noticed(tmp_path):
    path = tmp_path / "a.onnx"
    picture_model(path, (4, 3))
    rule = lw.Rule("l2", 1, embed=Embedder(f"onnx:{path}", scale=1 / 255))
    with lw.open(tmp_path / "led", rule):
        pass
    other = lw.Rule("l2", 1, embed=Embedder(f"onnx:{path}", scale=1 / 256))
    with raises(lw.errors.BadRule):
        lw.open(tmp_path / "led", other)
    batch = lw.Rule("l2", 1, embed=Embedder(f"onnx:{path}", scale=1 / 255, batch=7, cache=0))
    with lw.open(tmp_path / "led", batch):
        pass


def test_another_rule_is_still_another_rule(tmp_path):
    with lw.open(tmp_path / "led", lw.Rule("l2", 1, embed=letters)):
        pass
    with raises(lw.errors.BadRule):
        lw.open(tmp_path / "led", lw.Rule("l2", 2, embed=letters))
    with raises(lw.errors.BadRule):
        lw.open(tmp_path / "led", lw.Rule("l2", 1))
    with lw.open(tmp_path / "plain", lw.Rule("l2", 1)):
        pass
    with raises(lw.errors.BadRule):
        lw.open(tmp_path / "plain", lw.Rule("l2", 1, embed=letters))


def test_a_function_that_changed_its_type_is_noticed(tmp_path, module):
    """Numbers of float64 would lose their ends in a ledger that keeps float32."""
    body = "__import__('numpy').array([[len(one) / 8] for one in batch], 'float32')"
    name, path = module(body), tmp_path / "led"
    with lw.open(path, table_rule(name)) as monitor:
        monitor.observe(people(["abc"])[0])
    module(body.replace("float32", "float64"))
    with raises(lw.errors.BadRule):
        lw.open(path, models=True)


def test_a_ledger_insists_on_a_check_vector(tmp_path):
    known = {"abc": [1.0, 2.0]}
    rule = lw.Rule("l2", 1, embed=lambda batch: [known[one] for one in batch])
    with raises(lw.errors.BadRule, setting="embed"):
        lw.open(tmp_path / "led", rule)
    assert not (tmp_path / "led").exists()
    known["Like cases should be treated alike."] = [0.0, 0.0]
    again = lw.Rule("l2", 1, embed=lambda batch: [known[one] for one in batch])
    with lw.open(tmp_path / "led", again) as monitor:
        assert monitor.observe("abc", 1).row == 0


# Without the model


def test_a_function_that_cannot_be_imported_is_said_and_can_be_given(tmp_path):
    def local(batch):
        return letters(batch)

    path = tmp_path / "led"
    with lw.open(path, table_rule(local)) as monitor:
        monitor.observe_many(people(["abc", "abd"]))
    with raises(lw.errors.BadRule, setting="embed"):
        lw.open(path, models=True)
    with lw.open(path, table_rule(local)) as monitor:
        assert monitor.check(people(["abd"], 2)[0]).witnesses.rows.tolist() == [1]


@pytest.mark.parametrize("table", [False, True], ids=["texts", "table"])
def test_all_but_observing_can_be_done_without_models(tmp_path, module, table):
    path, name = tmp_path / "led", module(LONG)
    texts = ["some text", "some test", "another"]
    with lw.open(path, table_rule(name) if table else lw.Rule("l2", 1, embed=name)) as monitor:
        if table:
            monitor.observe_many(people(texts))
        else:
            monitor.observe_many(texts, ["yes", "no", "yes"], keys=["p0", "p1", "p2"])
    sys.modules.pop("embedder_of_this_test")
    (tmp_path / "embedder_of_this_test.py").unlink()
    with raises(lw.errors.BadRule, setting="embed"):
        lw.open(path, models=True)
    with lw.open(path, models=False) as monitor:
        assert (monitor.rows, monitor.ledger.verify().ok) == (3, True)
        with raises(lw.errors.BadDecision):
            monitor.observe(*((people(["x"], 9)[0],) if table else ("x", "yes")))
        with raises(lw.errors.BadDecision):
            monitor.observe_many(*((people(["x"], 9),) if table else (["x"], ["yes"])))
        assert monitor.rows == 3
        assert monitor.erase(key="p1").rows == (1,)
        if table:
            assert monitor.past.values(0)["said"] == "some text"
    assert lw.replay(path).ok
    with lw.Ledger(path) as ledger:
        assert ledger.verify().ok
        assert ledger.entry(1).erased
        assert ledger.rule.embedders()["said" if table else ""].text == name
    module(LONG)
    with lw.open(path, models=True) as monitor:
        assert len(monitor) == 2


def test_a_rule_may_be_given_where_models_are_not_wanted(tmp_path, module):
    path, name = tmp_path / "led", module(LONG)
    with lw.open(path, table_rule(name)) as monitor:
        monitor.observe_many(people(["some text"]))
    sys.modules.pop("embedder_of_this_test")
    (tmp_path / "embedder_of_this_test.py").unlink()
    with lw.open(path, table_rule(name), models=False) as monitor:
        assert monitor.erase(rows=[0]).rows == (0,)


# Erasing


SECRET = "a b c d e f g h is what only this person would ever have said"


@pytest.mark.parametrize("models", [True, False])
def test_an_erased_text_is_nowhere_and_its_vector_neither(tmp_path, models):
    path = tmp_path / "led"
    vector = np.array(letter_vector(SECRET), np.float32).tobytes()
    texts = [*some_texts(np.random.default_rng(1), 40), SECRET, *["abc", "bcd"] * 5]
    with lw.open(path, table_rule(letters, missing="match")) as monitor:
        monitor.observe_many(people(texts))
    assert holding(path, SECRET.encode()) and holding(path, vector), "else the test proves nothing"
    with lw.open(path, models=models) as monitor:
        assert monitor.erase(key="p40").complete
        assert SECRET not in monitor.core.memory.reader.encoder.vocabularies["said"].values
        assert monitor.past.values(40)["said"] is None
    assert holding(path, SECRET.encode()) == holding(path, SECRET[:20].encode()) == []
    assert holding(path, vector) == []
    with lw.open(path, models=True) as monitor:
        assert monitor.ledger.verify().ok
        assert SECRET not in monitor.core.memory.reader.encoder.vocabularies["said"].values
        assert monitor.check(people(["abc"], 99)[0] | {"z": "?"}).violation
    assert lw.replay(path).ok
    with lw.Ledger(path) as ledger:
        assert ledger.verify().ok


def test_a_text_that_another_row_has_stays(tmp_path):
    path = tmp_path / "led"
    with lw.open(path, table_rule(letters)) as monitor:
        monitor.observe_many(people([SECRET, "abc", SECRET]))
        monitor.erase(rows=[0])
        assert monitor.past.values(2)["said"] == SECRET
    assert holding(path, SECRET.encode())
    with lw.open(path, models=True) as monitor:
        assert monitor.past.values(2)["said"] == SECRET
        assert monitor.check(people([SECRET], 9)[0] | {"z": "?"}).witnesses.rows.tolist() == [2]
        monitor.erase(rows=[2])
    assert not holding(path, SECRET.encode())


def test_an_erased_text_may_come_again(tmp_path):
    path = tmp_path / "led"
    with lw.open(path, table_rule(letters)) as monitor:
        for i in range(3):
            monitor.observe(people([SECRET], i)[0])
            assert monitor.erase(rows=[i]).rows == (i,)
            assert not holding(path, SECRET.encode())
        monitor.observe_many(people([SECRET], 3))
    with lw.open(path, models=True) as monitor:
        assert monitor.past.values(3)["said"] == SECRET
        monitor.erase(rows=[3])
    assert not holding(path, SECRET.encode())
    assert lw.replay(path).ok


def test_a_text_in_a_rule_without_columns_is_never_written(tmp_path):
    path = tmp_path / "led"
    vector = np.array(letter_vector(SECRET), np.float32).tobytes()
    with lw.open(path, lw.Rule("l2", 1, embed=letters)) as monitor:
        monitor.observe(SECRET, "yes")
        assert not holding(path, SECRET.encode())
        assert holding(path, vector)
        monitor.erase(rows=[0])
    assert not holding(path, vector)


# Forgetting in memory


def test_forgetting_lets_go_of_texts_that_no_other_row_has():
    monitor = lw.Monitor(table_rule(letters))
    monitor.observe_many(people(["abc", SECRET, "abc", "bcd"]))
    known = monitor.core.reader.encoder.vocabularies["said"]
    monitor.forget([0, 1])
    assert [one for one in known.values if one is not ERASED] == ["abc", "bcd"]
    assert known.code_of(SECRET) is None
    assert monitor.past.values(1)["said"] is None
    monitor.forget([1, 2, 2, 0])
    assert [one for one in known.values if one is not ERASED] == ["bcd"]
    assert monitor.observe(people(["abc"], 7)[0]).row == 4
    assert monitor.past.values(4)["said"] == "abc"
    assert monitor.past.values(3)["said"] == "bcd"
    gc.collect()
    assert not any(one is known.values for one in gc.get_referrers(SECRET))


@pytest.mark.parametrize("kept", ["memory", "ledger"])
def test_texts_that_leave_a_window_leave_memory(tmp_path, kept):
    """Texts of 2,000 characters: 3,000 of them would be 6 MB, 300 are 0.6 MB."""
    rule = table_rule(Embedder(letters, cache=10))
    monitor = (
        lw.Monitor(rule)
        if kept == "memory"
        else lw.open(tmp_path / "led", rule, window="100 rows", durability="off")
    )
    memory = monitor.core.memory
    for first in range(0, 3_000, 50):
        texts = [f"{i:07}" + "abcdefgh" * 250 for i in range(first, first + 50)]
        monitor.observe_many(people(texts, first))
        if kept == "memory" and first >= 100:
            monitor.forget(range(first - 100, first - 50))
    values = memory.reader.encoder.vocabularies["said"].values
    there = sum(len(one) for one in values if one is not ERASED)
    assert there < 1_000_000, f"{there:,} characters are kept of 6,000,000"
    assert len(memory.reader.columns._uses["said"]) < 500
    assert len(memory.reader.encoder.vocabularies["said"]._codes) < 500
    monitor.close()


# Fingerprints


def test_equal_rules_have_equal_fingerprints(module):
    name = module(LONG)
    one, same = (lw.Rule("l2", 1, embed=name) for _ in range(2))
    assert one.fingerprint == same.fingerprint
    batch = lw.Rule("l2", 1, embed=Embedder(name, batch=3))
    assert batch != one and batch.fingerprint != one.fingerprint, "it is in the rule's text"
    features = dict(table_rule(name).features)
    backwards = dict(reversed(features.items()))
    assert (
        lw.Rule("l2", features=features, output_column="z").fingerprint
        == lw.Rule("l2", features=backwards, output_column="z").fingerprint
    )


@pytest.mark.parametrize("table", [False, True], ids=["texts", "table"])
def test_another_model_behind_a_name_has_another_fingerprint(module, table):
    def fingerprint(body):
        name = module(body)
        return (table_rule(name) if table else lw.Rule("l2", 1, embed=name)).fingerprint

    first = fingerprint(LONG)
    assert fingerprint(LONG) == first
    assert fingerprint(LONG.replace("'e'", "'t'")) != first


def test_an_onnx_file_with_other_weights_has_another_fingerprint(tmp_path):
    path = tmp_path / "a.onnx"
    picture_model(path, (4, 3))
    first = lw.Rule("l2", 1, embed=f"onnx:{path}").fingerprint
    assert lw.Rule("l2", 1, embed=f"onnx:{path}").fingerprint == first
    picture_model(path, (4, 3), seed=2)
    assert lw.Rule("l2", 1, embed=f"onnx:{path}").fingerprint != first


# Small things that once went wrong


@pytest.mark.parametrize("kind", ["text", "category"])
def test_a_column_without_a_word_can_be_erased_from_and_opened(tmp_path, kind):
    settings = {"embed": letters, "tolerance": 1.0} if kind == "text" else {}
    features = {
        "said": Feature(kind, missing="match", **settings),
        "age": Feature("number", tolerance=5),
    }
    rule = lw.Rule("l2", features=features, output_column="z")
    with lw.open(tmp_path / "ledger", rule) as ledger:
        ledger.observe({"said": None, "age": 30, "z": "yes"})
        ledger.observe({"said": None, "age": 31, "z": "yes"})
        ledger.erase(rows=[0])
    with lw.open(tmp_path / "ledger", rule) as ledger:
        assert ledger.observe({"said": "a", "age": 30, "z": "no"}).witnesses.rows.tolist() == [1]


def test_a_function_may_be_called_otherwise(tmp_path, module):
    with lw.open(tmp_path / "ledger", lw.Rule("l2", 1, embed=module(LONG))) as ledger:
        ledger.observe("a tree", "yes")
    moved = lw.Rule("l2", 1, embed=module(LONG, "another_embedder_of_this_test"))
    with lw.open(tmp_path / "ledger", moved) as ledger:
        assert ledger.observe("a tree", "no").violation
    sys.modules.pop("another_embedder_of_this_test", None)
