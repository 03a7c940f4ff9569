"""TLS and credentials, as the clients take them: from files and the environment."""

import shutil
import subprocess
from contextlib import closing

import pytest

from likewise.errors import BadRule, Unreachable
from likewise.sources.address import parse_address
from likewise.sources.file_source import make_source, make_target
from tests.sources.streaming import bodies, decisions
from tests.support import brokers
from tests.support.brokers import broker, insist_on, wait_for
from tests.support.refusals import raises

pytestmark = pytest.mark.long


def first_of(address, count=1):
    """Records of a source that is read from its beginning."""
    with closing(make_source(address)[0]) as source:
        source.seek({})
        records = []

        def more():
            records.extend(source.poll(100, 0.2).records)
            return len(records) >= count

        wait_for(more, "the records", 20)
        return [one.body for one in records]


@pytest.fixture
def certificate(tmp_path):
    """Files of a certificate for loopback that signs itself."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    key, made = tmp_path / "tls.key", tmp_path / "tls.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", made,
         "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return made, key


class TlsRedis(brokers.Redis):
    """Listens with TLS only, and wants a password."""

    def __init__(self, folder, certificate):
        made, key = certificate
        self.tls = {"ssl": True, "ssl_ca_certs": str(made)}
        super().__init__(
            folder, "--tls-cert-file", str(made), "--tls-key-file", str(key),
            "--tls-ca-cert-file", str(made), "--tls-auth-clients", "no",
            "--requirepass", "hunter2",
        )  # fmt: skip

    def command(self):
        command = super().command()
        at = command.index("--port")
        return [*command[:at], "--port", "0", "--tls-port", *command[at + 1 :]]

    def client(self):
        return super().client(**self.tls, password="hunter2")


def has_tls(server):
    asked = subprocess.run(
        [server, "--tls-port", "x"], capture_output=True, text=True, timeout=60, check=False
    )
    return "Bad directive" not in asked.stdout + asked.stderr


def test_redis_over_tls_with_a_password_from_the_environment(tmp_path, certificate, monkeypatch):
    insist_on("redis")
    secure = next(filter(has_tls, brokers.redis_servers()), None)
    if secure is None:
        pytest.skip("every redis-server here was built without TLS")
    monkeypatch.setattr(brokers, "redis_server", lambda: secure)
    running = TlsRedis(tmp_path, certificate)
    try:
        running.publish(bodies(decisions(3)))
        monkeypatch.setenv("REDIS_PASSWORD", "hunter2")
        secure = running.address(ca_file=certificate[0], password_env="REDIS_PASSWORD")
        secure = secure.replace("redis://", "rediss://")
        assert first_of(secure, 3) == bodies(decisions(3))
        with closing(make_target(secure.replace("=decisions", "=verdicts"), "verdict")) as target:
            target.send([b'{"row": 0}'])
            assert target.read_last_line() == b'{"row": 0}'
        monkeypatch.setenv("REDIS_PASSWORD", "wrong")
        with raises(BadRule) as refused:
            first_of(secure)
        assert "wrong" not in str(refused.value)
        monkeypatch.setenv("REDIS_PASSWORD", "hunter2")
        plain = running.address(password_env="REDIS_PASSWORD")
        with pytest.raises(Unreachable):
            first_of(plain)
        unknown = secure.replace(f"&ca_file={certificate[0]}", "")
        with pytest.raises(Unreachable):  # nobody vouches for the certificate
            first_of(unknown)
    finally:
        running.close()


def test_nats_with_a_user_and_a_password_from_a_file(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("hunter2\n")
    monkeypatch.setattr(
        brokers.Nats,
        "command",
        lambda self, before=brokers.Nats.command: [
            *before(self), "--user", "ann", "--pass", "hunter2",
        ],
    )  # fmt: skip
    monkeypatch.setattr(brokers, "NATS_LOGIN", {"user": "ann", "password": "hunter2"})
    with broker("nats", tmp_path) as running:
        running.publish(bodies(decisions(3)))
        known = running.address(user="ann", password_file=tmp_path / "secret")
        assert first_of(known, 3) == bodies(decisions(3))
        (tmp_path / "secret").write_text("wrong\n")
        for address in (known, running.address()):
            with raises(BadRule) as refused:
                first_of(address)
            assert "wrong" not in str(refused.value)


def test_kafka_takes_settings_of_its_client_from_a_file(tmp_path):
    path = tmp_path / "client.properties"
    path.write_text("# ours\n\nclient.id = likewise\nsocket.keepalive.enable=true\n")
    with broker("kafka", tmp_path) as running:
        running.publish(bodies(decisions(3)))
        address = running.address(config_file=path)
        assert sorted(first_of(address, 3)) == bodies(decisions(3))
        path.write_text("no.such.setting = hunter2\n")
        with raises(BadRule) as refused:
            first_of(address)
        assert "hunter2" not in str(refused.value)
        path.write_text("nonsense\n")
        with raises(BadRule):
            first_of(address)


def test_client_that_is_not_installed_is_named(monkeypatch):
    import sys

    from likewise.sources import redis

    monkeypatch.setitem(sys.modules, "redis", None)
    with raises(BadRule):
        redis._connect(parse_address("redis://127.0.0.1?stream=a"))


def test_redis_needs_the_permissions_that_the_page_names(tmp_path):
    secret = tmp_path / "password"
    secret.write_text("hunter2")
    with broker("redis", tmp_path) as running:
        running.publish(bodies(decisions(3)))
        allowed = {
            "reader": ("+ping", "+xrange", "+xread", "+xinfo"),
            "writer": ("+eval", "+xadd", "+xrevrange"),
            "clerk": ("+xadd", "+xrevrange"),
        }
        with running.client() as client:
            for user, commands in allowed.items():
                client.execute_command("ACL", "SETUSER", user, "on", ">hunter2", "~*", *commands)
        login = f"user={{}}&password_file={secret}"
        place = f"redis://127.0.0.1:{running.port}?stream="
        assert first_of(f"{place}decisions&{login.format('reader')}", 3) == bodies(decisions(3))
        lines = [b"%d" % i for i in range(5000)]  # more than one script
        with closing(make_target(f"{place}told&{login.format('writer')}", "verdict")) as target:
            target.send(lines)
            assert target.read_last_line() == lines[-1]
        assert running.read("told", "verdict") == lines
        clerk = make_target(f"{place}told&{login.format('clerk')}", "verdict")
        with closing(clerk), raises(BadRule):  # for good: nobody tries again
            clerk.send(lines)
        with running.client() as client:
            assert client.xlen("told") == len(lines)
