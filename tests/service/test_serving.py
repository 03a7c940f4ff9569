"""The server as a process: decisions come in, verdicts go out, and it ends in good order."""

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import closing

import numpy as np
import pytest

import likewise as lw
from likewise.cli import main
from likewise.service.tokens import new_token
from tests.support.serving import RULE, command, reached_end, serving, settings, started


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    path = settings(folder)
    with serving(path) as running:
        yield running


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    """Three monitors in memory, of different kinds."""
    folder = tmp_path_factory.mktemp("memory")
    (folder / "loans.toml").write_text(
        'output_column = "approved"\n[features.id]\nkind = "key"\n'
        '[features.age]\nkind = "number"\ntolerance = 5\n'
        '[features.job]\nkind = "category"\n[features.sex]\nkind = "protected"\n'
    )
    (folder / "score.toml").write_text(
        'metric = "l2"\nepsilon = 1.0\noutput = "number"\ndelta = 0.5\n'
    )
    monitors = "\n".join(
        f'[monitors.{name}]\nrule = "{rule}.toml"'
        for name, rule in (("default", "rule"), ("loans", "loans"), ("score", "score"))
    )
    limits = "[limits]\nlabels = 5\nlabel_bytes = 100\nkey_bytes = 20\nwitnesses = 3\nrecent = 10\n"
    with serving(settings(folder, limits, monitors=monitors)) as running:
        yield running


def test_one_decision_gets_the_verdict_that_watch_would_write(server):
    x = [1000.0, 1.0]
    first = server.post("observe", {"x": x, "z": "a", "key": "one"})
    second = server.post("observe", {"x": [1000.05, 1.0], "z": "b", "key": "two"}).json()
    assert first.status == 200 and first.json()["violation"] is False
    row = first.json()["row"]
    assert second == {
        "row": row + 1,
        "key": "two",
        "violation": True,
        "comparable": True,
        "count": 1,
        "witnesses": [
            {
                "row": row,
                "key": "one",
                "input_distance": pytest.approx(0.05),
                "output_distance": 1.0,
            }
        ],
    }


def test_a_key_that_comes_again_is_answered_again_or_refused(server):
    decision = {"x": [2000.0, 1.0], "z": "a", "key": "again"}
    first = server.post("observe", decision).json()
    again = server.post("observe", decision).json()
    assert again == {**first, "repeated": True}
    other = server.post("observe", {**decision, "z": "b"})
    assert (other.status, other.json()["code"], other.json()["row"]) == (
        409,
        "repeated-key",
        first["row"],
    )
    assert server.post("erase", {"keys": ["again"]}).json() == {
        "rows": [first["row"]],
        "complete": True,
    }
    gone = server.post("observe", decision)
    assert (gone.status, gone.json()["code"]) == (410, "erased-key")


