"""`cohabit bill budget` and `budgets`: what teams mean to spend, and what they owe so far."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.cli.bill.close import Till, till
from cohabit.terminal.console import console
from cohabit.terminal.options import LakeOption, reports_errors, settings

if TYPE_CHECKING:
    from advisor.auth.audit_log import Entry
    from advisor.billing.budgets.budget_status import Standing

budget_app = typer.Typer()


@budget_app.command("budget")
@reports_errors
def budget_command(
    team: Annotated[str, typer.Option("--team", help="Account: a team, platform or unattributed.")],
    amount: Annotated[
        str, typer.Option("--amount", help="Amount a month, in the billing currency; 0 removes the budget.")
    ],
    warn: Annotated[str, typer.Option("--warn", help="Share of the budget at which a warning is sent.")] = "0.8",
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="YYYY-MM", help="First month; default: the current one."),
    ] = None,
) -> None:
    """Set a team's monthly budget, from a month on until its next budget begins.

    Budgets are not enforced: `cohabit bill budgets` shows their status, and --alert sends it to a webhook. Of several
    that begin in the same month the newest counts, and none is ever changed.
    """
    from advisor.billing.budgets import store as budget_store
    from advisor.billing.budgets.budget_status import Budget, amount_of, currency_in, warn_of
    from advisor.billing.ledger import price_book_store as book_store
    from cohabit.budgets.tables import budget_text
    from cohabit.terminal.console import money

    with till() as of:
        engine, cluster, period = of.closing.engine, of.closing.cluster, since or _this_month(of)
        currency = currency_in(book_store.books(engine), period)
        now_us, by = of.closing.now_us(), of.actor.who
        budget = Budget(cluster, team, amount_of(amount, currency), currency, warn_of(warn), period, now_us, by)
        outcome = f"{money(budget.amount_micros)} {currency} from {period}"
        budget_store.set_budget(engine, budget, _entry(of, "set budget", f"{cluster} {team}", outcome))
        every = budget_store.all_budgets(engine, cluster)
    later = sorted(one.since for one in every if one.team == team and one.since > period)
    console.print(budget_text(budget, later[0] if later else None), soft_wrap=True)


@budget_app.command("budgets")
@reports_errors
def budgets_command(
    month: Annotated[
        str | None, typer.Option("--month", metavar="YYYY-MM", help="Month; default: the current one.")
    ] = None,
    alert: Annotated[
        bool, typer.Option("--alert", help="Send new alerts to COHABIT_BUDGETS__WEBHOOK; print without.")
    ] = False,
    lake: LakeOption = None,
) -> None:
    """Show the status of budgets: charges so far, and a forecast of the month.

    A closed or closing month counts as it is; for an open month all metered hours are priced, and nothing is saved.
    Run it daily with --alert: it sends an alert when charges or forecast reach the warning share, and when charges
    exceed the budget, each once a month.
    """
    from cohabit.budgets.tables import show_standings

    with till() as of:
        period = month or _this_month(of)
        found = _standings(of, period, lake)
        if alert:
            _alert(of, period, found)
        else:
            show_standings(period, found)


def _standings(of: Till, period: str, lake: str | None) -> "tuple[Standing, ...]":
    from cohabit.budgets.budget_report import standings_of
    from cohabit.terminal.locations import existing_lake

    with console.status(f"billing {period}") as status:

        def progress(day: str, lines: int) -> None:
            status.update(f"billing {period}: {day}, {lines} lines")

        return standings_of(of.closing, period, lambda: existing_lake(settings(), lake), progress)


def _alert(of: Till, period: str, found: "tuple[Standing, ...]") -> None:
    from advisor.billing.budgets.store import ALERT
    from cohabit.budgets import alerts as budget_alerts
    from cohabit.budgets.tables import alert_text

    def entry(subject: str, outcome: str) -> "Entry":
        return _entry(of, ALERT, subject, outcome)

    def printed(one: "Standing") -> None:
        console.print(alert_text(one, period), soft_wrap=True)

    url = settings().budgets.webhook
    send = printed if url is None else budget_alerts.by_webhook(url, period)
    sent = budget_alerts.alert(of.closing.engine, period, found, send, entry)
    if url is not None or not sent:
        console.print(f"{sent} of {len(found)} budgets of {period} were sent as alerts; the others have nothing new")


def _entry(of: Till, action: str, subject: str, outcome: str) -> "Entry":
    from advisor.auth.audit_log import Entry

    return Entry(of.closing.now_us(), of.actor.who, of.actor.role, action, subject, outcome, of.actor.request_id)


def _this_month(of: Till) -> str:
    from advisor.billing.ledger.months import month_of

    return month_of(datetime.fromtimestamp(of.closing.now_us() / 1e6, UTC))
