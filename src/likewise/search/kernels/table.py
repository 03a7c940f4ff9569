"""Define the table: everything a kernel needs to know, in one array of 64-bit integers.

Some slots are counters and settings, the rest are addresses of arrays. One argument instead of
thirty saves about 50 ns for each array in every call from Python, and a second searching thread
needs only a copy of the table with other scratch addresses.
Invariant: every array reached from here is at least as long as the capacity slots say.
"""

from typing import Any

import numpy as np

from likewise.search.kernels.compile import step, view, view_slot

BLOCK = 128
"""Points in one leaf block. A coordinate of a block is two cache lines of codes."""

# The history, the same in the table of every index over it
TOTAL = 0  # rows ever assigned
LIVE = 1  # rows remembered now
ROW_CAPACITY = 2
WIDTH = 3  # coordinates of an input
OUT_WIDTH = 4  # numbers in an output
STORAGE = 5
METRIC = 6
OUTPUT = 7
ROW_BYTES = 8
WEIGHTS = 9  # float64 per coordinate: what the distance multiplies
ROWS = 10  # stored inputs, row by row, of the storage type
NORMS = 11  # float64 per row: weighted sum of squares (cosine only)
OUTPUTS = 12  # float64, OUT_WIDTH per row
ALIVE = 13  # uint8 per row
HISTORY = 14
"""Slots below this one are about the history."""

