"""The bars for wide inputs: pictures, embeddings, rows on disk, and growth with the width.

Only rows made of real data count where a bar is about real data.
"""

from __future__ import annotations

from benchmarks.bar import Answers, Bar, rows_of, value_of, worst_of

FAISS = ("pinned", "newest")
FEW, MANY = 0.4, 0.8  # L2 radii with few and with many neighbours


def _pictures() -> list[Bar]:
    bars = []
    for release in FAISS:
        for storage in ("uint8", "float32"):
            ratio = value_of(
                "pictures", "pictures", f"{release}_ratio", storage=storage, source="CIFAR-10"
            )
            name = f"20k × 3,072 {storage}, L∞ 8/255: FAISS flat ({release}) ÷ `observe`"
            bars.append(Bar(name, "pictures", 5_000.0, True, "×", ratio))
    for storage in ("uint8", "float32"):
        name = f"10k × 150,528 {storage}, rows on disk"
        resident = value_of("imagenet_size", "pictures", "peak_gb", storage=storage)
        mean = value_of("imagenet_size", "pictures", "mean_ms", storage=storage)
        bars.append(
            Bar(f"{name}: resident at its peak", "imagenet_size", 1.0, False, "GB", resident)
        )
        bars.append(Bar(f"{name}: mean `observe`", "imagenet_size", 3.0, False, "ms", mean))
    return bars


def _embeddings() -> list[Bar]:
    bars = []
    for question, table, targets, what in (
        ("embeddings", "embeddings", (8.0, 8.0), "one query"),
        ("embedding_batches", "batches", (3.0, 4.0), "batches of 1,024"),
    ):
        for release, target in zip(FAISS, targets, strict=True):
            for epsilon in (FEW, MANY):
                ratio = value_of(
                    question, table, f"{release}_ratio", metric="l2", epsilon=epsilon, source="SMS"
                )
                name = f"20k × 384, L2 ε {epsilon:g}, {what}: FAISS flat ({release}) ÷ likewise"
                bars.append(Bar(name, question, target, True, "×", ratio))
    longer = value_of("embeddings", "longer", "mean_us", rows=100_000)
    name = "100k × 384, L2 ε 0.8, one `observe`"
    return [*bars, Bar(name, "embeddings", 300.0, False, "µs", longer)]


def _equal(answers: Answers) -> float | None:
    """How many runs there were; the question fails where one is not equal."""
    return float(len(rows_of(answers, "imagenet_embeddings", "embeddings"))) or None


def _growth() -> list[Bar]:
    return [
        Bar(
            f"growth of the time over growth of the width, {storage}, worst step",
            "dimensions",
            1.25,
            False,
            "×",
            worst_of("dimensions", "steps", f"{storage}_step"),
        )
        for storage in ("uint8", "float32")
    ]


BARS = [
    *_pictures(),
    *_embeddings(),
    Bar(
        "ImageNet embeddings: runs equal to brute force",
        "imagenet_embeddings",
        24.0,
        True,
        "",
        _equal,
    ),
    *_growth(),
]
