"""A monitor with a ledger gives the verdicts of one without, through any life it may have."""

import numpy as np
import pytest

import likewise as lw
from likewise.verdict.context import ComparedRows
from tests.support.oracle import Oracle
from tests.support.refusals import raises

RULES = {
    "labels": lw.Rule("linf", 0.2),
    "numbers": lw.Rule("l2", 0.4, output="number", delta=0.3),
    "probabilities": lw.Rule("l1", 0.7, output="probabilities", output_metric="tv", delta=0.1),
    "cosine": lw.Rule("cosine", 0.05, storage="float32"),
    "pictures": lw.Rule("linf", 40, storage="uint8"),
    "large integers": lw.Rule("linf", 40, storage="int64", weights=(1, 2, 1, 1)),
}


def decisions(rule: lw.Rule, count: int, seed: int) -> tuple[np.ndarray, list]:
    rng = np.random.default_rng(seed)
    x = rng.random((count, 2, 2) if rule.storage == "uint8" else (count, 4))
    if rule.storage.endswith(("8", "64")):
        x = (x * 200).astype(rule.storage)
    z = {
        "label": lambda: rng.choice(["yes", "no", "later"], count).tolist(),
        "number": lambda: rng.random(count).round(2).tolist(),
        "probabilities": lambda: rng.dirichlet([1, 1, 1], count).tolist(),
    }[rule.output]()
    return x, z


class Lives:
    """A ledger and a monitor in memory that go through the same."""

    def __init__(self, path, rule: lw.Rule, seed: int, **settings) -> None:
        self.path, self.rule, self.settings = path, rule, settings
        self.rng = np.random.default_rng(seed)
        self.x, self.z = decisions(rule, 900, seed)
        self.at = 0
        self.pairs = self.flagged = 0
        self.twin = lw.Monitor(rule)
        self.monitor = lw.open(path, rule, **settings)

    def take(self, count: int) -> tuple[np.ndarray, list]:
        part = slice(self.at, self.at + count)
        self.at += count
        return self.x[part], self.z[part]

    def observe(self) -> None:
        for x, z in zip(*self.take(3), strict=True):
            mine, theirs = self.monitor.observe(x, z), self.twin.observe(x, z)
            assert (mine.row, mine.witnesses) == (theirs.row, theirs.witnesses)
            assert mine.compared_with == ComparedRows(0, mine.row, mine.row - len(self.twin) + 1)
            self.flagged += mine.violation

    def observe_many(self) -> None:
        x, z = self.take(int(self.rng.integers(0, 60)))
        mine, theirs = self.monitor.observe_many(x, z), self.twin.observe_many(x, z)
        assert mine.first_row == theirs.first_row
        np.testing.assert_array_equal(mine.offsets, theirs.offsets)
        assert mine.witnesses == theirs.witnesses
        if len(mine):
            assert mine[-1].compared_with == ComparedRows(0, mine.rows[-1], self.erased)
        self.pairs += mine.pairs

    @property
    def erased(self) -> int:
        return self.twin.rows - len(self.twin)

    def check(self) -> None:
        x, z = decisions(self.rule, 1, int(self.rng.integers(99)))
        mine, theirs = self.monitor.check(x[0], z[0]), self.twin.check(x[0], z[0])
        assert (mine.row, mine.witnesses) == (None, theirs.witnesses)

    def load(self) -> None:
        x, z = self.take(int(self.rng.integers(1, 20)))
        assert self.monitor.load(x, z) == self.twin.load(x, z)

    def erase(self) -> None:
        rows = self.rng.integers(0, self.twin.rows, 2) if self.twin.rows else []
        assert self.monitor.forget(rows) == self.twin.forget(rows)

    def refuse(self) -> None:
        before = self.monitor.ledger.head()
        with pytest.raises(lw.errors.BadDecision):
            self.monitor.observe_many(self.x[:3], self.z[:2])
        with pytest.raises(lw.errors.BadDecision):
            self.monitor.observe(np.full(self.x.shape[1:], np.nan), self.z[0])
        assert self.monitor.ledger.head() == before

    def reopen(self) -> None:
        self.monitor.close()
        self.monitor = lw.open(self.path, **self.settings)

    def end(self) -> None:
        assert len(self.monitor) == len(self.twin)
        assert self.monitor.ledger.verify().ok
        self.monitor.close()
        with lw.Ledger(self.path) as ledger:
            assert len(ledger) == len(self.twin)
            assert ledger.verify().ok
        again = lw.replay(self.path)
        assert again.ok, again
        assert again.rows + again.skipped == self.twin.rows


