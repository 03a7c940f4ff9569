"""The semantic example, run as a user would: what it prints and shows is counted again here."""

import runpy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.support.example_scripts import EXAMPLES, run_alone

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("example semantic"), pytest.mark.early]

SCRIPT = EXAMPLES / "semantic.py"
CORRUPTIONS = ("brightness", "blur", "noise", "contrast", "fog")
BASE, ROBUST, TRUTH = "network", "network taught with corruptions", "the true digits"
MODELS = ("random forest", BASE, ROBUST, TRUTH)
SLACK = 1 + 1e-9


class Run(NamedTuple):
    folder: Path
    printed: str
    answers: dict[str, np.ndarray]

    def table(self, name: str) -> list[list[str]]:
        """The shares printed below a name: a line for each corruption, a cell for each severity."""
        lines = self.printed.partition(f"{name}\n")[2].splitlines()[: len(CORRUPTIONS)]
        assert [line.split()[0] for line in lines] == list(CORRUPTIONS)
        return [line.split()[1:] for line in lines]

    def numbers(self, name: str) -> np.ndarray:
        return np.array([[float(cell.rstrip("%")) for cell in line] for line in self.table(name)])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("semantic")
    printed = run_alone("semantic.py", folder, "made/here")
    made = folder / "made" / "here"
    assert sorted(path.name for path in made.iterdir()) == ["semantic.html", "semantic.npz"]
    with np.load(made / "semantic.npz") as saved:
        return Run(made, printed, dict(saved))


class World(NamedTuple):
    """The pictures as vectors, and both epsilons, without likewise."""

    clean: np.ndarray
    twins: dict[tuple[str, int], np.ndarray]
    truth: np.ndarray
    epsilon: dict[str, float]
    encode: object


def distances(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.sqrt(((left[:, None, :] - right[None]) ** 2).sum(axis=2))


def largest_epsilon(vectors: np.ndarray, digits: np.ndarray) -> float:
    """At which at most 1% of the rows are near an earlier one of another digit."""
    apart = distances(vectors, vectors)
    apart[(digits[:, None] == digits) | ~np.tri(len(digits), k=-1, dtype=bool)] = np.inf
    nearest = np.sort(apart.min(axis=1))
    return nearest[int(0.01 * len(digits))] / SLACK  # one more, and it would be too many


@pytest.fixture(scope="module")
def world() -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)  # as if run as a script
        example = runpy.run_path(str(SCRIPT))
    from sklearn.datasets import load_digits
    from threadpoolctl import threadpool_limits

    x, y = load_digits().data / 16, load_digits().target
    first, second, third = np.array_split(np.random.default_rng(0).permutation(len(x)), 3)
    with threadpool_limits(1):
        encode = example["encoder"](x[first])
        epsilon = {
            "by the embedding": largest_epsilon(encode(x[second]), y[second]),
            "by pixels": largest_epsilon(x[second], y[second]),
        }
    clean = x[third]
    twins = {
        (kind, s): example["corrupted"](kind, clean, s, seed=3)
        for kind in CORRUPTIONS
        for s in range(6)
    }
    return World(clean, twins, y[third], epsilon, encode)


@pytest.mark.long
def test_every_cell_is_what_brute_force_counts(run, world):
    clean = world.encode(world.clean)
    reach = world.epsilon["by the embedding"]
    expected = {name: [["" for _ in range(6)] for _ in CORRUPTIONS] for name in MODELS}
    flagged_by_twin = 0
    for (kind, s), pictures in world.twins.items():
        stream = np.concatenate([clean, world.encode(pictures)])
        apart = distances(stream[len(clean) :], stream)
        assert np.abs(apart - reach).min() > 1e-9  # so none of them hangs on a rounding
        for name in MODELS:
            said = run.answers[f"{name}, {kind} {s}"]
            witnesses = (apart < reach) & (said[len(clean) :, None] != said)
            for i in range(len(clean)):
                witnesses[i, len(clean) + i :] = False  # itself, and whoever comes later
            share = np.count_nonzero(witnesses.any(axis=1)) / len(clean)
            expected[name][CORRUPTIONS.index(kind)][s] = f"{share:.1%}"
            assert s > 0 or not witnesses.diagonal().any()
            flagged_by_twin += witnesses.diagonal().sum()
    assert {name: run.table(name) for name in MODELS} == expected
    assert flagged_by_twin > 1_000


