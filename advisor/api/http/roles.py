"""Roles: every route says who may call it; an app with a route that does not is refused at start."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from re import Pattern
from typing import Literal, TypeVar

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import Route, compile_path

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


@dataclass(frozen=True, slots=True)
class Door:
    """A route, and who may use it."""

    method: str
    path: str
    pattern: Pattern[str]
    roles: frozenset[str]

    @property
    def name(self) -> str:
        """As roles_of spells it; no part of a request."""
        return f"{self.method} {self.path}"


def doors_of(roles: Mapping[str, Collection[str]]) -> tuple[Door, ...]:
    """The routes of an application, with the roles from roles_of."""
    doors = []
    for name, who in roles.items():
        method, _, path = name.partition(" ")
        doors.append(Door(method, path, compile_path(path)[0], frozenset(who)))
    return tuple(doors)
