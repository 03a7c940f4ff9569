"""`likewise like`: similar cases in a file and in a ledger, as text and as JSON."""

import json

import likewise as lw
from tests.support.commands import likewise
from tests.support.rule_texts import rule_text

RULE = rule_text(
    {"id": "key", "age": 4, "job": "category"}, metric="linf", output_column="approved"
)
ROWS = [("a", 30, "cook", "yes"), ("b", 31, "cook", "no"), ("c", 33, "cook", "yes"),
        ("d", 60, "cook", "no"), ("e", 30, "smith", "no")]  # fmt: skip


def make_files(tmp_path):
    (tmp_path / "rule.toml").write_text(RULE)
    lines = ["id,age,job,approved", *(",".join(map(str, row)) for row in ROWS)]
    (tmp_path / "d.csv").write_text("\n".join(lines) + "\n")
    return ["like", str(tmp_path / "d.csv"), "--rule", str(tmp_path / "rule.toml")]


def test_a_file_is_asked_about_a_case(tmp_path):
    command = make_files(tmp_path)
    case = ["--case", "age=30", "--case", "job=cook"]
    out = likewise(*command, *case).stdout
    assert out.splitlines()[0] == "3 similar cases: 2 yes, 1 no"
    body = json.loads(likewise(*command, *case, "--json").stdout)
    assert [one["row"] for one in body["cases"]] == [2, 3, 4] and body["unit"] == "line"
    assert [one["key"] for one in body["cases"]] == ["a", "b", "c"]
    assert [one["input_distance"] for one in body["cases"]] == [0.0, 0.25, 0.75]
    (tmp_path / "case.json").write_text('{"age": 30, "job": "cook"}')
    for given in (["--case", str(tmp_path / "case.json")],):
        assert json.loads(likewise(*command, *given, "--json").stdout) == body
    few = likewise(*command, *case, "--limit", "1").stdout
    assert "and 2 more" in few and len(few.splitlines()) == 5
    assert likewise(*command, "--case", "age=1", "--case", "job=cook").stdout == "0 similar cases\n"


def test_a_case_from_standard_input(tmp_path):
    command = make_files(tmp_path)
    out = likewise(*command, "--case", "-", given="30,cook\n").stdout
    assert out.startswith("3 similar cases")


def test_a_ledger_is_asked_about_a_case(tmp_path):
    folder = tmp_path / "ledger"
    with lw.open(folder, lw.Rule.from_toml(RULE)) as monitor:
        for key, age, job, approved in ROWS:
            row = {"id": key, "age": age, "job": job, "approved": approved}
            monitor.observe(row, time="2024-03-01")
        monitor.ledger.review(1, None, "error", reason="slip", reviewer="ana")
        monitor.erase(key="c")
        head = monitor.ledger.head()
    case = ["--case", "age=30", "--case", "job=cook"]
    out = likewise("like", str(folder), *case).stdout
    assert out.splitlines()[0] == "2 similar cases: 1 yes, 1 no" and "error" in out
    body = json.loads(likewise("like", str(folder), *case, "--json").stdout)
    assert [one["row"] for one in body["cases"]] == [0, 1] and body["unit"] == "row"
    assert body["cases"][0]["time"] == "2024-03-01T00:00:00Z"
    assert body["cases"][1]["reviews"][0]["reason"] == "slip"
    with lw.Ledger(folder) as ledger:
        assert ledger.head == head, "a question changed the ledger"


def test_a_file_of_numbers_and_of_models(tmp_path):
    (tmp_path / "d.csv").write_text("a,b,z,m\n0.5,0.5,yes,v1\n0.52,0.5,no,v2\n0.9,0.9,no,v1\n")
    command = ["like", str(tmp_path / "d.csv"), "--epsilon", "0.1", "--output-column", "z"]
    command += ["--ignore", "m", "--json", "--case", "a=0.5", "--case", "b=0.5"]
    assert json.loads(likewise(*command).stdout)["near"] == 2
    rule = tmp_path / "rule.toml"
    rule.write_text(rule_text({"a": 1, "b": 1}, metric="linf", epsilon=0.1, output_column="z",
                              compare="within"))  # fmt: skip
    command = ["like", str(tmp_path / "d.csv"), "--rule", str(rule), "--model-column", "m"]
    command += ["--json", "--case", "a=0.5", "--case", "b=0.5", "--model", "v2"]
    body = json.loads(likewise(*command).stdout)
    assert [one["model"] for one in body["cases"]] == ["v2"]


def test_what_cannot_be_asked_is_said(tmp_path):
    command = make_files(tmp_path)
    for more, code in (
        ([], 2),
        (["--case", "age"], 2),
        (["--case", "age=30", "--case", "job"], 2),
        (["--case", "age=old", "--case", "job=cook"], 3),
        (["--case", "age=30"], 3),
        (["--case", "age=30", "--case", "job=cook", "--limit", "-1"], 2),
        (["--case", "age=30", "--case", "job=cook", "--model", "m"], 0),
    ):
        likewise(*command, *more, code=code)
    likewise("like", str(tmp_path / "none"), "--case", "a=1", code=3)
