"""A partition of points into neighbourhoods in which every two are near each other.

Groups are shuffled within neighbourhoods (permutation.py), so nobody's group is exchanged with that
of somebody who is not a like case. A ball around a leader would not do: two of its points may be
twice the radius apart.

Points come in order. Each joins the neighbourhood to all of whose points it is near, the one with
the most decisions if there are several, the first of these; else it begins one. Groups and outcomes
play no part in it, as a permutation test demands.

Invariant: every two points of a neighbourhood are near; a point is in exactly one.
Cost: a count of each pair, in Python; three numbers for each point.
"""

from collections import Counter

import numpy as np

from likewise.values.witnesses import Rows


class Neighbourhoods:
    """Takes the near pairs of points, the later ones in ascending order."""

    def __init__(self, decisions: Rows) -> None:
        """decisions: how many each point has."""
        self.of_point: Rows = np.arange(len(decisions))
        """The neighbourhood of each point, named after the point that began it."""
        self._points = np.ones(len(decisions), np.int64)
        self._decisions = decisions.astype(np.int64)

    def add(self, later: Rows, earlier: Rows) -> None:
        """All pairs of some points with those before them."""
        starts = np.flatnonzero(np.diff(later, prepend=-1))
        stops = np.append(starts[1:], len(later))
        sizes, decisions = self._points, self._decisions
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            near = Counter(self.of_point[earlier[start:stop]].tolist())
            whole = [one for one, count in near.items() if count == sizes[one]]
            if not whole:
                continue
            point = int(later[start])
            joined = min(whole, key=lambda one: (-decisions[one], one))
            self.of_point[point] = joined
            sizes[joined] += 1
            decisions[joined] += decisions[point]
