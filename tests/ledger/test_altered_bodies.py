"""Bodies of events that were altered in any way are a BadFile, never another kind of error.

Every value in every body is replaced in turn by odd ones, and every line of the rule is altered: by
a few of them that are drawn, and in the slow tests by all.
"""

import json
import random
import shutil
import sqlite3
from contextlib import closing, suppress

import pytest

import likewise as lw
from tests.support.segments import small_segments


def letters(texts):
    return [[text.count(one) for one in "abcd"] for text in texts]


VECTORS = lw.Rule("linf", 0.1, weights=(1, 2))
PROBABILITIES = lw.Rule("l2", 0.1, output="probabilities", delta=0.2)
TABLE = lw.Rule(
    "l1",
    features={
        "id": {"kind": "key"},
        "age": {"kind": "number", "tolerance": 5, "missing": "match"},
        "grade": {"kind": "ordinal", "order": ["a", "b", "c"], "tolerance": 1},
        "job": {"kind": "category"},
        "sex": {"kind": "protected"},
    },
    output_column="answer",
)
TEXTS = lw.Rule(
    "l2",
    features={
        "age": {"kind": "number", "tolerance": 5},
        "message": {"kind": "text", "embed": letters, "tolerance": 1},
    },
    output="number",
    output_column="score",
)
RULES = {"vectors": VECTORS, "probabilities": PROBABILITIES, "table": TABLE, "texts": TEXTS}


