"""What is in deploy/: as far as it can be checked without a container runtime or a cluster.

No image was built and no pod was run by these tests. They look at what must not slip: versions,
hashes, users, rights, and that settings in the manifests are settings that the service takes.
"""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from likewise.rule.rule import Rule
from likewise.service.settings import ServiceSettings
from likewise.version import __version__

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
KUBERNETES = "1.34.0"


def instructions():
    """The Dockerfile's instructions in order: (word, the rest)."""
    text = (DEPLOY / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    found = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(word, " ".join(rest.split())) for word, rest in found]


def documents(path):
    yaml = pytest.importorskip("yaml")
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def every(kind=None):
    found = [one for path in MANIFESTS for one in documents(path)]
    return [one for one in found if kind is None or one["kind"] == kind]


# The image


def test_the_base_is_a_version():
    (base,) = [rest for word, rest in instructions() if word == "ARG" and rest.startswith("BASE=")]
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", base)
    bases = [rest for word, rest in instructions() if word == "FROM"]
    assert bases == ["${BASE} AS build", "${BASE}"]


def test_packages_are_installed_by_their_hashes_only():
    runs = [rest for word, rest in instructions() if word == "RUN"]
    installs = [part for run in runs for part in run.split("&&") if "pip" in part]
    assert len(installs) == 4
    for one in installs:
        from_here = "--no-deps" in one and ("--no-index" in one or "--no-build-isolation" in one)
        assert "--require-hashes" in one or from_here, one
    for name in ("build", "serve"):
        pinned = (ROOT / "requirements" / f"{name}.txt").read_text()
        packages = re.findall(r"^([a-z0-9._-]+)==\S+.*\\$", pinned, re.MULTILINE)
        hashed = re.findall(r"^([a-z0-9._-]+)==[^\n]*\\\n    --hash=sha256:", pinned, re.MULTILINE)
        assert packages == hashed != []
        assert not re.search(r"^(?!#|    )(?!.*==)\S", pinned, re.MULTILINE)


def test_the_image_has_what_the_extra_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["serve"], *extras["cli"], *extras["apprise"]]
    names = {re.match(r"[\w.-]+", one)[0].replace(".", "-") for one in wanted} - {"likewise"}
    pinned = (ROOT / "requirements" / "serve.txt").read_text()
    found = set(re.findall(r"^([a-z0-9._-]+)==", pinned, re.MULTILINE))
    assert names <= found


def test_it_runs_as_a_number_and_says_what_it_is():
    words = instructions()
    last = max(i for i, (word, _) in enumerate(words) if word == "FROM")
    final = words[last:]
    (user,) = [rest for word, rest in final if word == "USER"]
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)
    assert final.index(("USER", user)) > max(
        i for i, (word, _) in enumerate(final) if word == "RUN"
    )
    (labels,) = [rest for word, rest in final if word == "LABEL"]
    for name in ("title", "version", "revision", "licenses"):
        assert f"org.opencontainers.image.{name}=" in labels
    assert ("ARG", f"VERSION={__version__}") in final
    assert ("VOLUME", "/data") in final
    entry = [json.loads(rest) for word, rest in final if word in ("ENTRYPOINT", "CMD")]
    assert entry == [["likewise"], ["serve", "/etc/likewise/service.toml"]]


