"""Stored rows: what is admitted, what is written, what is read back, where it lies in the tree."""

from functools import cache

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from likewise.search.history.stored_decisions import STORAGES as NUMBERS
from likewise.search.kernels import rows
from likewise.search.kernels import table as t
from tests.search.kernels.calling import CAPACITY, compiled, state_for
from tests.search.kernels.twins import lane_sum
from tests.support.strategies import prove

SEEDS = st.integers(0, 2**32 - 1)
STORAGES = [
    "float64",
    "float32",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
]
EXACT = 2.0**53

admit = compiled(rows.admit)
admit_output = compiled(rows.admit_output)
remember_output = compiled(rows.remember_output)
load_values = compiled(rows.load_values)
read_row = compiled(rows.read_row)
sketch_row = compiled(rows.sketch_row)
read_point = compiled(rows.read_point)
read_coordinate = compiled(rows.read_coordinate)
erase_row = compiled(rows.erase_row)
squared_norm = compiled(rows.squared_norm)

kept_state = cache(lambda metric, width, storage: state_for(lw.Rule(metric, 1.0), width, storage))


def kept_type(storage):
    """What values are kept as: the largest integers as float64."""
    return np.dtype(storage if storage not in ("int64", "uint64") else np.float64)


def stored_rows(state, width):
    """The whole memory of inputs, filled with a number that no test uses."""
    memory = state.region(t.ROWS).view(state.history.dtype, CAPACITY * width)
    memory = memory.reshape(CAPACITY, width)
    memory[:] = 77
    return memory


def bounds(storage):
    limits = np.iinfo(storage)
    return max(float(limits.min), -EXACT), min(float(limits.max), EXACT)


def awkward(storage):
    """Values at and beside everything that storage types disagree about."""
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, 1e300, -1e300, 3.5e38, 1e-300, np.nan, np.inf, -np.inf]
    for name in STORAGES[2:]:
        for edge in bounds(name):
            edges += [edge - 1, edge, edge + 1, edge + 0.5]
    own = st.floats(width=32 if storage == "float32" else 64, allow_nan=False, allow_infinity=False)
    if storage.startswith(("int", "uint")):
        own = st.integers(*map(int, bounds(storage))).map(float)
    bad = st.sampled_from((np.nan, np.inf, -np.inf, 0.5, 1e300))
    kinds = (own, own | st.sampled_from(edges), own | bad)
    return st.one_of(*(st.lists(kind, min_size=1, max_size=6) for kind in kinds))


@np.errstate(over="ignore")
def admit_twin(storage, values):
    """(0, None), or the reason and the place of the first bad value."""
    for j, value in enumerate(values):
        if not np.isfinite(value):
            return t.NOT_FINITE, j
        if storage == "float32":
            if not np.isfinite(np.float32(value)):
                return t.OUT_OF_RANGE, j
        elif storage != "float64":
            if not float(value).is_integer():
                return t.NOT_INTEGER, j
            low, high = bounds(storage)
            if not low <= value <= high:
                return t.OUT_OF_RANGE, j
    return 0, None