def decision(rule, i):
    drawn = random.Random(i)
    if rule is VECTORS:
        return ([drawn.random(), drawn.random()], "new" if i == 152 else drawn.choice("xyz"))
    if rule is PROBABILITIES:
        p = drawn.random()
        return ([drawn.random()], [p, 1 - p])
    age = drawn.randrange(20, 40)
    if rule is TABLE:
        named = {"id": f"p{i}", "grade": drawn.choice("abc"), "job": "mn"[i % 2] * (1 + i // 150)}
        return ({**named, "age": age, "sex": drawn.choice("fm"), "answer": drawn.choice("yn")},)
    message = "abcd"[: drawn.randrange(1, 5)] * (1 + i // 150)  # new ones in the last life
    return ({"age": age, "message": message, "score": drawn.random()},)


@pytest.fixture(scope="module", params=RULES)
def whole(request, tmp_path_factory):
    """A ledger with events of every kind, as it was closed."""
    name = request.param
    rule, folder = RULES[name], tmp_path_factory.mktemp(name) / "ledger"
    lw.open(folder, rule).close()
    with small_segments(), lw.open(folder, rule, window="70 rows", durability="off") as monitor:
        for i in range(150):
            monitor.observe(*decision(rule, i))
        monitor.erase(rows=[100, 140])
    with lw.open(folder, rule) as monitor:  # which drops a file
        for i in range(150, 155):
            monitor.observe(*decision(rule, i))
    with lw.Ledger(folder) as ledger:
        assert ledger.verify().ok
        kinds = {event.kind for event in ledger.events()}
    assert kinds >= {"rule", "layout", "window", "erased", "dropped"}
    return rule, folder


ODD = [
    None, True, -1, 0, 1, 2, 64.5, 10**9, 10**30, "", "x", "1 rows", "9" * 400 + " days", "<f8",
    "|O", "<i4,(4,)<f8", "<i4,(99999999,)<f4", [], [[]], [["age", "<f8"]], [["a", "b", "c"]],
    [1, -1], [0.5], ["0"], {}, {"0": "x"}, {"a": {"b": []}},
]  # fmt: skip


def altered_bodies(body, drawn, each):
    """The body with one value replaced, or taken away, at every place in turn."""

    def places(value, path):
        yield path
        if isinstance(value, dict):
            for name in value:
                yield from places(value[name], (*path, name))
        elif isinstance(value, list):
            for i in range(min(len(value), 2)):
                yield from places(value[i], (*path, i))

    for path in list(places(body, ()))[1:]:
        for odd in [*drawn.sample(ODD, each), "gone"]:
            other = json.loads(json.dumps(body))
            inside = other
            for name in path[:-1]:
                inside = inside[name]
            if odd == "gone":
                del inside[path[-1]]
            else:
                inside[path[-1]] = odd
            if json.dumps(other) != json.dumps(body):
                yield f"{path} = {odd!r:.40}", other


def altered_rules(text):
    """The rule with one line left out, or doubled, or with another value."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        name = line.partition("=")[0]
        others = [[], [line, line]]
        if "=" in line:
            others += [[f"{name}= {odd}"] for odd in ("1e999", "-3", '"x"', "[]", '"l2"', '"key"')]
        for other in others:
            yield "\n".join([*lines[:i], *other, *lines[i + 1 :]])
    yield text.replace("age", "old")
    yield '[features."other"]\nkind = "number"\ntolerance = 1.0\n'.join([text, ""])


def put(folder, number, body):
    with closing(sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)) as database:
        database.execute("UPDATE event SET body = ? WHERE number = ?", (json.dumps(body), number))


def told(folder, rule):
    """Whoever opens or verifies it is told; whoever looks gets no other error than likewise's."""
    with pytest.raises(lw.errors.BadFile):
        lw.open(folder, rule).close()
    with pytest.raises(lw.errors.BadFile):
        lw.open(folder, models=False).close()
    try:
        ledger = lw.Ledger(folder)
    except lw.errors.BadFile:
        return
    with ledger:
        assert not ledger.verify().ok
        for look in (
            lambda: [ledger.entry(row) for row in range(ledger.first, ledger.rows, 5)],
            lambda: [ledger.values(row) for row in range(ledger.first, ledger.rows, 5)],
            lambda: list(ledger.columns()),
            lambda: list(ledger.violations()),
            lambda: [len(ledger), str(ledger.head), ledger.window, ledger.vector_types()],
        ):
            with suppress(lw.errors.BadFile, lw.errors.BadRow):
                look()
    unchecked(folder, rule)


def unchecked(folder, rule):
    """Opened without a check, it may do or not, but nothing else goes wrong."""
    for way in (lambda: opened_unchecked(folder, rule), lambda: lw.replay(folder)):
        with suppress(lw.LikewiseError):
            way()


def opened_unchecked(folder, rule):
    with lw.open(folder, rule, check=False) as monitor:
        monitor.observe(*decision(rule, 200))
        monitor.erase(rows=[monitor.rows - 2])
        monitor.flush()


KINDS = ["rule", "layout", "window", "erased", "dropped", "words"]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_altered_body_is_a_bad_file(whole, tmp_path, kind):
    alter(whole, tmp_path, kind, each=2, most=20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_body_altered_in_every_way_is_a_bad_file(whole, tmp_path, kind):
    alter(whole, tmp_path, kind, each=len(ODD), most=10_000)


def alter(whole, tmp_path, kind, *, each, most):
    rule, original = whole
    drawn, tried = random.Random(kind), 0
    with lw.Ledger(original) as ledger:
        events = [event for event in ledger.events() if event.kind == kind]
    if not events:
        pytest.skip("this ledger has no such event")
    event = events[-1]
    bodies = list(altered_bodies(event.body, drawn, each))
    if kind == "rule":
        rules = altered_rules(event.body["rule"])
        bodies += [("the rule", event.body | {"rule": text}) for text in rules]
    for what, body in drawn.sample(bodies, min(most, len(bodies))):
        folder = tmp_path / "ledger"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(original, folder)
        put(folder, event.number, body)
        try:
            told(folder, rule)
        except BaseException as error:
            error.add_note(f"event {event.number} ({kind}): {what}: {json.dumps(body)[:600]}")
            raise
        tried += 1
    assert tried >= 3
