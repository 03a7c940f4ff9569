"""Golden files of `likewise watch`: lines in, a line out for each."""

import json
from contextlib import chdir

import pytest

from tests.golden.loan_files import DECISIONS, as_lines, write_files
from tests.support import golden_files as golden
from tests.support.commands import likewise

BAD = [
    "no JSON",
    "[1, 2]",
    '{"id": "b1", "id": "b2"}',
    '{"id": "b3"}',
    json.dumps({**DECISIONS[0], "id": "b4", "amount": "much"}),
    json.dumps({**DECISIONS[0], "id": "b5", "amount": True}),
    json.dumps({**DECISIONS[0], "answer": "maybe"}),
    "",
]
RULED = ("--rule", "rule.toml", "--model-column", "model")
VECTORS = ("--epsilon", "0.5", "--output-column", "z")
POINTS = [
    {"x": 1.0, "y": 2.0, "z": "a"},
    {"x": 1.25, "y": 2.0, "z": "b"},
    {"x": 1.0, "y": 2.5, "z": "b"},
    {"x": 9.0, "y": 2.5, "z": "b"},
    {"x": 1.0, "y": 2.0, "z": "c"},
]
TABLE = [json.loads(line) for line in as_lines(DECISIONS).splitlines()]
SCRIPT = [
    ("a table", RULED, [*TABLE, *BAD]),
    ("a table, one witness each", ("--rule", "rule.toml", "--witnesses", "1"), TABLE),
    ("a table with a burst", (*RULED, "--burst", "5", "--alarm", "2"), TABLE[:4]),
    ("a table and a ledger", (*RULED, "--ledger", "table"), [*TABLE[:5], *BAD]),
    ("sent again, and more", (*RULED, "--ledger", "table"), TABLE),
    ("under the ledger's own rule", ("--ledger", "table", "--model-column", "model"), TABLE[3:4]),
    ("the first bad line ends it", (*RULED, "--on-bad-row", "fail"), [TABLE[0], BAD[0], TABLE[1]]),
    ("no line can be judged", RULED, BAD[:2]),
    ("vectors", VECTORS, [*POINTS, {"x": 1.0, "z": "a"}]),
    ("vectors and a ledger", (*VECTORS, "--ledger", "vectors"), POINTS[:3]),
    ("vectors, resumed", (*VECTORS, "--ledger", "vectors", "--resume"), POINTS),
    ("resumed with other lines", (*VECTORS, "--ledger", "vectors", "--resume"), POINTS[1:]),
]


@pytest.fixture
def folder(tmp_path):
    with chdir(tmp_path):
        write_files(tmp_path)
        yield tmp_path


def test_verdict_lines_are_those_of_the_golden_file(folder):
    found = []
    for case, options, lines in SCRIPT:
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        given = "".join(f"{one}\n" for one in texts)
        done = likewise("watch", *options, given=given, code=None)
        out = [golden.sorted_by_name(json.loads(line)) for line in done.stdout.splitlines()]
        command = ["likewise", "watch", *options]
        found.append({"case": case, "command": command, "exit_code": done.returncode})
        found[-1] |= {"lines_in": lines, "lines_out": out}
    golden.check("watch/lines.json", found)
