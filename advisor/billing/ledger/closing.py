"""Closing: where people close months, naming what they saw; every step is audited. An edge."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import periods
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.drafts import Draft, digest_of
from advisor.billing.ledger.months import bounds
from advisor.billing.ledger.periods import Period, period_changed
from advisor.billing.ledger.postings import Payables
from advisor.database.engine import reading, writing
from advisor.plans.plan_service import Actor


@dataclass(frozen=True)
class Closing:
    """Months of a cluster.

    Args:
        engine: the store.
        cluster: cluster of the months.
        now_us: the clock, microseconds since 1970.
    """

    engine: Engine
    cluster: str
    now_us: Callable[[], int]

    def one(self, period: str, seen: int | None = None) -> Period:
        """A month, in the version that was seen.

        Raises:
            Invalid: it is none.
            Conflict: it is another version by now.
        """
        bounds(period)
        with reading(self.engine) as connection:
            found = ledger_store.period_of(connection, self.cluster, period)
        if seen is not None and found.version != seen:
            raise period_changed(period, seen)
        return found

    def begin(self, draft: Draft, seen: int, actor: Actor) -> Period:
        """Settle what a month is to be closed with; nothing is billed by that.

        Raises:
            Conflict: the period changed since; it is not open.
            Conflict, AdvisorError: it cannot be closed with that.
        """
        before = self.one(draft.period, seen)
        after = periods.begun(before, draft, self.now_us(), actor.who)
        outcome = f"draft {digest_of(draft)[:12]} of {len(draft.batches)} files"
        ledger_store.store_change(
            self.engine, before, after, self._entry(actor, "begin closing", draft.period, outcome)
        )
        return after

    def reopen(self, period: str, seen: int, actor: Actor) -> Period:
        """Forget what a month was to be closed with.

        Raises:
            Conflict: the period changed since; its closing has not begun, or it is closed.
        """
        before = self.one(period, seen)
        after = periods.reopened(before, self.now_us(), actor.who)
        ledger_store.store_change(self.engine, before, after, self._entry(actor, "reopen", period, "open"))
        return after

    def close(self, period: str, digest: str, actor: Actor) -> Payables:
        """Bill a month with what was looked at, for good: all of it, or nothing.

        Args:
            period: month.
            digest: of the draft that was looked at.
            actor: who closes it.

        Raises:
            Conflict: the period changed at the same time; its closing has not begun, or it is closed; it is to be
                closed with another draft by now.
        """
        bounds(period)
        with writing(self.engine) as connection:
            before = ledger_store.period_of(connection, self.cluster, period)
            after = periods.closed(before, digest, self.now_us(), actor.who)
            ledger_store.change(connection, before, after, self._entry(actor, "close", period, f"draft {digest[:12]}"))
            assert after.draft is not None  # noqa: S101 - only with a draft it can be closed
            return ledger_store.post(connection, after.draft, after.changed_us, actor.who)

    def _entry(self, actor: Actor, action: str, period: str, outcome: str) -> Entry:
        subject = f"{self.cluster} {period}"
        return Entry(self.now_us(), actor.who, actor.role, action, subject, outcome, actor.request_id)
