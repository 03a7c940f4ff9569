"""/openapi.json says what the server does: every route, every answer, every scope."""

import json

import msgspec
import pytest
from starlette.routing import Route

from likewise.service import body_types
from likewise.service.app import App
from likewise.service.routes.openapi import describe_api
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, ServerSettings, ServiceSettings
from likewise.service.tokens import new_token
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE
from likewise.verdict.verdict_body import VerdictBody
from tests.support.serving import serving, settings

SCOPES = ("observe", "read", "review", "erase", "admin")


def an_app():
    served = ServiceSettings(
        {"default": MonitorSettings(rule="rule.toml")}, ServerSettings(), Limits()
    )
    return App(Service(served))


def test_description_is_valid_openapi():
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(json.loads(body_types.encode(describe_api(an_app().operations))))


def test_description_says_what_generators_of_clients_need():
    told = json.loads(body_types.encode(describe_api(an_app().operations)))
    assert '"default":null' not in json.dumps(told, separators=(",", ":"))

    def check(schema):
        if isinstance(schema, dict):
            if schema.get("type") == "array":
                assert "items" in schema or "prefixItems" in schema
            if schema.get("type") == "object":
                assert "properties" in schema or "additionalProperties" in schema
        for one in schema.values() if isinstance(schema, dict) else schema:
            if isinstance(one, dict | list):
                check(one)

    check(told)
    each = [one for methods in told["paths"].values() for one in methods.values()]
    names = [one["operationId"] for one in each]
    assert len(set(names)) == len(names) and {"observe", "batch", "check"} <= set(names)
    assert all(len(one["tags"]) == 1 for one in each)


