"""Packages that take long to import: they are loaded when a test first uses one.

Collecting all tests would otherwise load every one of them in every process.

    from tests.support.lazily import polars as pl
"""

from importlib import import_module
from typing import Any


class Lazily:
    """Stands for a module until something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("_", "pytest")):  # pytest looks for its own marks on everything
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


faiss = Lazily("faiss")
joblib = Lazily("joblib")
onnx = Lazily("onnx")
pandas = Lazily("pandas")
polars = Lazily("polars")
pyarrow = Lazily("pyarrow")
tokenizers = Lazily("tokenizers")
wordllama = Lazily("wordllama")
