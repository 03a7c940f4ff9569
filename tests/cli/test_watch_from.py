"""`likewise watch --from`: the command around streams and files."""

import json
import subprocess
from contextlib import closing

import pytest

import likewise as lw
from likewise.verdict.losses import reason_at_least
from tests.sources.streaming import RULE, bodies, check_ledger, decisions
from tests.support.brokers import broker, to_address, wait_for
from tests.support.commands import COMMAND, likewise


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule.toml").write_text(RULE)
    return tmp_path


def add(path, some):
    with path.open("ab") as file:
        file.writelines(body + b"\n" for body in bodies(some))


def test_file_is_read_on_where_the_ledger_ends(folder, capsys):
    published = decisions(90)
    path = folder / "decisions.jsonl"
    for part in (published[:40], [], published[40:]):
        add(path, part)
        code = lw_main(["watch", "--from", str(path), "--rule", "rule.toml", "--ledger", "l"])
        told = capsys.readouterr()
        assert code == 0, told
        lines = [json.loads(one) for one in told.out.splitlines()]
        assert [one["key"] for one in lines] == [one["id"] for one in part]
        assert f"{len(part)} decision" in told.err
    entries = check_ledger(folder / "l", published)
    assert [entry.position[0] for entry in entries] == list(range(1, 91))


@pytest.mark.parametrize("given", ["--from", "stdin"])
def test_a_loss_of_unknown_size_is_told_as_at_least(folder, given):
    path = folder / "decisions.jsonl"

    def watched(some):
        add(path, some)
        options = ["--rule", "rule.toml", "--ledger", "l"]
        if given == "--from":
            return likewise("watch", "--from", path, *options).stderr
        lines = b"".join(body + b"\n" for body in bodies(some))
        return likewise("watch", *options, given=lines).stderr.decode()

    assert "missing" not in watched(decisions(20))
    with lw.open(folder / "l") as monitor:
        monitor.record_loss(2, "the queue was full")
    assert "; 2 earlier decisions are known to be missing" in watched(decisions(1, first=20))
    with lw.open(folder / "l") as monitor:
        monitor.record_loss(1, reason_at_least("gone from decisions" + "s" * 300))
    told = "; at least 3 earlier decisions are known to be missing"
    assert told in watched(decisions(1, first=21))
    assert told in likewise("show", "l", 21).stdout
    assert "; 2 earlier decisions are known" in likewise("show", "l", 20).stdout


def lw_main(arguments):
    from likewise.cli import main

    return main(arguments)


def test_bad_lines_of_a_file_are_told_with_their_place(folder, capsys):
    path = folder / "decisions.jsonl"
    path.write_bytes(b"\n".join([bodies(decisions(1))[0], b"bad", b"", b'{"a": 1}']))
    assert lw_main(["watch", "--from", str(path), "--rule", "rule.toml"]) == 0
    lines = [json.loads(one) for one in capsys.readouterr().out.splitlines()]
    bad = [one for one in lines if "error" in one]
    assert [one["position"][0] for one in bad] == [2, 4]
    assert all(one["source"] == str(path.resolve()) for one in bad)
    path.write_bytes(b"bad\n")
    assert lw_main(["watch", "--from", str(path), "--rule", "rule.toml"]) == 3


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--to", "redis://h?stream=a"], "say --from"),
        (["--gaps", "stop"], "say --from"),
        (["--from", "redis://h?stream=a"], "Say --rule"),
        (["--from", "redis://h", "--rule", "rule.toml"], "names its stream"),
        (["--from", "redis://h?stream=a", "--gaps", "skip", "--rule", "rule.toml"], "--gaps"),
        (["--from", "f", "--rule", "rule.toml", "--resume"], "--resume"),
        (["--from", "f", "--rule", "rule.toml", "--epsilon", "1"], "--rule"),
        (["--from", "f", "--rule", "rule.toml", "--window", "9 rows"], "--ledger"),
        (["--from", "f", "--rule", "rule.toml", "--to", "file.jsonl"], "no address"),
    ],
)
def test_options_that_make_no_sense_are_refused(folder, capsys, arguments, word):
    (folder / "f").touch()
    assert lw_main(["watch", *arguments]) == 2
    assert word in capsys.readouterr().err


