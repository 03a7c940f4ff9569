"""The coordinates by which rows are sorted into cells, and how far from a cut others are near.

    what must match   one number for all categories that must match; cut for free
    model             the same, where only decisions of one model are compared
    time              where decisions are compared only within some time; earlier ones are copied
    the rule's own    each coordinate of the vectors that are compared, in its own unit; for cosine,
                      on the unit sphere

Each metric's distance is at least the weighted gap in any coordinate, so rows farther apart in one
coordinate than the reach over its weight are not near (metrics/geometry.py, whose reach is a little
wider than the rule's, for rounding). A coordinate in which a missing place matches everything is
never cut: what is near such a row may be anywhere.

Invariant: two rows that one monitor would compare and call near are within reach of each other in
every coordinate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.audit.cuts import Floats, Reach
from likewise.audit.sides import mixed, stable_codes, stable_column
from likewise.metrics.geometry import geometry
from likewise.monitors.monitor import Monitor
from likewise.monitors.parts import span_of
from likewise.reading.encoding import Encoder
from likewise.rules.rule import Rule

_FREE = Reach(None, None)
_SHIFT = np.uint64(11)  # 53 bits are left, which a float holds


@dataclass(frozen=True)
class Space:
    """How rows of a rule become points.

    within   how long before a decision the past begins that it is compared with, if limited
    """

    rule: Rule
    within: str | None = None

    @property
    def matching(self) -> tuple[str, ...]:
        """The categories that must match, and whose missing places do not match everything."""
        return tuple(
            name
            for name, one in (self.rule.features or {}).items()
            if one.kind == "category" and one.mismatch is None and one.missing != "match"
        )

    def points(
        self, probe: Monitor, times: npt.NDArray[Any] | None, models: Sequence[Any] | None
    ) -> Floats:
        """The coordinates of all rows of a monitor that has loaded them."""
        rows = np.arange(len(probe))
        columns = []
        if self.matching:
            codes = [stable_codes(probe.past.codes(name, rows)) for name in self.matching]
            columns.append(_as_floats(mixed(codes, len(rows))))
        if self.rule.compare == "within":
            assert models is not None
            columns.append(_as_floats(mixed([stable_column(models)], len(rows))))
        if self.within is not None:
            assert times is not None
            columns.append(times.astype("datetime64[us]").astype(np.int64).astype(np.float64))
        vectors = probe.past.points(rows).vectors.reshape(len(rows), -1).astype(np.float64)
        return np.column_stack([*columns, self._positions(vectors)])

    def _positions(self, vectors: Floats) -> Floats:
        if self.rule.metric != "cosine":
            return vectors
        weights = 1.0 if self.rule.weights is None else np.sqrt(np.array(self.rule.weights))
        scaled = vectors * weights
        scaled = scaled / np.abs(scaled).max(axis=1, keepdims=True)  # so that no square overflows
        positions: Floats = scaled / np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
        return positions

    def reaches(self, probe: Monitor) -> list[Reach | None]:
        """For each coordinate how far is near, as the monitor compares; None: it cannot be cut."""
        reaches: list[Reach | None] = []
        if self.matching:
            reaches.append(_FREE)
        if self.rule.compare == "within":
            reaches.append(_FREE)
        if self.within is not None:
            reaches.append(Reach(float(span_of(self.within).microseconds), None))
        plain = probe.past.points(np.zeros(1, np.int64)).rule
        explained = probe.explain()
        assert explained.width is not None and explained.slack is not None
        found = geometry(plain, explained.width, explained.slack)
        left_open = self._left_open()
        for j, scale in enumerate(found.gap_scale.tolist()):
            far = found.tree_reach / scale if scale > 0 else np.inf
            near = np.isfinite(far) and j not in left_open
            reaches.append(Reach(far, far) if near else None)
        return reaches

    def _left_open(self) -> set[int]:
        """Coordinates that no cut may use: where a missing place is near everything, and numbers
        for combinations of categories, which differ from monitor to monitor."""
        if self.rule.features is None:
            return set()
        encoder = Encoder(self.rule)
        return set(encoder.apart).union(
            j
            for name, one in self.rule.features.items()
            if one.missing == "match"
            for j in range(encoder.places[name].start, encoder.places[name].stop)
        )


def _as_floats(numbers: npt.NDArray[np.uint64]) -> Floats:
    return (numbers >> _SHIFT).astype(np.float64)
