"""The table: everything a kernel needs to know, in one array of 64-bit integers.

The first slots are counters and settings, the rest are addresses of arrays. One argument instead
of thirty saves about 50 ns for each array in every call from Python, and a copy of the table with
other scratch addresses is all that a second searching thread needs.

Invariant: every array reached from here is at least as long as the capacity slots say.
"""

from typing import Any

import numpy as np

from likewise.kernels.compile import step, view, view_slot

BLOCK = 128
"""Points in one leaf block. A coordinate of a block is two cache lines of codes."""

# Counters
TOTAL = 0  # rows ever assigned
LIVE = 1  # rows remembered now
NODES = 2  # node slots in use or free; slots below TREES are the roots
BLOCKS = 3  # blocks in use or free
FREE_PAIR = 4  # first free pair of nodes, -1 for none; LEFT links them
FREE_BLOCK = 5  # first free block, -1 for none; NEXT links them
# Capacities
ROW_CAPACITY = 6
NODE_CAPACITY = 7
BLOCK_CAPACITY = 8
RESULT_CAPACITY = 9
# Settings
WIDTH = 10  # coordinates of an input
OUT_WIDTH = 11  # numbers in an output
RANGE_WIDTH = 12  # how many of them have a range per node: all, or 0
STORAGE = 13
METRIC = 14
OUTPUT = 15
TREES = 16
WINDOW = 17  # a code at most this far away, modulo 256, may be near
LIMIT = 18  # a sum of code gaps above this cannot be near (l1, l2, cosine)
# One call's arguments and results
FOUND = 20
BAD_AT = 21
VISITED = 22  # blocks scanned so far by this table's owner
SEARCHES = 23  # searches made so far by this table's owner
# Arrays of settings
NUMBERS = 24  # float64, indexed by the names below
WEIGHTS = 25  # float64 per coordinate: what the distance multiplies
PRESCALE = 26  # float64 per coordinate: from stored value to position in the tree
GAP_SCALE = 27  # float64 per coordinate: from gap in the tree to distance
CODE_SCALE = 28  # float64 per coordinate: from position to code
# The history
ROWS = 29  # stored inputs, row by row, of the storage type
NORMS = 30  # float64 per row: weighted sum of squares (cosine only)
OUTPUTS = 31  # float64, OUT_WIDTH per row
ALIVE = 32  # uint8 per row
# The nodes; children come in pairs, so a node keeps only the first
AXIS = 33  # int64; -1 marks a leaf, -2 a node still being built
SPLIT = 34  # float64; left is below it, right is not
LEFT = 35  # int64; a leaf's first block instead
PARENT = 36  # int64; -1 for a root
LEAVES = 37  # int64; leaves below
TRIED = 38  # int64; leaves below when its balance was last looked at
LOW = 39  # float64, RANGE_WIDTH per node: smallest output below
HIGH = 40
BOX = 41  # float32, 2 x WIDTH per node: smallest and largest position below, rounded outwards
# The blocks
CODES = 42  # uint8, WIDTH x BLOCK per block
IDS = 43  # int64, BLOCK per block
COUNT = 44  # int64
NEXT = 45  # int64; a further block of equal points, -1 for none
# Scratch of one thread
INPUT = 46  # float64: the decision as it came
GIVEN = 47  # float64: its output
QUERY = 48  # float64: the input as it would be stored
POINT = 49  # float64: its position in the tree
QCODES = 50  # uint8: its codes
OFFSETS = 51  # float64 per coordinate: distance from the query to the cell being visited
STACK = 52  # int64: nodes still to visit
STACK_SUM = 53  # float64
STACK_AXIS = 54  # int64
STACK_OFFSET = 55  # float64
FOUND_BLOCKS = 56  # int64: blocks to scan
MASK = 57  # uint8, BLOCK
SUMS = 58  # uint16, BLOCK
CANDIDATES = 59  # int64
OTHER = 60  # float64: a stored input, or position, being looked at
CORNER = 61  # float64: the output in a node's range that is farthest from the query's
POINTS = 62  # float64, (BLOCK + 1) x WIDTH: positions of the points of a block being split
KEYS = 63  # float64, BLOCK + 1
ORDER = 64  # int64, BLOCK
LANES = 65  # float64, 8 x WIDTH: positions of rows led to their leaves together
RESULT_ROWS = 66
RESULT_INPUT = 67
RESULT_OUTPUT = 68
ROW_BYTES = 69
# A rebuild under way (rebuild.py)
JOB_PHASE = 70
JOB_NODE = 71  # the node whose subtree is to be replaced
JOB_ROOT = 72  # the root of its replacement
JOB_BEFORE = 73  # rows from here on come through the log
JOB_COUNT = 74  # rows collected
JOB_TOP = 75  # height of the job's stack
JOB_FROM = 76  # the segment at work: rows JOB_IDS[JOB_FROM:JOB_TO], to lie below JOB_AT
JOB_TO = 77
JOB_AT = 78
JOB_AXIS = 79
JOB_I = 80  # how far the work on the segment has come, from the front
JOB_J = 81  # and from the back
JOB_LOGGED = 82
JOB_APPLIED = 83
JOB_IDS = 84  # int64 per row
JOB_LOG = 85  # int64 per row
JOB_STACK = 86  # int64, 3 per node
REBUILDS = 87  # begun so far
LIFTS = 88  # made so far
LANDED = 89  # the leaf of the last insertion
TOP = 90  # the root above the last split
BUILT = 91  # int64 per node; leaves below when it was last rebuilt
PARTED = 92  # int64, PARTED_MOST: nodes split since the tree was last tended
PARTED_COUNT = 93
# A batch at work (batch.py)
TASK = 94
FIRST = 95  # the batch's first row
START = 96  # the part of it that this call is about
STOP = 97
INPUTS = 98  # inputs as they came: float32 if INPUTS_SINGLE, else float64
GIVENS = 99  # float64: outputs as they came
LEAF_OF = 100  # int64 per row of the batch
PATH_OF = 101  # uint64 per row of the batch
WORK_ORDER = 102  # int64 per row of the batch
COUNTS = 103  # int64 per row of the batch: witnesses found
INPUTS_SINGLE = 104
MOVES = 105  # how often nodes have changed places so far
ROUTED = 106  # MOVES when the batch was led to its leaves
ROWS_REBUILT = 107  # so far
NOTES = 108  # int64, NOTES_WIDTH x 8: what a lift keeps in mind
BUCKETS = 109  # int64, 4,096: counts of a sort
SLOTS = 110

