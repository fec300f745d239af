"""Budget alerts: one alert for each team that nears or exceeds its budget. An edge.

An alert is recorded after it was sent: a crash in between sends it twice rather than never.
"""

from collections.abc import Callable, Sequence
from http.client import HTTPException

from sqlalchemy import Engine

from advisor.auth.audit_log import Entry
from advisor.billing.budgets import store as budget_store
from advisor.billing.budgets.budget_status import Standing, due
from cohabit.budgets.tables import alert_text
from cohabit.budgets.webhook import post
from cohabit.config.errors import CohabitError

Send = Callable[[Standing], None]


def alert(
    engine: Engine, period: str, found: Sequence[Standing], send: Send, entry: Callable[[str, str], Entry]
) -> int:
    """Send an alert for each budget whose state is worse than its last alert in that month.

    Args:
        engine: the store, which remembers it in the audit.
        period: month, as in 2026-11.
        found: how teams stand.
        send: delivers one; errors are reported, and it is sent again the next time.
        entry: for the audit, of a subject and an outcome.

    Returns:
        How many were sent.

    Raises:
        CohabitError: some could not be; all others were.
    """
    sent, failed = 0, dict[str, str]()
    for one in found:
        if not due(one.state, budget_store.alerted(engine, one.budget, period)):
            continue
        try:
            send(one)
        except (OSError, HTTPException, ValueError) as error:
            failed[one.budget.team] = str(error)
        else:
            subject, outcome = budget_store.alert_subject(one.budget, period), budget_store.alert_outcome(one)
            budget_store.remember_alert(engine, entry(subject, outcome))
            sent += 1
    if failed:
        failures = "; ".join(f"{team}: {why}" for team, why in failed.items())
        raise CohabitError(
            f"COHABIT_BUDGETS__WEBHOOK did not accept {len(failed)} budget alerts ({failures}); the next `cohabit bill "
            "budgets --alert` sends them again"
        )
    return sent


def by_webhook(url: str, period: str) -> Send:
    """Posts to a webhook: amounts in micro-units, and a sentence."""

    def send(one: Standing) -> None:
        ahead = one.forecast
        body = {
            "cluster": one.budget.cluster,
            "period": period,
            "team": one.budget.team,
            "state": one.state,
            "currency": one.currency,
            "budget_micros": one.budget.amount_micros,
            "owed_micros": one.owed_micros,
            "forecast_micros": ahead.micros if ahead else None,
            "forecast_low_micros": ahead.low_micros if ahead else None,
            "forecast_high_micros": ahead.high_micros if ahead else None,
            "text": alert_text(one, period),
        }
        post(url, body)

    return send
