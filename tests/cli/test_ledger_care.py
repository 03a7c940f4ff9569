"""`likewise backup`, `restore`, `migrate` and `verify --every`."""

import json
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import likewise as lw
from tests.support.commands import COMMAND, installed, likewise

RULE = lw.Rule(
    features={"age": lw.Feature("number", tolerance=5), "job": lw.Feature("category")},
    output_column="ok",
)


@pytest.fixture
def ledger(tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        monitor.observe({"age": 40, "job": "nurse", "ok": "yes"}, key="a")
        monitor.observe({"age": 48, "job": "nurse", "ok": "no"}, key="b")
    return tmp_path / "ledger"


@contextmanager
def running(*arguments):
    """The command while it runs; ended by its process at the latest."""
    words = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def told(*arguments, code=0):
    return json.loads(likewise(*arguments, "--json", code=code).stdout)


def test_a_ledger_is_copied_and_restored(ledger, tmp_path):
    done = likewise("backup", ledger, tmp_path / "copy").stdout
    assert done.startswith("2 decisions; 1 file of records copied; verified; likewise-head 2 2 ")
    again = told("backup", ledger, tmp_path / "copy")
    assert (again["rows"], again["copied"], again["unchanged"]) == (2, 1, 0)
    assert told("restore", tmp_path / "copy", tmp_path / "back")["head"] == again["head"]
    assert told("verify", tmp_path / "back", "--head", again["head"])["ok"]
    refused = likewise("restore", tmp_path / "copy", tmp_path / "back", code=3)
    assert "exists already" in refused.stderr


def test_show_names_the_rows_that_a_decision_was_compared_with(ledger):
    def compared(row):
        return likewise("show", ledger, row).stdout.splitlines()[1]

    with lw.open(ledger, RULE) as monitor:
        monitor.observe({"age": 41, "job": "nurse", "ok": "no"})
        monitor.load([{"age": 41, "job": "nurse", "ok": "no"}])
    assert compared(0) == "0 witnesses, compared with no row"
    assert compared(1) == "0 witnesses, compared with row 0"
    assert compared(2) == "1 witness, compared with rows 0 to 1"
    assert compared(3) == "not judged"


def test_show_says_that_an_empty_ledger_has_no_rows(tmp_path):
    with lw.open(tmp_path / "empty", RULE):
        pass
    said = likewise("show", tmp_path / "empty", "0", code=3).stderr
    assert "row 0 is not in this ledger, which has no rows." in said


def test_a_ledger_is_migrated_to_another_rule(ledger, tmp_path):
    wider = lw.Rule(
        features={
            "age": lw.Feature("number", tolerance=9),
            "job": lw.Feature("category"),
            "branch": lw.Feature("category"),
        },
        output_column="ok",
    )
    (tmp_path / "wider.toml").write_text(wider.to_toml())
    (tmp_path / "names.toml").write_text('[job]\nnurse = "carer"\n[ok]\nyes = "granted"\n')
    given = ["--rule", tmp_path / "wider.toml", "--rename", tmp_path / "names.toml"]
    refused = likewise("migrate", ledger, tmp_path / "new", *given, code=2).stderr
    assert "column 'branch' is new, and nothing says which value" in refused
    done = told("migrate", ledger, tmp_path / "new", *given, "--add", "branch=Graz")
    assert (done["rows"], done["judged_again"], done["omitted_records"]) == (2, True, {})
    with lw.Ledger(tmp_path / "new") as made, lw.Ledger(ledger) as before:
        assert made.values(1) == {"age": 48.0, "job": "carer", "branch": "Graz"}
        assert [entry.output for entry in made.entries()] == ["granted", "no"]
        assert [entry.count for entry in made.entries()] == [0, 1]
        assert [entry.count for entry in before.entries()] == [0, 0]
        assert done["head"] == str(before.head)
    copied = installed("migrate", ledger, tmp_path / "same").stdout
    assert copied.startswith("2 decisions copied as they are; made of likewise-head 2 2 ")


def test_names_that_a_migration_cannot_use_are_refused(ledger, tmp_path):
    names = tmp_path / "names.toml"
    for text, why in (
        ('[jobb]\nnurse = "carer"\n', "values of column 'jobb' are to be renamed"),
        ('[job]\nnurze = "carer"\n', "the nearest that it has are 'nurse'"),
    ):
        names.write_text(text)
        refused = likewise("migrate", ledger, tmp_path / "new", "--rename", names, code=2).stderr
        assert why in refused and "Nothing was written" in refused
    refused = likewise("migrate", ledger, tmp_path / "new", "--add", "branch=Graz", code=2).stderr
    assert "a value for column 'branch' is to be added" in refused
    assert not (tmp_path / "new").exists()


def test_names_of_values_that_are_no_text_are_renamed(tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        monitor.observe({"age": 40, "job": 3, "ok": 1})
        monitor.observe({"age": 48, "job": 4, "ok": 0})
    names = tmp_path / "names.toml"
    names.write_text('[output]\n1 = "yes"\n[ok]\n0 = "no"\n[job]\n3 = "cook"\n[age]\n48 = 50\n')
    told("migrate", tmp_path / "ledger", tmp_path / "new", "--rename", names)
    with lw.Ledger(tmp_path / "new") as made:
        assert [entry.output for entry in made.entries()] == ["yes", "no"]
        assert [made.values(row) for row in (0, 1)] == [
            {"age": 40.0, "job": "cook"},
            {"age": 50.0, "job": 4},
        ]


def test_verify_goes_on_until_something_is_altered(ledger):
    with running("verify", ledger, "--every", "1s") as program:
        assert program.stdout.readline().startswith("intact: 2 decisions")
        assert program.stdout.readline().startswith("intact: 2 decisions")
        name = next(ledger.glob("*.rows"))
        content = bytearray(name.read_bytes())
        content[3] ^= 1
        name.write_bytes(content)
        lines = program.stdout.read().splitlines()
        assert lines[-1].startswith("not verified: row 0: ")
        assert program.wait(30) == 3
    assert "is no time" in likewise("verify", ledger, "--every", "soon", code=2).stderr


def test_a_head_is_signed_and_the_signature_checked(ledger, tmp_path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    for name in ("mine", "other"):
        key = str(tmp_path / name)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key]
        subprocess.run(command, check=True)
    for name in ("mine", "other"):
        public = (tmp_path / f"{name}.pub").read_text()
        (tmp_path / f"{name}.signers").write_text(f"likewise {public}")
    file = tmp_path / "head.txt"
    told_ = told("head", ledger, "--out", file, "--sign", tmp_path / "mine")
    assert told_["signature"] == str(file) + ".sig"
    given = ["verify", ledger, "--head", file, "--signers"]
    assert likewise(*given, tmp_path / "mine.signers").stdout.startswith("intact: 2 decisions")
    refused = likewise(*given, tmp_path / "other.signers", code=3).stderr
    assert "ssh-keygen says" in refused
    file.write_text(file.read_text().replace("2 2", "2 1"))
    assert "ssh-keygen says" in likewise(*given, tmp_path / "mine.signers", code=3).stderr
    needs_file = installed("head", ledger, "--sign", tmp_path / "mine", code=2).stderr
    assert "say which, with --out" in needs_file


TSA = """
[tsa]
default_tsa = mine
[mine]
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
"""


def test_a_head_is_stamped_by_a_service_and_the_stamp_checked(ledger, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=likewise test", "-keyout", "tsa.key", "-out", "tsa.pem",
         "-addext", "extendedKeyUsage=critical,timeStamping"],
        check=True, capture_output=True, cwd=tmp_path,
    )  # fmt: skip
    (tmp_path / "serial").write_text("01")
    (tmp_path / "tsa.cnf").write_text(TSA.format(folder=tmp_path))

    class Service(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            (tmp_path / "asked.tsq").write_bytes(asked)
            command = ["openssl", "ts", "-reply", "-config", "tsa.cnf", "-queryfile", "asked.tsq"]
            answer = subprocess.run(command, check=True, capture_output=True, cwd=tmp_path).stdout
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    file = tmp_path / "head.txt"
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        made = told("head", ledger, "--out", file, "--timestamp", address)
        server.shutdown()
    assert made["timestamp"] == str(file) + ".tsr"
    given = ["verify", ledger, "--head", file, "--authority", tmp_path / "tsa.pem"]
    assert likewise(*given).stdout.startswith("intact: 2 decisions")
    file.write_text(file.read_text() + " ")
    assert "openssl says" in likewise(*given, code=3).stderr
    gone = likewise("head", ledger, "--out", file, "--timestamp", address, code=3).stderr
    assert "gives no time stamp" in gone
