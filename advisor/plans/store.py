"""Proposals in SQL: added once, changed only from their newest version, never removed. An edge."""

from collections.abc import Collection, Mapping, Sequence
from typing import cast

import structlog
from sqlalchemy import Connection, Engine, and_, func, insert, select, text, update
from sqlalchemy.engine import Row

from advisor.auth import audit_log as audit
from advisor.auth.audit_log import Entry
from advisor.database.engine import CHANGE_FREEZES, PLAN_STEPS, PLANS_TABLE, reading, writing
from advisor.errors import AdvisorError, Frozen, NotFound
from advisor.plans.rules.cooldowns import REMEMBERED_US
from advisor.plans.rules.errors import ChangedMeanwhile, UnreadablePlan
from advisor.plans.rules.past_steps import Past
from advisor.plans.rules.plan_record import (
    DECISIONS,
    STATES,
    ChangeFreeze,
    Decided,
    Decision,
    Plan,
    Proposal,
    State,
    plan_from,
    plan_json,
)

log = structlog.get_logger(__name__)

MAX_LISTED = 1000
DRAFTS_LOCK = 0xC04AB18
"""PostgreSQL's advisory lock that one new proposal at a time holds."""
CHANGE_FREEZES_LOCK = 0xC04AB1A
"""Shared by all that a freeze stops until it is done, exclusive to a freeze; SQLite writes one by one."""


def add(engine: Engine, proposal: Proposal, entry: Entry, known: int | None = None) -> None:
    """Keep a new proposal; one that is there already stays as it is.

    Args:
        engine: the store.
        proposal: a new one.
        entry: for the audit.
        known: number of the cluster's proposals known at drafting, see `count`; None does not check.

    Raises:
        AdvisorError: there are more by now, which it does not take into account.
        Frozen: nothing is to be drafted.
        StoreUnavailable: the database does not answer; then nothing is kept.
    """
    plan = proposal.plan
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": DRAFTS_LOCK})
        refuse_frozen(connection, plan.cluster)
        if known is not None and _count(connection, plan.cluster) != known:
            raise AdvisorError(f"another plan for cluster {plan.cluster} was just drafted: review it, then draft again")
        if connection.execute(select(PLANS_TABLE.c.plan).where(PLANS_TABLE.c.plan == plan.plan)).first():
            return
        kept = {"plan": plan.plan, "cluster": plan.cluster, "created_us": plan.created_us, "document": plan_json(plan)}
        connection.execute(insert(PLANS_TABLE).values(**kept, **_state(proposal)))
        connection.execute(insert(PLAN_STEPS), [_step(proposal, one) for one in proposal.decided])
        audit.add(connection, entry)


def count(engine: Engine, cluster: str) -> int:
    """How many proposals of a cluster there are."""
    with reading(engine) as connection:
        return _count(connection, cluster)


def _count(connection: Connection, cluster: str) -> int:
    wanted = select(func.count()).select_from(PLANS_TABLE).where(PLANS_TABLE.c.cluster == cluster)
    return int(connection.execute(wanted).scalar_one())


def change(
    connection: Connection, after: Proposal, seen: int, entry: Entry, more: Mapping[str, object] | None = None
) -> None:
    """Put a changed proposal in the place of the version that was seen, and say who did that.

    Args:
        connection: that writes.
        after: the proposal as it is from now on.
        seen: version that it comes from.
        entry: for the audit.
        more: further columns.

    Raises:
        ChangedMeanwhile: that is not the newest version any more; then nothing is changed.
    """
    name, values = after.plan.plan, {**_state(after), **(more or {})}
    same = and_(PLANS_TABLE.c.plan == name, PLANS_TABLE.c.version == seen)
    if connection.execute(update(PLANS_TABLE).where(same).values(**values)).rowcount != 1:
        raise ChangedMeanwhile(name, seen)
    for one in after.decided:
        of_step = and_(PLAN_STEPS.c.plan == name, PLAN_STEPS.c.number == one.number)
        decided = {"decision": one.decision, "reason": one.reason[:500]}
        connection.execute(update(PLAN_STEPS).where(of_step).values(**decided))
    audit.add(connection, entry)


