"""Semantic robustness, watched: digits that are corrupted, mean the same, and are read otherwise.

    python examples/semantic.py [FOLDER]

An encoder, none of the judged models, makes 8 numbers of a picture; near is what is near by these.
A monitor sees clean pictures, then the same ones corrupted: how many contradict one before them is
a cell of the heat map, by model, corruption and severity. Proved here, for every cell: witnesses
are what comparing all pairs of vectors finds, and pictures left as they are have no twin as one.

FOLDER (build/examples) gets semantic.html, the report, and semantic.npz, to count again.
"""

import sys
from itertools import product
from pathlib import Path

import numpy as np
from gallery import Gallery
from scipy.ndimage import gaussian_filter, zoom
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

import likewise as lw

CORRUPTIONS = {  # of pictures x, with pixels from 0 to 1, at severity s
    "brightness": lambda x, s, rng: x + s / 10,
    "blur": lambda x, s, rng: gaussian_filter(x, (0, 0.2 + 0.16 * s, 0.2 + 0.16 * s)),
    "noise": lambda x, s, rng: x + rng.normal(0, 0.06 * s, x.shape),
    "contrast": lambda x, s, rng: x + 0.15 * s * (x.mean((1, 2), keepdims=True) - x),
    "fog": lambda x, s, rng: x + s / 10 * (zoom(rng.random((len(x), 4, 4)), (1, 2, 2)) - x),
}
TAUGHT = ("brightness", "blur", "noise", "contrast")  # fog is new to the encoder and every model
SEVERITIES = range(6)  # 0 leaves a picture as it is
BASE, ROBUST, TRUTH = "network", "network taught with corruptions", "the true digits"
MEANING, PIXELS = "by the embedding", "by pixels"


