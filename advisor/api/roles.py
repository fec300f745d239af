"""Roles: every route says who may call it; an app with a route that does not is refused at start."""

from collections.abc import Callable
from typing import Literal, TypeVar

from fastapi import FastAPI
from starlette.routing import Route

from advisor.errors import RouteWithoutRole

Role = Literal["anyone", "scheduler", "sre", "finance", "planner", "admin", "team"]
F = TypeVar("F", bound=Callable[..., object])


def allowed(*roles: Role) -> Callable[[F], F]:
    """Declare who may call a route's function."""

    def declare(function: F) -> F:
        function.__dict__["roles"] = roles
        return function

    return declare


def roles_of(app: FastAPI) -> dict[str, tuple[Role, ...]]:
    """Who may call each path.

    Raises:
        RouteWithoutRole: a route does not say.
    """
    found: dict[str, tuple[Role, ...]] = {}
    for route in app.routes:
        roles = getattr(route.endpoint, "roles", ()) if isinstance(route, Route) else ()
        if not roles:
            raise RouteWithoutRole(getattr(route, "path", str(route)))
        found[getattr(route, "path", "")] = roles
    return found
