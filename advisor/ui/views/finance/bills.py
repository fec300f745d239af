"""The pages of bills: months, one by account, a team by container, and a container hour by hour."""

import json
import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Annotated, Any
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse, StreamingResponse

from advisor.api.http.roles import allowed
from advisor.auth.principal import Caller
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.breakdown import Account, idle_by_cause
from advisor.billing.ledger.closing_checks import checks_of
from advisor.billing.ledger.drafts import Draft, seen_sentence
from advisor.billing.ledger.periods import Period
from advisor.billing.ledger.spreadsheet_safe import as_text
from advisor.billing.quotes.dependencies import BILLED, NO_BILLS, BillOffice, no_statement, opened_bills, own_account
from advisor.ui.site.auth_middleware import Visit
from advisor.ui.site.paging import sheet
from advisor.ui.site.rendering import Pages

ROWS = 100
MAX_DRAWN = 20
"""Accounts in the chart."""
NO_CONTAINER = "without a container"
Account_ = Annotated[str, Query(min_length=1, max_length=200)]
Container = Annotated[str | None, Query(min_length=1, max_length=253)]
Number = Annotated[int, Query(ge=1, le=1_000_000)]


def bill_pages(pages: Pages, bills: BillOffice | None) -> APIRouter:
    """Routes that read bills."""
    router = APIRouter()
    router.include_router(_of_all(pages, bills))
    router.include_router(_of_one(pages, bills))
    return router


def _of_all(pages: Pages, bills: BillOffice | None) -> APIRouter:
    """Months, and one by account."""
    router = APIRouter()

    @router.get("/ui/bills")
    @allowed(*BILLED)
    def months(request: Request) -> Response:
        """Closed and closing months."""
        found, team = list[Period](), own_account(caller_of(request))
        if bills is not None:
            every = ledger_store.periods(bills.closing.engine, bills.closing.cluster)
            found = [one for one in every if team is None or one.state == "closed"]
        facts = {"lacking": "" if bills is not None else NO_BILLS, "months": found, "team": team}
        return pages.page(request, "bills.html", facts)

    @router.get("/ui/bills/{period}")
    @allowed(*BILLED)
    def month(request: Request, period: str) -> Response:
        """A month by account; role team is redirected to its own account."""
        team = own_account(caller_of(request))
        if team is not None:
            return RedirectResponse(f"/ui/bills/{period}/team?{urlencode({'team': team})}", 303)
        at = opened_bills(bills)
        found = at.closing.one(period)
        if found.draft is None:
            raise no_statement(period)
        facts = _month(at, found, at.billed(period, None)[1]) | {"budgets": at.standings(period, None)[1]}
        return pages.page(request, "bill_month.html", facts)

    return router


def _of_one(pages: Pages, bills: BillOffice | None) -> APIRouter:
    """What one account owes, as pages and as a file."""
    router = APIRouter()

    @router.get("/ui/bills/{period}/team")
    @allowed(*BILLED)
    def of_team(request: Request, period: str, team: Account_, page: Number = 1) -> Response:
        """Charges of one account, by container."""
        at = opened_bills(bills)
        found, account = at.account(period, team, caller_of(request))
        draft = _draft(found)
        table = at.drilling.containers(draft.batches, team)
        shown = sheet(range(table.num_rows), page, ROWS)
        facts = {
            "month": found,
            "currency": draft.currency,
            "account": account,
            "budgets": [one for one in at.standings(period, caller_of(request))[1] if one.budget.team == team],
            "paid": ledger_store.paid(at.closing.engine, at.closing.cluster, period).get(team),
            "sheet": shown,
            "seen": seen_sentence([one for one in draft.seen if one.account == team]) if draft.seen else "",
            "rows": table.slice(shown.rows.start, len(shown.rows)).to_pylist(),  # type: ignore[attr-defined]
            "query": urlencode({"team": team}),
        }
        return pages.page(request, "bill_team.html", facts)

    router.include_router(_container_routes(pages, bills))
    return router


