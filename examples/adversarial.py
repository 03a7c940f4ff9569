"""Adversarial pictures, watched: handwritten digits, a model, a robust one, and an attack on both.

    python examples/adversarial.py [FOLDER]

Trains two small networks on scikit-learn's digits, one of them on attacked pictures as well, and
attacks both by projected gradient descent (PGD) at several L∞ budgets. A monitor sees clean
pictures first, then attacked ones, and the script asserts, for each: the monitor names its clean
twin if, and only if, they are answered differently, lie within ε, and the twin was in the stream.

FOLDER (build/examples) gets adversarial.html, the report, and adversarial.npz, to count again.
"""

import sys
from pathlib import Path

import numpy as np
from gallery import Gallery
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

import likewise as lw

LEVELS = 16  # of grey. Pixels and budgets are multiples of 1/16: no rounding, not even on the rim
BUDGETS = (1, 2, 3, 4)  # levels by which the attack may change each pixel
MODELS = {"base": 0, "robust": 4}  # and the budget each is trained against
SETTING = """Handwritten digits, 8 × 8 pixels in 16 levels of grey. Base is a small network, taught
with clean pictures; robust is the same, taught with attacked ones as well. An attack may move
every pixel by its budget. The monitor saw clean pictures first, then attacked ones."""
RATE = "How many attacked pictures lie within ε of their clean twin, and are answered otherwise."
CHANGE = "The first flips of each model. Rust: the attack made it brighter; blue: darker."
STREAMS = """A flip must be found if it lies within ε of its clean twin and that was in the stream.
Some streams leave out every third twin; the last has attacks of all budgets under one ε, so some
lie too far away. Other witnesses: mostly the same picture, attacked and sent before."""


