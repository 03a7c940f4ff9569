"""Keeping the tree in shape: balance, and a rebuild where balance fails.

Lifting planes (balance.py) keeps the tree shallow under drift. Where no plane can be lifted and a
leaf still comes to lie too deep, the lowest lopsided subtree above it is rebuilt (Galperin and
Rivest's scapegoat), a little with each further insertion. All this happens between decisions, in a
kernel of its own: a decision only notes which nodes it split.

Invariant: one rebuild at a time; a node is not rebuilt again before it has grown by a quarter.
"""

from typing import Any

from likewise.kernels import table as t
from likewise.kernels.add import COLLECT, IDLE
from likewise.kernels.balance import lopsided, rebalance
from likewise.kernels.compile import entry, kernel
from likewise.kernels.rebuild import advance, start_rebuild
from likewise.kernels.table import ints


@kernel
def _too_deep(depth: int, leaves: int) -> bool:
    """Deeper than 3 log2(leaves) + 10."""
    bits = 0
    while leaves > 1:
        leaves >>= 1
        bits += 1
    return depth > 3 * bits + 10


@kernel
def _find_scapegoat(table: Any, node: int) -> int:
    """The lowest lopsided node above, unless it was rebuilt not long ago; -1 for none."""
    leaves = ints(table, t.LEAVES)
    built = ints(table, t.BUILT)
    parent = ints(table, t.PARENT)
    node = parent[node]
    while node >= 0:
        if leaves[node] >= 8 and 4 * leaves[node] > 5 * built[node] and lopsided(table, node):
            return node
        node = parent[node]
    return -1


@entry
def tend(table: Any, budget: int) -> None:
    """Balance above the nodes that were split, and work on the rebuild under way, if any."""
    if table[t.JOB_PHASE] != COLLECT:
        parted = ints(table, t.PARTED)
        for k in range(table[t.PARTED_COUNT]):
            if (
                ints(table, t.AXIS)[parted[k]] < 0
            ):  # moved by a lift; its new place is looked at later
                continue
            depth = rebalance(table, parted[k])
            if table[t.JOB_PHASE] == IDLE and _too_deep(depth, ints(table, t.LEAVES)[table[t.TOP]]):
                scapegoat = _find_scapegoat(table, parted[k])
                if scapegoat >= 0:
                    start_rebuild(table, scapegoat)
                    break
    table[t.PARTED_COUNT] = 0
    advance(table, budget)
