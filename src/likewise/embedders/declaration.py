"""What models read of the declaration that asks for them (rule/embedder.py has the words)."""

import os
from collections.abc import Sequence
from typing import Any, Protocol


class DeclaredEmbedder(Protocol):
    """Says which model embeds, and how."""

    @property
    def name(self) -> Any: ...

    @property
    def text(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def location(self) -> str: ...

    @property
    def preprocessing_text(self) -> str: ...

    @property
    def unit_length(self) -> bool: ...

    @property
    def batch(self) -> int: ...

    @property
    def cache(self) -> int: ...

    @property
    def shape(self) -> Sequence[int] | None: ...

    @property
    def size(self) -> Sequence[int] | None: ...

    @property
    def scale(self) -> float | None: ...

    @property
    def mean(self) -> float | Sequence[float] | None: ...

    @property
    def std(self) -> float | Sequence[float] | None: ...

    @property
    def layout(self) -> str | None: ...

    @property
    def tokenizer(self) -> str | None: ...

    @property
    def pooling(self) -> str | None: ...

    @property
    def output(self) -> str | None: ...

    @property
    def folder(self) -> str | os.PathLike[str] | None: ...

    @property
    def limit_bytes(self) -> int: ...

    @property
    def limit_pixels(self) -> int: ...
