"""GET /openapi.json: what can be asked, made from the types that bodies and answers have."""

import re
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from likewise.service.operations import Operation, Query
from likewise.service.wire import ErrorBody, encode
from likewise.version import __version__

if TYPE_CHECKING:
    from likewise.service.app import App

OPERATIONS = [
    Operation("GET", "/openapi.json", None, "This description", answers=dict[str, Any]),
    Operation("GET", "/healthz", None, "Whether the server is alive", answers=dict[str, Any]),
    Operation("GET", "/readyz", None, "Whether it can be asked", answers=dict[str, Any]),
]
_TYPES = {str: "string", int: "integer", float: "number"}
_REFUSALS = {
    "400": "The request makes no sense",
    "401": "No token, or one that is not known",
    "403": "The token does not allow it, or a page of another site asks",
    "404": "There is no such monitor or row",
    "408": "The body took too long to come",
    "409": "Another decision has the key",
    "410": "The decision with the key was erased",
    "413": "Too large",
    "415": "A kind of body that is not taken",
    "422": "A decision that cannot be compared; nothing was stored",
    "429": "Too much at once; see Retry-After",
    "503": "Not ready, full, or the disk refuses; see Retry-After",
}

_ROW = {"type": "integer", "minimum": 0}


def routes(app: "App") -> list[BaseRoute]:
    made: list[bytes] = []

    async def openapi(_: Request) -> Response:
        if not made:
            made.append(encode(description(app.operations)))
        return Response(made[0], media_type="application/json")

    return [Route("/openapi.json", openapi, methods=["GET"])]


def description(operations: list[Operation]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    types: list[Any] = [ErrorBody]
    for one in operations:
        types += [one.answers] if one.answers is not None else []
        types += [kind for kinds in one.takes.values() for kind in kinds]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    by_type = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "likewise",
            "version": __version__,
            "description": "Like cases, treated alike: judges decisions against all past ones.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(one: Operation, by_type: dict[int, Any]) -> dict[str, Any]:
    schema = {"type": "string"} if one.answers is None else by_type[id(one.answers)]
    answered = {"description": one.about, "content": {one.media: {"schema": schema}}}
    told: dict[str, Any] = {
        "summary": one.about,
        "operationId": _name(one),
        "parameters": _parameters(one),
        "responses": {str(one.status): answered},
    }
    if one.scope is None:
        told["responses"]["503"] = answered
    else:
        told["responses"] |= _refusals(by_type)
    if one.scope is not None:
        told["security"] = [{"token": []}, {}]
        told["x-scope"] = one.scope
    if one.takes:
        told["requestBody"] = {
            "required": True,
            "content": {
                media: {"schema": _one_of([by_type[id(kind)] for kind in kinds])}
                for media, kinds in one.takes.items()
            },
        }
    return told


def _one_of(schemas: list[Any]) -> dict[str, Any]:
    if not schemas:
        return {"type": "string"}
    found: dict[str, Any] = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return found


def _refusals(by_type: dict[int, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": by_type[id(ErrorBody)]}}
    return {
        status: {"description": about, "content": content} for status, about in _REFUSALS.items()
    }


def _parameters(one: Operation) -> list[dict[str, Any]]:
    places = re.findall(r"{(\w+)}", one.path)
    found: list[dict[str, Any]] = [
        {
            "name": place,
            "in": "path",
            "required": True,
            "schema": _ROW if place in ("row", "witness") else {"type": "string"},
        }
        for place in places
    ]
    return [
        *found,
        *(_parameter(query, "query") for query in one.queries),
        *(_parameter(header, "header") for header in one.headers),
    ]


def _parameter(query: Query, place: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _TYPES[query.kind]}
    if query.kind is not str:
        schema["minimum"] = 0
    if query.choices:
        schema["enum"] = list(query.choices)
    return {
        "name": query.name,
        "in": place,
        "required": query.required,
        "description": query.about,
        "schema": schema,
    }


def _name(one: Operation) -> str:
    words = [re.sub(r"[{}]", "", part).replace(".", "_") for part in one.path.split("/") if part]
    return "_".join([one.method.lower(), *words])
