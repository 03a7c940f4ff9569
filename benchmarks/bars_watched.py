"""The bars for watching: what it costs beside the model itself."""

from __future__ import annotations

from benchmarks.bar import Answers, Bar, Reader, value_of


def _percent(read: Reader) -> Reader:
    def scaled(answers: Answers) -> float | None:
        share = read(answers)
        return None if share is None else 100 * share

    return scaled


BARS = [
    *(
        Bar(
            f"watching one `predict` of a {model} on digits, share of its time",
            "overhead",
            20.0,
            False,
            "%",
            _percent(value_of("overhead", "digits", "share", model=model)),
        )
        for model in ("LogisticRegression", "MLPClassifier", "RandomForestClassifier")
    ),
    *(
        Bar(
            f"watching texts, share of embedding them ({model}) and judging",
            "overhead",
            5.0,
            False,
            "%",
            _percent(value_of("overhead", "texts", "share", model=model)),
        )
        for model in ("MiniLM", "wordllama")
    ),
]
