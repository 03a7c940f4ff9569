"""A call may be interrupted anywhere: the next one finds the rows of before, or of after all of it.

Each monitor goes through a random life beside one that is never interrupted, and has to answer as
that one does; the other one is told of a call that was interrupted if, and only if, its rows are
there afterwards. Ledgers are opened again and verified at the end.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import likewise as lw
from tests.support.interruptions import Interruptions, at_step
from tests.support.letter_embedders import letters, some_texts
from tests.support.oracle import Oracle
from tests.support.refusals import raises

pytestmark = pytest.mark.early

Make = Callable[[np.random.Generator, int], tuple[Any, ...]]


@dataclass(frozen=True)
class Made:
    """A decision, or a batch of them: what a monitor is told."""

    args: tuple[Any, ...]
    told: dict[str, Any] = field(default_factory=dict)

    def to(self, method: Callable[..., Any]) -> Any:
        return method(*self.args, **self.told)


def vectors(width: int, output: str = "label") -> Make:
    """Inputs around some centres. New labels keep coming."""

    def make(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
        x = rng.integers(0, 3, (count, width)) / 2 + rng.normal(0, 0.05, (count, width))
        if output == "number":
            return x, rng.integers(0, 5, count).tolist()
        labels = rng.integers(0, 4, count)
        fresh = rng.random(count) < 0.05
        return x, [f"new {rng.integers(1 << 60)}" if new else int(label)
                   for label, new in zip(labels, fresh, strict=True)]  # fmt: skip

    return make


def clusters(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    """Long inputs that a tree over a few coordinates tells apart badly."""
    basis = np.random.default_rng(5).normal(size=(4, 48))
    x = rng.integers(0, 3, (count, 4)) @ basis + rng.normal(0, 0.2, (count, 48))
    return x, rng.integers(0, 2, count).tolist()


PEOPLE = lw.Rule(
    features={
        "age": lw.Feature("number", tolerance=5, missing="match"),
        "job": lw.Feature("category"),
        "sex": lw.Feature("protected"),
        "id": lw.Feature("key"),
    },
    output_column="approved",
)
TEXTS = lw.Rule(
    "l2",
    1,
    features={"said": lw.Feature("text", tolerance=2, embed=letters), "id": lw.Feature("key")},
    output_column="z",
)


def people(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    """Rows of a table. New jobs keep coming, some ages are missing."""
    return (
        [
            {
                "age": None if rng.random() < 0.1 else int(rng.integers(20, 60)),
                "job": f"job {rng.random()}"
                if rng.random() < 0.05
                else str(rng.choice(["a", "b"])),
                "sex": str(rng.choice(["f", "m"])),
                "id": int(rng.integers(1 << 62)),
                "approved": str(rng.choice(["yes", "no", "later"])),
            }
            for _ in range(count)
        ],
    )


def texts(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    return (
        [
            {"said": said, "id": int(rng.integers(1 << 62)), "z": str(rng.choice(["yes", "no"]))}
            for said in some_texts(rng, count, 5)
        ],
    )


@dataclass(frozen=True)
class Subject:
    rule: lw.Rule
    make: Make
    settings: dict[str, Any] = field(default_factory=dict)
    ledger: bool = False
    file: bool = False
    rounds: int = 100
    models: bool = False
    """Whether it is told which model decided. New names keep coming."""
    least: int = 40
    """Interruptions that have to arrive inside calls; on a busy machine that takes more rounds."""


LINF = lw.Rule("linf", 0.15)
SUBJECTS = {
    "vectors": Subject(LINF, vectors(3), rounds=160, least=80),
    "numbers": Subject(lw.Rule("l2", 0.2, output="number", delta=1), vectors(4, "number")),
    "rows in a file": Subject(LINF, vectors(3), file=True),
    "comparables": Subject(LINF, vectors(6), {"comparable": True}),
    "comparables, an index in Python": Subject(
        LINF, vectors(6), {"index": "kdtree", "comparable": True}
    ),
    "comparables of a table": Subject(
        replace(PEOPLE, protected_must_differ=True), people, {"comparable": True}
    ),
    "models": Subject(
        replace(LINF, compare="within"), vectors(3), {"comparable": True}, models=True
    ),
    "models, an index in Python": Subject(
        replace(LINF, compare="across"), vectors(3), {"index": "kdtree"}, models=True
    ),
    "models of a table": Subject(
        replace(PEOPLE, compare="across"), people, {"comparable": True}, models=True
    ),
    "bursts": Subject(LINF, vectors(3), {"burst": lw.Burst(50, alarm=20)}),
    "change-overs": Subject(lw.Rule("l2", 3.0), clusters),
    "an index in Python": Subject(LINF, vectors(3), {"index": "kdtree"}),
    "tables": Subject(PEOPLE, people, rounds=160, least=80),
    "texts": Subject(TEXTS, texts),
    "ledger, commit": Subject(LINF, vectors(3), {"durability": "commit"}, ledger=True),
    "ledger, batch": Subject(
        LINF, vectors(3), {"durability": "batch", "batch_seconds": 0.02}, ledger=True
    ),
    "ledger, off": Subject(LINF, vectors(3), {"durability": "off"}, ledger=True),
    "ledger of a table": Subject(PEOPLE, people, {"durability": "commit"}, ledger=True),
    "ledger of a table, batch": Subject(
        PEOPLE, people, {"durability": "batch", "batch_seconds": 0.02}, ledger=True
    ),
    "ledger with a window": Subject(
        LINF, vectors(3), {"durability": "batch", "window": "300 rows"}, ledger=True
    ),
}


class Life:
    """A monitor that is interrupted, and one that is not."""

    def __init__(self, subject: Subject, folder: Any, seed: int) -> None:
        self.subject, self.folder = subject, folder
        self.rng = np.random.default_rng(seed)
        self.gone: set[int] = set()
        self.expected: dict[int, int] = {}  # by row: witnesses
        self.joined = self.refused = self.flagged = self.comparable = 0
        rule, settings = subject.rule, dict(subject.settings)
        if subject.ledger:
            self.monitor = lw.open(folder / "ledger", rule, **settings)
            settings["durability"] = "off"
            self.twin = lw.open(folder / "twin", rule, **settings)
        else:
            if subject.file:
                settings["row_file"] = folder / "rows"
            self.monitor = lw.Monitor(rule, **settings)
            simple = rule.features is None and "burst" not in settings
            settings.pop("row_file", None)
            asked = settings.get("comparable", False)
            self.twin = Oracle(rule, comparable=asked) if simple else lw.Monitor(rule, **settings)

    @property
    def rows(self) -> int:
        if self.subject.ledger:
            return self.monitor.rows
        return len(self.monitor) + len(self.gone)

    def remembers(self, row: int) -> bool:
        try:
            return len(self.monitor.past.inputs([row])) == 1
        except lw.errors.BadRow:
            return False

    def make(self, count: int) -> Made:
        made = self.subject.make(self.rng, count)
        if not self.subject.models:
            return Made(made)
        names = [None, "a", "b", "c"]
        models = [
            f"new {self.rng.random()}" if self.rng.random() < 0.05 else names[i]
            for i in self.rng.integers(0, 4, count)
        ]
        return Made(made, {"models": models})

    def one(self, made: Made, i: int) -> Made:
        told = {"model": made.told["models"][i]} if made.told else {}
        if self.subject.rule.features is None:
            return Made((made.args[0][i], made.args[1][i]), told)
        return Made((made.args[0][i],), told)

    def models_of(self, rows: Any) -> tuple[Any, ...]:
        if isinstance(self.twin, Oracle):
            return tuple(self.twin.models[row] for row in rows)
        return tuple(self.twin.past.models(rows))

    def compare(self, mine: Any, theirs: Any) -> None:
        assert mine.row == theirs.row
        found = theirs.rows if hasattr(theirs, "rows") else theirs.witnesses.rows
        assert mine.witnesses.rows.tolist() == found.tolist()
        if self.subject.models:
            assert mine.witness_models == self.models_of(found.tolist())
        assert mine.comparable == theirs.comparable
        self.comparable += bool(mine.comparable)
        if "burst" in self.subject.settings:
            assert mine.neighbours == theirs.neighbours
        self.flagged += mine.violation

    # Each of these is done by both; the second only learns of it if the first has it

    def observe(self, interruptions: Interruptions) -> None:
        """Several decisions, one after the other."""
        made = self.make(30)
        answers: list[Any] = []

        def action() -> int:
            for i in range(30):
                answers.append(self.one(made, i).to(self.monitor.observe))
            return 30

        before = self.rows
        interruptions.call("observe", action)
        count = self.rows - before
        assert len(answers) <= count <= len(answers) + 1
        for i in range(count):
            verdict = self.one(made, i).to(self.twin.observe)
            if i < len(answers):
                self.compare(answers[i], verdict)
            self.expect(verdict)

    def observe_many(self, interruptions: Interruptions) -> None:
        count = int(self.rng.integers(1, 200))
        made = self.make(count)
        before = self.rows
        answer = interruptions.call("many", lambda: made.to(self.monitor.observe_many))
        if self.all_or_none(before, count, answer):
            verdicts = made.to(self.twin.observe_many)
            answers = [None] * count if answer is None else answer
            for mine, theirs in zip(answers, verdicts, strict=True):
                if mine is not None:
                    self.compare(mine, theirs)
                self.expect(theirs)

    def load(self, interruptions: Interruptions) -> None:
        count = int(self.rng.choice([3, 40, 40, 700 if self.rows < 800 else 40]))
        made = self.make(count)
        before = self.rows
        answer = interruptions.call("load", lambda: made.to(self.monitor.load))
        if self.all_or_none(before, count, answer):
            made.to(self.twin.load)

    def all_or_none(self, before: int, count: int, answer: Any) -> bool:
        now = self.rows
        assert now in (before, before + count), f"{now - before} of {count} rows are there"
        assert answer is None or now == before + count
        return now > before

    def forget(self, interruptions: Interruptions) -> None:
        rows = self.rows
        if rows == 0:
            return
        wanted = np.unique(self.rng.integers(max(0, rows - 250), rows, 5))
        wanted = np.array([row for row in wanted if int(row) not in self.gone])
        if len(wanted) == 0:
            return
        answer = interruptions.call("forget", lambda: self.monitor.forget(wanted))
        gone = sum(not self.remembers(row) for row in wanted)
        assert gone in (0, len(wanted)), f"{gone} of {len(wanted)} rows are gone"
        assert answer is None or gone == len(wanted)
        if gone:
            self.gone |= set(wanted.tolist())
            self.twin.forget(wanted)

    def check(self, interruptions: Interruptions) -> None:
        made = self.make(5)
        before = self.rows
        for i in range(5):
            case = self.one(made, i)
            answer = interruptions.call("check", lambda case=case: case.to(self.monitor.check))
            if answer is not None:
                self.compare(answer, case.to(self.twin.check))
            asked = Made(case.args[:1], case.told)
            near = interruptions.call("like", lambda asked=asked: asked.to(self.monitor.like))
            if near is not None:
                theirs = asked.to(self.twin.like)
                rows = theirs[0] if isinstance(self.twin, Oracle) else theirs.rows
                assert near.rows.tolist() == rows.tolist()
        assert self.rows == before

    def refuse(self, interruptions: Interruptions) -> None:
        """What is refused leaves nothing, interrupted or not."""
        good = self.one(self.make(1), 0)
        x, *rest = good.args
        if self.subject.rule.features is None:
            x = np.full(len(x), np.nan)
        else:
            x = {**x, self.subject.rule.output_column: None}
        case = Made((x, *rest), good.told)
        before = self.rows

        def action() -> bool:
            with pytest.raises(lw.errors.BadDecision):
                case.to(self.monitor.observe)
            return True

        self.refused += interruptions.call("refuse", action) is True
        assert self.rows == before

    def expect(self, verdict: Any) -> None:
        found = verdict.rows if hasattr(verdict, "rows") else verdict.witnesses.rows
        self.expected[verdict.row] = len(found)

    def end(self) -> None:
        """Every remembered case is asked about again; a ledger is opened again and verified."""
        made = self.make(60)
        for i in range(60):
            case = self.one(made, i)
            self.compare(case.to(self.monitor.check), case.to(self.twin.check))
        if self.subject.rule.features is not None and not self.subject.ledger:
            left = [self.monitor.past.values(row) for row in self.gone]
            assert all(value is None for one in left for value in one.values())
        if self.subject.models:
            there = [row for row in range(self.rows) if row not in self.gone]
            assert tuple(self.monitor.past.models(there)) == self.models_of(there)
            assert set(self.monitor.past.models(sorted(self.gone))) <= {None}
            known = set(self.monitor.past.model_codes([0]).values)
            assert known == set(self.models_of(there)) | {None}
        if "window" not in self.subject.settings:  # what left it stays in memory for a while
            assert len(self.monitor) == len(self.twin)
        if not self.subject.ledger:
            return
        self.monitor.close()
        with lw.Ledger(self.folder / "ledger") as ledger:
            assert ledger.verify().ok
            written = {entry.row: entry.count for entry in ledger.entries()}
        judged = {row: count for row, count in self.expected.items() if row in written}
        assert {row: written[row] for row in judged} == judged
        self.monitor = lw.open(self.folder / "ledger", self.subject.rule, **self.subject.settings)
        for i in range(60):
            case = self.one(made, i)
            self.compare(case.to(self.monitor.check), case.to(self.twin.check))
        self.monitor.close()


def compile_all(life: Life) -> None:
    """Have kernels and modules ready: what interrupts a compiler, or an import inside which Python
    makes another error of it, says nothing about a monitor."""
    index = life.subject.settings.get("index", "auto")
    with lw.Monitor(life.subject.rule, index=index) as monitor:
        life.make(700).to(monitor.load)
        monitor.forget([1, 2])
        life.make(40).to(monitor.observe_many)
        life.one(life.make(1), 0).to(monitor.check)


# An exception in a finalizer is told, not raised: then the call was not interrupted.
TOLD = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def live(name: str, folder: Any, seed: int) -> None:
    """A random life, and what it has to show for itself."""
    subject = SUBJECTS[name]
    life = Life(subject, folder, seed)
    compile_all(life)
    actions = [life.observe] * 5 + [life.observe_many] * 2 + [life.check, life.refuse]
    actions += [life.load, life.forget]
    with Interruptions(seed) as interruptions:
        rounds = 0
        while rounds < subject.rounds or interruptions.inside < subject.least:
            actions[life.rng.integers(len(actions))](interruptions)
            rounds += 1
            assert rounds < 20 * subject.rounds, interruptions.inside
    life.end()
    if name == "change-overs":
        assert life.monitor.explain().changes > 0
    assert life.flagged > 200
    assert life.comparable >= life.flagged or "comparable" not in subject.settings
    assert life.refused > 0


@pytest.mark.long
@TOLD
@pytest.mark.parametrize("name", SUBJECTS)
def test_an_interrupted_call_is_whole_or_was_never_made(name, tmp_path):
    live(name, tmp_path, seed=len(name))


@TOLD
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
@pytest.mark.parametrize("name", SUBJECTS)
def test_interrupted_calls_through_many_lives(name, seed, tmp_path):
    live(name, tmp_path, seed)


STEPWISE = {
    "vectors": (LINF, vectors(3), {}, 1),
    "bursts": (LINF, vectors(3), {"burst": lw.Burst(50)}, 1),
    "comparables": (LINF, vectors(6), {"comparable": True}, 1),
    "comparables of a table": (
        replace(PEOPLE, protected_must_differ=True),
        people,
        {"comparable": True},
        7,
    ),
    "models": (replace(LINF, compare="within"), vectors(3), {"comparable": True}, 3),
    "an index in Python": (LINF, vectors(3), {"index": "kdtree"}, 3),
    "tables": (PEOPLE, people, {}, 3),
    "ledger": (LINF, vectors(3), {"durability": "commit"}, 3),
    "ledger, batch": (LINF, vectors(3), {"durability": "batch", "batch_seconds": 0.001}, 1),
    "ledger of a table": (PEOPLE, people, {"durability": "commit"}, 5),
}


def at_every_bytecode(name: str, folder: Any, every: int) -> None:
    rule, make, settings, _ = STEPWISE[name]
    kept = "durability" in settings
    subject = Subject(rule, make, settings, ledger=kept, models=name == "models")
    life = Life(subject, folder, seed=3)
    made = life.make(300)
    made.to(life.monitor.observe_many)
    made.to(life.twin.observe_many)
    rows, places, ended = life.rows, 0, False
    while not ended:
        case, another = (life.one(life.make(1), 0) for _ in range(2))
        if settings.get("durability") == "batch":
            time.sleep(0.003)  # the thread that writes waits again, and is to be woken
        # Another thread may make the next call of a ledger: it needs the lock that this one had.
        where = at_step(
            every * places, lambda case=case: case.to(life.monitor.observe), signals=kept
        )
        ended = where == ""
        now = life.rows
        assert now in (rows, rows + 1), where
        if now > rows:
            case.to(life.twin.observe)
        life.compare(another.to(life.monitor.observe), another.to(life.twin.observe))
        rows, places = now + 1, places + 1
    assert places > 40
    life.end()


@pytest.mark.long
@pytest.mark.parametrize("name", STEPWISE)
def test_observe_may_be_interrupted_at_any_bytecode(name, tmp_path):
    at_every_bytecode(name, tmp_path, STEPWISE[name][-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (*_, every) in STEPWISE.items() if every > 1])
def test_observe_may_be_interrupted_at_every_single_bytecode(name, tmp_path):
    at_every_bytecode(name, tmp_path, 1)


def test_a_call_out_of_a_call_is_refused_and_changes_nothing():
    class Label(str):
        """A label that calls the monitor when it is looked up."""

        __slots__ = ()

        def __hash__(self):
            with raises(lw.errors.NestedCall):
                monitor.observe([0.1, 0.1], "inner")
            return str.__hash__(self)

        __eq__ = str.__eq__

    monitor = lw.Monitor(LINF)
    monitor.observe([0.1, 0.2], "yes")
    assert monitor.observe([0.1, 0.2], Label("no")).witnesses.rows.tolist() == [0]
    assert monitor.rows == 2


def test_the_first_rows_have_left_every_column_though_forgetting_was_cut_off(monkeypatch):
    """Of rows at the beginning the history knows only where it begins."""
    monitor = lw.Monitor(PEOPLE)
    rows = [
        {"age": 30, "job": "a", "sex": "f", "id": i, "approved": "yes"} for i in range(4)
    ]  # fmt: skip
    monitor.observe_many(rows, models=["x", "x", "y", None])

    def cut_off(_):
        raise KeyboardInterrupt

    for gone in ([0], [1]):
        with monkeypatch.context() as patch:
            patch.setattr(monitor.core.memory.reader, "forget", cut_off)
            with pytest.raises(KeyboardInterrupt):
                monitor.forget(gone)
        assert set(monitor.past.values(gone[0]).values()) == {None}
    assert monitor.past.models(range(4)) == [None, None, "y", None]
    assert "x" not in monitor.past.model_codes([0]).values
    assert len(monitor) == 2 and monitor.past.values(2)["age"] == 30
