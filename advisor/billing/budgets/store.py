"""Budgets in SQL: rows are only added, each with an audit entry; the audit also records alerts. An edge."""

from dataclasses import asdict, replace

from sqlalchemy import Engine, insert, select

from advisor.auth import audit_log as audit
from advisor.auth.audit_log import Entry
from advisor.billing.budgets.budget_status import Budget, Standing, budgets_in, refuse_wrong
from advisor.database.engine import BUDGETS, reading, writing

ALERT = "budget alert"
"""The action of audit rows that record an alert."""


def set_budget(engine: Engine, budget: Budget, entry: Entry) -> Budget:
    """Add a budget; the number in it is the store's to give.

    Returns:
        It, with its number.

    Raises:
        Invalid, AdvisorError: it cannot be set.
    """
    refuse_wrong(budget)
    row = {name: value for name, value in asdict(budget).items() if name != "number"}
    with writing(engine) as connection:
        key = connection.execute(insert(BUDGETS).values(**row | {"set_by": budget.set_by[:200]})).inserted_primary_key
        assert key is not None  # noqa: S101 - the column numbers itself
        audit.add(connection, entry)
    return replace(budget, number=int(key[0]))


def all_budgets(engine: Engine, cluster: str) -> list[Budget]:
    """All that were ever set for a cluster, in the order they were."""
    wanted = select(BUDGETS).where(BUDGETS.c.cluster == cluster).order_by(BUDGETS.c.id)
    with reading(engine) as connection:
        rows = connection.execute(wanted).mappings().all()
    return [Budget(**{name: value for name, value in row.items() if name != "id"}, number=row["id"]) for row in rows]


def budgets_of(engine: Engine, cluster: str, period: str) -> dict[str, Budget]:
    """Those that count in a month, by team; see advisor.billing.budgets.budget_status.budgets_in."""
    return budgets_in(all_budgets(engine, cluster), period)


def alerted(engine: Engine, budget: Budget, period: str) -> tuple[str, ...]:
    """States of a budget in a month with an alert, in that order."""
    start = f"{budget.number}: "
    with reading(engine) as connection:
        rows = audit.of_subject(connection, alert_subject(budget, period), 0)
    outcomes = (row.outcome for row in rows if row.action == ALERT and row.outcome.startswith(start))
    return tuple(outcome.removeprefix(start) for outcome in outcomes)


def remember_alert(engine: Engine, entry: Entry) -> None:
    """Record an alert."""
    with writing(engine) as connection:
        audit.add(connection, entry)


def alert_subject(budget: Budget, period: str) -> str:
    """What the audit calls a budget in a month."""
    return f"{period} {budget.team}"


def alert_outcome(of: Standing) -> str:
    """The audit's text for an alert; a budget's number identifies its cluster too."""
    return f"{of.budget.number}: {of.state}"
