"""SIGHUP: settings are read again, all of what can be applied or nothing."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from contextlib import closing, contextmanager
from urllib.parse import urlencode

import pytest

import likewise as lw
from likewise.service.tokens import new_token
from tests.service.alerts.receivers import Receiver
from tests.support.serving import SECONDS, serving, settings, started

MONITORS = '[monitors.default]\nrule = "rule.toml"\n'


def table(name, hashed, scopes='"observe", "read"'):
    return f'[[tokens]]\nname = "{name}"\nhash = "{hashed}"\nscopes = [{scopes}]\n'


def hang_up(server, words):
    server.process.send_signal(signal.SIGHUP)
    return server.wait_for(words)


@pytest.fixture
def tokens():
    return [new_token() for _ in range(2)]


@pytest.fixture
def served(tmp_path, tokens):
    """A server with two tokens, and a function that writes its settings anew."""
    both = [table(name, hashed) for name, (_, hashed) in zip("ab", tokens, strict=True)]

    def write(text):
        return settings(tmp_path, text, monitors=MONITORS)

    with serving(write("".join(both)), token=tokens[0][0]) as server:
        yield server, write, both


def test_tokens_and_limits_are_applied_without_a_restart(served, tokens):
    server, write, both = served
    other = tokens[1][0]
    assert server.post("observe", {"x": [1.0], "z": "a"}, token=other).status == 200
    write(both[0] + "[limits]\nwitnesses = 1\nbatch_rows = 2\n")
    assert "a restart" not in hang_up(server, "settings were reloaded")
    assert server.post("observe", {"x": [1.0], "z": "a"}, token=other).status == 401
    batch = {"x": [[1.0]] * 3, "z": ["a"] * 3}
    assert server.post("batch", batch).status == 413
    server.post("observe", {"x": [1.0], "z": "a"})
    assert len(server.post("observe", {"x": [1.0], "z": "b"}).json()["witnesses"]) == 1
    metrics = server.ask("GET", "/metrics").body.decode()
    assert 'likewise_reloads_total{result="applied"} 1' in metrics


@pytest.mark.parametrize(
    "text", [None, "", "nonsense", "[limits]\nbatch_rows = 0\n", "no tokens", "unknown monitor"]
)
def test_a_reload_that_is_refused_keeps_everything_and_is_shown(served, tokens, text):
    server, write, both = served
    if text is None:
        write("").unlink()
    elif text == "":
        write("").write_text("")
    elif text == "no tokens":
        write("")
    elif text == "unknown monitor":
        write(both[0] + 'monitors = ["other"]\n')
    else:
        write(both[0] + text)
    hang_up(server, "were not reloaded")
    for token, _ in tokens:
        assert server.post("observe", {"x": [1.0], "z": "a"}, token=token).status == 200
    ready = server.ask("GET", "/readyz", token="")
    assert ready.status == 200 and ready.json()["reload"]["refused"] == "bad-rule"
    metrics = server.ask("GET", "/metrics").body.decode()
    assert 'likewise_reloads_total{result="refused"} 1' in metrics
    assert server.post("observe", {"x": [1.0], "z": "a"}, token="").status in (401, 403)
    write("".join(both))
    hang_up(server, "settings were reloaded")
    assert "reload" not in server.ask("GET", "/readyz").json()


def test_what_needs_a_restart_is_named_and_the_rest_is_applied(served, tokens):
    server, write, both = served
    path = write(both[0] + "[server]\nport = 1\ndrain_seconds = 3\n[limits]\npairs = 7\n")
    path.write_text(path.read_text() + 'comparable = false\n[labels]\nenvironment = "test"\n')
    line = hang_up(server, "settings were reloaded")
    # The port of the command goes before that of the file.
    for name in ("monitors", "labels", "server.drain_seconds", "limits.pairs"):
        assert name in line
    assert "server.port" not in line
    assert server.post("observe", {"x": [1.0], "z": "a"}, token=tokens[1][0]).status == 401


def test_a_server_that_had_no_tokens_is_closed_by_a_reload(tmp_path, tokens):
    path = settings(tmp_path, monitors=MONITORS)
    with serving(path) as server:
        assert server.post("observe", {"x": [1.0], "z": "a"}).status == 200
        with events(server, "") as listening:
            settings(tmp_path, table("a", tokens[0][1]), monitors=MONITORS)
            hang_up(server, "settings were reloaded")
            assert b"no longer allowed" in listening.read()
        assert server.post("observe", {"x": [1.0], "z": "a"}).status == 401
        headers = {"host": "likewise.example.org"}
        answer = server.post("observe", {"x": [1.0], "z": "a"}, headers=headers, token=tokens[0][0])
        assert answer.status == 200


@contextmanager
def events(server, token, path="/v1/monitors/default/events", **headers):
    """An answer that goes on, of which the first line was read."""
    if token:
        headers["authorization"] = f"Bearer {token}"
    with closing(server.connection()) as connection:
        connection.request("GET", path, headers=headers)
        with closing(connection.getresponse()) as response:
            assert response.status == 200
            assert response.readline().startswith(b"retry")
            yield response


def test_a_revoked_token_ends_its_events_and_streams_at_once_and_no_others(served, tokens):
    server, write, both = served
    mine, other = (events(server, token) for token, _ in tokens)
    stream = socket.create_connection((server.host, server.port), timeout=SECONDS)
    head = (
        f"POST /v1/monitors/default/stream HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding:"
        f" chunked\r\nContent-Type: application/x-ndjson\r\nAuthorization: Bearer {tokens[1][0]}"
    )
    line = json.dumps({"x": [7.0], "z": "a"}).encode() + b"\n"
    with mine as mine, other as other, closing(stream):
        stream.sendall(f"{head}\r\n\r\n{len(line):x}\r\n".encode() + line + b"\r\n")
        said = b""
        while b'"row"' not in said:
            said += stream.recv(4096)
        write(both[0])
        hang_up(server, "settings were reloaded")
        begun = time.monotonic()
        assert b"no longer allowed" in other.read()
        while b"no longer allowed" not in said:
            piece = stream.recv(4096)
            assert piece, said
            said += piece
        assert time.monotonic() - begun < 5
        server.post("observe", {"x": [7.0], "z": "b"})
        while b"verdict" not in (told := mine.readline()):
            assert told


def test_a_revoked_token_ends_its_session_and_the_live_parts_of_its_page(served, tokens):
    server, write, both = served
    page = server.ask("GET", "/sign-in", token="")
    cookie = page.headers["set-cookie"].partition(";")[0]
    form = {
        "csrf": re.search(r'name="csrf" value="([0-9a-f]+)"', page.body.decode())[1],
        "token": tokens[1][0],
    }
    headers = {"cookie": cookie, "content-type": "application/x-www-form-urlencoded"}
    headers |= {"origin": server.url, "host": f"{server.host}:{server.port}"}
    signed = server.ask("POST", "/sign-in", urlencode(form).encode(), headers, token="")
    assert signed.status == 303
    mine = {"cookie": signed.headers["set-cookie"].partition(";")[0]}
    overview = "/m/default/overview"
    assert server.ask("GET", overview, headers=mine, token="").status == 200
    with events(server, "", f"{overview}/live", **mine) as live:
        write(both[0])
        hang_up(server, "settings were reloaded")
        assert b"no longer allowed" in live.read()
    assert server.ask("GET", overview, headers=mine, token="").status == 303


def certificate(folder, name):
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    made = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name}"
    files = ["-keyout", folder / "tls.key", "-out", folder / "tls.crt"]
    subprocess.run([*made.split(), *files], check=True, capture_output=True, timeout=SECONDS)
    return ssl.PEM_cert_to_DER_cert((folder / "tls.crt").read_text())


def test_new_connections_get_the_new_certificate_and_a_wrong_one_is_refused(tmp_path):
    first = certificate(tmp_path, "first")
    text = '[server]\ncertificate = "tls.crt"\nkey = "tls.key"\n'
    context = ssl._create_unverified_context()

    with serving(settings(tmp_path, text, monitors=MONITORS)) as server:

        def connected():
            given = {"timeout": SECONDS, "context": context}
            connection = http.client.HTTPSConnection(server.host, server.port, **given)
            connection.connect()
            return connection, connection.sock.getpeercert(binary_form=True)

        before, seen = connected()
        assert seen == first
        key = (tmp_path / "tls.key").read_bytes()
        second = certificate(tmp_path, "second")
        right = (tmp_path / "tls.key").read_bytes()
        (tmp_path / "tls.key").write_bytes(key)  # of the other certificate
        hang_up(server, "were not reloaded")
        with closing(connected()[0]) as connection:
            assert connection.sock.getpeercert(binary_form=True) == first
        (tmp_path / "tls.key").write_bytes(right)
        hang_up(server, "settings were reloaded")
        with closing(connected()[0]) as connection:
            assert connection.sock.getpeercert(binary_form=True) == second
        with closing(before):  # goes on
            before.request("GET", "/healthz")
            assert before.getresponse().status == 200


def test_changed_alerts_are_told_to_the_new_receiver(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a secret of some length")
    monitors = '[monitors.default]\nrule = "rule.toml"\nledger = "ledger"\n'

    def text(url, more=""):
        return (
            f"[alerts]\nevery_seconds = 0.1\nno_decisions_seconds = 0\n{more}"
            f'[[alerts.receivers]]\nname = "hook"\nkind = "webhook"\nurl = "{url}"\n'
            'secret_file = "secret"\npause_seconds = 0.05\n'
        )

    one, two = Receiver(), Receiver()
    one.start()
    two.start()
    try:
        with serving(settings(tmp_path, text(one.url), monitors=monitors)) as server:
            settings(tmp_path, text("ftp://nowhere"), monitors=monitors)
            hang_up(server, "were not reloaded")
            settings(tmp_path, text(two.url), monitors=monitors)
            assert "a restart" not in hang_up(server, "settings were reloaded")
            server.post("observe", {"x": [1.0], "z": "a"})
            server.post("observe", {"x": [1.0], "z": "b"})
            end = time.monotonic() + SECONDS
            while not two.taken and time.monotonic() < end:
                time.sleep(0.02)
            assert two.taken and not one.taken
            settings(tmp_path, text(two.url, 'outbox = "other"\n'), monitors=monitors)
            assert "alerts.outbox" in hang_up(server, "settings were reloaded")
    finally:
        one.stop()
        two.stop()


@pytest.mark.long
def test_many_reloads_lose_no_decision(served):
    server, write, both = served
    for turn in range(30):
        write("".join(both[: 1 + turn % 2]))
        os.kill(server.process.pid, signal.SIGHUP)
        assert server.post("observe", {"x": [float(turn)], "z": "a"}).json()["row"] == turn


def test_a_revoked_token_ends_while_a_ledger_is_still_being_opened(tmp_path, tokens):
    both = [table(name, hashed) for name, (_, hashed) in zip("ab", tokens, strict=True)]
    monitors = MONITORS + '[monitors.held]\nrule = "rule.toml"\nledger = "held.ledger"\n'
    path = settings(tmp_path, "".join(both), monitors=monitors)
    other = tokens[1][0]
    with lw.open(tmp_path / "held.ledger", lw.Rule.load(tmp_path / "rule.toml")):
        server = started(path, ready=False, token=tokens[0][0])
        server.wait_for("being written")  # so it waits for the process that tests
        while server.get(token=other).status == 503:
            time.sleep(0.05)
        with events(server, other) as listening:
            settings(tmp_path, both[0] + "[limits]\nbatch_rows = 2\n", monitors=monitors)
            hang_up(server, "settings were reloaded")
            assert b"no longer allowed" in listening.read()
        assert server.get(token=other).status == 401
    try:
        server.wait_for("ready")
        server.name = "held"
        assert server.post("batch", {"x": [[1.0]] * 3, "z": ["a"] * 3}).status == 413
        assert server.end() == 0
    finally:
        server.kill()