@pytest.mark.parametrize("storage", STORAGES)
def test_admitted_inputs_are_read_back_to_the_bit_and_others_refused(storage):
    seen = {"admitted": 0, "refused": 0}
    kept = kept_type(storage)

    both = [{"values": [1.0, 0.0], "row": 0}, {"values": [1.0, np.nan], "row": 60}]

    @prove(60, both, values=awkward(storage), row=st.integers(0, 60))
    def holds(values, row):
        width = len(values)
        state = kept_state("linf", width, storage)
        table, memory = state.table, stored_rows(state, width)
        alive = state.region(t.ALIVE).view(np.uint8, CAPACITY)
        alive[:] = 0
        said = admit(table, row, np.array(values), False)
        expected, at = admit_twin(storage, values)
        assert said == expected
        assert np.all(np.delete(memory, row, axis=0) == 77), "other rows were touched"
        if expected != 0:
            assert table[t.BAD_AT] == at
            assert not alive.any()
            seen["refused"] += 1
            return
        with np.errstate(over="ignore"):
            stored = np.array(values).astype(kept)
        assert memory[row].tobytes() == stored.tobytes() or 0.0 in values
        assert memory[row].tolist() == stored.tolist()
        assert np.flatnonzero(alive).tolist() == [row]
        out = np.full(width, np.nan)
        read_row(table, row, out)
        assert out.tolist() == stored.astype(float).tolist()
        read_point(table, row, out)
        assert out.tolist() == stored.astype(float).tolist()
        assert [read_coordinate(table, row, axis) for axis in range(width)] == out.tolist()
        seen["admitted"] += 1

    assert min(seen.values()) >= 1, seen


@pytest.mark.parametrize("storage", STORAGES[:-2])
def test_inputs_that_lie_in_their_row_already_are_admitted_as_they_are(storage):
    """Values of the storage type itself: only what is not finite can be wrong with them."""
    seen = {"admitted": 0, "refused": 0}
    floating = storage.startswith("float")

    @prove(40, seed=SEEDS, width=st.integers(1, 6), row=st.integers(0, 60), bad=st.booleans())
    def holds(seed, width, row, bad):
        rng = np.random.default_rng(seed)
        state = kept_state("linf", width, storage)
        table, memory = state.table, stored_rows(state, width)
        values = np.frombuffer(rng.bytes(memory[row].nbytes), dtype=memory.dtype).copy()
        if floating:
            values = np.nan_to_num(values)
            if bad:
                wrong = rng.random(width) < 0.5
                wrong[rng.integers(width)] = True
                values[wrong] = rng.choice([np.nan, np.inf, -np.inf], int(wrong.sum()))
        memory[row] = values
        finite = np.isfinite(values)
        given = np.full(width, np.nan)  # not to be looked at
        said = admit(table, row, given, True)
        assert said == (0 if finite.all() else t.NOT_FINITE)
        assert memory[row].tobytes() == values.tobytes()
        assert np.all(np.delete(memory, row, axis=0) == 77), "other rows were touched"
        if said != 0:
            assert table[t.BAD_AT] == np.flatnonzero(~finite)[0]
        seen["refused" if said else "admitted"] += 1

    assert seen["admitted"] >= 1 and (seen["refused"] >= 1) == floating, seen


@pytest.mark.parametrize("storage", STORAGES)
def test_values_are_loaded_from_wherever_they_lie(storage):
    kept = kept_type(storage)

    @prove(30, seed=SEEDS, count=st.integers(0, 90), at=st.integers(0, 9))
    def holds(seed, count, at):
        rng = np.random.default_rng(seed)
        values = rng.integers(0, 100, at + count + 3).astype(kept)
        if kept.kind == "f":
            values = rng.normal(size=values.size).astype(kept)
        elif count:
            limits = np.iinfo(kept)
            values[at], values[at + count - 1] = limits.min, limits.max
        out = np.full(count + 2, -7.5)
        load_values(values.ctypes.data + at * kept.itemsize, NUMBERS[storage], count, out)
        assert out.tolist() == [*values[at : at + count].astype(float).tolist(), -7.5, -7.5]


