"""Roles: every route says who may call it; an app with a route that does not is refused at start."""

from collections.abc import Callable
from typing import Literal, TypeVar

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import Route

from advisor.auth.api_tokens import TokenRole
from advisor.errors import AdvisorError

Role = Literal["anyone"] | TokenRole
F = TypeVar("F", bound=Callable[..., object])


def allowed(*roles: Role) -> Callable[[F], F]:
    """Declare who may call a route's function."""

    def declare(function: F) -> F:
        function.__dict__["roles"] = roles
        return function

    return declare


def roles_of(app: FastAPI) -> dict[str, tuple[Role, ...]]:
    """Who may call each method and path, as in "GET /healthz".

    Raises:
        AdvisorError: a route does not say.
    """
    found: dict[str, tuple[Role, ...]] = {}
    for context in iter_route_contexts(app.routes):
        path = context.path or repr(context.route)
        roles = getattr(context.endpoint, "roles", ()) if isinstance(context.original_route, Route) else ()
        if not roles:
            raise AdvisorError(f"route {path} declares no role: decorate its function with @allowed(...)")
        found |= {f"{method} {path}": roles for method in context.methods or ()}
    return found
