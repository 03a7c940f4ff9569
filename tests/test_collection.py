"""Collecting all tests stays quick: packages that take long to import are loaded by tests only.

Polars is not among them: modules of likewise that read files import it.
"""

from pathlib import Path

import pytest

from tests.support.programs import run_python

HEAVY = ("faiss", "numba", "onnx", "ray", "scipy", "sklearn", "torch", "wordllama")
CODE = f"""
import sys
import pytest

assert pytest.main(["--collect-only", "-q", "-n0"]) == 0
loaded = [name for name in {HEAVY} if name in sys.modules]
assert not loaded, loaded
"""


@pytest.mark.long
def test_collecting_loads_nothing_heavy():
    root = Path(__file__).resolve().parents[1]
    run_python("-c", CODE, cwd=root)
