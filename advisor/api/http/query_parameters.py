"""Query parameters: a misspelt one is refused, since a filter that is ignored answers another question."""

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError


def strict(routers: Sequence[APIRouter]) -> APIRouter:
    """The routes of some routers, which refuse query parameters that they do not have."""
    parent = APIRouter(dependencies=[Depends(refuse_unknown)])
    for router in routers:
        parent.include_router(router)
    return parent


def refuse_unknown(request: Request) -> None:
    """Nothing, where the route has every parameter of the query.

    Raises:
        RequestValidationError: it lacks one; the reply has status 422 and names those that there are.
    """
    known = sorted(set(_names(request.scope["route"].dependant)))
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        there = f"there are {', '.join(known)}" if known else "there are none"
        raise RequestValidationError([{"loc": ("query", unknown[0]), "msg": f"no such parameter; {there}"}])


def _names(dependant: Any) -> Iterator[str]:  # FastAPI's, which has no types
    yield from (parameter.alias for parameter in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _names(inner)