def one_of(connection: Connection, cluster: str, name: str) -> Proposal:
    """A proposal of a cluster by its name.

    Raises:
        NotFound: there is none.
        UnreadablePlan: another Cohabit wrote it.
    """
    here = and_(PLANS_TABLE.c.plan == name, PLANS_TABLE.c.cluster == cluster)
    row = connection.execute(select(PLANS_TABLE).where(here)).first()
    if row is None:
        raise _no_such_proposal(name)
    return _proposals(connection, [row])[0]


def export_of(connection: Connection, cluster: str, name: str) -> bytes | None:
    """The export of a proposal; None before it is exported.

    Raises:
        NotFound: there is none.
    """
    here = and_(PLANS_TABLE.c.plan == name, PLANS_TABLE.c.cluster == cluster)
    row = connection.execute(select(PLANS_TABLE.c.exported).where(here)).first()
    if row is None:
        raise _no_such_proposal(name)
    return None if row[0] is None else bytes(row[0])


def listed(
    engine: Engine, cluster: str, states: Collection[State] = (), *, since_us: int = 0, most: int = MAX_LISTED
) -> list[Proposal]:
    """Proposals of a cluster, the newest first.

    Args:
        engine: the store.
        cluster: whose.
        states: those in one of them; all where none is named.
        since_us: made from then on.
        most: how many at most.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    wanted = select(PLANS_TABLE).where(PLANS_TABLE.c.cluster == cluster, PLANS_TABLE.c.created_us >= since_us)
    if states:
        wanted = wanted.where(PLANS_TABLE.c.state.in_(sorted(states)))
    newest = wanted.order_by(PLANS_TABLE.c.created_us.desc(), PLANS_TABLE.c.plan).limit(min(most, MAX_LISTED))
    with reading(engine) as connection:
        return _proposals(connection, connection.execute(newest).all(), leave_out=True)


def past(engine: Engine, cluster: str, now_us: int) -> tuple[Past, ...]:
    """Steps of all earlier plans that still count for new ones, the newest plan first.

    Raises:
        UnreadablePlan: one cannot be read; what it did to whom is not known, so that nothing new may be proposed.
        StoreUnavailable: the database does not answer.
    """
    here = and_(PLANS_TABLE.c.cluster == cluster, PLANS_TABLE.c.created_us >= now_us - REMEMBERED_US)
    newest = select(PLANS_TABLE).where(here).order_by(PLANS_TABLE.c.created_us.desc(), PLANS_TABLE.c.plan)
    with reading(engine) as connection:
        rows = connection.execute(newest).all()
        exported = {row._mapping["plan"] for row in rows if row._mapping["exported"] is not None}
        found = _proposals(connection, rows)
    return tuple(
        Past(
            step,
            one.state,
            one.decision_of(step.number),
            one.changed_us,
            exported=one.plan.plan in exported,
            plan=one.plan.plan,
            created_us=one.plan.created_us,
        )
        for one in found
        for step in one.plan.steps
    )


def achieved(engine: Engine, cluster: str) -> tuple[float, float]:
    """Predicted and realised savings an hour of a cluster's plans with a known outcome."""
    sums = func.coalesce(func.sum(PLANS_TABLE.c.predicted), 0.0), func.coalesce(func.sum(PLANS_TABLE.c.realised), 0.0)
    with reading(engine) as connection:
        predicted, realised = connection.execute(select(*sums).where(PLANS_TABLE.c.cluster == cluster)).one()
    return float(predicted), float(realised)


def realised_of(engine: Engine, cluster: str) -> list[tuple[str, float]]:
    """Realised savings an hour by plan, of a cluster's plans with a known outcome."""
    known = and_(PLANS_TABLE.c.cluster == cluster, PLANS_TABLE.c.realised.is_not(None))
    with reading(engine) as connection:
        return [
            (row[0], float(row[1]))
            for row in connection.execute(select(PLANS_TABLE.c.plan, PLANS_TABLE.c.realised).where(known))
        ]


