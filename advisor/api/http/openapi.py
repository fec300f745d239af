"""Described: the interface as OpenAPI, with every status that a route answers.

The framework describes its own routes. Routes that are separate applications declare the types of their bodies in
`asks` for requests and `returns` for replies, and in `empty` the status without body.
"""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from pydantic import Field

from advisor.api.http.base_schema import Body

F = TypeVar("F", bound=Callable[..., object])
Json = dict[str, Any]
"""A piece of a JSON document."""

WHY = {
    400: "The body cannot be parsed: not JSON, truncated, nested too deeply, or of wrong types",
    401: "Token missing, invalid, expired or revoked",
    403: "Role not allowed for this route",
    404: "Unknown name, or no data yet",
    408: "Body not received in time",
    409: "Changed since it was read, or its state does not allow the action",
    413: "Body larger than the limit",
    422: "Invalid value, with its location",
    423: "Change freeze, or outside the change windows",
    429: "Too many requests of one client; retry after the time in Retry-After",
    503: "Too many requests in flight, or a dependency is unavailable",
}
AT_THE_GATE = (401, 403, 429, 503)
COMPONENTS = "#/components/schemas/{name}"
TOKEN = "token"  # noqa: S105 - its name in the description
SECURITY = {TOKEN: {"type": "http", "scheme": "bearer", "description": "From `cohabit admin token create`"}}


class ErrorReply(Body):
    """Reason of an error."""

    error: str = Field(description="One sentence with the remedy; of the request it repeats only node names.")


def refusals(*statuses: int) -> dict[int | str, Json]:
    """Replies of a route besides the successful one: as text, since the framework compiles each model again."""
    return {status: _refusal(status) for status in statuses}


def telling(kind: type) -> Callable[[F], F]:
    """Declare of which type the body of a route's reply is, where its function gives bytes."""

    def declare(function: F) -> F:
        function.__dict__["returns"] = kind
        return function

    return declare


def described(app: FastAPI, doors: Mapping[str, Collection[str]] | None) -> Json:
    """The interface as OpenAPI.

    Args:
        app: routes and what they say of themselves.
        doors: who may use each, as in "GET /healthz"; None where no token is required.
    """
    found: Json = dict(app.openapi())
    own = {ErrorReply.__name__: ErrorReply.model_json_schema()}
    schemas = found.get("components", {}).get("schemas", {}) | own
    components: Json = {"schemas": dict(sorted(schemas.items()))}
    paths: Json = {path: dict(methods) for path, methods in found["paths"].items()}
    for path, method, endpoint in _endpoints(app):
        if not inspect.isroutine(endpoint):
            paths.setdefault(path, {})[method] = {"description": inspect.getdoc(endpoint), "responses": {}}
        if path in paths:
            paths[path][method] = _with_types(paths[path][method], endpoint, components["schemas"])
    if doors is not None:
        components["securitySchemes"] = SECURITY
        paths = {
            path: {m: _guarded(of, doors[f"{m.upper()} {path}"]) for m, of in ms.items()} for path, ms in paths.items()
        }
    return {**found, "paths": paths, "components": components}


def _endpoints(app: FastAPI) -> Iterator[tuple[str, str, object]]:
    for context in iter_route_contexts(app.routes):
        for method in context.methods or ():
            yield context.path or "", method.lower(), context.endpoint


def _with_types(operation: Json, endpoint: object, schemas: Json) -> Json:
    """An operation with the types that its endpoint declares; their parts are added to the schemas."""
    asks, returns = getattr(endpoint, "asks", None), getattr(endpoint, "returns", None)
    added, responses = dict(operation), dict(operation["responses"])
    if asks is not None:
        added["requestBody"] = {"required": True, "content": _content(asks, schemas)}
        responses |= {str(status): _refusal(status) for status in (400, 408, 413)}
    if (taken := getattr(endpoint, "empty", None)) is not None:
        responses[str(taken)] = {"description": "Accepted, without a body"}
    if returns is not None:
        responses["200"] = {"description": "The answer", "content": _content(returns, schemas)}
    return {**added, "responses": responses}


def _guarded(operation: Json, roles: Collection[str]) -> Json:
    """An operation with what the gate answers, where it asks for a token."""
    if "anyone" in roles:
        return operation
    refused = {str(status): _refusal(status) for status in AT_THE_GATE}
    return {**operation, "security": [{TOKEN: []}], "responses": {**refused, **operation["responses"]}}


def _refusal(status: int) -> Json:
    content = {"application/json": {"schema": {"$ref": COMPONENTS.format(name=ErrorReply.__name__)}}}
    return {"description": WHY[status], "content": content}


def _content(kind: type, schemas: Json) -> Json:
    [schema], parts = msgspec.json.schema_components([kind], ref_template=COMPONENTS)
    schemas |= parts
    return {"application/json": {"schema": schema}}