def test_every_route_is_described_and_nothing_else():
    app = an_app()
    there = {
        (method, route.path.removesuffix("{slashes:path}"))
        for route in app._router.routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    hot = {("POST", f"/v1/monitors/{{name}}/{verb}") for verb in (*app._hot_routes, "stream")}
    described = {(one.method, one.path) for one in app.operations}
    assert described == there | hot
    assert {(one.method, one.path) for one in app.operations if one.hot} == hot


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with two monitors, a token for each scope, and one for the other monitor."""
    folder = tmp_path_factory.mktemp("guarded")
    secrets, text = {}, "[limits]\nbody_seconds = 5\nbatch_rows = 1000\n"
    for name, scopes, monitors in (
        *((scope, [scope], None) for scope in SCOPES),
        ("other", ["admin"], ["other"]),
    ):
        secrets[name], hashed = new_token()
        text += f'[[tokens]]\nname = "{name}"\nhash = "{hashed}"\nscopes = {json.dumps(scopes)}\n'
        text += "" if monitors is None else f"monitors = {json.dumps(monitors)}\n"
    monitors = (
        '[monitors.default]\nrule = "rule.toml"\nledger = "ledger"\n'
        '[monitors.other]\nrule = "rule.toml"\n'
    )
    with serving(settings(folder, text, monitors=monitors)) as running:
        running.secrets = secrets
        running.description = running.ask("GET", "/openapi.json").json()
        yield running


def operations(server):
    for path, methods in server.description["paths"].items():
        for method, operation in methods.items():
            where = (
                path.replace("{name}", "default")
                .replace("{row}", "0")
                .replace("{id}", "none")
                .replace("{look}", "outputs")
            )
            yield method.upper(), where, operation


def test_every_route_refuses_strangers_the_wrong_scope_and_tokens_of_other_monitors(guarded):
    open_to_all = {"/healthz", "/readyz", "/openapi.json"}
    seen = 0
    for method, path, operation in operations(guarded):
        scope = operation.get("x-scope")
        if scope is None:
            assert path in open_to_all, f"{path} needs no token"
            continue
        seen += 1
        body = b"{}" if method == "POST" else None
        stranger = guarded.ask(method, path, body)
        assert stranger.status == 401, path
        assert stranger.headers["content-type"] == "application/json"
        assert guarded.ask(method, path, body, token="lw_guessed").status == 401, path
        for name in SCOPES:
            if name in (scope, "admin"):
                continue
            if name == operation.get("x-scope-or"):
                allowed = guarded.ask(method, path, body, token=guarded.secrets[name])
                assert allowed.status == 200, (path, name)
                continue
            refused = guarded.ask(method, path, body, token=guarded.secrets[name])
            assert refused.status == 403, (path, name)
        if "default" in path:
            refused = guarded.ask(method, path, body, token=guarded.secrets["other"])
            assert refused.status == 403, path
            unknown = path.replace("default", "unknown")  # whether it is there is not told
            token = guarded.secrets["other"]
            assert guarded.ask(method, unknown, body, token=token).status == 403, path
    assert seen >= 14
    listed = guarded.ask("GET", "/v1/monitors", token=guarded.secrets["other"]).json()
    assert listed == {"monitors": ["other"]}


def test_answers_have_the_types_that_are_described(guarded, monkeypatch):
    monkeypatch.setattr(guarded, "token", guarded.secrets["admin"])
    guarded.post("observe", {"x": [1.0], "z": "a", "key": "one", "model": "m"})
    answers = {
        VerdictBody: guarded.post("observe", {"x": [1.0], "z": "b", "key": "two"}),
        body_types.BatchBody: guarded.post("batch", {"x": [[1.0]] * 2, "z": ["a", "c"]}),
        body_types.MonitorBody: guarded.get(),
        body_types.PageBody: guarded.get("verdicts"),
        body_types.DecisionDetailsBody: guarded.get("decisions/1"),
        body_types.StatsBody: guarded.get("stats"),
        body_types.HeadBody: guarded.get("head"),
        body_types.VerifiedBody: guarded.post("verify", {}),
        body_types.ErrorBody: guarded.post("observe", {"x": [1.0]}),
    }
    for kind, answer in answers.items():
        value = msgspec.json.decode(answer.body, type=kind, strict=True)
        extra = set(answer.json()) - {one.name for one in msgspec.inspect.type_info(kind).fields}
        assert not extra, f"{kind.__name__} does not know {extra}"
        assert value is not None


def explored(guarded, examples, seconds):
    """What schemathesis finds, with an example of everything that the description allows."""
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given
    from hypothesis import settings as hypothesis_settings
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    @schemathesis.serializer(
        "application/x-ndjson",
        "application/vnd.apache.arrow.stream",
        "application/cloudevents+json",
        "application/cloudevents-batch+json",
        EXACT_CONTENT_TYPE,
    )
    def as_it_is(_, value):
        return value if isinstance(value, bytes) else str(value).encode(errors="replace")

    schema = schemathesis.openapi.from_dict(guarded.description)
    schema.config.update(base_url=guarded.url)
    schema.config.generation.update(modes=list(schemathesis.GenerationMode))
    checks = (
        not_a_server_error,
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )
    made = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events"):  # which never ends
            continue

        @hypothesis_settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.generate),
        )
        @given(case=operation.as_strategy())
        def run(case):
            nonlocal made
            made += 1
            if "name" in (case.path_parameters or {}) and made % 4:
                case.path_parameters["name"] = ("default", "other")[made % 2]
            headers = {"Authorization": f"Bearer {guarded.secrets['admin']}"}
            response = case.call(headers=headers, timeout=seconds)
            if response.status_code in (404, 405) and "name" in (case.path_parameters or {}):
                return  # a path that a name with a slash leads to
            case.validate_response(response, checks=list(checks))

        run()
    return made


@pytest.mark.long
def test_schemathesis_finds_no_fault(guarded):
    assert explored(guarded, examples=5, seconds=30) > 50


@pytest.mark.slow
def test_schemathesis_finds_no_fault_in_many_examples(guarded):
    assert explored(guarded, examples=400, seconds=30) > 3000
