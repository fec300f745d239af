"""Desk: where people decide on proposals, naming the version they saw; every decision is audited. An edge."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from secrets import token_hex

from sqlalchemy import Connection, Engine

from advisor.auth import audit_log as audit
from advisor.auth.api_tokens import TokenRole
from advisor.auth.audit_log import Entry
from advisor.auth.principal import Caller
from advisor.database.engine import reading, writing
from advisor.errors import Frozen, Unavailable
from advisor.plans import store as proposal_store
from advisor.plans.rules import approval_states as states
from advisor.plans.rules.did_estimate import Outcome
from advisor.plans.rules.errors import ChangedMeanwhile, NothingHolds
from advisor.plans.rules.plan_record import ChangeFreeze, Proposal, State, expected
from advisor.plans.rules.policy import Rules

NO_PLANS = (
    "this server has no proposals: they need a database (`cohabit admin database migrate`) and a lake (COHABIT_LAKE); "
    "create both, then restart `cohabit serve`"
)
Stale = Callable[[Proposal, Collection[int]], Mapping[int, str]]
"""Why some steps of a proposal do not hold any more."""
Given = Callable[[Connection, Proposal], bytes]
"""Makes the export of an approved proposal, and writes its other records within the transaction."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who decides.

    Args:
        who: name of a token, a person, or `local:` and a user of the machine.
        role: in which role.
        request_id: by which the reply and the log name the same event.
    """

    who: str
    role: str
    request_id: str


@dataclass(frozen=True)
class Desk:
    """Decisions on the proposals of a cluster.

    Args:
        engine: the store.
        cluster: cluster of the proposals.
        rules: when changes are allowed.
        now_us: the clock, microseconds since 1970.
    """

    engine: Engine
    cluster: str
    rules: Rules
    now_us: Callable[[], int]

    def put(self, proposal: Proposal, actor: Actor, known: int | None = None) -> None:
        """Put a new one before people; `known` proposals were taken into account, None does not look.

        Raises:
            AdvisorError: there are others by now.
            Frozen: all changes are frozen.
        """
        proposal_store.add(self.engine, proposal, self._entry(actor, "draft", proposal.plan.plan), known)

    def approve(self, name: str, seen: int, steps: Collection[int] | None, actor: Actor, stale: Stale) -> Proposal:
        """Approve steps, all that are open where none are named; those that do not hold any more are left out.

        Raises:
            ChangedMeanwhile: another decision came first.
            Frozen: nothing may be changed.
            Conflict, Invalid, NotFound: it cannot be.
            NothingHolds: none of them holds any more; the proposal has expired.
        """
        before = self.one(name, seen)
        chosen = frozenset(step.number for step in before.plan.open_steps) if steps is None else frozenset(steps)
        states.approved(before, chosen, {}, self.now_us())  # says what is wrong before anything is looked at again
        found = stale(before, chosen)
        outcome: NothingHolds | None = None
        with writing(self.engine) as connection:
            self._must_be_allowed(connection)
            try:
                after = states.approved(before, chosen, found, self.now_us())
                summary = f"{after.state}: {', '.join(map(str, sorted(chosen - set(found))))}"
            except NothingHolds as error:
                after, outcome, summary = (
                    states.lapsed(before, "; ".join(error.reasons), self.now_us()),
                    error,
                    "expired",
                )
            proposal_store.change(connection, after, seen, self._entry(actor, "approve", name, summary))
        if outcome is not None:
            raise outcome
        return after

    def reject(self, name: str, seen: int, reason: str, actor: Actor) -> Proposal:
        """Say no, also after an approval while it is not exported.

        Raises:
            ChangedMeanwhile: another decision came first.
            Conflict, Invalid, NotFound: it cannot be.
        """
        after = states.rejected(self.one(name, seen), reason, self.now_us())
        with writing(self.engine) as connection:
            proposal_store.change(connection, after, seen, self._entry(actor, "reject", name, after.reason))
        return after

    def export(self, name: str, seen: int, given: Given, actor: Actor) -> bytes:
        """Export an approved proposal; a repeated export returns the first one, to the byte.

        Raises:
            ChangedMeanwhile: another decision came first.
            Frozen: nothing may be changed.
            Conflict, NotFound: it cannot be.
        """
        with writing(self.engine) as connection:
            before = proposal_store.one_of(connection, self.cluster, name)
            kept = proposal_store.export_of(connection, self.cluster, name)
            if kept is not None:
                return kept
            if before.version != seen:
                raise ChangedMeanwhile(name, seen)
            self._must_be_allowed(connection)
            after = states.exported(before, self.now_us())
            document = given(connection, after)
            entry = self._entry(actor, "export", name, f"{len(after.approved)} steps")
            proposal_store.change(connection, after, seen, entry, {"exported": document})
        return document

    def conclude(self, of: Proposal, found: Outcome, actor: Actor) -> Proposal:
        """Keep what an exported proposal saved: confirmed where that is as much as its lower bound at least.

        Raises:
            ChangedMeanwhile: another process has concluded it.
            Conflict: it was not exported.
        """
        _, low, _ = expected(of.approved)
        whole = sum(step.gain for step in of.approved)
        least = low * found.predicted / whole if whole else 0.0
        confirmed = None if not found.measured else found.realised >= max(least, 0.0)
        reason = f"{found.realised:.2f} of {found.predicted:.2f} an hour; control group of {found.controls}"
        after = states.concluded(
            of, confirmed=confirmed, reason=reason if found.measured else "no outcome was measured"
        )
        values = {"predicted": found.predicted, "realised": found.realised} if found.measured else {}
        with writing(self.engine) as connection:
            entry = self._entry(actor, "conclude", of.plan.plan, f"{after.state}: {after.reason}")
            proposal_store.change(connection, after, of.version, entry, values)
        return after

    def one(self, name: str, seen: int | None = None) -> Proposal:
        """A proposal, in the version that was seen.

        Raises:
            NotFound: there is none.
            ChangedMeanwhile: it is another version by now.
        """
        with reading(self.engine) as connection:
            found = proposal_store.one_of(connection, self.cluster, name)
        if seen is not None and found.version != seen:
            raise ChangedMeanwhile(name, seen)
        return found

    def listed(self, wanted: Collection[State] = ()) -> list[Proposal]:
        """Proposals, the newest first; those in some states only, where any are named."""
        return proposal_store.listed(self.engine, self.cluster, wanted)

    def expire(self, actor: Actor) -> int:
        """Expire proposals that were not exported in time; returns their number."""
        waiting = proposal_store.listed(self.engine, self.cluster, states.WAITING)
        late = [after for one in waiting if (after := states.expired(one, self.now_us())) is not one]
        for after in late:
            try:
                with writing(self.engine) as connection:
                    entry = self._entry(actor, "expire", after.plan.plan)
                    proposal_store.change(connection, after, after.version - 1, entry)
            except ChangedMeanwhile:
                continue  # a decision came first
        return len(late)

    def freeze(self, reason: str, actor: Actor) -> None:
        """From now on nothing is drafted, approved or exported.

        Raises:
            Invalid: no reason is given.
        """
        text = states.reason_of(reason)
        proposal_store.freeze(self.engine, self.cluster, text, self._entry(actor, "freeze", self.cluster, text))

    def unfreeze(self, actor: Actor) -> int:
        """Go on; how many freezes were lifted."""
        return proposal_store.unfreeze(self.engine, self.cluster, self._entry(actor, "unfreeze", self.cluster))

    def frozen(self) -> ChangeFreeze | None:
        """The freeze that holds; None where nothing is frozen."""
        with reading(self.engine) as connection:
            return proposal_store.standing(connection, self.cluster)

    def history(self, of: Proposal) -> list[Entry]:
        """Who did what with a proposal, in the order it was done."""
        with reading(self.engine) as connection:
            return audit.of_subject(connection, of.plan.plan, of.plan.created_us)

    def exported(self, name: str) -> bytes | None:
        """The export of a proposal; None before it is exported.

        Raises:
            NotFound: there is none.
        """
        with reading(self.engine) as connection:
            return proposal_store.export_of(connection, self.cluster, name)

    def must_not_be_frozen(self) -> None:
        """Make sure of it before anything is worked out.

        Raises:
            Frozen: all changes are frozen.
        """
        with reading(self.engine) as connection:
            proposal_store.refuse_frozen(connection, self.cluster)

    def _must_be_allowed(self, connection: Connection) -> None:
        proposal_store.refuse_frozen(connection, self.cluster)
        if closed := self.rules.closed(self.now_us()):
            raise Frozen(f"not now: {closed}")

    def _entry(self, actor: Actor, action: str, subject: str, outcome: str = "done") -> Entry:
        return Entry(self.now_us(), actor.who, actor.role, action, subject, outcome, actor.request_id)


READERS: tuple[TokenRole, ...] = ("sre", "admin", "planner")
"""Who may read proposals."""
DECIDERS: tuple[TokenRole, ...] = ("sre", "admin")
"""Who may decide on them, and freeze everything."""


def _new_id() -> str:
    return token_hex(8)


@dataclass(frozen=True)
class Office:
    """Where decisions are taken.

    Args:
        desk: of the cluster.
        stale: tries the steps of a proposal again in the cluster as it is now; may take seconds.
        local: name of the approver where authentication is off.
        new_id: makes the name of an event, by which the reply and the audit call it.
    """

    desk: Desk
    stale: Stale
    local: Caller = field(default_factory=lambda: Caller("local", frozenset({"admin"})))
    new_id: Callable[[], str] = _new_id

    def actor(self, caller: Caller | None) -> Actor:
        """Name of the approver in the audit; None is any client of an open listener."""
        who = caller or self.local
        return Actor(who.name, "admin" if "admin" in who.roles else "sre", self.new_id())


def opened(office: Office | None) -> Office:
    """The office.

    Raises:
        Unavailable: there is none.
    """
    if office is None:
        raise Unavailable(NO_PLANS)
    return office
