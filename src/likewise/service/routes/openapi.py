"""Describes all operations as OpenAPI, from the types of bodies and answers (/openapi.json)."""

import re
from typing import Any

import msgspec

from likewise.service.body_types import ErrorBody
from likewise.service.operations import Operation, RequestParameter
from likewise.service.routes.past_lookups import LOOKUPS
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE
from likewise.version import __version__

_TYPES = {str: "string", int: "integer", float: "number"}
_REFUSALS = {
    "400": "The request makes no sense",
    "401": "No token, or an unknown one",
    "403": "The token does not allow it, or a page of another site asks",
    "404": "There is no such monitor or row",
    "408": "The body took too long to come",
    "409": "Another decision has the key",
    "410": "The decision with the key was erased",
    "413": "Too large",
    "415": "This content type is not supported",
    "422": "A decision that cannot be compared; nothing was stored",
    "429": "Too many requests or decisions; see Retry-After",
    "503": "Not ready, full, or the disk refuses; see Retry-After",
}

_ROW = {"type": "integer", "minimum": 0}
_PATH_PARAMETERS = {"row": _ROW, "witness": _ROW, "look": {"type": "string", "enum": list(LOOKUPS)}}
"""Schemas of the parts of a path that are no names."""
_TAGS = {
    "observe": "decisions",
    "read": "history",
    "review": "reviews",
    "erase": "erasure",
    "admin": "administration",
    None: "service",
}
"""Groups of functions in generated clients, by the scope that a token needs."""
_BINARY = {"type": "string", "format": "binary"}
OPERATIONS = [Operation("GET", "/openapi.json", None, "This description", answers=dict[str, Any])]


def describe_api(operations: list[Operation]) -> dict[str, Any]:
    """Make an OpenAPI 3.1 document."""
    types: list[Any] = [ErrorBody]
    for one in operations:
        types += [one.answers] if one.answers is not None else []
        types += [kind for kinds in one.takes.values() for kind in kinds]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    schemas, components = _complete_schema(schemas), _complete_schema(components)
    by_type = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _describe_operation(one, by_type)
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


def _describe_operation(one: Operation, by_type: dict[int, Any]) -> dict[str, Any]:
    schema = {"type": "string"} if one.answers is None else by_type[id(one.answers)]
    answered = {"description": one.summary, "content": {one.media: {"schema": schema}}}
    takes = dict(one.takes)
    if one.exact and takes:
        takes[EXACT_CONTENT_TYPE] = ()
    described: dict[str, Any] = {
        "summary": one.summary,
        "operationId": _operation_id(one),
        "tags": ["pages" if one.path.startswith("/m/") else _TAGS[one.scope]],
        "parameters": _parameters(one),
        "responses": {str(one.status): answered},
    }
    if one.scope is None:
        described["responses"]["503"] = answered
    else:
        content = {"application/json": {"schema": by_type[id(ErrorBody)]}}
        for status, about in _REFUSALS.items():
            described["responses"][status] = {"description": about, "content": content}
        described["security"] = [{"token": []}, {}]
        described["x-scope"] = one.scope
    if one.exact:  # generators would take a second content for a union of the two types
        described["x-exact"] = EXACT_CONTENT_TYPE
    if one.also is not None:
        described["x-scope-or"] = one.also
    if takes:
        described["requestBody"] = {
            "required": True,
            "content": {
                media: {"schema": _one_of([by_type[id(kind)] for kind in kinds])}
                for media, kinds in takes.items()
            },
        }
    return described


def _one_of(schemas: list[Any]) -> dict[str, Any]:
    if not schemas:
        return _BINARY
    schema: dict[str, Any] = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return schema


def _parameters(one: Operation) -> list[dict[str, Any]]:
    in_path: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PATH_PARAMETERS.get(name, {"type": "string"}),
        }
        for name in re.findall(r"{(\w+)}", one.path)
    ]
    return [
        *in_path,
        *(_parameter(query, "query") for query in one.queries),
        *(_parameter(header, "header") for header in one.headers),
    ]


def _parameter(query: RequestParameter, place: str) -> dict[str, Any]:
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


def _operation_id(one: Operation) -> str:
    """Return the name of a function in generated clients: observe, get_verdicts, get_monitor."""
    words: list[str] = []
    for part in one.path.removesuffix(".json").split("/"):
        if not part.startswith("{"):
            words += [part] if part not in ("", "v1", "m") else []
        elif words and words[-1].endswith("s"):  # one of them
            words[-1] = words[-1][:-1]
        elif words:
            words.append(part[1:-1])
    words = words[1:] if words[0] == "monitor" and len(words) > 1 else words
    if one.method != "GET":
        return "_".join(reversed(words))
    return "_".join(["get", *words, *(["page"] if one.path.startswith("/m/") else [])])


def _complete_schema(schema: Any) -> Any:
    """Add `items` and `additionalProperties` where members may be anything, for generators.

    JSON Schema does not need them. Generators of clients refuse a list without `items`, and take
    an object without `additionalProperties` for one that is always empty. They take a field with a
    default for a required one, so defaults of null are left out.
    """
    if isinstance(schema, dict):
        schema = {
            name: _complete_schema(inner)
            for name, inner in schema.items()
            if (name, inner) != ("default", None)
        }
        if schema.get("type") == "array":
            schema.setdefault("items", {})
        if schema.get("type") == "object" and "properties" not in schema:
            schema.setdefault("additionalProperties", True)
    elif isinstance(schema, list | tuple):
        schema = [_complete_schema(one) for one in schema]
    return schema
