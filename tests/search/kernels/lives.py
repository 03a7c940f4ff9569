"""Long lives of monitors, and a digest of everything they answered: python lives.py

{"way": "native", "lives": {"linf label live": [witnesses, digest], …}}
"""

import hashlib
import json

import numpy as np

import likewise as lw
from likewise.search.kernels.compile import way


def outputs_of(kind: str, rng: np.random.Generator, count: int):
    if kind == "label":
        return rng.integers(0, 7, count)
    if kind == "number":
        return rng.random(count)
    raw = rng.random((count, 3))
    return raw / raw.sum(axis=1, keepdims=True)


def life(metric: str, output: str, index: str, width: int, dtype: str) -> tuple[int, str]:
    """Observe one by one and in batches, load, check, forget; all numbers of all verdicts."""
    rng = np.random.default_rng(len(metric) + len(output) + width)
    centres = rng.random((12, width)) + 0.2
    X = (centres[rng.integers(0, 12, 2_400)] + rng.normal(0, 0.02, (2_400, width))).astype(dtype)
    Z = outputs_of(output, rng, len(X))
    epsilon = {"linf": 0.07, "l1": 0.03 * width, "l2": 0.04 * width**0.5, "cosine": 0.003}[metric]
    delta = 0.3 if output != "label" else 0.0
    rule = lw.Rule(metric, epsilon, output=output, delta=delta)
    digest, found = hashlib.sha256(), 0
    with lw.Monitor(rule, index=index, comparable=True) as monitor:
        seen = [monitor.observe(x, z) for x, z in zip(X[:500], Z[:500], strict=True)]
        seen += list(monitor.observe_many(X[500:1_500], Z[500:1_500], threads=2))
        monitor.forget(range(0, 900, 7))
        monitor.load(X[1_500:2_000], Z[1_500:2_000])
        seen += [monitor.check(x, z) for x, z in zip(X[2_000:2_100], Z[2_000:2_100], strict=True)]
        seen += list(monitor.observe_many(X[2_100:], Z[2_100:]))
    for verdict in seen:
        told = verdict.witnesses
        found += len(told)
        digest.update(b"like" if verdict.comparable else b"alone")
        for array in (told.rows, told.input_distances, told.output_distances):
            digest.update(array.tobytes())
    return found, digest.hexdigest()


def hunts() -> tuple[int, str]:
    """The nearest contradictions, and the steepest pairs."""
    rng = np.random.default_rng(5)
    X, Z = rng.random((1_500, 4)), rng.random(1_500)
    digest = hashlib.sha256()
    with lw.Monitor(lw.Rule("l2", 1, output="number"), slope=True) as monitor:
        slopes = [monitor.observe(x, z).slope for x, z in zip(X[:400], Z[:400], strict=True)]
        slopes += [verdict.slope for verdict in monitor.observe_many(X[400:], Z[400:])]
    digest.update(np.array(slopes).tobytes())
    for metric in ("linf", "l1", "l2", "cosine"):
        curve = lw.calibrate(lw.Rule(metric, 0.1), X, Z > 0.5)
        digest.update(np.asarray(curve.distances).tobytes())
    return len(slopes), digest.hexdigest()


def main() -> None:
    lives = {"hunts": hunts()}
    for metric in ("linf", "l1", "l2", "cosine"):
        for output in ("label", "number", "probabilities"):
            for index in ("live", "kdtree", "flat"):
                if index == "flat" and metric not in ("l2", "cosine"):
                    continue
                width, dtype = ((5, "float64"), (48, "float32"))[len(lives) % 2]
                name = f"{metric} {output} {index} {width} {dtype}"
                lives[name] = life(metric, output, index, width, dtype)
    print(json.dumps({"way": way, "lives": lives}))


if __name__ == "__main__":
    main()
