"""What a person at a terminal sees: a bar while it runs, colours, nothing of it left over."""

import re

import numpy as np
import pytest

from tests.support.commands import at_a_terminal
from tests.support.lazily import polars as pl


@pytest.mark.long
def test_progress_is_shown_and_vanishes(tmp_path):
    """Long enough to take some seconds: a bar, how many so far, and then the summary alone."""
    random = np.random.default_rng(0)
    x = random.random((400_000, 4))
    frame = pl.DataFrame({f"c{j}": x[:, j] for j in range(4)})
    frame = frame.with_columns(z=pl.Series(random.integers(0, 2, len(x))))
    frame.write_csv(tmp_path / "many.csv")
    sent, code = at_a_terminal(
        "audit", tmp_path / "many.csv", "--epsilon", "0.06", "--output-column", "z"
    )
    assert code == 0
    assert "judging" in sent and re.search(r"[\d,]+ decisions", sent)
    assert re.search(r"\d+%", sent.split("contradict")[0])
    assert "\x1b[?25h" in sent, "the cursor stays hidden"
    assert "\x1b[1m" in sent, "no bold headline"
    assert sent.rindex("judging") < sent.rindex("contradict an earlier one")


def test_help_has_colours_at_a_terminal():
    sent, code = at_a_terminal("--help")
    assert code == 0 and "\x1b[" in sent
