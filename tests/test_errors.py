"""Errors: each class has a code of its own, and its facts survive copies and journeys."""

import copy
import importlib
import json
import pickle
import pkgutil
import re

import pytest

import likewise
import likewise as lw
from likewise.errors import BY_CODE, LikewiseError
from likewise.service.http_errors import Refusal, error_fields, http_error

EXAMPLES = [
    lw.errors.BadRule("epsilon is -1; expected a number from 0", setting="epsilon"),
    lw.errors.BadDecision("the body is no object."),
    lw.errors.MissingValue(
        "'age' is missing.", place=3, column="age", advice="Say what that means."
    ),
    lw.errors.RepeatedKey("the key 'a' was given to row 7 already.", key="a", row=7, place=2),
    lw.errors.ErasedKey("the decision with the key 'a' was erased.", key="a"),
    lw.errors.OldPosition("the position is 4.", source="s", position=(4, 0), last=(5, 1)),
    lw.errors.BadRow("row 9 is not in this history.", row=9),
    lw.errors.BadFile("'d.csv' is empty.", path="d.csv"),
    lw.errors.BadTable("the rule names a column.", path="d.csv", columns=["age"]),
    lw.errors.Unreachable("nobody answers.", in_doubt=True, lasting=True),
    lw.errors.Forbidden("no.", in_doubt=True),
]


def every_error() -> set[type[LikewiseError]]:
    """Every class of error in the package, wherever it is defined."""
    for module in pkgutil.walk_packages(likewise.__path__, "likewise."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as missing:  # an extra that is not installed
                assert not str(missing.name).startswith("likewise")
    found, waiting = {LikewiseError}, [LikewiseError]
    while waiting:
        waiting += (more := waiting.pop().__subclasses__())
        found.update(more)
    return {kind for kind in found if kind.__module__.partition(".")[0] == "likewise"}


@pytest.mark.long  # it loads every module of the package
def test_every_class_has_a_code_that_no_other_has():
    kinds = [*every_error(), Refusal]
    codes = {}
    for kind in kinds:
        assert "code" in vars(kind), f"{kind.__name__} has no code of its own"
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code), kind
        assert codes.setdefault(kind.code, kind) is kind, (kind, codes[kind.code])
    assert len(kinds) > 25


def test_errors_can_be_found_by_their_codes():
    assert BY_CODE["missing-value"] is lw.errors.MissingValue
    for code, kind in BY_CODE.items():
        assert kind.code == code and getattr(lw.errors, kind.__name__) is kind


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: error.code)
def test_copies_and_pickles_have_the_same_class_text_and_facts(error):
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error)
        assert (str(again), again.args, again.facts()) == (str(error), error.args, error.facts())


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: error.code)
def test_a_body_has_the_code_and_facts_of_an_error_and_gives_it_back(error):
    _, body, _ = http_error(error)
    sent = json.loads(body)
    assert sent == json.loads(json.dumps(error_fields(error)))
    code, message = sent.pop("code"), sent.pop("message")
    again = BY_CODE[code].restore(message, sent)
    assert type(again) is type(error) and str(again) == str(error)
    for name in sent:
        assert json.dumps(getattr(again, name)) == json.dumps(getattr(error, name))


def test_a_decision_that_is_refused_among_others_can_be_told_of_alone():
    error = lw.errors.MissingValue("'age' is missing.", place=3, column="age", advice="Say so.")
    assert str(error) == "row 3: 'age' is missing. Nothing was stored. Say so."
    alone = error.with_place(None)
    assert type(alone) is lw.errors.MissingValue and alone.column == "age"
    assert str(alone) == "'age' is missing. Nothing was stored. Say so."
    assert error.place == 3 and error.reason == "'age' is missing. Say so."
    again = lw.errors.RepeatedKey("the key is known.", key="a", row=7, place=2).with_place(5)
    assert (again.place, again.row, again.key) == (5, 7, "a")
    assert str(again) == "row 5: the key is known. Nothing was stored. Keys are unique."
