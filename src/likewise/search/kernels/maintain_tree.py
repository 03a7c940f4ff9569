"""Maintain the tree between decisions: balance it, and rebuild where balance fails.

Lifting planes (balance.py) keeps the tree shallow where arrivals are sorted. Where no plane can be
lifted and a leaf lies deeper than 3 log2(leaves) + 10, the lowest subtree above it that is too deep
for its size is rebuilt (Galperin and Rivest's scapegoat), a little with each further insertion.
Invariant: one rebuild at a time; a node is not rebuilt again before it has grown by a quarter.
"""

from typing import Any

import numpy as np

from likewise.search.kernels import table as t
from likewise.search.kernels.add import COLLECT, IDLE
from likewise.search.kernels.balance import rebalance
from likewise.search.kernels.compile import entry, kernel, view
from likewise.search.kernels.rebuild import advance, start_rebuild
from likewise.search.kernels.table import ints


@kernel
def _bits(leaves: int) -> int:
    """Return log2, rounded down."""
    bits = 0
    while leaves > 1:
        leaves >>= 1
        bits += 1
    return bits


@kernel
def _find_scapegoat(table: Any, node: int) -> int:
    """Return the lowest node above that is too deep for its size, unless lately rebuilt, or -1."""
    leaves = ints(table, t.LEAVES)
    built = ints(table, t.BUILT)
    parent = ints(table, t.PARENT)
    node = parent[node]
    height = 2
    while node >= 0:
        if height > 2 * _bits(leaves[node]) + 4 and 4 * leaves[node] > 5 * built[node]:
            return node
        node = parent[node]
        height += 1
    return -1


@entry
def maintain_tree(address: int, budget: int) -> int:
    """Balance above the nodes that decisions noted as split, and work on a rebuild, if any."""
    table = view(address, np.int64)
    if table[t.JOB_PHASE] != COLLECT:
        parted = ints(table, t.PARTED)
        for k in range(table[t.PARTED_COUNT]):
            if ints(table, t.AXIS)[parted[k]] < 0:  # freed, or changed places in a lift
                continue
            depth = rebalance(table, parted[k])
            leaves = ints(table, t.LEAVES)[table[t.TOP]]
            if table[t.JOB_PHASE] == IDLE and depth > 3 * _bits(leaves) + 10:
                scapegoat = _find_scapegoat(table, parted[k])
                if scapegoat >= 0:
                    start_rebuild(table, scapegoat)
                    break
    table[t.PARTED_COUNT] = 0
    advance(table, budget)
    return 0