@pytest.mark.parametrize("metric", ["linf", "cosine"])
@pytest.mark.parametrize("storage", ["float64", "float32", "int8", "uint8", "int16", "uint64"])
def test_a_sketch_holds_the_chosen_coordinates_to_the_bit(storage, metric):
    kept = kept_type(storage)

    @prove(25, seed=SEEDS, width=st.sampled_from((1, 2, 9, 40)), row=st.integers(0, 60))
    def holds(seed, width, row):
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(width)[: rng.integers(1, width, endpoint=True)]
        weights = rng.choice([0.5, 1.0, 3.0], size=width)
        rule = lw.Rule(metric, 0.1, weights=weights.tolist())
        state = state_for(rule, width, storage, coordinates=chosen.tolist())
        assert (state.table[t.AXES], state.table[t.WIDTH]) == (len(chosen), width)
        places = state.region(t.PLACES).view(kept, CAPACITY * len(chosen))
        places = places.reshape(CAPACITY, len(chosen))
        places[:] = 77
        values = rng.integers(1, 100, width).astype(kept)
        if storage.startswith("float"):
            values = rng.normal(size=width).astype(kept)
        assert admit(state.table, row, values.astype(float), False) == 0
        sketch_row(state.table, row)
        assert places[row].tobytes() == values[chosen].tobytes()
        assert np.all(np.delete(places, row, axis=0) == 77), "other sketches were touched"
        twin = values.astype(float)[chosen]
        if metric == "cosine":  # the norm is that of all coordinates
            norm = lane_sum(weights * values.astype(float) * values.astype(float))
            assert state.region(t.NORMS).view(float, CAPACITY)[row] == norm
            twin = twin * np.sqrt(weights[chosen]) * (1.0 / np.sqrt(norm))
        out = np.full(len(chosen), np.nan)
        read_point(state.table, row, out)
        assert out.tolist() == twin.tolist()
        assert [read_coordinate(state.table, row, k) for k in range(len(chosen))] == twin.tolist()


def test_without_a_sketch_the_row_itself_is_the_place():
    state = state_for(lw.Rule("linf", 1.0), 3)
    assert state.table[t.PLACES] == state.table[t.ROWS]
    assert state.table[t.PLACE_BYTES] == state.table[t.ROW_BYTES]
    memory = stored_rows(state, 3)
    sketch_row(state.table, 5)
    assert (memory == 77).all()


@pytest.mark.parametrize("storage", ["float64", "float32", "int8", "uint32"])
def test_cosine_places_rows_on_the_unit_sphere(storage):
    @prove(60, seed=SEEDS, width=st.sampled_from((1, 2, 7, 8, 150)), weighted=st.booleans())
    def holds(seed, width, weighted):
        rng = np.random.default_rng(seed)
        weights = rng.choice([0.0, 1.0, 3.0, 1e-3], size=width)
        weights[0] = 2.0
        rule = lw.Rule("cosine", 0.1, weights=weights.tolist() if weighted else None)
        state = state_for(rule, width, storage)
        table = state.table
        values = rng.integers(1, 100, width).astype(float)
        if storage.startswith("float"):
            values = rng.normal(size=width) * 10 ** rng.uniform(-15, 15)
        assert admit(table, 3, values, False) == 0
        values = values.astype(kept_type(storage)).astype(float)
        factors = weights if weighted else np.ones(width)
        norm = lane_sum(factors * values * values)
        assert state.region(t.NORMS).view(float, 4)[3] == norm
        twin = values * np.sqrt(factors) * (1.0 / np.sqrt(norm))
        out = np.empty(width)
        read_point(table, 3, out)
        assert out.tolist() == twin.tolist()
        assert [read_coordinate(table, 3, axis) for axis in range(width)] == twin.tolist()
        assert np.sum(out * out) == pytest.approx(1.0, abs=1e-12)
        stored_rows(state, width)[4] = values.astype(kept_type(storage))
        assert admit(table, 4, np.full(width, np.nan), True) == 0
        assert state.region(t.NORMS).view(float, 5)[4] == norm, "the same, however it came"


def test_squared_norm_equals_its_twin_to_the_last_bit():
    @prove(100, seed=SEEDS, width=st.sampled_from((1, 2, 7, 8, 9, 16, 63, 64, 65, 150)))
    @np.errstate(over="ignore", under="ignore")
    def holds(seed, width):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=width) * 10 ** rng.choice([-170.0, -3.0, 0.0, 5.0, 160.0], width)
        weights = rng.choice([0.0, 1.0, 0.3, 1e-100, 1e100], size=width)
        padding = np.zeros(-width % 8)
        found = squared_norm(np.append(values, padding), np.append(weights, padding), width)
        assert found == lane_sum(weights * values * values)


