"""Errors of the ledger, one class per action a caller can take."""

from collections.abc import Sequence

from advisor.errors import AdvisorError


class BadPeriod(AdvisorError):
    """No month."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"{text[:40]!r} is not a month: write it as 2026-11")


class ReservedAccount(AdvisorError):
    """An account of the ledger itself, which is not billed."""

    def __init__(self, account: str) -> None:
        self.account = account
        super().__init__(
            f"account name {account[:80]!r} is reserved: the ledger uses `rounding` and names that begin with `pool:`; "
            f"a team of that name has account {'team:' + account[:80]!r}"
        )


class PeriodChanged(AdvisorError):
    """A period changed since it was read."""

    def __init__(self, period: str, seen: int) -> None:
        self.period, self.seen = period, seen
        super().__init__(f"period {period} changed since version {seen}: reload it and decide again")


class PeriodState(AdvisorError):
    """The state of a period does not allow the action."""

    def __init__(self, period: str, state: str, wanted: str) -> None:
        self.period, self.state, self.wanted = period, state, wanted
        what = {
            "closed": f"correct it in a later period (`cohabit bill close --month LATER --correct {period}`)",
            "closing": "close it (`cohabit bill close --confirm`) or discard its draft (`cohabit bill reopen`)",
        }.get(state, "draft its closing first (`cohabit bill close`)")
        super().__init__(f"period {period} is {state} and cannot be {wanted}: {what}")


class NotReady(AdvisorError):
    """A period cannot be closed yet, or its sums are wrong."""

    def __init__(self, period: str, reasons: Sequence[str]) -> None:
        self.period, self.reasons = period, tuple(reasons)
        super().__init__(f"period {period} cannot be closed: {'; '.join(reasons)}")


class OtherDraft(AdvisorError):
    """The draft to close is not the draft that was reviewed."""

    def __init__(self, period: str, seen: str, now: str) -> None:
        self.period, self.seen, self.now = period, seen, now
        super().__init__(f"the draft of {period} is now {now[:12]}, not {seen[:12]}: review it again, then close it")


class TakenBack(AdvisorError):
    """A draft corrects charge records that another month has corrected meanwhile."""

    def __init__(self, pool: str, about: str) -> None:
        self.pool, self.about = pool, about
        super().__init__(
            f"another month has corrected the charges of pool {pool} in {about} meanwhile: reopen this month "
            "(`cohabit bill reopen`) and draft it again"
        )


class Unbalanced(AdvisorError):
    """Postings of a batch do not sum to zero: an internal error, and no posting is written."""

    def __init__(self, pool: str, total: int) -> None:
        self.pool, self.total = pool, total
        super().__init__(f"postings of pool {pool} sum to {total} micro-units instead of 0: no posting was written")


class NoSuchPriceBook(AdvisorError):
    """No version of the price book has this name."""

    def __init__(self, version: str) -> None:
        self.version = version
        super().__init__(f"no price book {version[:80]!r}: `cohabit bill books` lists all versions")


class AlreadyDecided(AdvisorError):
    """A version of the price book was approved or withdrawn before."""

    def __init__(self, version: str, by: str, what: str) -> None:
        self.version, self.by, self.what = version, by, what
        super().__init__(f"price book {version!r} was already {what} by {by}")


class NameTaken(AdvisorError):
    """Another version of the price book has this name."""

    def __init__(self, version: str) -> None:
        self.version = version
        super().__init__(f"price book {version!r} already exists, and versions are immutable: choose another name")


class UnreadableDraft(AdvisorError):
    """A draft, or a price book, of another format."""

    def __init__(self, what: str, reason: str) -> None:
        self.what, self.reason = what, reason
        super().__init__(f"{what} cannot be read: {reason}; upgrade Cohabit if a newer version wrote it")


class NoBills(AdvisorError):
    """This server has no bills."""

    def __init__(self) -> None:
        super().__init__(
            "this server has no bills: create their tables with `cohabit admin database migrate`, then restart it"
        )


class NoStatement(AdvisorError):
    """Nothing was billed in a month, or nothing of an account in it."""

    def __init__(self, period: str, account: str = "") -> None:
        self.period, self.account = period, account
        of = f" of {account[:80]!r}" if account else ""
        why = (
            "it has no charge records" if account else "statements exist once a month is closing, for teams once closed"
        )
        super().__init__(f"no statement{of} for {period}: {why}")


class OtherTeam(AdvisorError):
    """A team requests the charges of another team."""

    def __init__(self, team: str | None) -> None:
        self.team = team
        own = (
            "has no team: create one with `cohabit admin token create NAME --role team --team TEAM`"
            if team is None
            else (f"is for team {team[:80]!r} only")
        )
        super().__init__(f"access denied: role team reads the charges of its own team only, and this token {own}")


class BadBudget(AdvisorError):
    """An invalid value of a budget; the message names it and the valid values."""

    def __init__(self, what: str, text: str, instead: str) -> None:
        self.what, self.text, self.instead = what, text, instead
        super().__init__(f"invalid {what} of a budget {text[:40]!r}: {instead}")


class NoCurrency(AdvisorError):
    """No price book gives the currency of a month."""

    def __init__(self, period: str) -> None:
        self.period = period
        super().__init__(
            f"no price book is in force in {period}, so its budget has no currency: see `cohabit bill books`, and "
            "create a version with `cohabit bill propose-book` and `approve-book`"
        )