def gradient(model: MLPClassifier, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How the loss on the answers y changes with each pixel: forward, and back."""
    (inner, outer), (bias, outer_bias) = model.coefs_, model.intercepts_
    hidden = np.maximum(x @ inner + bias, 0)
    scores = hidden @ outer + outer_bias
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    slope = odds / odds.sum(axis=1, keepdims=True) - np.eye(odds.shape[1])[y]
    return ((slope @ outer.T) * (hidden > 0)) @ inner.T


def attack(model, x, y, budget, steps, rng) -> np.ndarray:
    """PGD: uphill in the loss, kept within the budget of x and between black and white."""
    low, high = np.maximum(x - budget, 0), np.minimum(x + budget, 1)
    moved, stride = rng.uniform(low, high), 2.5 * budget / steps
    for _ in range(steps):
        moved = np.clip(moved + stride * np.sign(gradient(model, moved, y)), low, high)
    return moved


def train(x: np.ndarray, y: np.ndarray, budget: float) -> MLPClassifier:
    """The same network each time; with a budget, every batch comes with its attacked copy."""
    rng = np.random.default_rng(0)
    model = MLPClassifier((128,), learning_rate_init=0.002, random_state=0)
    for epoch in range(60):
        for batch in np.array_split(rng.permutation(len(x)), len(x) // 100):
            given, answers = x[batch], y[batch]
            if budget and epoch:
                given = np.vstack([given, attack(model, given, answers, budget, 7, rng)])
                answers = np.tile(answers, 2)
            model.partial_fit(given, answers, classes=np.unique(y))
    return model


def watch(clean, said, kept, attacked, answers, twin, epsilon) -> dict[str, int]:
    """Stream the clean pictures that are kept, then the attacked ones; prove what is found."""
    monitor = lw.Monitor(lw.Rule("linf", epsilon=epsilon))
    monitor.observe_many(clean[kept], said[kept])
    verdicts = monitor.observe_many(attacked, answers)
    row = np.where(kept, np.cumsum(kept) - 1, -1)[twin]  # of each twin in the stream, or -1
    whose = np.repeat(np.arange(len(attacked)), verdicts.counts)  # is each witness
    found = np.isin(np.arange(len(attacked)), whose[verdicts.witnesses.rows == row[whose]])
    flipped = answers != said[twin]
    within = np.abs(attacked - clean[twin]).max(axis=1) <= monitor.explain().reach  # ε and slack
    due = flipped & within & (row >= 0)
    assert np.array_equal(found, due), "a flip was missed, or a twin was named that was not due"
    counted = {"clean": kept, "attacked": twin >= 0, "flipped": flipped}
    counted |= {"and within ε": flipped & within, "and twin seen": due, "twin found": found}
    told = {name: int(flags.sum()) for name, flags in counted.items()}
    return told | {"other witnesses": verdicts.pairs - told["twin found"]}


def streams(name, clean, said, attacked, answers):
    """Each budget with ε as large, after all twins and after two in three; then all with 2/16."""
    each = np.arange(len(clean))
    for k, moved, told in zip(BUDGETS, attacked, answers, strict=True):
        for kept in (each >= 0, each % 3 > 0):
            stream = {"attack": f"{name}, {k}/16", "ε": f"{k}/16"}
            yield stream | watch(clean, said, kept, moved, told, each, k / LEVELS)
    whole = np.concatenate(attacked), np.concatenate(answers), np.tile(each, len(BUDGETS))
    stream = {"attack": f"{name}, all", "ε": "2/16"}
    yield stream | watch(clean, said, each >= 0, *whole, 2 / LEVELS)


def report(rows: list[dict], saved: dict[str, np.ndarray]) -> Gallery:
    """The page: the rate by budget, pictures that flipped a model, and every count."""
    clean, truth = saved["clean"], saved["truth"]
    page = Gallery("How little flips the model?", SETTING)
    right = {name: np.mean(saved[f"{name} said"] == truth) for name in MODELS}
    told = [(f"of clean pictures read rightly: {name}", f"{right[name]:.1%}") for name in MODELS]
    due, found = (sum(row[name] for row in rows) for name in ("and twin seen", "twin found"))
    page.figures([*told, ("flips to be found, in all streams", due), ("flips found", found)])
    page.section("Violation rate by budget", RATE)  # of streams with all twins: they come first
    rates = {row["attack"]: row["twin found"] / row["attacked"] for row in rows[::-1]}
    places = [f"{k}/16" for k in BUDGETS]
    lines = {name: [rates[f"{name}, {place}"] for place in places] for name in MODELS}
    page.lines(lines, places, across="budget, and ε of the rule", up="share of attacked pictures")
    page.section("Clean, attacked, and the change", CHANGE)
    for name, k in (("base", 1), ("robust", 2)):
        said, answers = saved[f"{name} said"], saved[f"{name} answers"][k - 1]
        for i in np.flatnonzero(said != answers)[:4]:
            pair = [one[i].reshape(8, 8) for one in (clean, saved[f"{name} attacked"][k - 1])]
            note = f"Meant: {truth[i]}. Distance {np.abs(pair[1] - pair[0]).max():g}, ε = {k}/16."
            shown = {"names": ("clean", "attacked"), "note": note, "difference": True}
            page.pair(*pair, f"{name}, picture {i}", outputs=(said[i], answers[i]), **shown)
    page.section("Every stream", STREAMS)
    page.table([list(row.values()) for row in rows], list(rows[0]))
    return page


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    x, y = load_digits(return_X_y=True)
    x, clean, y, truth = train_test_split(x / LEVELS, y, test_size=500, stratify=y, random_state=0)
    rows, saved = [], {"clean": clean, "truth": truth}
    for name, against in MODELS.items():
        model, rng = train(x, y, against / LEVELS), np.random.default_rng(1)
        said = model.predict(clean)
        attacked = np.array([attack(model, clean, said, k / LEVELS, 40, rng) for k in BUDGETS])
        answers = np.array([model.predict(one) for one in attacked])
        rows += streams(name, clean, said, attacked, answers)
        saved |= {f"{name} said": said, f"{name} attacked": attacked, f"{name} answers": answers}
        print(f"{name}: {np.mean(said == truth):.1%} of the clean test pictures are read rightly")
    np.savez_compressed(folder / "adversarial.npz", **saved)
    for line in (rows[0], *(row.values() for row in rows)):
        print("".join(f"{one!s:>16}" for one in line))
    report(rows, saved).write(folder / "adversarial.html")
    print(f"Every flip that was due was found. Open {folder / 'adversarial.html'}")


if __name__ == "__main__":
    with threadpool_limits(1):  # for products this small, threads cost more than they bring
        main(Path(*sys.argv[1:2] or ["build/examples"]))
