"""What a folder must look like after `feeding.py` was stopped somewhere: checked from outside."""

import math
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

import likewise as lw
from tests.ledger import feeding

PROGRAM = str(Path(feeding.__file__))
ENDS = [0, *np.cumsum(feeding.PARTS).tolist()]


def feed(folder, *before, timeout=120):
    """Run the program, behind another one if given; its exit status, what it said, its errors."""
    done = subprocess.run(
        [*before, sys.executable, PROGRAM, str(folder)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def check(folder, said):
    """Everything acknowledged is there, once, in order, and nothing is there in part."""
    acknowledged = [line.removeprefix("done ") for line in said if line.startswith("done ")]
    try:
        ledger = lw.Ledger(folder)
    except lw.errors.BadFile as error:
        assert "open" not in acknowledged, error
        assert "holds no ledger" in str(error), error
        return 0
    with ledger:
        verified = ledger.verify()
        assert verified.ok, verified
        assert ledger.rows in ENDS, ledger.rows
        told = [int(line.split()[1]) for line in acknowledged if line.startswith("rows")]
        assert ledger.rows >= max(told, default=0)
        assert ledger.first in (0, feeding.FIRST)
        assert ledger.first == feeding.FIRST or "drop" not in acknowledged
        erased = set(ledger.erased_rows().tolist())
        assert erased in (set(), set(feeding.ERASED))
        if "erase" in acknowledged:
            assert erased
            assert traces(folder, feeding.ERASED) == []
        for entry in ledger.entries():
            _check(ledger, entry, entry.row in erased)
        return ledger.rows


def _check(ledger, entry, erased):
    vector, output = feeding.value(entry.row)
    witnesses = feeding.witnesses(entry.row)
    assert entry.erased == erased
    assert entry.output == (None if erased else output)
    assert entry.key == (None if erased else feeding.key(entry.row))
    assert entry.count == int(witnesses is not None)
    nearest = [] if witnesses is None else witnesses.tolist()
    gone = {entry.row, entry.row - 1} & set(ledger.erased_rows().tolist())
    if gone:
        nearest = [(row, math.nan, math.nan) for row, *_ in nearest]
    found = [(one.row, one.input_distance, one.output_distance) for one in entry.nearest]
    np.testing.assert_equal(found, nearest)
    if not erased:
        assert ledger.values(entry.row)["input"].tolist() == vector.tolist()


def traces(folder, rows):
    """Files that still hold a key, input or output of these rows."""
    needles = []
    for row in rows:
        vector, output = feeding.value(row)
        key = feeding.key(row)
        needles += [
            struct.pack(order, number) for order in ("<d", ">d") for number in (output, *vector)
        ]
        needles.append(key.encode() if isinstance(key, str) else struct.pack(">q", key)[-6:])
    return [
        (path.name, needle)
        for path in sorted(folder.iterdir())
        for needle in needles
        if needle in path.read_bytes()
    ]
