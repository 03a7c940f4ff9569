"""How the golden ledgers were made, once for each format: once that format
is released, they are never made again.

python tests/golden/make_ledger.py FOLDER
"""

import sys
from pathlib import Path

import likewise as lw

RULE = """
metric = "l1"
epsilon = 1.0
output_column = "approved"
favourable = "yes"

[features.id]
kind = "key"

[features.age]
kind = "number"
tolerance = 5

[features.job]
kind = "category"

[features.sex]
kind = "protected"
"""
ROWS = [
    {
        "id": f"case {i}",
        "age": 20 + i * 7 % 30,
        "job": ("nurse", "cook", "smith")[i * i % 3],
        "sex": "fm"[i % 2],
        "approved": ("yes", "no")[i * 3 % 5 % 2],
    }
    for i in range(60)
]

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with lw.open(folder / "table", lw.Rule.from_toml(RULE)) as monitor:
        monitor.observe_many(ROWS[:50], times=[1e9 + i for i in range(50)])
        monitor.erase(key="case 7")
    with lw.open(folder / "vectors", lw.Rule("linf", 0.25, output="number", delta=0.5)) as monitor:
        for i in range(20):
            monitor.observe([i % 5 / 10, i % 3 / 10], i % 4 / 2, time=1e9 + i)