def test_what_the_image_copies_is_not_left_out():
    """.dockerignore leaves out everything, then names what the Dockerfile copies."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    named = {line[1:] for line in lines if line.startswith("!")}
    copied = set()
    for word, rest in instructions():
        if word == "COPY" and "--from" not in rest:
            copied.update(rest.split()[:-1])
    assert "*" in lines
    assert copied == named
    assert all((ROOT / name).exists() for name in named)


# Kubernetes


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_is_what_kubernetes_takes(path):
    validate = pytest.importorskip("kubernetes_validate")
    kinds = [one["kind"] for one in documents(path)]
    assert kinds
    for one in documents(path):
        if one["kind"] != "Kustomization":  # a file of kubectl's, not of the cluster's
            validate.validate(one, KUBERNETES, strict=True)
    broken = {"apiVersion": "v1", "kind": "Service", "spec": {"no such field": 1}}
    with pytest.raises(validate.ValidationError):  # it does notice
        validate.validate(broken, KUBERNETES, strict=True)


def test_everything_is_in_the_kustomization_except_the_sidecar():
    (listed,) = every("Kustomization")
    names = {path.name for path in MANIFESTS} - {"kustomization.yaml", "sidecar.yaml"}
    assert set(listed["resources"]) == names


@pytest.mark.parametrize("name", ["likewise", "scoring"])
def test_pods_may_do_nothing_that_they_need_not(name):
    (deployment,) = [one for one in every("Deployment") if one["metadata"]["name"] == name]
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    pod = deployment["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (user,) = [rest for word, rest in instructions() if word == "USER"]
    assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" == user
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        closed = container["securityContext"]
        assert closed["allowPrivilegeEscalation"] is False
        assert closed["readOnlyRootFilesystem"] is True
        assert closed["capabilities"] == {"drop": ["ALL"]}
        assert not container["image"].endswith(":latest") and ":" in container["image"]


def test_the_sidecar_is_ready_before_the_model_and_outlives_it():
    (deployment,) = [one for one in every("Deployment") if one["metadata"]["name"] == "scoring"]
    (sidecar,) = deployment["spec"]["template"]["spec"]["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    assert "/readyz" in str(sidecar["startupProbe"])
    assert "/healthz" in str(sidecar["livenessProbe"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        compile(sidecar[probe]["exec"]["command"][2], probe, "exec")


def test_the_deployment_is_asked_whether_it_is_alive_and_ready():
    (deployment,) = [one for one in every("Deployment") if one["metadata"]["name"] == "likewise"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    (settings,) = [one for one in every("ConfigMap") if one["metadata"]["name"] == "likewise"]
    assert grace > tomllib.loads(settings["data"]["service.toml"])["server"]["drain_seconds"]


def test_settings_in_the_manifests_are_settings(tmp_path):
    maps = every("ConfigMap")
    assert len(maps) == 2
    for one in maps:
        told = ServiceSettings.from_tables(tomllib.loads(one["data"]["service.toml"]), tmp_path)
        told.resolve_alerts({})
        for served in told.monitors.values():
            assert served.ledger.is_relative_to("/data")
            Rule.from_toml(one["data"][served.rule.name])


# A root that cannot be written, as the image's and the unit's


def namespaces():
    """Whether this may make a file system of its own."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        return False
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return done.returncode == 0


READ_ONLY = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=0700 tmpfs "$1"
cp -r "$2/." "$1"
mount -o remount,bind,ro /
for one in /tmp /var/tmp /dev/shm; do
    if mountpoint -q $one; then mount -o remount,bind,ro $one; fi
done
if touch "$3/probe" 2>/dev/null; then echo "the root can be written" >&2; exit 9; fi
shift 3
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
"""


@pytest.mark.long
def test_it_serves_where_nothing_but_its_data_can_be_written(tmp_path):
    if not namespaces():
        pytest.skip("this process may not make a mount namespace")
    from tests.service.alerts.receivers import Server

    given, data = tmp_path / "given", tmp_path / "data"
    for one in (given, data):
        one.mkdir()
    (given / "rule.toml").write_text('metric = "linf"\nepsilon = 0.1\n')
    (given / "service.toml").write_text(
        '[monitors.loans]\nrule = "rule.toml"\nledger = "loans.ledger"\n[alerts]\nkeys = false\n'
    )
    before = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", data, given, ROOT]
    server = Server(data / "service.toml", before=map(str, before), PYTHONDONTWRITEBYTECODE="1")
    try:
        for z, violation in (("yes", False), ("no", True)):
            body = {"x": [0.5, 0.2], "z": z}
            status, answer = server.post("/v1/monitors/loans/observe?wait=durable", body)
            assert (status, answer["violation"]) == (200, violation)
        assert server.get("/v1/monitors/loans/alerts")[0] == 200
    finally:
        server.stop()


# systemd

UNIT = DEPLOY / "systemd" / "likewise.service"
MONITOR = '[monitors.loans]\nrule = "rule.toml"\nledger = "/var/lib/likewise/loans.ledger"\n'


@pytest.fixture
def unit(tmp_path):
    """The unit, with a command that is on this machine."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    text = UNIT.read_text()
    assert "/opt/likewise/bin/likewise" in text
    path = tmp_path / "likewise.service"
    path.write_text(text.replace("/opt/likewise/bin/likewise", sys.executable))
    return path