@pytest.mark.parametrize("wait", ["judged", "durable"])
def test_an_answer_can_wait_for_the_disk(server, wait):
    answer = server.post(f"observe?wait={wait}", {"x": [3000.0, 1.0], "z": "a"})
    assert answer.status == 200
    assert server.post("batch?wait=durable", {"x": [[3100.0, 1]], "z": ["a"]}).status == 200
    refused = server.post("observe?wait=never", {"x": [3000.0, 1.0], "z": "a"})
    assert refused.status == 400 and "expected judged or durable" in refused.json()["message"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b'{"x": [1, 2]', 400, "no JSON"),
        (b'{"x": [1, NaN], "z": "a"}', 400, "(byte 10). NaN and infinity are no JSON, and no"),
        (b'{"x": [1, nan], "z": "a"}', 400, "NaN and infinity are no JSON"),
        (b'{"x": [1, -Infinity], "z": "a"}', 400, "NaN and infinity are no JSON"),
        (b'{"x": [1, 2], "z": inf}', 400, "NaN and infinity are no JSON"),
        (b'{"x": [1, 1e999], "z": "a"}', 422, "out of range"),
        (b'{"x": [1, 2], "z": "a", "z": "b"}', 400, "a name twice"),
        (b'{"x": [1, 2], "z": "\\udc00"}', 400, "no JSON"),
        (b'{"x": [1, 2], "z": "\\ud800a"}', 400, "no JSON"),
        (b'{"x": [1, 2], "z": "\xff"}', 400, "no JSON"),
        (b'{"x": [1, 2], "z": "a", "y": 1}', 422, "unknown field"),
        (b'{"x": [1, 2]}', 422, "no output"),
        (b'{"values": {"a": 1}}', 422, "about vectors"),
        (b'{"x": [1, 2, 3], "z": "a"}', 422, "3 features"),
        (b'{"x": "text", "z": "a"}', 422, ""),
        (b'{"x": [1, "b"], "z": "a"}', 422, ""),
        (b'{"x": [1, 2], "z": {"what": "ever"}}', 422, "is no value"),
        (b'{"x": [1, 2], "z": "a", "time": 5}', 422, "behind the server's"),
        (b'{"x": [1, 2], "z": "a", "time": "soon"}', 422, "expected a datetime"),
        (b"", 400, "no JSON"),
        (b"[]", 422, "not what is expected"),
        (b'{"x": ' + b"[" * 5000, 400, "no JSON"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason_and_leaves_no_trace(
    server, body, status, words
):
    server.post("observe", {"x": [0.0, 0.0], "z": "a"})
    before = server.get().json()["rows"]
    answer = server.post("observe", body)
    assert answer.status == status, answer.body
    assert words in answer.json()["message"]
    assert server.get().json()["rows"] == before


@pytest.mark.long
@pytest.mark.parametrize(
    "body",
    [
        b'{"x": [[1, 9007199254740993]], "z": ["a"]}',
        b'{"x": [[1, -9007199254740993]], "z": ["a"], "type": "float64"}',
        b'{"decisions": [{"x": [0.5, 9007199254740993], "z": "a"}]}',
    ],
)
def test_a_whole_number_of_a_batch_that_would_be_rounded_is_refused(server, body):
    server.post("observe", {"x": [0.0, 0.0], "z": "a"})
    before = server.get().json()["rows"]
    answer = server.post("batch", body)
    assert answer.status == 422, answer.body
    assert "9007199254740993" in answer.json()["message"]
    assert server.post("batch", b'{"x": [[1.0, 1e300]], "z": ["a"]}').status == 200
    assert server.get().json()["rows"] == before + 1


def test_a_date_as_label_is_the_date(server):
    first = server.post("observe", {"x": [4000.0, 0], "z": {"date": "2026-01-31"}}).json()
    again = server.post("observe", {"x": [4000.0, 0], "z": {"date": "2026-01-31"}}).json()
    other = server.post("observe", {"x": [4000.0, 0], "z": ["a", 1]}).json()
    assert not again["violation"] and other["count"] == 2
    assert server.get(f"decisions/{first['row']}").json()["decision"]["output"] == "2026-01-31"


def test_a_batch_in_any_form_has_the_verdicts_of_an_oracle(memory):
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(7)
    x = rng.random((400, 3)).round(3)
    z = [str(one) for one in rng.integers(0, 2, 400)]
    table = {"x": pa.FixedSizeListArray.from_arrays(pa.array(x[:100].ravel()), 3), "z": z[:100]}
    features = {f"f{i}": x[100:200, i] for i in range(3)} | {"z": z[100:200]}
    rows = [{"x": list(x[i]), "z": z[i]} for i in range(200, 300)]
    columns = {"x": x[300:].tolist(), "z": z[300:]}
    arrow = {"content-type": "application/vnd.apache.arrow.stream"}
    bodies = [
        (_stream(pa, table), arrow),
        (_stream(pa, features), arrow),
        ({"decisions": rows}, None),
        (columns, None),
    ]
    found = {}
    first = None
    for body, headers in bodies:
        answer = memory.post("batch?verdicts=all", body, headers=headers)
        assert answer.status == 200, answer.body
        told = answer.json()
        first = told["first_row"] if first is None else first
        assert told["decisions"] == 100 == len(told["verdicts"])
        assert told["violations"] == sum(one["violation"] for one in told["verdicts"])
        found |= {one["row"] - first: one["count"] for one in told["verdicts"]}
    near = np.abs(x[:, None] - x[None]).max(axis=2) <= 0.1 * (1 + 1e-9)
    differ = np.array(z)[:, None] != np.array(z)[None]
    counts = (near & differ & np.tri(400, k=-1, dtype=bool)).sum(axis=1)
    assert counts.sum() > 0
    assert found == dict(enumerate(counts.tolist()))


def _stream(pa, columns, **more):
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **more) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_a_batch_tells_enough_to_have_every_verdict(memory):
    body = {"x": [[50.0, 0, 0], [50.0, 0, 0], [90.0, 0, 0]], "z": ["0", "1", "0"]}
    told = memory.post("batch", body).json()
    assert [one["row"] for one in told["verdicts"]] == [told["first_row"] + 1]
    assert told["decisions"] == 3 and told["violations"] == 1
    assert told["comparable"] == 1 and told["incomparable"] == [0, 2]


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_an_arrow_stream_whose_length_cannot_be_seen_is_refused(memory, compression):
    pa = pytest.importorskip("pyarrow")
    options = pa.ipc.IpcWriteOptions(compression=compression)
    body = _stream(pa, {"f": np.zeros(10_000), "z": ["a"] * 10_000}, options=options)
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    answer = memory.post("batch", body, headers=headers)
    assert answer.status == 415 and "send it plain" in answer.json()["message"]