def test_cosine_refuses_inputs_without_a_direction():
    state = state_for(lw.Rule("cosine", 0.1, weights=[1.0, 0.0]), 2)
    for value, said in (
        (0.0, t.BAD_NORM),
        (0.9e-75, t.BAD_NORM),
        (1.1e-75, 0),
        (0.9e75, 0),
        (1.1e75, t.BAD_NORM),
        (1e200, t.BAD_NORM),
    ):
        given = np.array([value, 1.0])
        assert admit(state.table, 0, given, False) == said, value
        state.history.rows[1] = given
        assert admit(state.table, 1, np.zeros(2), True) == said, value


@pytest.mark.parametrize("metric", ["linf", "cosine"])
@pytest.mark.parametrize("storage", ["float64", "uint8", "int16", "uint64"])
def test_a_row_is_remembered_with_its_output_and_erased_with_it(storage, metric):
    rule = lw.Rule(metric, 0.1, output="probabilities")
    state = state_for(rule, 3, storage, out_width=2)
    table, memory = state.table, stored_rows(state, 3)
    outputs = state.region(t.OUTPUTS).view(float, 2 * CAPACITY).reshape(CAPACITY, 2)
    outputs[:] = 9.0
    alive = state.region(t.ALIVE).view(np.uint8, CAPACITY)
    for row in range(4):
        assert table[t.TOTAL] == table[t.LIVE] == row
        assert admit(table, row, np.array([1.0, 2.0, row + 3.0]), False) == 0
        state.scratch.small[t.GIVEN][:] = [0.25, 0.75]
        remember_output(table, row)
        assert outputs[row].tolist() == [0.25, 0.75]
        assert (outputs[row + 1 :] == 9.0).all()
    assert alive[:5].tolist() == [1, 1, 1, 1, 0]
    erase_row(table, 2)
    assert not memory[2].any() and not outputs[2].any()
    assert alive[:5].tolist() == [1, 1, 0, 1, 0]
    for row in (0, 1, 3):
        assert memory[row].tolist() == [1, 2, row + 3] and outputs[row].tolist() == [0.25, 0.75]
    assert (memory[4:] == 77).all() and (outputs[4:] == 9.0).all()
    if metric == "cosine":
        norms = state.region(t.NORMS).view(float, 4)
        assert norms.tolist() == [14.0, 21.0, 0.0, 41.0]


def admit_output_twin(values, probabilities):
    for k, value in enumerate(values):
        if not np.isfinite(value) or (probabilities and value < -1e-9):
            return t.BAD_OUTPUT, k
    if probabilities and abs(np.cumsum(values)[-1] - 1.0) > 1e-3:
        return t.BAD_SUM, None
    return 0, None


def test_outputs_are_admitted_as_the_twin_admits_them():
    states = {
        (output, width): state_for(lw.Rule("linf", 1.0, output=output), 1, out_width=width)
        for output in ("number", "probabilities")
        for width in range(1, 5)
    }
    parts = st.sampled_from((0.0, 1.0, 0.5, 0.25, -1e-9, -2e-9, 1e-3, 1.1e-3, -0.5, np.nan, np.inf))
    seen = set()

    @prove(
        300,
        values=st.lists(parts, min_size=1, max_size=4),
        output=st.sampled_from(("number", "probabilities")),
    )
    def holds(values, output):
        state = states[output, len(values)]
        expected, at = admit_output_twin(np.array(values), output == "probabilities")
        assert admit_output(state.table, np.array(values)) == expected
        assert at is None or state.table[t.BAD_AT] == at
        seen.add(expected)

    assert {0, t.BAD_OUTPUT} <= seen
