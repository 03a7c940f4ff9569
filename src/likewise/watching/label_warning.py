"""Notices a rule about labels on a model that answers numbers.

Under such a rule 0.71 and 0.72 are as different as "yes" and "no": almost every near pair violates.

Cost: a set of the first outputs, which is let go of when they are counted.
Not here: later outputs. Who answers classes first and numbers afterwards is not noticed.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

_SAMPLE_SIZE = 200  # outputs
_DISTINCT_SHARE_OF_FRACTIONS = (
    0.5  # share of distinct outputs, from which on fractions are taken for measurements
)
_DISTINCT_SHARE_OF_INTEGERS = (
    0.95  # the same for whole numbers, which may be the numbers of many classes
)


class LabelHints:
    """The first labels of a model."""

    def __init__(self) -> None:
        self._count = 0
        self._distinct: set[Any] = set()
        self._whole = True
        self.done = False

    def hardly_repeat(self, outputs: Iterable[Any]) -> bool:
        """Look at some more; whether it shows with them that they are numbers, not labels."""
        for output in outputs:
            number = isinstance(output, int | float | np.number) and not isinstance(output, bool)
            if not number:
                self._end()
                return False
            self._whole = self._whole and output == output // 1
            self._distinct.add(output)
            self._count += 1
            if self._count == _SAMPLE_SIZE:
                share = len(self._distinct) / self._count
                self._end()
                return share >= (
                    _DISTINCT_SHARE_OF_INTEGERS if self._whole else _DISTINCT_SHARE_OF_FRACTIONS
                )
        return False

    def _end(self) -> None:
        self.done = True
        self._distinct = set()
