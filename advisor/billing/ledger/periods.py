"""Periods: whether a month is open, being closed or closed, and what may follow. Kernel.

open → closing (what it is to be closed with is settled, and looked at) → closed, or back to open.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from advisor.billing.ledger.drafts import Draft, digest_of, refuse_wrong
from advisor.errors import Conflict

State = Literal["open", "closing", "closed"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True, slots=True)
class Period:
    """A month of a cluster.

    Args:
        cluster: whose.
        period: month, as in 2026-11.
        state: see State.
        version: rises with every change; 0 before its closing begins.
        changed_us: when it changed last, microseconds since 1970; 0 while it did not.
        changed_by: who changed it.
        draft: what it is to be closed with, or was; None while it is open.
    """

    cluster: str
    period: str
    state: State = "open"
    version: int = 0
    changed_us: int = 0
    changed_by: str = ""
    draft: Draft | None = None

    @property
    def digest(self) -> str:
        """Of its draft; empty without."""
        return digest_of(self.draft) if self.draft is not None else ""


def begun(of: Period, draft: Draft, at_us: int, by: str) -> Period:
    """What it is to be closed with is settled.

    Raises:
        Conflict: it is not open.
        Conflict, AdvisorError: it cannot be closed with that.
    """
    _must_be(of, "open", "set to closing")
    refuse_wrong(draft)
    return Period(of.cluster, of.period, "closing", of.version + 1, at_us, by, draft)


def reopened(of: Period, at_us: int, by: str) -> Period:
    """It is not closed after all, and what it was to be closed with is forgotten.

    Raises:
        Conflict: its closing has not begun, or it is closed.
    """
    _must_be(of, "closing", "opened again")
    return Period(of.cluster, of.period, "open", of.version + 1, at_us, by)


def closed(of: Period, digest: str, at_us: int, by: str) -> Period:
    """It is closed with what was looked at, for good.

    Args:
        of: the period as it is.
        digest: of the draft that was looked at.
        at_us: when.
        by: whom.

    Raises:
        Conflict: its closing has not begun, or it is closed; that is not its draft.
    """
    _must_be(of, "closing", "closed")
    if of.digest != digest:
        raise Conflict(
            f"the draft of {of.period} is now {of.digest[:12]}, not {digest[:12]}: review it again, then close it"
        )
    return Period(of.cluster, of.period, "closed", of.version + 1, at_us, by, of.draft)


def _must_be(of: Period, state: State, wanted: str) -> None:
    if of.state != state:
        raise wrong_state(of.period, of.state, wanted)


def period_changed(period: str, seen: int) -> Conflict:
    """A period changed since it was read."""
    return Conflict(f"period {period} changed since version {seen}: reload it and decide again")


def wrong_state(period: str, state: str, wanted: str) -> Conflict:
    """The state of a period does not allow the action."""
    what = {
        "closed": f"correct it in a later period (`cohabit bill close --month LATER --correct {period}`)",
        "closing": "close it (`cohabit bill close --confirm`) or discard its draft (`cohabit bill reopen`)",
    }.get(state, "draft its closing first (`cohabit bill close`)")
    return Conflict(f"period {period} is {state} and cannot be {wanted}: {what}")
