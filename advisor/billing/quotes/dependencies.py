"""Bill office: dependencies for showing and deciding on bills, and who may see which. Facts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from advisor.auth.api_tokens import TokenRole
from advisor.auth.audit_log import Entry
from advisor.auth.principal import Caller
from advisor.billing.budgets import store as budget_store
from advisor.billing.budgets.budget_status import Standing, settled_standings
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.breakdown import Account, accounts_of
from advisor.billing.ledger.breakdown_reader import Drilling
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.periods import Period
from advisor.billing.ledger.postings import owed
from advisor.billing.lines.accounts import account_of
from advisor.billing.quotes.errors import NoLakeToQuote
from advisor.billing.quotes.hourly_inputs import Newest
from advisor.errors import Forbidden, NotFound, Unavailable
from advisor.plans.plan_service import Actor

KEEPERS: tuple[TokenRole, ...] = ("finance", "admin")
"""Who closes months and edits prices."""
SEE_ALL: tuple[TokenRole, ...] = (*KEEPERS, "planner")
"""Who sees all bills and asks for cost estimates."""
BILLED: tuple[TokenRole, ...] = (*SEE_ALL, "team")
"""Who sees bills; role `team` what its own team owes for closed months, and nothing else."""

NO_BILLS = "this server has no bills: create their tables with `cohabit admin database migrate`, then restart it"


def _new_id() -> str:
    return token_hex(8)


def no_hour() -> Newest:
    """What was metered, where no lake is read.

    Raises:
        NoLakeToQuote: always.
    """
    raise NoLakeToQuote("this server has no lake; set COHABIT_LAKE and restart it")


@dataclass(frozen=True)
class BillOffice:
    """Where bills are kept.

    Args:
        closing: months of the cluster, in the store.
        lines: folder of billed lines.
        local: name of the approver where authentication is off.
        new_id: makes the name of an event, by which the reply and the audit call it.
        newest: the newest metered hour, by which containers are quoted.
    """

    closing: Closing
    lines: Path
    local: Caller = field(default_factory=lambda: Caller("local", frozenset({"admin"})))
    new_id: Callable[[], str] = _new_id
    newest: Callable[[], Newest] = no_hour
    drilling: Drilling = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "drilling", Drilling(self.lines))

    def actor(self, caller: Caller | None) -> Actor:
        """Name of the approver in the audit; None is any client of an open listener."""
        who = caller or self.local
        return Actor(who.name, "admin" if "admin" in who.roles else "finance", self.new_id())

    def entry(self, actor: Actor, action: str, subject: str) -> Entry:
        """For the audit: something that was done now."""
        return Entry(self.closing.now_us(), actor.who, actor.role, action, subject, "done", actor.request_id)

    def billed(self, period: str, caller: Caller | None) -> tuple[Period, Sequence[Account]]:
        """A month that is closed or being closed, and what accounts owe for it, as far as the caller may see that.

        Raises:
            Invalid: it is no month.
            NotFound: nothing is billed in it, or to the caller's team.
            Forbidden: the caller is for no team.
        """
        found, team = self.closing.one(period), own_account(caller)
        if found.draft is None or (team is not None and found.state != "closed"):
            raise no_statement(period)
        accounts = accounts_of(found.draft.batches)
        return found, [one for one in accounts if team in (None, one.name)]

    def account(self, period: str, name: str, caller: Caller | None) -> tuple[Period, Account]:
        """A month, and what one account owes for it.

        Raises:
            Invalid, NotFound: see `billed`.
            Forbidden: it is not the caller's to see.
        """
        if own_account(caller) not in (None, name):
            raise other_team(own_team(caller))
        month, accounts = self.billed(period, caller)
        for one in accounts:
            if one.name == name:
                return month, one
        raise no_statement(period, name)

    def standings(self, period: str | None, caller: Caller | None) -> tuple[Period, Sequence[Standing]]:
        """A month that is closed or being closed, and how teams stand to their budgets, as far as the caller may see.

        Args:
            period: month; None is the newest one that the caller may see.
            caller: who asks.

        Raises:
            Invalid, NotFound, Forbidden: see `billed`.
        """
        month, _ = self.billed(period or self._newest(caller), caller)
        assert month.draft is not None  # noqa: S101 - a month without has no statement
        budgets = budget_store.budgets_of(self.closing.engine, self.closing.cluster, month.period)
        found = settled_standings(budgets, owed(month.draft.postings), month.draft.currency)
        return month, [one for one in found if own_account(caller) in (None, one.budget.team)]

    def _newest(self, caller: Caller | None) -> str:
        """The newest month that the caller may see.

        Raises:
            NotFound, Forbidden: there is none.
        """
        team = own_team(caller)
        for one in ledger_store.periods(self.closing.engine, self.closing.cluster):
            if one.state == "closed" or (team is None and one.draft):
                return one.period
        raise no_statement("any month")


def own_team(caller: Caller | None) -> str | None:
    """The one team that a caller may see; None for who sees all.

    Raises:
        Forbidden: they may see none.
    """
    if caller is None or caller.may(SEE_ALL):
        return None
    if caller.team is None:
        raise other_team(None)
    return caller.team


def own_account(caller: Caller | None) -> str | None:
    """The account of the one team that a caller may see; None for who sees all.

    Raises:
        Forbidden: they may see none.
    """
    team = own_team(caller)
    return None if team is None else account_of(team)


def opened_bills(bills: BillOffice | None) -> BillOffice:
    """The office.

    Raises:
        Unavailable: there is none.
    """
    if bills is None:
        raise Unavailable(NO_BILLS)
    return bills


def other_team(team: str | None) -> Forbidden:
    """A team requests the charges of another team."""
    own = (
        "has no team: create one with `cohabit admin token create NAME --role team --team TEAM`"
        if team is None
        else (f"is for team {team[:80]!r} only")
    )
    return Forbidden(f"access denied: role team reads the charges of its own team only, and this token {own}")


def no_statement(period: str, account: str = "") -> NotFound:
    """Nothing was billed in a month, or nothing of an account in it."""
    of = f" of {account[:80]!r}" if account else ""
    why = "it has no charge records" if account else "statements exist once a month is closing, for teams once closed"
    return NotFound(f"no statement{of} for {period}: {why}")
