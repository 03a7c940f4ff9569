"""Models by row, in every order of taking, forgetting and being cut off."""

import numpy as np
import pytest

from likewise.monitor.row_models import RowModels
from likewise.tables.model_names import check_name, check_names


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def test_nothing_is_kept_until_a_model_is_given():
    models = RowModels("all")
    models.add(0, None, 5)
    models.forget(rows(1))
    models.settle(3, rows(1))
    assert not models and models._codes is None
    assert models.names(rows(0, 2)) == (None, None)
    models.add(3, ["a"], 1)
    assert models and models.names(rows(0, 3)) == (None, "a")


def test_what_was_cut_off_is_gone_and_its_number_is_free():
    models = RowModels("all")
    models.add(0, ["a", "b"], 2)
    models.add(2, ["c", "c", "a"], 3)
    models.settle(2, rows())
    assert models.names(rows(0, 1)) == ("a", "b")
    assert "c" not in models.read_codes(rows(0)).values
    models.add(2, None, 3)
    assert models.names(rows(2, 3, 4)) == (None, None, None)
    models.add(5, ["d"], 1)
    assert models.names(rows(0, 1, 5)) == ("a", "b", "d")
    assert len(models.read_codes(rows(0)).values) == 4


@pytest.mark.parametrize("step", range(6))
def test_it_settles_wherever_taking_was_cut_off(step, monkeypatch):
    """Before and after the name, its number, the row, the count and the number of uses."""
    models = RowModels("within")
    models.add(0, ["a", None], 2)

    def cut_off(*_):
        raise KeyboardInterrupt

    if step < 2:
        owner, name = [(models, "_learn"), (np, "fromiter")][step]
        monkeypatch.setattr(owner, name, cut_off)
        with pytest.raises(KeyboardInterrupt):
            models.add(2, ["b"] * (step + 1), step + 1)
        monkeypatch.undo()
    elif step == 2:
        models._count = 3
    elif step == 3:
        models._names.append("half")
    elif step == 4:
        models._codes.room(2, 1)[0] = 7
        models._count = 3
    else:
        monkeypatch.setattr(models, "_drop", cut_off)
        with pytest.raises(KeyboardInterrupt):
            models.forget(rows(0))
        monkeypatch.undo()
    gone = rows(0) if step == 5 else rows()
    models.settle(2, gone)
    assert models.names(rows(0, 1)) == (None if step == 5 else "a", None)
    models.add(2, ["b"], 1)
    models.add(3, None, 1)
    assert models.names(rows(2, 3)) == ("b", None)
    assert set(models.read_codes(rows(0)).values) == {None, "b", *({"a"} if step != 5 else ())}
    assert models.mask_pairs(["b"], rows(), rows(1, 2, 3)).tolist() == [False, True, False]


def test_pairs_that_count():
    within, across = RowModels("within"), RowModels("across")
    for models in (within, across):
        models.add(0, ["a", "b", None, "a"], 4)
    others = rows(0, 1, 2)
    assert within.mask_pairs(None, rows(3), others).tolist() == [True, False, False]
    assert across.mask_pairs(None, rows(3), others).tolist() == [False, True, True]
    assert within.mask_pairs([None], rows(9), others).tolist() == [False, False, True]
    assert across.mask_pairs(["new"], rows(9), others).tolist() == [True, True, True]
    assert (within.filters_pairs, RowModels("all").filters_pairs) == (True, False)


def test_names_are_checked_once_each():
    names = check_names(["a", "b", "a", None], 4)
    assert names == ["a", "b", "a", None] and check_names(None, 3) is None
    assert check_names("a", 0) == [] and check_name(None) is None