def analyzed(*arguments):
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_unit_is_one(unit):
    done = analyzed("verify", "--man=no", unit)
    assert done.returncode == 0, done.stderr
    assert "likewise.service" not in done.stderr


def test_the_unit_may_do_little(unit):
    """On systemd's own scale, from 0 (nothing) to 10 (everything)."""
    done = analyzed("security", "--offline=true", "--no-pager", unit)
    (level,) = re.findall(r"exposure level for likewise.service: ([\d.]+)", done.stdout)
    assert float(level) <= 1.5


DENY_WRITE_EXECUTE = """
import ctypes, os, sys
sys.exit(9) if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) else os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.long
def test_the_service_runs_where_no_memory_becomes_code(tmp_path):
    """As MemoryDenyWriteExecute has it, in the environment of the unit."""
    before = [sys.executable, "-c", DENY_WRITE_EXECUTE]
    if subprocess.run([*before, shutil.which("true")], check=False).returncode:
        pytest.skip("prctl has no PR_SET_MDWE here (Linux 6.3)")
    from tests.service.alerts.receivers import Server

    (line,) = re.findall(r"^Environment=(.*)$", UNIT.read_text(), re.MULTILINE)
    environment = dict(one.split("=", 1) for one in line.split())
    (tmp_path / "rule.toml").write_text('metric = "linf"\nepsilon = 0.1\n')
    (tmp_path / "service.toml").write_text('[monitors.loans]\nrule = "rule.toml"\n')
    server = Server(tmp_path / "service.toml", before=before, **environment)
    try:
        for z, violation in (("yes", False), ("no", True)):
            body = {"x": [0.5, 0.2], "z": z}
            status, answer = server.post("/v1/monitors/loans/observe", body)
            assert (status, answer["violation"]) == (200, violation)
    finally:
        server.stop()


@pytest.mark.long
@pytest.mark.parametrize("secret", [False, True])
def test_the_unit_starts_serves_and_stops(tmp_path, secret):
    """By systemd itself, whether or not the file of its credential is there."""
    if not namespaces() or not Path("/lib/systemd/systemd").exists():
        pytest.skip("no systemd can be started in namespaces here")
    units, etc = tmp_path / "units", tmp_path / "etc"
    for folder in (units, etc, tmp_path / "disk"):
        folder.mkdir()
    errors = "\n[Service]\nStandardError=append:/run/errors\n"
    (units / "likewise.service").write_text(UNIT.read_text() + errors)
    for name in ("sysinit", "basic", "shutdown"):
        (units / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    (units / "default.target").write_text("[Unit]\nRequires=likewise.service\n")
    (etc / "rule.toml").write_text('metric = "linf"\nepsilon = 0.1\n')
    alerts = ""
    if secret:
        (etc / "alerts.secret").write_text("0123456789abcdef\n")
        alerts = (
            "[alerts]\nkeys = false\n"
            '[[alerts.receivers]]\nname = "hook"\nkind = "webhook"\nurl = "http://127.0.0.1:9"\n'
            'secret_file = "/run/credentials/likewise.service/alerts"\n'
        )
    server = '[server]\nuds = "/run/likewise/socket"\n'
    (etc / "service.toml").write_text(server + MONITOR + alerts)
    boot, probe = (ROOT / "tests" / "deploy" / name for name in ("boot_unit.sh", "unit_probe.py"))
    python, packages = sys.base_prefix, sysconfig.get_path("purelib")
    done = subprocess.run(
        ["unshare", "--mount", "sh", boot, tmp_path, ROOT, python, packages, probe],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if not done.stdout:
        pytest.skip(f"systemd does not start in namespaces here: {done.stderr[-200:]}")
    found = json.loads(done.stdout)
    assert found["started"] == {"ActiveState": "active", "NRestarts": "0", "ExecMainStatus": "0"}
    assert found["first"][0] == found["batch"][0] == found["verified"][0] == 200, found
    assert found["batch"][1]["verdicts"][0]["violation"] is True
    assert found["stopped"] == {"Result": "success", "ExecMainStatus": "0"}
