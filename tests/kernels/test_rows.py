"""Stored rows: what is admitted, what is written, what is read back, where it lies in the tree."""

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from kernels.calling import compiled, state_for
from likewise.kernels import rows
from likewise.kernels import table as t
from strategies import prove

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
write_row = compiled(rows.write_row)
read_row = compiled(rows.read_row)
read_point = compiled(rows.read_point)
read_coordinate = compiled(rows.read_coordinate)
place = compiled(rows.place)
squared_norm = compiled(rows.squared_norm)


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
    kept = np.dtype(storage) if storage not in ("int64", "uint64") else np.dtype(float)
    states = {width: state_for(lw.Rule("linf", 1.0), width, storage) for width in range(1, 7)}

    @prove(60, values=awkward(storage), row=st.integers(0, 60))
    def holds(values, row):
        width = len(values)
        state = states[width]
        table, query = state.table, state.desk.small[t.QUERY]
        said = admit(table, np.array(values))
        expected, at = admit_twin(storage, values)
        assert said == expected
        if expected != 0:
            assert table[t.BAD_AT] == at
            seen["refused"] += 1
            return
        with np.errstate(over="ignore"):
            stored = np.array(values).astype(kept)
        assert query.tobytes() == stored.astype(float).tobytes() or 0.0 in values
        assert query.tolist() == stored.tolist()
        memory = state.region(t.ROWS).view(kept, 64 * width).reshape(64, width)
        memory[:] = 77
        write_row(table, row, query)
        assert memory[row].tobytes() == query.astype(kept).tobytes()
        assert np.all(np.delete(memory, row, axis=0) == 77), "other rows were touched"
        assert state.region(t.ALIVE).view(np.uint8, 64)[row] == 1
        out = np.full(width, np.nan)
        read_row(table, row, out)
        assert out.tolist() == query.tolist()
        read_point(table, row, out)
        assert out.tolist() == query.tolist()
        assert [read_coordinate(table, row, axis) for axis in range(width)] == out.tolist()
        seen["admitted"] += 1

    assert min(seen.values()) >= 1, seen


@pytest.mark.parametrize("storage", ["float64", "float32", "int8", "uint32"])
def test_cosine_places_rows_on_the_unit_sphere(storage):
    @prove(60, seed=SEEDS, width=st.sampled_from((1, 2, 7, 150)), weighted=st.booleans())
    def holds(seed, width, weighted):
        rng = np.random.default_rng(seed)
        weights = rng.choice([0.0, 1.0, 3.0, 1e-3], size=width)
        weights[0] = 2.0
        rule = lw.Rule("cosine", 0.1, weights=weights.tolist() if weighted else None)
        state = state_for(rule, width, storage)
        table, query = state.table, state.desk.small[t.QUERY]
        values = rng.integers(1, 100, width).astype(float)
        if storage.startswith("float"):
            values = rng.normal(size=width) * 10 ** rng.uniform(-15, 15)
        assert admit(table, values) == 0
        write_row(table, 3, query)
        factors = weights if weighted else np.ones(width)
        norm = np.cumsum(factors * query * query)[-1]
        assert squared_norm(query, factors, width) == norm
        assert state.region(t.NORMS).view(float, 4)[3] == norm
        twin = query * np.sqrt(factors) * (1.0 / np.sqrt(norm))
        out, again = np.empty(width), np.empty(width)
        place(table, query, norm, out)
        read_point(table, 3, again)
        assert out.tolist() == again.tolist() == twin.tolist()
        assert [read_coordinate(table, 3, axis) for axis in range(width)] == twin.tolist()
        assert np.sum(out * out) == pytest.approx(1.0, abs=1e-12)


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
        assert admit(state.table, np.array([value, 1.0])) == said, value


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
