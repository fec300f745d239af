"""Errors of the ledger, one class per action a caller can take."""

from collections.abc import Sequence

from advisor.errors import AdvisorError


class BadPeriod(AdvisorError):
    """No month."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"{text[:40]!r} is no month: write one as 2026-11")


class ReservedAccount(AdvisorError):
    """A team is called as an account of the ledger itself."""

    def __init__(self, account: str) -> None:
        self.account = account
        super().__init__(
            f"an account cannot be called {account[:80]!r}: names that begin with `pool:` and the name `rounding` are "
            "the ledger's own; map the team to another name (COHABIT_MAPPING)"
        )


class PeriodChanged(AdvisorError):
    """A period changed since it was read."""

    def __init__(self, period: str, seen: int) -> None:
        self.period, self.seen = period, seen
        super().__init__(
            f"somebody has changed period {period} since you read version {seen}: read it again and decide"
        )


class PeriodState(AdvisorError):
    """What is asked cannot be done to a period in its state."""

    def __init__(self, period: str, state: str, wanted: str) -> None:
        self.period, self.state, self.wanted = period, state, wanted
        what = {
            "closed": f"correct what was wrong in a later one (`cohabit bill close --month LATER --correct {period}`)",
            "closing": "close it (`cohabit bill close --confirm`) or take that back (`cohabit bill reopen`)",
        }.get(state, "begin to close it first (`cohabit bill close`)")
        super().__init__(f"period {period} is {state} and cannot be {wanted}: {what}")


class NotReady(AdvisorError):
    """A period cannot be closed yet, or its sums are wrong."""

    def __init__(self, period: str, reasons: Sequence[str]) -> None:
        self.period, self.reasons = period, tuple(reasons)
        super().__init__(f"period {period} cannot be closed: {'; '.join(reasons)}")


class OtherDraft(AdvisorError):
    """What is to be closed is not what was looked at."""

    def __init__(self, period: str, seen: str, now: str) -> None:
        self.period, self.seen, self.now = period, seen, now
        super().__init__(
            f"the draft of {period} is {now[:12]} by now, not {seen[:12]}: look at it again, then close it"
        )


class TakenBack(AdvisorError):
    """A draft corrects what another month has corrected meanwhile."""

    def __init__(self, pool: str, about: str) -> None:
        self.pool, self.about = pool, about
        super().__init__(
            f"what was billed of pool {pool} in {about} was corrected by another month meanwhile: open this one again "
            "(`cohabit bill reopen`) and draft it anew"
        )


class Unbalanced(AdvisorError):
    """Postings of a batch do not sum to zero: a mistake of ours, and nothing is kept."""

    def __init__(self, pool: str, total: int) -> None:
        self.pool, self.total = pool, total
        super().__init__(f"postings of pool {pool} sum to {total} micro-units instead of 0: nothing was kept")


class NoSuchPriceBook(AdvisorError):
    """No version of the price book has this name."""

    def __init__(self, version: str) -> None:
        self.version = version
        super().__init__(f"there is no price book {version[:80]!r}: `cohabit bill books` lists them")


class AlreadyDecided(AdvisorError):
    """A version of the price book was approved or withdrawn before."""

    def __init__(self, version: str, by: str, what: str) -> None:
        self.version, self.by, self.what = version, by, what
        super().__init__(f"price book {version!r} was {what} by {by} already")


class NameTaken(AdvisorError):
    """Another version of the price book has this name."""

    def __init__(self, version: str) -> None:
        self.version = version
        super().__init__(f"there is a price book {version!r} already, and a version is never changed: name it anew")


class UnreadableDraft(AdvisorError):
    """A draft, or a price book, of another format."""

    def __init__(self, what: str, reason: str) -> None:
        self.what, self.reason = what, reason
        super().__init__(f"this is no {what} that can be read: {reason}; was it written by a newer Cohabit?")


class NoBills(AdvisorError):
    """This server keeps no bills."""

    def __init__(self) -> None:
        super().__init__(
            "no bills are kept here: `cohabit admin database migrate` makes their tables; then start the server anew"
        )


class NoStatement(AdvisorError):
    """Nothing was billed in a month, or nothing of an account in it."""

    def __init__(self, period: str, account: str = "") -> None:
        self.period, self.account = period, account
        of = f" of {account[:80]!r}" if account else ""
        why = (
            "nothing was billed to it" if account else "a month has some once it is being closed, for teams once closed"
        )
        super().__init__(f"there is no statement{of} for {period}: {why}")


class OtherTeam(AdvisorError):
    """A team asks for what another one owes."""

    def __init__(self, team: str | None) -> None:
        self.team = team
        own = (
            "is for no team: `cohabit admin token create NAME --role team --team TEAM` makes one that is"
            if team is None
            else (f"is for team {team[:80]!r} alone")
        )
        super().__init__(f"this cannot be seen: role team sees what its own team owes, and this token {own}")


class BadBudget(AdvisorError):
    """No budget can be set so; the message says what is wrong and what to give instead."""

    def __init__(self, what: str, text: str, instead: str) -> None:
        self.what, self.text, self.instead = what, text, instead
        super().__init__(f"{text[:40]!r} is no {what} of a budget: {instead}")


class NoCurrency(AdvisorError):
    """No price book gives the currency of a month."""

    def __init__(self, period: str) -> None:
        self.period = period
        super().__init__(
            f"no price book is in force in {period}, so a budget for it has no currency: `cohabit bill books` lists "
            "them, `cohabit bill propose-book` and `approve-book` make one"
        )