@pytest.mark.parametrize("durability", ["commit", "batch", "off"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_ledger_gives_the_verdicts_of_a_monitor_through_any_life(tmp_path, rule, durability):
    lives = Lives(tmp_path / "ledger", rule, 7, durability=durability)
    lives.refuse()
    lives.observe()
    steps = ["observe", "observe_many", "check", "load", "erase", "refuse", "reopen"]
    for step in lives.rng.choice(steps, 60, p=[0.3, 0.25, 0.1, 0.05, 0.1, 0.05, 0.15]):
        getattr(lives, step)()
    lives.observe_many()
    lives.end()
    assert lives.pairs > 50 and lives.flagged > 5 and lives.erased > 2


@pytest.mark.parametrize("index", ["live", "flat", "kdtree", lw.Periodic("kdtree", tau=7)])
def test_every_index_goes_on_from_a_ledger(tmp_path, index):
    rule = lw.Rule("l2", 0.4)
    x, z = decisions(rule, 700, 3)
    oracle = Oracle(rule)
    expected = [oracle.observe(*one) for one in zip(x, z, strict=True)]
    for part in np.split(np.arange(700), [5, 6, 90, 640]):
        with lw.open(tmp_path / "ledger", rule, index=index) as monitor:
            found = monitor.observe_many(x[part], [z[i] for i in part])
            for i, verdict in zip(part, found, strict=True):
                assert verdict.witnesses.rows.tolist() == expected[i].rows.tolist()
    assert sum(len(one.rows) for one in expected) > 1000


@pytest.mark.long
@pytest.mark.parametrize("batch", [1, 50])
def test_window_of_rows_is_what_verdicts_range_over(tmp_path, batch):
    rule = lw.Rule("linf", 0.2)
    x, z = decisions(rule, 1500, 5)
    path = tmp_path / "ledger"
    for life in np.split(np.arange(len(x)), [400, 401, 1100]):
        with lw.open(path, rule, window="300 rows", durability="batch") as monitor:
            for part in np.split(life, range(batch, len(life), batch)):
                found = monitor.observe_many(x[part], [z[i] for i in part])
                for i, verdict in zip(part.tolist(), found, strict=True):
                    first = max(0, i - 300)
                    assert verdict.compared_with == ComparedRows(first, i, 0)
                    gaps = np.abs(x[first:i] - x[i]).max(axis=1)
                    other = np.array([z[j] != z[i] for j in range(first, i)], bool)
                    near = first + np.flatnonzero((gaps <= 0.2 * (1 + 1e-9)) & other)
                    assert verdict.witnesses.rows.tolist() == near.tolist()
            assert len(monitor) <= 300 + 256 + batch
    with lw.open(path) as monitor:
        assert monitor.window.text == "300 rows"
        assert len(monitor) == 300
        assert monitor.ledger.verify().ok
    assert lw.replay(path).ok


def test_window_of_time_goes_by_the_latest_time_seen(tmp_path):
    rule = lw.Rule("linf", 0.3)
    x, z = decisions(rule, 600, 6)
    rng = np.random.default_rng(0)
    times = (np.arange(600) * 60.0 + rng.normal(0, 300, 600)).round(3) + 1e9
    latest = np.maximum.accumulate(times)
    path = tmp_path / "ledger"
    moved = 0
    for life in np.split(np.arange(600), [100, 350]):
        with lw.open(path, rule, window="90 minutes") as monitor:
            for part in np.split(life, [1, 2, 40]):
                found = monitor.observe_many(x[part], [z[i] for i in part], times=times[part])
                for i, verdict in zip(part.tolist(), found, strict=True):
                    first = int(np.argmax(latest >= latest[i] - 5400))
                    assert (verdict.compared_with.first, verdict.compared_with.stop) == (first, i)
                    assert all(verdict.witnesses.rows >= first)
                    moved += first > 0
    assert moved > 300
    with lw.open(path) as monitor:
        assert len(monitor) < 150
    assert lw.replay(path).ok


def test_window_keeps_memory_and_disk_bounded(tmp_path, monkeypatch):
    from likewise.ledger import schema

    monkeypatch.setattr(schema, "segment_rows_for", lambda size: 64)
    rule = lw.Rule("linf", 0.05)
    path = tmp_path / "ledger"
    x, z = decisions(rule, 6000, 8)
    sizes = []
    with lw.open(path, rule, window="200 rows") as monitor:
        for start in range(0, 6000, 100):
            monitor.observe_many(x[start : start + 100], z[start : start + 100])
            sizes.append(sum(file.stat().st_size for file in path.glob("*.rows")))
            if start % 2000 == 0:
                assert monitor.ledger.verify().ok
        verification = monitor.ledger.verify()
        assert verification.ok and 5300 < verification.first_row <= 5800
        assert len(monitor.core.memory.engine.history._forgotten_by_page) <= 2
        head = monitor.ledger.head()
    assert max(sizes[20:]) == max(sizes[-20:]) < 900 * (120 + 32)
    with lw.Ledger(path) as ledger:
        assert ledger.verify(head).ok
        assert len(ledger.events()) < 20
        assert ledger.reader.all("SELECT count(*) FROM event")[0][0] < 700
    with lw.open(path) as monitor:  # where rows begin late
        twin = lw.Monitor(rule)
        twin.load(x[5800:], z[5800:])
        found, same = monitor.observe_many(x[:40], z[:40]), twin.observe_many(x[:40], z[:40])
        assert [rows.tolist() for rows in np.split(found.witnesses.rows, found.offsets[1:-1])] == [
            [row + 5800 for row in rows.tolist() if row >= i]
            for i, rows in enumerate(np.split(same.witnesses.rows, same.offsets[1:-1]))
        ]
        assert monitor.ledger.verify().ok
    assert lw.replay(path).ok


@pytest.mark.long
def test_ledger_of_a_table_goes_on_where_it_was(tmp_path):
    rule = lw.Rule(
        features={
            "id": {"kind": "key"},
            "age": {"kind": "number", "tolerance": 5, "missing": "match"},
            "income": {"kind": "number", "tolerance": "10%", "missing": "mismatch"},
            "job": {"kind": "category", "missing": "mismatch"},
            "grade": {"kind": "ordinal", "order": ["a", "b", "c"], "tolerance": 1},
            "sex": {"kind": "protected"},
        },
        output_column="approved",
        favourable=True,
    )
    rng = np.random.default_rng(4)

    def row(i: int) -> dict:
        return {
            "id": f"p{i}",
            "age": None if rng.random() < 0.05 else int(rng.integers(20, 60)),
            "income": None if rng.random() < 0.1 else float(rng.integers(20, 40)),
            "job": rng.choice(["nurse", "cook", None, "smith"]),
            "grade": str(rng.choice(["a", "b", "c"])),
            "sex": str(rng.choice(["f", "m"])),
            "approved": bool(rng.random() < 0.5),
        }

    rows = [row(i) for i in range(800)]
    path = tmp_path / "ledger"
    twin = lw.Monitor(rule)
    pairs = 0
    for life in np.split(np.arange(800), [3, 30, 500]):
        with lw.open(path, rule) as monitor:
            for i in life[:20].tolist():
                mine, theirs = monitor.observe(rows[i]), twin.observe(rows[i])
                assert mine.witnesses == theirs.witnesses
                assert str(mine.explain()) == str(theirs.explain())
            rest = [rows[i] for i in life[20:].tolist()]
            mine, theirs = monitor.observe_many(rest), twin.observe_many(rest)
            assert mine.witnesses == theirs.witnesses
            assert str(mine.by_group("sex")) == str(theirs.by_group("sex"))
            pairs += mine.pairs
            gone = int(life[len(life) // 2])
            assert monitor.erase(key=f"p{gone}").rows == (gone,)
            twin.forget([gone])
            with raises(lw.errors.BadRow):
                monitor.erase(key=f"p{gone}")
            with raises(lw.errors.BadDecision):
                monitor.observe({**rows[0], "age": 99.5})
            assert monitor.observe(rows[0]).repeated
            assert monitor.past.values(0) == (
                twin.past.values(0) if life[0] else monitor.past.values(0)
            )
    assert pairs > 500
    with lw.Ledger(path) as ledger:
        for i in range(800):
            if i in ledger.erased_rows():
                continue
            values = {name: one for name, one in rows[i].items() if name not in ("id", "approved")}
            values = {
                name: np.nan if one is None and name in ("age", "income") else one
                for name, one in values.items()
            }
            np.testing.assert_equal(ledger.values(i), values)
            entry = ledger.entry(i)
            assert (entry.key, entry.output) == (rows[i]["id"], rows[i]["approved"])
    again = lw.replay(path)
    assert again.ok, again
    assert 0 < again.partly_compared < again.rows
