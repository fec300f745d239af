"""Budgeting: how teams stand to their budgets, by the draft of a month that is on record, else by the lake. An edge."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime

import pyarrow.compute as pc

from advisor.billing.budgets import store as budget_store
from advisor.billing.budgets.budget_status import Standing, currency_in, settled_standings, standings
from advisor.billing.budgets.forecast import daily, forecast_of
from advisor.billing.ledger import months
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.postings import owed
from cohabit.billing.draft import Progress
from cohabit.billing.preview import unkept_draft
from features.columnar.arrow_columns import micros
from ingest.lake.tables import Lake

HOURS = 24


def standings_of(of: Closing, period: str, lake: Callable[[], Lake], progress: Progress) -> tuple[Standing, ...]:
    """How every team that has a budget in a month stands.

    Args:
        of: months, in the store.
        period: month, as in 2026-11.
        lake: opens the lake; not asked for a month that is closed or being closed.
        progress: called day by day.

    Raises:
        Invalid: it is no month.
        AdvisorError: no price book applies in it.
        NotFound, Conflict: it cannot be billed as it was metered.
    """
    month, budgets = of.one(period), budget_store.budgets_of(of.engine, of.cluster, period)
    if month.draft is not None:
        return settled_standings(budgets, owed(month.draft.postings), month.draft.currency)
    books = book_store.books(of.engine)
    currency = currency_in(books, period)
    if not budgets:
        return ()
    opened = lake()
    hours = metered_hours(opened, of.cluster, period)
    if not hours:
        return standings(budgets, {}, {}, currency)
    draft = unkept_draft(opened, of.cluster, period, books=books, progress=progress)
    full = {day for day, count in hours.items() if count == HOURS}
    known = daily(draft.batches, full, budgets)
    foreseen = {team: forecast_of(days, period) for team, days in known.items()}
    forecasts = {team: one for team, one in foreseen.items() if one is not None}
    return standings(budgets, owed(draft.postings), forecasts, draft.currency)


def metered_hours(lake: Lake, cluster: str, period: str) -> Mapping[date, int]:
    """How many hours of each day of a month were metered; days without are left out."""
    rows = lake.read("pool_hours", *months.bounds(period), ["cluster", "hour"])
    hours = micros(pc.unique(rows.filter(pc.equal(rows["cluster"], cluster))["hour"]))
    return Counter(datetime.fromtimestamp(hour / 1e6, UTC).date() for hour in hours.tolist())