def _container_routes(pages: Pages, bills: BillOffice | None) -> APIRouter:
    """What one container owes, as a page, and all lines of its account, as a file."""
    router = APIRouter()

    @router.get("/ui/bills/{period}/container")
    @allowed(*BILLED)
    def of_container(
        request: Request, period: str, team: Account_, container: Container = None, page: Number = 1
    ) -> Response:
        """What one container owes, hour by hour; without one, records of no container, such as surcharges."""
        at = opened_bills(bills)
        found, _ = at.account(period, team, caller_of(request))
        draft = _draft(found)
        table = at.drilling.hours(draft.batches, team, container)
        if not table.num_rows:
            raise no_statement(period, container or team)
        shown = sheet(range(table.num_rows), page, ROWS)
        facts = {
            "month": found,
            "currency": draft.currency,
            "team": team,
            "container": container or NO_CONTAINER,
            "owed_micros": pc.sum(table["amount_micros"]).as_py(),
            "sheet": shown,
            "rows": [_with_facts(row) for row in table.slice(shown.rows.start, len(shown.rows)).to_pylist()],  # type: ignore[attr-defined]
            "team_query": urlencode({"team": team}),
            "query": urlencode({"team": team} | ({"container": container} if container else {})),
        }
        return pages.page(request, "bill_container.html", facts)

    @router.get("/ui/bills/{period}/lines.csv")
    @allowed(*BILLED)
    def lines(request: Request, period: str, team: Account_) -> Response:
        """All charge records of an account, as a file; streamed."""
        at = opened_bills(bills)
        found, _ = at.account(period, team, caller_of(request))
        name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{period}-{team}")
        headers = {"Content-Disposition": f'attachment; filename="statement-{name}.csv"'}
        chunks = csv_of(at.drilling.lines(_draft(found).batches, team))
        return StreamingResponse(chunks, media_type="text/csv; charset=utf-8", headers=headers)

    return router


def _with_facts(row: dict[str, Any]) -> dict[str, Any]:
    """A line, and what else it was worked out from, one by one."""
    return row | {"facts": json.loads(row["evidence"] or "{}")}


def csv_of(tables: Iterator[pa.Table]) -> Iterator[bytes]:
    """Tables as one CSV, with one head, piece by piece."""
    head = True
    for table in tables:
        out = BytesIO()
        pyarrow.csv.write_csv(as_text(table), out, pyarrow.csv.WriteOptions(include_header=head))
        yield out.getvalue()
        head = False


def caller_of(request: Request) -> Caller | None:
    """Who looks."""
    visit: Visit = request.state.visit
    return visit.visitor.caller if visit.visitor else None


def _draft(found: Period) -> Draft:
    assert found.draft is not None  # noqa: S101 - a month without has no statement
    return found.draft


def _month(at: BillOffice, found: Period, accounts: Sequence[Account]) -> dict[str, object]:
    """What the page of a month shows."""
    draft, engine, cluster = _draft(found), at.closing.engine, at.closing.cluster
    owed = sorted(accounts, key=lambda one: (-one.owed_micros, one.name))
    checks = checks_of(draft, at.drilling.missing(draft.batches), ledger_store.total(engine, cluster))
    return {
        "month": found,
        "currency": draft.currency,
        "accounts": owed,
        "drawn": min(len(owed), MAX_DRAWN),
        "kinds": sorted({kind for one in accounts for kind in one.by_kind}),
        "total_micros": sum(one.owed_micros for one in accounts),
        "idle": (idle := idle_by_cause(accounts)),
        "idle_micros": sum(idle.values()),
        "paid": ledger_store.paid(engine, cluster, found.period),
        "corrected": sorted({batch.about for batch in draft.batches if batch.about != found.period}),
        "checks": checks,
        "fine": all(one.fine for one in checks),
    }