# The index: counters and capacities
NODES = 14  # node slots in use or free; slots below TREES are the roots
BLOCKS = 15  # blocks in use or free
FREE_PAIR = 16  # first free pair of nodes, -1 for none; LEFT links them
FREE_BLOCK = 17  # first free block, -1 for none; NEXT links them
NODE_CAPACITY = 18
BLOCK_CAPACITY = 19
RESULT_CAPACITY = 20
# The index: settings
AXES = 21  # coordinates that the index holds: all of them, or a sketch
COORDINATES = 22  # int64 per axis: which coordinate of the input it is
PLACES = 23  # per row, AXES values of the storage type; ROWS itself where the index holds all
PLACE_BYTES = 24
RANGE_WIDTH = 25  # how many numbers of an output have a range per node: all, or 0
TREES = 26
WINDOW = 27  # a code at most this far away, modulo 256, may be near
LIMIT = 28  # a sum of code gaps above this cannot be near (l1, l2, cosine)
NUMBERS = 29  # float64, indexed by the names below
PRESCALE = 30  # float64 per axis: from stored value to position in the tree
GAP_SCALE = 31  # float64 per axis: from gap in the tree to distance
CODE_SCALE = 32  # float64 per axis: from position to code
# The nodes; children come in pairs, so a node keeps only the first
AXIS = 33  # int64; -1 marks a leaf, -2 a node still being built
SPLIT = 34  # float64; left is below it, right is not
LEFT = 35  # int64; a leaf's first block instead
PARENT = 36  # int64; -1 for a root
LEAVES = 37  # int64; leaves below
TRIED = 38  # int64; leaves below when its balance was last looked at
BUILT = 39  # int64; leaves below when it was last rebuilt
LOW = 40  # float64, RANGE_WIDTH per node: smallest output below
HIGH = 41
BOX = 42  # float32, 2 x AXES per node: smallest and largest position below, rounded outwards
# The blocks
CODES = 43  # uint8, AXES x BLOCK per block
IDS = 44  # int64, BLOCK per block
COUNT = 45  # int64
NEXT = 46  # int64; a further block of equal points, -1 for none
# One call's arguments and results
TASK = 47
GIVEN_RAW = 48  # whether the input lies in row TOTAL already, else in INPUT
FOUND = 49
BAD_AT = 50
RECENT = 51  # int64, 3 x RECENT_MOST: what each of the last searches touched
# Scratch of one thread
INPUT = 52  # float64: the decision as it came
GIVEN = 53  # float64: its output
QUERY = 54  # float64: the input as stored
POINT = 55  # float64: its position in the tree
QCODES = 56  # uint8: its codes
OFFSETS = 57  # float64 per axis: distance from the query to the cell being visited
STACK = 58  # int64: nodes still to visit
STACK_SUM = 59  # float64
STACK_AXIS = 60  # int64
STACK_OFFSET = 61  # float64
FOUND_BLOCKS = 62  # int64: blocks to scan
MASK = 63  # uint8, BLOCK
SUMS = 64  # uint16, BLOCK
CANDIDATES = 65  # int64
PART = 66  # float64, CHUNK: part of a stored input being looked at
OTHER = 67  # float64 per axis: a stored position being looked at
CORNER = 68  # float64: the output in a node's range that is farthest from the query's
POINTS = 69  # float64, (BLOCK + 1) x AXES: positions of the points of a block being split
KEYS = 70  # float64, BLOCK + 1
ORDER = 71  # int64, BLOCK
LANES = 72  # float64, 8 x AXES: positions of rows whose leaves are found together
RESULT_ROWS = 73
RESULT_INPUT = 74
RESULT_OUTPUT = 75
# A rebuild under way (rebuild.py)
JOB_PHASE = 76
JOB_NODE = 77  # the node whose subtree is to be replaced
JOB_COUNT = 78  # rows collected
JOB_TOP = 79  # height of the job's stack
JOB_FROM = 80  # the segment at work: rows JOB_IDS[JOB_FROM:JOB_TO], to lie below JOB_AT
JOB_TO = 81
JOB_AT = 82
JOB_AXIS = 83
JOB_I = 84  # how far the work on the segment has come, from the front
JOB_J = 85  # and from the back
JOB_LOGGED = 86
JOB_APPLIED = 87
JOB_IDS = 88  # int64 per row
JOB_LOG = 89  # int64 per row
JOB_MARKS = 90  # uint8 per row: 1 while the row is in the log
JOB_STACK = 91  # int64, 3 per node
REBUILDS = 92  # begun so far
LIFTS = 93  # made so far
LANDED = 94  # the leaf of the last insertion
TOP = 95  # the root above the last split
PARTED = 96  # int64, PARTED_ROOM: nodes split since the tree was last maintained
PARTED_COUNT = 97
MOVES = 98  # how often nodes have changed places so far
ROUTED = 99  # MOVES when the leaves of the batch were found
ROWS_REBUILT = 100  # so far
NOTES = 101  # int64, NOTES_WIDTH x 8: notes of a lift
BUCKETS = 102  # int64, 4,096: counts of a sort
# A batch at work (batch.py)
FIRST = 103  # the batch's first row
START = 104  # the part of it that this call is about
STOP = 105
INPUTS = 106  # inputs as they came, float64; 0 if they lie in their rows already
GIVENS = 107  # float64: outputs as they came
LEAF_OF = 108  # int64 per row of the batch
PATH_OF = 109  # uint64 per row of the batch
WORK_ORDER = 110  # int64 per row of the batch
COUNTS = 111  # int64 per row of the batch: witnesses found
# A flat scan (flat.py)
DIRECTIONS = 112  # float64, WIDTH x AXES: the rotation, in units of the reach
CENTRE = 113  # float64 per coordinate: what is subtracted before rotating
FRONT_AXES = 114  # coordinates of which a block has CODES, coordinate by coordinate
TAILS = 115  # uint8, ROTATED_BYTES - FRONT_AXES per point: the codes of the other coordinates
ERRORS = 116  # float64, 2 per block: how far a point may lie from its codes, front and all
ROTATED = 117  # uint8, ROTATED_BYTES per row of a batch: the codes of the queries
ROTATED_BYTES = 118
ROTATED_ERROR = 119  # float64, 2 per row of a batch: as ERRORS
ROTATING = 120  # float64, AXES: a rotation being added up
OWNERS = 121  # int64: the query of each result
BLOCK_PLACES = 122  # int64 per row: its block x BLOCK + its slot there
# A search for the best match (nearest.py)
QUESTION = 123  # NEAREST or STEEPEST
TRAIL = 124  # what the last search found: the next one begins there
# A comparable row: a near row, whatever its output; and how many agree (comparable.py)
SINCE = 125  # rows before this one do not count
SINCES = 126  # int64 per row of the batch: rows before this one do not count
COMPARABLE_ROWS = 127  # int64 per row of the batch: a near row, -1 for none
WANTS_LATEST = 128  # whether the latest near row of what is proposed is wanted (propose.py)
LATEST = 129  # which it is, -1 for none
AGREEING = 130  # int64 per row of the batch: near rows that do not differ are added
SLOTS = 131