def refuse_frozen(connection: Connection, cluster: str) -> None:
    """Refuse while everything is frozen; who is not refused is done before a freeze says that it holds.

    Raises:
        Frozen: it is.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock_shared(:key)"), {"key": CHANGE_FREEZES_LOCK})
    if (found := standing(connection, cluster)) is not None:
        raise Frozen(f"{found.who} froze all changes ({found.reason}): end the freeze with `cohabit plan unfreeze`")


def standing(connection: Connection, cluster: str) -> ChangeFreeze | None:
    """The first freeze that holds; None where nothing is frozen."""
    columns = select(CHANGE_FREEZES.c.who, CHANGE_FREEZES.c.reason, CHANGE_FREEZES.c.at_us)
    wanted = columns.where(CHANGE_FREEZES.c.cluster == cluster, CHANGE_FREEZES.c.ended_us.is_(None))
    row = connection.execute(wanted.order_by(CHANGE_FREEZES.c.id)).first()
    return None if row is None else ChangeFreeze(*row)


def freeze(engine: Engine, cluster: str, reason: str, entry: Entry) -> None:
    """From now on nothing is drafted, approved or exported; what was begun before is done or refused then."""
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": CHANGE_FREEZES_LOCK})
        values = {"cluster": cluster, "at_us": entry.at_us, "who": entry.who[:200], "reason": reason[:500]}
        connection.execute(insert(CHANGE_FREEZES).values(**values))
        audit.add(connection, entry)


def unfreeze(engine: Engine, cluster: str, entry: Entry) -> int:
    """Go on; how many freezes were lifted."""
    standing = and_(CHANGE_FREEZES.c.cluster == cluster, CHANGE_FREEZES.c.ended_us.is_(None))
    with writing(engine) as connection:
        lifted = connection.execute(update(CHANGE_FREEZES).where(standing).values(ended_us=entry.at_us)).rowcount
        audit.add(connection, entry)
    return lifted


def _state(of: Proposal) -> dict[str, object]:
    return {"state": of.state, "version": of.version, "reason": of.reason[:500], "changed_us": of.changed_us}


def _step(of: Proposal, one: Decided) -> dict[str, object]:
    return {"plan": of.plan.plan, "number": one.number, "decision": one.decision, "reason": one.reason[:500]}


def _proposals(
    connection: Connection, rows: Sequence[Row[tuple[object, ...]]], *, leave_out: bool = False
) -> list[Proposal]:
    """Proposals; those that cannot be read are left out and named in the log, or all is refused."""
    names = [row._mapping["plan"] for row in rows]
    decided, found = dict[str, list[Decided]](), list[Proposal]()
    wanted = select(PLAN_STEPS).where(PLAN_STEPS.c.plan.in_(names)).order_by(PLAN_STEPS.c.number)
    for plan, number, decision, reason in connection.execute(wanted):
        decided.setdefault(plan, []).append(Decided(number, cast("Decision", decision), reason))
    for row in rows:
        mapping = cast("Mapping[str, object]", row._mapping)
        try:
            found.append(_proposal(mapping, tuple(decided.get(row._mapping["plan"], ()))))
        except UnreadablePlan as error:
            if not leave_out:
                raise
            log.warning("cannot list a plan", error=str(error))
    return found


def _proposal(row: Mapping[str, object], decided: tuple[Decided, ...]) -> Proposal:
    plan = _plan(row)
    known = row["state"] in STATES and all(one.decision in DECISIONS for one in decided)
    if not known or [one.number for one in decided] != sorted(step.number for step in plan.steps):
        raise UnreadablePlan(f"{row['plan']}: the decisions do not match its steps, or are of an unknown type")
    return Proposal(
        plan=plan,
        state=cast("State", row["state"]),
        version=cast("int", row["version"]),
        decided=decided,
        reason=cast("str", row["reason"]),
        changed_us=cast("int", row["changed_us"]),
    )


def _plan(row: Mapping[str, object]) -> Plan:
    try:
        return plan_from(cast("bytes", row["document"]))
    except UnreadablePlan as error:
        raise UnreadablePlan(f"{row['plan']}: {error.reason}") from error


def _no_such_proposal(name: str) -> NotFound:
    return NotFound(f"no proposal {name[:80]!r}: `cohabit plan list` lists all proposals")
