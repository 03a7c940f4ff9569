"""A report with pictures or texts side by side, which the examples fill and write."""

from .gallery import Gallery

__all__ = ["Gallery"]
