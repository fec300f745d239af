"""The pages of proposals: all of them, and one step by step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request, Response

from advisor.api.http.roles import allowed
from advisor.api.v1.plans import Name
from advisor.plans.listing import OnNode, all_shown, on_nodes, one_shown
from advisor.plans.plan_service import DECIDERS, NO_PLANS, READERS, Office, opened
from advisor.plans.rules.plan_record import ENDED, STATES, Decided, Proposal, Step, expected
from advisor.ui.site.intervals import WIDTH, Interval, intervals
from advisor.ui.site.paging import sheet
from advisor.ui.site.rendering import Pages, moment

ROWS = 50
Text = Annotated[str, Query(max_length=253)]
Number = Annotated[int, Query(ge=1, le=1_000_000)]
COMING = {
    "drafted": "Role sre approves steps or rejects the plan, until {until} UTC.",
    "approved": "Role sre exports it or rejects it, until {until} UTC.",
    "partly": "Role sre exports the approved steps or rejects the plan, until {until} UTC.",
    "exported": "The exported steps are carried out outside Cohabit, which never moves containers itself.",
    "confirmed": "Nothing: the outcome confirmed the prediction.",
    "refuted": "Nothing: the outcome refuted the prediction; later plans take that into account.",
    "rejected": "Nothing: the next plan takes the reason into account.",
    "expired": "Nothing: a new plan is drafted for remaining victims.",
}
"""Next action and its role, by state."""


@dataclass(frozen=True, slots=True)
class Saving:
    """What is saved in an hour, with its 90 % interval and how that is drawn."""

    mean: float
    low: float
    high: float
    drawn: Interval


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step as it is shown: what it saves, and what was decided on it."""

    step: Step
    saves: Saving
    decided: Decided


@dataclass(frozen=True, slots=True)
class NodeRow:
    """What a plan changes on a node, and how wide its bars are."""

    on: OnNode
    before: float
    after: float


def proposal_pages(pages: Pages, office: Office | None) -> APIRouter:
    """Routes of proposals."""
    router = APIRouter()

    @router.get("/ui/plans")
    @allowed(*READERS)
    def proposals(request: Request, state: Text = "", page: Number = 1) -> Response:
        """All proposals."""
        wanted = [known for known in STATES if known == state]
        found = [] if office is None else all_shown(office.desk, wanted)
        shown = sheet(found, page, ROWS)
        facts = {
            "lacking": NO_PLANS if office is None else "",
            "state": state,
            "states": STATES,
            "query": urlencode({"state": state}),
            "sheet": shown,
            "saves": savings([expected(one.standing) for one in shown.rows]),
        }
        partly = "hx-request" in request.headers
        return pages.page(request, "plans_table.html" if partly else "plans.html", facts)

    @router.get("/ui/plans/{plan}")
    @allowed(*READERS)
    def proposal(request: Request, plan: Name) -> Response:
        """One proposal."""
        desk = opened(office).desk
        one = one_shown(desk, plan)
        rows = step_rows(one)
        facts = {
            "one": one,
            "ended": one.state in ENDED,
            "coming": COMING[one.state].format(until=moment(one.plan.expires_us)),
            "saves": savings([expected(one.standing)])[0],
            "rows": [row for row in rows if row.step.number not in one.plan.holdout],
            "holdout": [row for row in rows if row.step.number in one.plan.holdout],
            "nodes": node_rows(one),
            "history": desk.history(one),
        }
        return pages.page(request, "plan.html", facts)

    router.include_router(_export_route(office))
    return router


def _export_route(office: Office | None) -> APIRouter:
    router = APIRouter()

    @router.get("/ui/plans/{plan}/export")
    @allowed(*DECIDERS)
    def exported(plan: Name) -> Response:
        """The export, as a file."""
        document = opened(office).desk.exported(plan)
        if document is None:
            raise HTTPException(404)
        headers = {"Content-Disposition": f'attachment; filename="{plan}.json"'}
        return Response(document, media_type="application/json", headers=headers)

    return router


def savings(values: Sequence[tuple[float, float, float]]) -> list[Saving]:
    """What is saved, all drawn on one scale."""
    return [Saving(*value, drawn) for value, drawn in zip(values, intervals(values), strict=True)]


def step_rows(of: Proposal) -> list[StepRow]:
    """Steps in the order in which they are carried out."""
    steps = sorted(of.plan.steps, key=lambda one: (one.round, one.number))
    saves = savings([(one.gain, one.low, one.high) for one in steps])
    decided = {one.number: one for one in of.decided}
    return [StepRow(step, saving, decided[step.number]) for step, saving in zip(steps, saves, strict=True)]


def node_rows(of: Proposal) -> list[NodeRow]:
    """What is changed on each node, what is spared most first, all drawn on one scale."""
    found = sorted(on_nodes(of), key=lambda one: one.after - one.before)
    scale = WIDTH / max([*(max(one.before, one.after) for one in found), 0.01])
    return [NodeRow(one, max(one.before, 0.0) * scale, max(one.after, 0.0) * scale) for one in found]
