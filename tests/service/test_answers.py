"""Verdicts of batches as they are sent and as they are kept at hand: those of one by one."""

from itertools import cycle

import numpy as np
import pytest

import likewise as lw
from likewise.service.body_types import encode
from likewise.service.recent_verdicts import trim_verdict, trim_verdicts
from likewise.service.settings import Token
from likewise.service.tokens import Tokens, new_token
from likewise.verdict.verdict_body import write_bodies, write_body
from likewise.verdict.verdicts import Verdicts

COUNT = 80


def batches(folder):
    """Verdicts with everything that can stand beside witnesses, and with nothing."""
    rng = np.random.default_rng(11)
    x = rng.random((2 * COUNT, 2)).round(2)
    z = rng.choice(["a", "b", "c"], 2 * COUNT).tolist()
    rule = lw.Rule("linf", 0.15)
    plain = lw.Monitor(rule)
    yield plain.observe_many(x, z)
    full = lw.Monitor(rule, support=True, burst=lw.Burst(last=20, alarm=3))
    keys = [key if i % 3 else None for i, key in enumerate(range(2 * COUNT))]
    yield full.observe_many(x[:COUNT], z[:COUNT], keys=keys[:COUNT])
    full.record_loss(3, "full")
    models = cycle(["old", None, "new"])
    yield full.observe_many(
        x[COUNT:], z[COUNT:], keys=keys[COUNT:], models=[next(models) for _ in range(COUNT)]
    )
    yield full.observe_many([[9.0, 9.0]], ["a"])
    yield full.check_many(x[:10], z[::-1][:10])
    yield full.observe_many(np.empty((0, 2)), [])
    with lw.open(folder / "ledger", rule, comparable=True) as ledger:
        first = ledger.observe_many(x[:COUNT], z[:COUNT], keys=list(range(COUNT)))
        yield first
        repeated = ledger.observe_many(
            x[COUNT // 2 : COUNT + 20],
            z[COUNT // 2 : COUNT + 20],
            keys=range(COUNT // 2, COUNT + 20),
        )
        assert repeated.repeated.any() and not repeated.repeated.all()
        yield repeated


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_verdicts_of_a_batch_are_written_as_one_by_one(tmp_path, most):
    flagged = 0
    for verdicts in batches(tmp_path):
        told = np.flatnonzero(verdicts.violations | verdicts.alarms)
        for places in (told, np.arange(len(verdicts)), told[::2]):
            for keys in (True, False):
                some = [verdicts[i] for i in places.tolist()]
                bodies = [write_body(one, most, keys=keys, compared_with=False) for one in some]
                expected = encode(bodies)
                assert encode(write_bodies(verdicts, most, places, keys=keys)) == expected
        flagged += len(told)
    assert flagged > COUNT


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e-7, 1e22, 0.1, 5.0])
def test_distances_are_written_as_to_dict_says(value):
    witnesses = lw.Monitor(lw.Rule("linf", 1.0)).observe([0.0], "a").witnesses
    found = type(witnesses)(np.array([3]), np.array([value]), np.array([value]))
    verdicts = Verdicts.of(7, [found])
    assert encode(write_bodies(verdicts, 10, np.array([0]))) == encode(verdicts.to_dicts())


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_a_batch_is_trimmed_as_its_verdicts_are(tmp_path, most):
    for verdicts in batches(tmp_path):
        fresh = np.flatnonzero((verdicts.violations | verdicts.alarms) & ~verdicts.repeated)
        if verdicts.values is not None:
            continue  # those were only checked, and are not kept
        for places in (fresh, fresh[-2:], fresh[:0]):
            each = trim_verdicts(verdicts, places, most)
            assert len(each) == len(places)
            for i, verdict in zip(places.tolist(), each, strict=True):
                expected = trim_verdict(verdicts[i], most)
                assert verdict == expected and verdict.context == expected.context
            for column in (each.witnesses.rows, each.witnesses.input_distances, each.offsets):
                assert column.base is None, "it would hold on to the arrays of the whole batch"


def test_a_header_that_was_known_is_known_again_and_others_are_not():
    token, hashed = new_token()
    tokens = Tokens([Token("one", hashed)])
    header = b"Bearer " + token.encode()
    for _ in range(3):
        assert tokens.find(header).name == "one"
        assert tokens.find(header + b"x") is None and tokens.find(None) is None
        assert tokens.find(b"Basic " + token.encode()) is None
        assert tokens.find(b"bearer  " + token.encode() + b" ").name == "one"
        assert tokens.find(b"Bearer \xff") is None


def test_only_so_many_headers_are_remembered():
    token, hashed = new_token()
    tokens = Tokens([Token("one", hashed)])
    for blanks in range(3000):
        assert tokens.find(b"Bearer " + b" " * blanks + token.encode()).name == "one"
        assert tokens.find(b"Bearer %d" % blanks) is None
    assert len(tokens._by_header) <= 1024
