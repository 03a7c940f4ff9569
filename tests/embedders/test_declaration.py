"""What a rule may say about embedders: every name, every setting, and back from TOML."""

import copy
import functools
import pickle

import numpy as np
import pytest

import likewise as lw
from likewise import Embedder, Feature
from likewise.embedders.model_mark import ModelMark
from tests.support.looping import each
from tests.support.refusals import raises


def lengths(batch):
    return [[float(len(one)), 1.0] for one in batch]


class Callable:
    def __call__(self, batch):
        return lengths(batch)

    def method(self, batch):
        return lengths(batch)


NAMES = {
    "wordllama": ("wordllama", "", "texts", True),
    "sentence-transformers:folder/of/model": (
        "sentence-transformers",
        "folder/of/model",
        "texts",
        True,
    ),
    "sentence-transformers:org/name": ("sentence-transformers", "org/name", "texts", True),
    "onnx:C:/models/a b.onnx": ("onnx", "C:/models/a b.onnx", "pictures", False),
    "torch:my.models:encoder": ("torch", "my.models:encoder", "anything", False),
    "python:my.models:Embedders.small": ("python", "my.models:Embedders.small", "anything", False),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_taken_apart(name):
    one = Embedder(name)
    assert (one.kind, one.location, one.input_kind, one.unit_length) == NAMES[name]
    assert one.text == name
    assert not one.is_loaded, "nothing is loaded before it is needed"


def test_an_onnx_model_with_a_tokenizer_takes_texts():
    assert Embedder("onnx:m.onnx", tokenizer="t.json").input_kind == "texts"


def test_normalise_is_what_was_said():
    assert not Embedder("wordllama", normalise=False).unit_length
    assert Embedder(lengths, normalise=True).unit_length


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lengths, f"python:{__name__}:lengths"),
        (Callable(), f"python:{__name__}:Callable"),
        (Callable().method, f"python:{__name__}:Callable.method"),
        (functools.partial(lengths), "python:functools:partial"),
        (len, "python:builtins:len"),
    ],
    ids=["function", "instance", "method", "partial", "builtin"],
)
def test_a_callable_is_named_by_where_it_is_defined(given, text):
    assert Embedder(given).text == text
    assert Embedder(given).kind == "python"


def test_a_local_function_is_a_callable_like_any_other():
    local = Embedder(lambda batch: [[len(one), 1.0] for one in batch])
    assert local.embedding.embed_many(["ab"]).tolist() == [[2.0, 1.0]]


@each(
    "name",
    [
        "",
        "word2vec",
        "WordLlama",
        "wordllama ",
        "wordllama:",
        "wordllama:256",
        "onnx",
        "onnx:",
        "sentence-transformers",
        "sentence-transformers:",
        ":x",
        None,
        7,
        b"wordllama",
        ["wordllama"],
        np.zeros(3),
    ],
    ids=repr,
)
def test_another_name_is_refused_with_those_expected(name):
    with raises(lw.errors.BadRule, setting="embed"):
        Embedder(name)


@each("kind", ["torch", "python"])
@each("rest", ["module", "module.function", "a:b:c", "C:\\model:f:g"])
def test_a_function_is_named_by_module_and_function(kind, rest):
    with raises(lw.errors.BadRule, setting="embed"):
        Embedder(f"{kind}:{rest}")


@pytest.mark.parametrize(
    "name", ["python:no_such:f", "python:math:nothing", "python::f", "python:math:", "python:.a:f"]
)
def test_a_function_that_is_not_there_is_said_when_it_is_needed(name):
    with raises(lw.errors.BadRule, setting="embed"):
        lw.Monitor(lw.Rule("l2", 1, embed=name))


def test_what_is_no_function_is_refused_when_it_is_needed():
    with raises(lw.errors.BadRule, setting="embed"):
        lw.Monitor(lw.Rule("l2", 1, embed="python:math:pi"))


WRONG = [
    ("wordllama", {"size": (2, 2)}),
    ("wordllama", {"shape": (2, 2)}),
    ("wordllama", {"tokenizer": "t.json"}),
    ("sentence-transformers:m", {"pooling": "mean"}),
    ("torch:m:f", {"tokenizer": "t.json"}),
    ("torch:m:f", {"output": "y"}),
    ("python:m:f", {"scale": 2.0}),
    (lengths, {"mean": np.array([1.0, 2.0])}),
    (lengths, {"layout": "channels last"}),
]


@each(("name", "settings"), WRONG)
def test_a_setting_that_says_nothing_is_refused(name, settings):
    with raises(lw.errors.BadRule):
        Embedder(name, **settings)