@pytest.mark.long
def test_command_follows_a_stream_until_it_is_told_to_end(folder):
    published = decisions(50)
    with broker("redis", folder) as running:
        running.publish(bodies(published))
        watcher = subprocess.Popen(
            [
                *COMMAND, "watch", "--from", running.address(), "--rule", "rule.toml",
                "--ledger", "l", "--to", to_address(running, "verdicts"),
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        wait_for(lambda: len(running.read("verdicts", "verdict")) == 50, "all lines")
        watcher.terminate()
        out, told = watcher.communicate(timeout=60)
        assert (watcher.returncode, out) == (0, ""), told
        assert told.startswith("50 decisions, ")
    check_ledger(folder / "l", published)


@pytest.mark.long
def test_password_of_a_server_comes_from_a_file(folder):
    """It stands in no argument, and in nothing that is said."""
    published = decisions(5)
    with broker("redis", folder, "--requirepass", "hunter2") as running:
        (folder / "secret").write_text("hunter2\n")
        with running.client(password="hunter2") as client:
            for body in bodies(published):
                client.xadd("decisions", {"decision": body})
        address = running.address(password_file=folder / "secret")
        watch = [*COMMAND, "watch", "--rule", "rule.toml", "--ledger", "l", "--from"]
        refused = subprocess.run(
            [*watch, running.address()], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert refused.returncode == 2
        assert "does not let us in" in refused.stderr
        watcher = subprocess.Popen(
            [*watch, address], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        lines = [watcher.stdout.readline() for _ in range(5)]
        watcher.terminate()
        out, told = watcher.communicate(timeout=60)
        assert watcher.returncode == 0, told
        assert "hunter2" not in "".join([*lines, out, told, *map(str, watcher.args)])
    with closing(lw.Ledger(folder / "l")) as ledger:
        assert ledger.rows == 5


def test_rule_about_vectors_takes_the_output_column_that_is_named(folder, capsys):
    (folder / "vectors.toml").write_text('metric = "linf"\nepsilon = 0.5\n')
    path = folder / "decisions.jsonl"
    path.write_text('{"x": 1.0, "y": 2.0, "z": "a"}\n{"x": 1.1, "y": 2.0, "z": "b"}\n{"x": 1}\n')
    arguments = ["watch", "--from", str(path), "--rule", "vectors.toml", "--ledger", "l"]
    assert lw_main(arguments) == 2
    assert "output" in capsys.readouterr().err
    assert lw_main([*arguments, "--output-column", "z"]) == 0
    lines = [json.loads(one) for one in capsys.readouterr().out.splitlines()]
    assert [one.get("count") for one in lines] == [0, 1, None] or "error" in lines[-1]
    assert likewise is not None


@pytest.mark.parametrize("given", ["--from", "stdin"])
@pytest.mark.parametrize("first", ['{"temperature": 3}', '{"\\u0000": 1}', '{"x": 1, "z\\"": 1}'])
def test_first_line_that_does_not_fit_the_rule_ends_nothing(folder, first, given):
    (folder / "vectors.toml").write_text('metric = "linf"\nepsilon = 0.5\n')
    good = ['{"x": 1.0, "y": 2.0, "z": "a"}', '{"x": 1.1, "y": 2.0, "z": "b"}']
    text = "\n".join([first, *good])
    (folder / "lines").write_text(text)
    watch = ("watch", "--rule", "vectors.toml", "--output-column", "z")
    if given == "--from":
        done = likewise(*watch, "--from", "lines")
    else:
        done = likewise(*watch, given=text)
    answers = [json.loads(one) for one in done.stdout.splitlines()]
    assert [one.get("count") for one in answers] == [None, 0, 1]
    assert answers[0]["code"] == "bad-decision"


@pytest.mark.parametrize("source", [["--from", "f"], []])
@pytest.mark.parametrize(
    ("rule", "word"),
    [
        ('metric = "linf"\nepsilon = 0.1\n', "output"),
        (RULE.replace('metric = "linf"', 'metric = "linf"\ncompare = "within"'), "model"),
    ],
)
def test_rule_that_cannot_be_used_leaves_no_ledger(folder, capsys, source, rule, word):
    (folder / "f").touch()
    (folder / "rule.toml").write_text(rule)
    assert lw_main(["watch", *source, "--rule", "rule.toml", "--ledger", "l"]) == 2
    assert word in capsys.readouterr().err
    assert not (folder / "l").exists()
