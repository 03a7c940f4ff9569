"""A few decisions as files, for commands: small, with every kind of column, and of 2024."""

import csv
import json

from tests.support.rule_texts import rule_text

RULE = rule_text(
    {
        "id": "key",
        "person": "person",
        "amount": 16,
        "job": "category",
        "sex": {"kind": "protected", "labels": {"f": "women", "m": "men"}},
        "when": "ignore",
        "model": "ignore",
    },
    output={"column": "answer", "favourable": "yes"},
)
COLUMNS = ("id", "when", "person", "amount", "job", "sex", "answer", "model")
DECISIONS = [
    dict(zip(COLUMNS, row, strict=True))
    for row in [
        ("a1", "2024-01-01T10:00:00Z", "p1", 100, "cook", "f", "no", "v1"),
        ("a2", "2024-01-02T10:00:00Z", "p2", 108, "cook", "m", "yes", "v1"),
        ("a3", "2024-01-03T10:00:00Z", "p3", 104, "cook", "f", "no", "v1"),
        ("a4", "2024-01-04T10:00:00Z", "p4", 112, "cook", "m", "yes", "v2"),
        ("a5", "2024-01-05T10:00:00Z", "p5", 300, "smith", "f", "yes", "v2"),
        ("a6", "2024-01-06T10:00:00Z", "p6", 308, "smith", "m", "yes", "v2"),
        ("a7", "2024-01-07T10:00:00Z", "p7", 308, "smith", "f", "no", "v2"),
        ("a8", "2024-01-08T10:00:00Z", "p1", 100, "cook", "f", "yes", "v2"),
        ("a9", "2024-01-09T10:00:00Z", "p9", 900, "clerk", "m", "yes", "v1"),
    ]
]


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_files(folder):
    """decisions.csv, its two halves by model, and rule.toml."""
    (folder / "rule.toml").write_text(RULE)
    write_csv(folder / "decisions.csv", DECISIONS)
    write_csv(folder / "old.csv", DECISIONS[:5])
    write_csv(folder / "new.csv", DECISIONS[4:])


def as_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)