def corrupted(name: str, x: np.ndarray, severity: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng((seed, severity))
    pictures = CORRUPTIONS[name](x.reshape(-1, 8, 8), severity, rng)
    return np.clip(pictures, 0, 1).reshape(x.shape) if severity else x


def taught(x: np.ndarray, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures and what corruptions make of them; a corrupted picture keeps its label."""
    more = [corrupted(name, x, s, seed) for name in TAUGHT for s in SEVERITIES[1:]]
    return np.concatenate([x, *more]), np.tile(labels, 1 + len(more))


def encoder(x: np.ndarray):
    """Keeps what tells one picture from another however corrupted; no digits are told to it."""
    pictures, which = taught(x, np.arange(len(x)), seed=1)
    analysis = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.01, n_components=8)
    analysis.fit(scale(pictures, axis=1), which)
    return lambda batch: analysis.transform(scale(batch, axis=1))


def trained(x: np.ndarray, y: np.ndarray) -> dict:
    """The models that are judged: how each answers."""
    network = {"alpha": 0.01, "learning_rate_init": 0.002, "tol": 0.003, "random_state": 0}
    return {
        "random forest": RandomForestClassifier(random_state=0).fit(x, y).predict,
        BASE: MLPClassifier((64,), **network).fit(x, y).predict,
        ROBUST: MLPClassifier((64,), **network).fit(*taught(x, y, seed=2)).predict,
    }


def watch(rule: lw.Rule, clean: np.ndarray, twins: np.ndarray, said: np.ndarray):
    """Stream clean pictures, then their twins: how far each is from all, whom it contradicts."""
    monitor, count = lw.Monitor(rule), len(clean)
    monitor.observe_many(clean, said[:count])
    verdicts = monitor.observe_many(twins, said[count:])
    vectors = monitor.past.inputs(range(len(said)))
    apart = cdist(vectors, vectors)
    due = np.tril((apart <= monitor.explain().reach) & (said[:, None] != said))[count:]
    assert np.array_equal(verdicts.counts, due.sum(axis=1)), "a witness was missed, or made up"
    assert np.array_equal(verdicts.witnesses.rows, np.nonzero(due)[1]), "another row was named"
    return apart[count:], due


def report(rates: dict, within: dict, epsilon: float, pairs: list[tuple]) -> Gallery:
    page = Gallery(
        "The same digit, read otherwise",
        "Handwritten digits of 8 × 8 pixels, clean and corrupted. An encoder says which of them are"
        " near in meaning; a model that answers two near ones differently contradicts itself. Here"
        " is how many corrupted pictures contradict one before them, over all corruptions.",
    )
    page.figures([(f"contradict: {name}", f"{rates[name][:, 1:].mean():.1%}") for name in rates])
    page.section(
        "Violation rate: model by corruption by severity",
        f"A witness is a picture seen before, within ε = {epsilon:.3g}, that got another answer."
        " On clean pictures, ε is the largest at which at most 1% are near another digit. The last"
        " map judges a model that is always right: what is flagged there is the encoder's mistake.",
    )
    page.heatmap(rates, list(CORRUPTIONS), SEVERITIES, "By severity; 0 is the clean picture again")
    page.section(
        "Share of corrupted pictures within ε of their clean twin",
        "Outside that ball a picture has little to contradict: a rate can fall while a model gets"
        " worse. Nobody was taught fog. On the right, bare pixels with ε chosen in the same way.",
    )
    page.heatmap(within, list(CORRUPTIONS), SEVERITIES, "By severity")
    page.section("Clean and corrupted, side by side", f"And what the {BASE} said.")
    for two, words, far, said in pairs:
        page.pair(*two, words, note=f"{far:.2f} apart", names=("clean", "corrupted"), outputs=said)
    return page


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0] if arguments else "build/examples")
    folder.mkdir(parents=True, exist_ok=True)
    x, y = load_digits().data / 16, load_digits().target
    parts = np.array_split(np.random.default_rng(0).permutation(len(x)), 3)
    (unnamed, _), known, (clean, truth) = ((x[part], y[part]) for part in parts)
    embed = lw.Embedder(encoder(unnamed), batch=1_000, cache=20_000)
    rules = {MEANING: lw.Rule("l2", 1, embed=embed), PIXELS: lw.Rule("l2", 1)}
    epsilon = {name: lw.calibrate(one, *known).epsilon_for(0.01) for name, one in rules.items()}
    rule = lw.Rule("l2", epsilon[MEANING], embed=embed)
    models = trained(*known) | {TRUTH: lambda both: np.tile(truth, 2)}
    cells, saved, pairs = np.zeros((len(CORRUPTIONS), len(SEVERITIES))), {}, []
    rates, within = ({name: cells.copy() for name in names} for names in (models, rules))
    for (i, kind), s, name in product(enumerate(CORRUPTIONS), SEVERITIES, models):
        twins = corrupted(kind, clean, s, seed=3)
        said = saved[f"{name}, {kind} {s}"] = models[name](np.concatenate([clean, twins]))
        apart, due = watch(rule, clean, twins, said)
        assert s or not due.diagonal().any(), "a picture contradicts itself"
        rates[name][i, s] = due.any(axis=1).mean()
        within[MEANING][i, s] = np.mean(apart.diagonal() <= epsilon[MEANING])
        within[PIXELS][i, s] = np.mean(np.linalg.norm(twins - clean, axis=1) <= epsilon[PIXELS])
        shown = due.diagonal() & (said[: len(clean)] == truth) & (name == BASE and s == 3)
        for j in np.flatnonzero(shown)[:2]:
            two, outputs = np.reshape([clean[j], twins[j]], (2, 8, 8)), said[[j, len(clean) + j]]
            pairs.append((two, f"A {truth[j]}, {kind} {s}", apart[j, j], outputs))
    for name, shares in (rates | within).items():
        print(name)
        for kind, line in zip(CORRUPTIONS, shares, strict=True):
            print(f"  {kind:12}" + "".join(f"{share:8.1%}" for share in line))
    np.savez_compressed(folder / "semantic.npz", **saved)
    report(rates, within, rule.epsilon, pairs).write(folder / "semantic.html")
    print(f"Open {folder / 'semantic.html'}")


if __name__ == "__main__":
    with threadpool_limits(1):  # small matrices: more threads would be slower
        main(sys.argv[1:])