def test_a_table_is_judged_row_by_row_and_column_by_column(memory):
    memory.name = "loans"
    try:
        row = {"id": "p1", "age": 41, "job": "nurse", "sex": "f", "approved": "no"}
        assert memory.post("observe", {"values": row}).json()["violation"] is False
        other = {**row, "id": "p2", "age": 44, "sex": "m", "approved": "yes"}
        assert memory.post("check", {"values": {**other, "id": "p9"}}).status == 200
        assert memory.post("observe", {"values": other}).json()["witnesses"][0]["key"] == "p1"
        columns = {
            "id": ["p3", "p4"],
            "age": [90, 42],
            "job": ["nurse", "nurse"],
            "sex": ["f", "f"],
            "approved": ["no", "no"],
        }
        told = memory.post("batch", {"values": columns}).json()
        assert [one["key"] for one in told["verdicts"]] == ["p4"]
        look = memory.get("decisions/1").json()
        assert look["decision"]["values"] == other
        assert look["witnesses"][0]["values"]["age"] == 41
        refused = memory.post("observe", {"x": [1], "z": 2})
        assert refused.status == 422 and "about a table" in refused.json()["message"]
        assert memory.post("batch", {"x": [[1]], "z": [2]}).status == 422
    finally:
        memory.name = "default"


def test_limits_refuse_and_leave_no_trace(memory):
    memory.name = "score"
    try:
        assert memory.post("observe", {"x": [1.0], "z": 0.5, "model": "m0"}).status == 200
        for name in ("m1", "m2", "m3", "m4"):
            assert memory.post("observe", {"x": [1.0], "z": 0.5, "model": name}).status == 200
        before = memory.get().json()
        refused = [
            ({"x": [1.0], "z": 0.5, "model": "m5"}, 422, "at most 5"),
            ({"x": [1.0], "z": 0.5, "model": "m" * 101}, 413, "100 bytes"),
            ({"x": [1.0], "z": 0.5, "key": "k" * 21}, 413, "20 bytes"),
        ]
        for body, status, words in refused:
            answer = memory.post("observe", body)
            assert answer.status == status and words in answer.json()["message"], answer.body
        batch = {"x": [[1.0]] * 2, "z": [0.1, 0.2], "models": ["m0", "m9"]}
        assert memory.post("batch", batch).status == 422
        assert memory.get().json() == before
        person = {"id": "p", "age": 1, "sex": "f", "job": "j" * 101, "approved": "no"}
        memory.name = "loans"
        assert memory.post("observe", {"values": person}).status == 413
        columns = {name: [value] for name, value in person.items()}
        assert memory.post("batch", {"values": columns}).status == 413
        memory.name = "score"
        far = memory.post("observe", {"x": [1.0], "z": 9.0}).json()
        assert far["count"] == 5 and len(far["witnesses"]) == 3 and far["omitted_witnesses"] == 2
    finally:
        memory.name = "default"


@pytest.mark.long
def test_distinct_labels_are_limited_in_one_decision_and_in_batches(tmp_path):
    monitors = '[monitors.default]\nrule = "rule.toml"\nledger = "ledger"\ndurability = "batch"\n'
    path = settings(tmp_path, "[limits]\nlabels = 3\n", monitors=monitors)
    with serving(path) as server:
        for label in "abc":
            assert server.post("observe", {"x": [1], "z": label}).status == 200
        answer = server.post("observe", {"x": [1], "z": "d"})
        assert answer.status == 422 and "at most 3" in answer.json()["message"]
        assert server.post("batch", {"x": [[1], [2]], "z": ["a", "e"]}).status == 422
        assert server.post("observe?wait=durable", {"x": [1], "z": "a"}).json()["row"] == 3
        assert server.end() == 0
    with serving(path) as server:  # the ledger's words count as before
        assert server.post("observe", {"x": [1], "z": "f"}).status == 422
        assert server.post("observe", {"x": [1], "z": "b"}).json()["row"] == 4


