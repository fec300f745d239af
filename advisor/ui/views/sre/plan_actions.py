"""Decisions on proposals: forms that name the version that was read, and redirect to the proposal."""

from collections.abc import Mapping
from typing import cast, get_args
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Request, Response
from starlette.responses import RedirectResponse

from advisor.api.http.roles import allowed
from advisor.api.v1.plans import Name
from advisor.errors import Invalid
from advisor.plans.export import As
from advisor.plans.issue import given_as, must_be
from advisor.plans.plan_service import DECIDERS, Office, opened
from advisor.ui.site.auth_middleware import Visit
from advisor.ui.views.sre.freeze import actor_of

STEP = "step-"
"""Before the number of a step, in the name of its box."""
MAX_DIGITS = 9


def deciding_pages(office: Office | None) -> APIRouter:
    """Routes of decisions."""
    router = APIRouter()

    @router.post("/ui/plans/{plan}/approve")
    @allowed(*DECIDERS)
    def approve(request: Request, plan: Name) -> Response:
        """Approve the selected steps, or all."""
        visit: Visit = request.state.visit
        at = opened(office)
        steps = None if visit.form.get("which") == "all" else chosen(visit.form)
        at.desk.approve(plan, seen(visit.form), steps, actor_of(at, visit), at.stale)
        return _to(plan)

    @router.post("/ui/plans/{plan}/reject")
    @allowed(*DECIDERS)
    def reject(request: Request, plan: Name) -> Response:
        """Reject the whole proposal."""
        visit: Visit = request.state.visit
        at = opened(office)
        at.desk.reject(plan, seen(visit.form), visit.form.get("reason", ""), actor_of(at, visit))
        return _to(plan)

    @router.post("/ui/plans/{plan}/export")
    @allowed(*DECIDERS)
    def export(request: Request, plan: Name) -> Response:
        """Export the proposal; its page then has the file."""
        visit: Visit = request.state.visit
        at, form = opened(office), _form(visit.form.get("form"))
        document = at.desk.export(plan, seen(visit.form), given_as(form), actor_of(at, visit))
        must_be(document, plan, form)
        return _to(plan)

    return router


def _form(text: str | None) -> As:
    if text not in get_args(As):
        raise HTTPException(422)
    return cast("As", text)


def seen(form: Mapping[str, str]) -> int:
    """The version that was read."""
    return _number(form.get("version", ""))


def chosen(form: Mapping[str, str]) -> frozenset[int]:
    """Steps that were ticked.

    Raises:
        Invalid: none was.
    """
    found = frozenset(_number(name.removeprefix(STEP)) for name in form if name.startswith(STEP))
    if not found:
        raise Invalid("no step is selected: select the steps to approve, approve all, or reject the proposal")
    return found


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise HTTPException(422)
    return int(text)


def _to(plan: str) -> Response:
    return RedirectResponse(f"/ui/plans/{quote(plan, safe='')}", 303)