BAD = {
    "batch": [0, -1, 1.5, True, "64", None],
    "cache": [-1, 0.5, False, "all", None],
    "normalise": [1, "yes", 0.0],
    "pooling": ["max", 3, ""],
    "layout": ["CHW", 1],
    "shape": [[], [0], [-1, 3], [2.0], "28", 28, [True], [[1]]],
    "size": [[], [28], [28, 28, 3], 28, [28, 0]],
    "scale": ["1/255", float("nan"), float("inf"), True, [1.0]],
    "mean": ["0", [0.1, "b"], [float("nan")], {"r": 1}],
    "std": [0, [1.0, 0.0], 0.0, "1", [float("inf")]],
}


@each(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values], ids=repr
)
def test_a_setting_that_makes_no_sense_is_refused(name, value):
    more = {"tokenizer": "t.json"} if name == "pooling" else {}
    with raises(lw.errors.BadRule):
        Embedder("onnx:m.onnx", **{name: value}, **more)


def test_pooling_and_pictures_are_for_different_models():
    with raises(lw.errors.BadRule):
        Embedder("onnx:m.onnx", pooling="mean")
    with raises(lw.errors.BadRule):
        Embedder("onnx:m.onnx", tokenizer="t.json", size=(8, 8))


def test_numpy_numbers_are_numbers():
    one = Embedder(
        "onnx:m.onnx", size=np.array([8, 9]), scale=np.float32(0.5), mean=np.array([1, 2.5])
    )
    assert (one.size, one.scale, one.mean) == ((8, 9), 0.5, (1.0, 2.5))


@pytest.mark.parametrize("given", [{"batch": 3}, {"name": "wordllama", "sise": [1, 1]}, {}])
def test_a_table_has_a_name_and_known_settings(given):
    with raises(lw.errors.BadRule):
        lw.Rule("l2", 1, embed=given)


FULL = Embedder(
    'onnx:models/encoder "x".onnx',
    normalise=True,
    batch=7,
    cache=0,
    shape=[3, 8, 9],
    size=(8, 9),
    scale=1 / 255,
    mean=[0.485, 0.456, 0.406],
    std=0.225,
    layout="channels first",
    output="features",
)
TEXTS = Embedder("onnx:t.onnx", tokenizer="tokenizer.json", pooling="mean", normalise=False)


@each("embed", [*NAMES, FULL, TEXTS], ids=str)
def test_toml_gives_the_rule_back(embed):
    rule = lw.Rule("cosine", 0.25, embed=embed)
    back = lw.Rule.from_toml(rule.to_toml())
    assert back == rule
    assert back.embed == Embedder.of(embed)
    assert hash(back) == hash(rule)
    assert back.to_toml() == rule.to_toml()


@pytest.mark.parametrize("embed", ["wordllama", TEXTS, FULL], ids=str)
def test_toml_gives_features_back(embed):
    kind = "image" if embed is FULL else "text"
    rule = lw.Rule(
        "l2",
        features={
            "a 'b'": Feature(kind, embed=embed, tolerance=0.5, missing="match"),
            "n": Feature("number", tolerance=1),
        },
        output_column="z",
    )
    back = lw.Rule.from_toml(rule.to_toml())
    assert (back, hash(back)) == (rule, hash(rule))
    assert back.features["a 'b'"].embed == Embedder.of(embed)


def test_the_name_alone_is_written_alone_and_settings_as_a_table():
    assert 'embed = "wordllama"\n' in lw.Rule("l2", 1, embed="wordllama").to_toml()
    written = lw.Rule("l2", 1, embed=Embedder("wordllama", batch=5)).to_toml()
    assert 'embed = {"name" = "wordllama", "batch" = 5}\n' in written
    assert lw.Rule.from_toml(written).embed.batch == 5
    people = 'metric = "l2"\nepsilon = 1\n[embed]\nname = "wordllama"\ncache = 9\n'
    assert lw.Rule.from_toml(people).embed == Embedder("wordllama", cache=9)


def test_a_mapping_an_embedder_and_a_name_say_the_same():
    assert (
        lw.Rule("l2", 1, embed={"name": "wordllama"})
        == lw.Rule("l2", 1, embed="wordllama")
        == lw.Rule("l2", 1, embed=Embedder("wordllama"))
    )


