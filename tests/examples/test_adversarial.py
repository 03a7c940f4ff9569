"""The adversarial example, run as a user would: what it prints and shows is counted again here."""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.support.example_scripts import EXAMPLES, run_alone

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("example adversarial"), pytest.mark.early]

SCRIPT = EXAMPLES / "adversarial.py"
PICTURES = 500
BUDGETS = (1, 2, 3, 4)
MODELS = ("base", "robust")
NUMBERS = (
    "clean",
    "attacked",
    "flipped",
    "and within ε",
    "and twin seen",
    "twin found",
    "other witnesses",
)


class Run(NamedTuple):
    folder: Path
    printed: str
    arrays: dict[str, np.ndarray]

    @property
    def table(self) -> list[tuple[str, int, dict[str, int]]]:
        """The streams as printed: model and attack, ε in sixteenths, and counts."""
        found = re.findall(r"^ +(\w+, \S+) +(\d)/16((?: +\d+)+)$", self.printed, re.MULTILINE)
        return [
            (attack, int(k), dict(zip(NUMBERS, map(int, rest.split()), strict=True)))
            for attack, k, rest in found
        ]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("adversarial")
    printed = run_alone("adversarial.py", folder, "made/here")
    made = folder / "made" / "here"
    assert sorted(path.name for path in made.iterdir()) == ["adversarial.html", "adversarial.npz"]
    with np.load(made / "adversarial.npz") as saved:
        return Run(made, printed, dict(saved))


def counted_again(run: Run, model: str, kept: np.ndarray, budgets: tuple[int, ...], k: int):
    """Everything about a stream, pair by pair, without likewise."""
    clean, said = run.arrays["clean"], run.arrays[f"{model} said"]
    places = [BUDGETS.index(budget) for budget in budgets]
    attacked = np.concatenate([run.arrays[f"{model} attacked"][i] for i in places])
    answers = np.concatenate([run.arrays[f"{model} answers"][i] for i in places])
    stream = np.concatenate([clean[kept], attacked])
    outputs = np.concatenate([said[kept], answers])
    of_picture = np.concatenate([kept, np.tile(np.arange(PICTURES), len(budgets))])
    counts = Counter({name: 0 for name in NUMBERS}, clean=len(kept), attacked=len(attacked))
    kinds: Counter[str] = Counter()
    for row in range(len(kept), len(stream)):
        near = np.abs(stream[:row] - stream[row]).max(axis=1) <= k / 16 * (1 + 1e-9)
        witnesses = np.flatnonzero(near & (outputs[:row] != outputs[row]))
        picture = of_picture[row]
        twins = [one for one in witnesses if one < len(kept) and of_picture[one] == picture]
        flipped = outputs[row] != said[picture]
        within = np.abs(clean[picture] - stream[row]).max() <= k / 16 * (1 + 1e-9)
        counts["flipped"] += int(flipped)
        counts["and within ε"] += int(flipped and within)
        counts["and twin seen"] += int(flipped and within and picture in kept)
        counts["twin found"] += len(twins)
        counts["other witnesses"] += len(witnesses) - len(twins)
        rest = set(witnesses) - set(twins)
        kinds.update("same" if of_picture[one] == picture else "another" for one in rest)
    return dict(counts), kinds


@pytest.mark.long
def test_every_stream_counts_what_brute_force_counts(run):
    everyone = np.arange(PICTURES)
    some = everyone[everyone % 3 > 0]
    expected, kinds = [], Counter()
    for model in MODELS:
        for k in BUDGETS:
            for kept in (everyone, some):
                counts, _ = counted_again(run, model, kept, (k,), k)
                expected.append((f"{model}, {k}/16", k, counts))
        counts, others = counted_again(run, model, everyone, BUDGETS, 2)
        expected.append((f"{model}, all", 2, counts))
        kinds += others
    assert run.table == expected
    assert kinds["same"] > 0.9 * kinds.total()  # "mostly the same picture, sent before"


def test_the_statement_has_teeth(run):
    """Flips without a twin, flips too far away, and pictures that did not flip are all there."""
    counts = [one for _, _, one in run.table]
    assert len(counts) == 18
    assert all(one["twin found"] == one["and twin seen"] > 0 for one in counts)
    assert any(one["and twin seen"] < one["and within ε"] for one in counts)
    assert any(one["and within ε"] < one["flipped"] for one in counts)
    assert any(one["flipped"] < one["attacked"] for one in counts)
    assert any(one["other witnesses"] > 0 for one in counts)


@pytest.mark.long
def test_attacks_keep_to_their_budget_and_to_black_and_white(run):
    clean = run.arrays["clean"]
    assert np.array_equal(clean * 16, np.rint(clean * 16))  # sixteenths, without rounding
    for model in MODELS:
        for k, attacked in zip(BUDGETS, run.arrays[f"{model} attacked"], strict=True):
            assert attacked.min() >= 0 and attacked.max() <= 1
            assert np.abs(attacked - clean).max() == k / 16  # on the rim, and never beyond it


@pytest.mark.long
def test_robust_model_is_right_as_well_and_flips_less(run):
    whole = {attack: one for attack, _, one in run.table if one["clean"] == PICTURES}
    flipped = {model: [whole[f"{model}, {k}/16"]["flipped"] for k in BUDGETS] for model in MODELS}
    assert flipped["base"] == sorted(flipped["base"])
    for base, robust in zip(flipped["base"], flipped["robust"], strict=True):
        assert robust < base - 0.08 * PICTURES
    truth = run.arrays["truth"]
    for model in MODELS:
        right = np.mean(run.arrays[f"{model} said"] == truth)
        assert right > 0.94
        assert f"{model}: {right:.1%} of the clean test pictures are read rightly" in run.printed


@pytest.mark.long
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_report_opens_and_shows_the_pictures(run, browser, width, dark):
    page = browser.open(run.folder / "adversarial.html", width=width, dark=dark)
    try:
        assert page.complaints == []
        assert page.requests == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.querySelectorAll('article.pair').length") == 8
        seen = "[...document.images].filter(one => one.complete && one.naturalWidth === 8)"
        assert page.evaluate(f"{seen}.length") == 24
        assert page.evaluate("document.querySelectorAll('.answer.differs').length") == 16
        told = page.evaluate("document.body.innerText")
        found = sum(one["twin found"] for _, _, one in run.table)
        assert told.count(f"{found:,}") >= 2  # to be found, and found
        for attack, k, counts in run.table:
            if counts["clean"] == PICTURES and attack.endswith(f"{k}/16"):
                share = 100 * counts["twin found"] / counts["attacked"]
                assert f"{share:.1f}%" in told or f"{share:.0f}%" in told
    finally:
        page.close()


def test_script_is_short():
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) < 150