NOTES_WIDTH = 32

PARTED_MOST = 16  # noted splits from which the tree needs maintenance
PARTED_ROOM = 4096
CHUNK = 64  # coordinates of a row looked at before asking whether it can still be near
RECENT_MOST = 1024  # searches whose cost is remembered
NEEDS_MAINTENANCE = 1 << 40
"""Added to a count of witnesses if the tree needs maintenance (maintain_tree.py)."""

# Indices into NUMBERS
REACH = 0  # near means distance <= REACH
DELTA = 1  # different means output distance > DELTA
TREE_REACH = 2  # a cell farther away than this holds nothing near
CLAMP = 3  # positions in code units are clamped to +-CLAMP
JOB_SPLIT = 4  # the plane of the segment at work
# and for a flat scan, all in units of the reach (flat.py)
ROTATED_REACH = 5  # no near point lies farther than this in rotated coordinates
GAP_ERROR = 6  # error of a rotated point, by its distance from the centre
VALUE_ERROR = 7  # and by its distance from the origin
# and for a search for the best match (bounds.py)
BEST_DELTA = 8  # different means output distance > BEST_DELTA
BEST_LIMIT = 9  # nothing farther away than this is wanted
EXPONENT = 10  # a slope is output distance / input distance ** EXPONENT
GRAIN = 11  # code units per unit of length in the tree
NUMBERS_COUNT = 12

# Metrics
LINF, L1, L2, COSINE = 0, 1, 2, 3
# Storage types
FLOAT64, FLOAT32, INT8, UINT8, INT16, UINT16, INT32, UINT32 = 0, 1, 2, 3, 4, 5, 6, 7
INT64, UINT64 = 8, 9  # up to 2^53 either way, and kept as float64
# Output kinds
LABEL, NUMBER, OUT_LINF, OUT_L1, OUT_L2, OUT_TV = 0, 1, 2, 3, 4, 5
# Questions of a search for the best match
NEAREST, STEEPEST = 0, 1

# What a kernel returns instead of a count
NOT_FINITE, NOT_INTEGER, OUT_OF_RANGE, BAD_NORM = -1, -2, -3, -4
BAD_OUTPUT, BAD_SUM, FULL = -5, -6, -7

# Tasks, in TASK: those of decide and flat (propose has one of them, too), then those of each alone
OBSERVE, CHECK, PLANT, WRITE, SEARCH = 0, 1, 2, 3, 4
FIND_COMPARABLE, FIND_COMPARABLE_MANY, COUNT_AGREEING, COUNT_AGREEING_MANY = 5, 6, 7, 8
ROUTE, SORT, INSERT, INSERT_APART, JOIN, COUNT_SPLITS = 9, 10, 11, 12, 13, 14  # decide
ROTATE, ADD_TO_BLOCKS = 15, 16  # flat
ADMIT, DECIDE, REMEMBER = 17, 18, 19  # propose


floats = view_slot(np.float64)
ints = view_slot(np.int64)
bytes_of = view_slot(np.uint8)


@step
def box_of(table: Any, node: int) -> Any:
    """Return the node's box: the smallest position in each coordinate, then the largest."""
    return view(table[BOX] + node * table[AXES] * 8, np.float32)