def test_equal_means_the_same_declaration():
    assert Embedder("wordllama") == Embedder("wordllama", batch=64)
    assert Embedder("wordllama") != Embedder("wordllama", batch=65)
    assert Embedder(lengths) == Embedder(lengths)
    assert len({Embedder("onnx:a", size=(1, 1)), Embedder("onnx:a", size=[1, 1])}) == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_are_the_same_and_come_without_the_model(copied):
    declared = Embedder(lengths, cache=3)
    declared.embedding.embed_many(["abc"])
    same = copied(declared)
    assert same == declared
    assert declared.is_loaded and not same.is_loaded
    for rule in (
        lw.Rule("l2", 1, embed=declared),
        lw.Rule(
            "l2",
            features={"t": Feature("text", embed=declared, tolerance=1)},
            output_column="z",
        ),
    ):
        back = copied(rule)
        assert (back, hash(back), back.fingerprint) == (rule, hash(rule), rule.fingerprint)
        monitors = lw.Monitor(rule), lw.Monitor(back)
        row = "abc" if rule.features is None else {"t": "abc"}
        for monitor in monitors:
            monitor.observe(row, 1)
            assert monitor.observe(row, 0).witnesses.rows.tolist() == [0]


def test_a_rule_with_a_local_function_can_be_copied():
    """Its name leads nowhere, so the function itself must come along."""
    rule = lw.Rule("l2", 1, embed=lambda batch: [[len(one)] for one in batch])
    assert lw.Monitor(copy.deepcopy(rule)).observe("abc", 1).row == 0


def test_a_recorded_mark_goes_with_a_pickle():
    declared = Embedder("python:not.there:f")
    declared.record(ModelMark("it", (1.0,)))
    assert pickle.loads(pickle.dumps(declared)).mark == ModelMark("it", (1.0,))


@pytest.mark.parametrize(
    ("kind", "embed"),
    [("image", "wordllama"), ("text", "onnx:m.onnx"), ("image", TEXTS)],
    ids=str,
)
def test_a_column_and_its_embedder_speak_of_the_same(kind, embed):
    with raises(lw.errors.BadRule, setting="kind"):
        Feature(kind, embed=embed, tolerance=1)


@pytest.mark.parametrize(
    "settings", [{}, {"tolerance": 1}, {"embed": "wordllama"}, {"embed": "wordllama", "order": [1]}]
)
def test_a_column_of_texts_needs_an_embedder_and_a_tolerance(settings):
    with pytest.raises(lw.errors.BadRule):
        Feature("text", **settings)


@pytest.mark.parametrize("metric", ["linf", "l1"])
def test_embedded_columns_are_for_l2(metric):
    features = {"t": Feature("text", embed="wordllama", tolerance=1)}
    with raises(lw.errors.BadRule):
        lw.Rule(metric, features=features, output_column="z")


def test_a_rule_embeds_its_input_or_its_columns():
    features = {"t": Feature("text", embed="wordllama", tolerance=1)}
    with raises(lw.errors.BadRule):
        lw.Rule("l2", features=features, output_column="z", embed="wordllama")


ONE = ModelMark("model", (1.0, 0.0, 2.0))


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (ModelMark("model", (1.0, 0.0, 2.0)), ""),
        (ModelMark("model", (1.0005, 0.0, 2.0)), ""),
        (ModelMark("model", (1.01, 0.0, 2.0)), "its vector of a fixed input is 0.01 away"),
        (ModelMark("model", (1.0, 0.0)), "its vectors have 3 numbers, and had 2 then"),
        (ModelMark("other", (1.0, 0.0, 2.0)), "it is model, and was other"),
        (ModelMark("model", (float("nan"), 0.0, 2.0)), "its vector of a fixed input is nan away"),
    ],
)
def test_marks_of_another_model_differ(other, says):
    assert ONE.describe_difference(other).startswith(says)
    assert (
        bool(ONE.describe_difference(other)) == bool(says) == bool(other.describe_difference(ONE))
    )


def test_marks_of_nothing_and_of_zeros():
    assert ModelMark("m", ()).describe_difference(ModelMark("m", ())) == ""
    assert ModelMark("m", (0.0,)).describe_difference(ModelMark("m", (0.0,))) == ""
    difference = ModelMark("m", ()).describe_difference(ONE)
    assert difference == "it does not take the fixed input that it took then"


def test_a_mark_is_written_and_read():
    assert ModelMark.of(ONE.to_dict()) == ONE
    for wrong in (None, {}, {"identity": "x"}, {"identity": "x", "check": 3}, "mark", [1]):
        with pytest.raises(ValueError, match="marks no embedder"):
            ModelMark.of(wrong)
    with pytest.raises(ValueError):
        ModelMark.of({"identity": "x", "check": ["a"]})