def test_several_monitors_do_not_see_each_other(memory):
    names = memory.ask("GET", "/v1/monitors").json()["monitors"]
    assert names == ["default", "loans", "score"]
    missing = memory.ask("POST", "/v1/monitors/nobody/observe", {"x": [1], "z": 2})
    assert missing.status == 404 and "GET /v1/monitors" in missing.json()["message"]
    assert memory.ask("GET", "/v1/nothing").status == 404
    wrong = memory.ask("PUT", "/v1/monitors/default/erase", b"{}")
    assert wrong.status == 405 and wrong.headers["allow"] == "POST"
    for verb in ("observe", "batch", "check", "stream"):
        wrong = memory.ask("GET", f"/v1/monitors/default/{verb}")
        assert wrong.status == 405 and wrong.headers["allow"] == "POST"
        assert f"{verb}' does not take GET; it takes POST." in wrong.json()["message"]


@pytest.mark.long
def test_an_end_of_the_server_answers_what_waits_and_has_code_0(tmp_path):
    with serving(settings(tmp_path)) as server:
        answers, errors = [], []

        def send(worker):
            with closing(server.connection()) as connection:
                for i in range(10_000):
                    try:
                        body = {"x": [float(i), worker], "z": "a"}
                        answer = server.post("observe", body, connection=connection)
                    except OSError:
                        return
                    (answers if answer.status == 200 else errors).append(answer)
                    if answer.status != 200:
                        return

        threads = [threading.Thread(target=send, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        while len(answers) < 50:
            time.sleep(0.01)
        assert server.end() == 0
        for thread in threads:
            thread.join(20)
        assert all(answer.status == 503 for answer in errors)
    with lw.Ledger(tmp_path / "ledger") as ledger:
        told = sorted(answer.json()["row"] for answer in answers)
        assert told == list(range(len(told)))
        assert ledger.rows >= len(told)
        assert ledger.verify().ok


def begun_request(server, body):
    """A connection whose request is under way: the server asks for its body."""
    connection = socket.create_connection((server.host, server.port), 60)
    head = (
        "POST /v1/monitors/default/observe HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\n"
    )
    sent = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(sent.encode())
    assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
    return connection


@pytest.mark.long
def test_an_ending_server_takes_connections_and_refuses_what_is_new(tmp_path):
    with serving(settings(tmp_path)) as server:
        body = b'{"x":[1.0],"z":"a"}'
        with begun_request(server, body) as begun, closing(server.connection()) as idle:
            assert server.ask("GET", "/readyz", connection=idle).status == 200
            server.process.send_signal(signal.SIGTERM)
            while server.ask("GET", "/readyz").status != 503:
                time.sleep(0.01)
            assert server.ask("GET", "/healthz").status == 200
            for path in ("/", "/v1/monitors", "/v1/monitors/default"):
                refused = server.ask("GET", path)
                assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
            for connection in (None, idle):
                refused = server.post("observe", {"x": [1.0], "z": "a"}, connection=connection)
                assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
            begun.sendall(body)
            assert begun.recv(1000).startswith(b"HTTP/1.1 200 ")
            assert server.process.wait(60) == 0
    with lw.Ledger(tmp_path / "ledger") as ledger:
        assert ledger.rows == 1


@pytest.mark.long
def test_an_ending_server_waits_for_drain_seconds_at_most(tmp_path):
    limits = "[limits]\nbody_seconds = 1000\n[server]\ndrain_seconds = 1\n"
    with serving(settings(tmp_path, limits)) as server, begun_request(server, b"{}"):
        assert server.end() == 0


@pytest.mark.long
def test_a_socket_of_the_file_system_serves_the_same(tmp_path):
    (tmp_path / "rule.toml").write_text(RULE)
    where = tmp_path / "s.sock"
    with serving("--rule", tmp_path / "rule.toml", "--uds", where) as server:
        assert server.post("observe", {"x": [1.0], "z": "a"}).json()["row"] == 0
        assert server.get().json()["durable"] is False
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(10)
    with serving("--rule", tmp_path / "rule.toml", "--uds", where) as server:
        assert server.post("observe", {"x": [1.0], "z": "a"}).json()["row"] == 0
        assert server.end() == 0
    assert not where.exists()


def test_a_server_that_cannot_serve_says_why(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    settings(tmp_path)
    (tmp_path / "bad.toml").write_text("[limits]\nbody_byte = 5\n")
    for arguments, code, words in (
        (["--workers", "2", "--rule", "rule.toml"], 2, "one process owns the history"),
        ([], 2, "expected a CONFIG"),
        (["nowhere.toml"], 2, "cannot be read"),
        (["--rule", "nowhere.toml"], 2, "does not exist"),
        (["--rule", "rule.toml", "--host", "0.0.0.0"], 2, "there are no tokens"),
        (["--rule", "rule.toml", "--ledger", "rule.toml"], 3, "rule.toml"),
        (["bad.toml"], 2, "'body_byte' is no setting"),
    ):
        assert main(["serve", *arguments, "--port", "0"]) == code, arguments
        said = capsys.readouterr().err
        assert words in said and "Traceback" not in said


def test_the_process_ends_with_the_code_and_the_reason(tmp_path):
    settings(tmp_path)
    code, said = reached_end(command(tmp_path / "settings.toml", "--workers", "2"))
    assert code == 2 and "one process owns the history" in said and "Traceback" not in said


@pytest.mark.long
def test_a_port_or_a_ledger_in_use_is_said(tmp_path):
    with serving(settings(tmp_path)) as server:
        code, said = reached_end(command(tmp_path / "settings.toml", "--port", server.port))
        assert code == 2 and "cannot listen on" in said


@pytest.mark.long
def test_a_token_is_printed_once_and_its_lines_work(tmp_path):
    made = [sys.executable, "-m", "likewise", "token", "--name", "scoring"]
    said = subprocess.run(
        [*made, "--scopes", "observe,read", "--monitors", "default"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    token = next(line.strip() for line in said.splitlines() if line.startswith("    lw_"))
    lines = said.partition("[[tokens]]")[2]
    with serving(settings(tmp_path, f"[[tokens]]{lines}")) as server:
        body = {"x": [1.0], "z": "a"}
        assert server.post("observe", body).status == 401
        assert server.post("observe", body, token="lw_wrong").status == 401
        assert server.post("observe", body, token=token).status == 200
        assert server.get(token=token).json()["rows"] == 1
        assert server.post("erase", {"rows": [0]}, token=token).status == 403
        assert token not in (tmp_path / "settings.toml").read_text()
    bad = subprocess.run([*made, "--scopes", "fly"], capture_output=True, text=True, check=False)
    assert bad.returncode == 2 and "expected some of observe" in bad.stderr


@pytest.mark.long
def test_requests_under_way_and_rates_are_limited(tmp_path):

    token, hashed = new_token()
    text = f'[limits]\nrate = 0.5\n[[tokens]]\nname = "a"\nhash = "{hashed}"\nscopes = ["admin"]\n'
    with serving(settings(tmp_path, text), token=token) as server:
        statuses = [server.post("check", {"x": [1.0], "z": "a"}).status for _ in range(8)]
        assert statuses == [200] * 5 + [429] * 3
        refused = server.get()
        assert refused.status == 429 and int(refused.headers["retry-after"]) >= 1
        assert json.loads(refused.body)["code"] == "refused"


def test_started_fails_where_the_server_does(tmp_path):
    with pytest.raises(AssertionError, match="cannot be read"):
        started(tmp_path / "nowhere.toml")


@pytest.mark.long
def test_others_are_served_over_tls_and_with_tokens_only(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    files = ["-keyout", tmp_path / "tls.key", "-out", tmp_path / "tls.crt"]
    subprocess.run([*made.split(), *files], check=True, capture_output=True)
    token, hashed = new_token()
    text = (
        '[server]\nhost = "0.0.0.0"\ncertificate = "tls.crt"\nkey = "tls.key"\n'
        f'[[tokens]]\nname = "a"\nhash = "{hashed}"\n'
    )
    with serving(settings(tmp_path, text)) as server:
        context = ssl.create_default_context(cafile=tmp_path / "tls.crt")
        context.check_hostname = False
        for given, status in ((token, 200), ("lw_other", 401)):
            connection = http.client.HTTPSConnection(
                "127.0.0.1", server.port, context=context, timeout=30
            )
            body = {"x": [1.0], "z": "a"}
            answer = server.post("observe", body, token=given, connection=connection)
            assert answer.status == status
            long = server.ask("GET", "/", headers={"a": "b" * 70_000}, connection=connection)
            assert long.status == 431
            connection.close()


def test_a_ledger_that_another_process_has_is_told_at_once_and_waited_for(tmp_path):
    (tmp_path / "rule.toml").write_text(RULE)
    rule = lw.Rule.from_toml(RULE)
    given = ("--rule", tmp_path / "rule.toml", "--ledger", tmp_path / "ledger")
    with lw.open(tmp_path / "ledger", rule):
        server = started(*given, ready=False)
        try:
            line = server.wait_for("being written")
            assert f"by process {os.getpid()}. Waiting until " in line
            assert not any("listening" in one or "ready" in one for one in server.told)
            assert server.ask("GET", "/readyz").status == 503
        except BaseException:
            server.kill()
            raise
    try:
        assert server.wait_for("ready").endswith(f"listening on http://127.0.0.1:{server.port}")
        assert server.end() == 0
    finally:
        server.kill()