NOTES_WIDTH = 32

PARTED_MOST = 16
TEND = 1 << 40
"""Added to a count of witnesses: the tree wants tending (grow.py)."""

# Indices into NUMBERS
REACH = 0  # near means distance <= REACH
DELTA = 1  # different means output distance > DELTA
TREE_REACH = 2  # a cell farther away than this holds nothing near
CLAMP = 3  # positions in code units are clamped to +-CLAMP
JOB_SPLIT = 4  # the plane of the segment at work

# Metrics
LINF, L1, L2, COSINE = 0, 1, 2, 3
# Storage types
FLOAT64, FLOAT32, INT8, UINT8, INT16, UINT16, INT32, UINT32 = 0, 1, 2, 3, 4, 5, 6, 7
INT64, UINT64 = 8, 9  # up to 2^53 either way, and kept as float64
# Output kinds
LABEL, NUMBER, OUT_LINF, OUT_L1, OUT_L2, OUT_TV = 0, 1, 2, 3, 4, 5

# What a kernel answers instead of a count
NOT_FINITE, NOT_INTEGER, OUT_OF_RANGE, BAD_NORM, BAD_OUTPUT, BAD_SUM, FULL = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
    -7,
)


floats = view_slot(np.float64)
ints = view_slot(np.int64)
bytes_of = view_slot(np.uint8)


@step
def box_of(table: Any, node: int) -> Any:
    """The node's box: the smallest position in each coordinate, then the largest."""
    return view(table[BOX] + node * table[WIDTH] * 8, np.float32)