def test_share_within_epsilon_is_what_brute_force_counts(run, world):
    vectors = {"by the embedding": world.encode, "by pixels": lambda pictures: pictures}
    for name, of in vectors.items():
        clean, epsilon = of(world.clean), world.epsilon[name]
        for i, kind in enumerate(CORRUPTIONS):
            expected = [
                np.mean(np.sqrt(((of(world.twins[kind, s]) - clean) ** 2).sum(axis=1)) < epsilon)
                for s in range(6)
            ]
            assert run.table(name)[i] == [f"{share:.1%}" for share in expected]


def test_corruptions_are_what_they_are_called(world):
    for (_, s), pictures in world.twins.items():
        assert pictures.shape == world.clean.shape
        assert pictures.min() >= 0 and pictures.max() <= 1
        assert np.array_equal(pictures, world.clean) == (s == 0)
    for s in range(1, 6):
        whiter, greyer = world.twins["brightness", s], world.twins["contrast", s]
        assert np.allclose(whiter, np.minimum(world.clean + s / 10, 1))
        assert np.allclose(greyer.mean(axis=1), world.clean.mean(axis=1))
        assert np.all(np.ptp(greyer, axis=1) < np.ptp(world.clean, axis=1))


def test_truth_is_the_truth(run, world):
    assert all(
        np.array_equal(run.answers[f"{TRUTH}, {kind} {s}"], np.tile(world.truth, 2))
        for kind, s in world.twins
    )
    for name in MODELS[:-1]:
        right = run.answers[f"{name}, fog 0"][: len(world.truth)] == world.truth
        assert right.mean() > 0.93


def test_map_has_the_shape_that_is_told(run):
    base, robust, truth = (run.numbers(name) for name in (BASE, ROBUST, TRUTH))
    assert base[:, 1:].mean() > 2 * robust[:, 1:].mean() > 2 * truth[:, 1:].mean()
    for kind in ("brightness", "contrast"):  # these stay within ε, and get worse all the way
        line = base[CORRUPTIONS.index(kind)]
        assert list(line[1:]) == sorted(line[1:])
        assert line[5] > 10 * line[0]
        assert line[5] > 4 * robust[CORRUPTIONS.index(kind), 5]
    assert truth[:, 0].max() < 3 and truth.max() < 12
    within = run.numbers("by the embedding")
    assert within[:, 0].min() == 100
    for kind in ("noise", "fog"):  # these leave it, and the rate falls again
        i = CORRUPTIONS.index(kind)
        assert within[i, 5] < 40
        assert base[i, 5] < base[i].max()
    pixels = run.numbers("by pixels")
    for kind in ("brightness", "contrast"):
        i = CORRUPTIONS.index(kind)
        assert within[i, 4] > 95 and pixels[i, 4] < 5


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_report_shows_maps_and_pictures(run, world, browser, width, dark):
    page = browser.open(run.folder / "semantic.html", width=width, dark=dark)
    try:
        assert page.complaints == []
        assert page.requests == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        maps = page.evaluate(
            "[...document.querySelectorAll('table.heat')].map(one => [one.caption.innerText,"
            " [...one.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.innerText))])"
        )
        assert [name for name, _ in maps] == [*MODELS, "by the embedding", "by pixels"]
        for name, rows in maps:
            assert [row[0] for row in rows] == list(CORRUPTIONS)
            for row, line in zip(rows, run.numbers(name), strict=True):
                for cell, exact in zip(row[1:], line, strict=True):
                    assert abs(float(cell.strip("<>%")) - exact) <= 1
        assert page.evaluate("document.querySelectorAll('article.pair').length") == 10
        seen = "[...document.images].filter(one => one.complete && one.naturalWidth === 8)"
        assert page.evaluate(f"{seen}.length") == 20
        assert page.evaluate("document.querySelectorAll('.answer.differs').length") == 20
        told = page.evaluate("document.body.innerText")
        assert f"ε = {world.epsilon['by the embedding']:.3g}" in told
        for name in MODELS:
            assert f"{run.numbers(name)[:, 1:].mean():.1f}%" in told
    finally:
        page.close()


def test_script_is_short():
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) < 150
