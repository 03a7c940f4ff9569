"""The two sorts against NumPy's."""

import numpy as np
from hypothesis import strategies as st

from likewise.search.kernels import sort
from tests.search.kernels.calling import compiled
from tests.support.strategies import prove

SEEDS = st.integers(0, 2**32 - 1)

sort_rows = compiled(sort.sort_rows)
sort_by_path = compiled(sort.sort_by_path)


def test_sort_rows_puts_the_first_rows_in_order_and_leaves_the_rest():
    @prove(150, rows=st.lists(st.integers(-1, 2**62), max_size=60), extra=st.integers(0, 3))
    def holds(rows, extra):
        array = np.array(rows + [-7] * extra, dtype=np.int64)
        sort_rows(array, len(rows))
        assert array.tolist() == sorted(rows) + [-7] * extra


def test_sort_rows_sorts_any_order():
    orders = {
        "ascending": np.arange,
        "descending": lambda n: np.arange(n)[::-1].copy(),
        "equal": lambda n: np.zeros(n, dtype=np.int64),
        "two values": lambda n: np.arange(n) % 2,
        "organ pipe": lambda n: np.minimum(np.arange(n), n - np.arange(n)),
        "random": lambda n: np.random.default_rng(1).permutation(n),
    }
    for make in orders.values():
        for n in (0, 1, 2, 23, 24, 25, 26, 127, 128, 1_000):
            rows = make(n).astype(np.int64)
            expected = np.sort(rows)
            sort_rows(rows, n)
            assert rows.tolist() == expected.tolist()


def test_sort_by_path_is_a_stable_order_by_path():
    @prove(
        40, seed=SEEDS, n=st.sampled_from((0, 1, 2, 100, 1_500)), kinds=st.sampled_from((1, 9, 0))
    )
    def holds(seed, n, kinds):
        rng = np.random.default_rng(seed)
        paths = rng.integers(0, 1 << sort.PATH_BITS, n).astype(np.uint64)
        if kinds:
            paths = rng.choice(rng.integers(0, 1 << sort.PATH_BITS, kinds), n).astype(np.uint64)
        order, spare = np.full(n + 1, -7), np.zeros(n + 1, dtype=np.int64)
        sort_by_path(paths, n, order, spare, np.full(1 << sort._DIGIT, 99))
        assert order[:n].tolist() == np.argsort(paths, kind="stable").tolist()
        assert order[n] == -7
