"""The ledger in SQL: periods change only from their newest version, all else is only added. An edge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, and_, func, insert, select, text, update
from sqlalchemy.engine import Row
from sqlalchemy.exc import IntegrityError

from advisor.auth import audit_log as audit
from advisor.auth.audit_log import Entry
from advisor.billing.ledger.drafts import Batch, Draft, draft_from, draft_json
from advisor.billing.ledger.periods import Period, period_changed
from advisor.billing.ledger.postings import Payables, Posting, ordered, payables, refuse_unbalanced
from advisor.billing.lines.accounts import ROUNDING
from advisor.billing.lines.money import exponent_of
from advisor.database.engine import LEDGER_BATCHES, LEDGER_POSTINGS, PAYABLES, PERIODS, reading, writing
from advisor.errors import Conflict

CORRECTIONS_LOCK = 0xC04AB1B
"""PostgreSQL's advisory lock: one month that corrects others is billed at a time, since both may add the same file."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A batch of the ledger.

    Args:
        number: of it.
        period: month that it is billed in.
        currency: of its amounts.
        batch: what it is.
        at_us: when it was posted, microseconds since 1970.
        by: whom.
    """

    number: int
    period: str
    currency: str
    batch: Batch
    at_us: int
    by: str


def period_of(connection: Connection, cluster: str, period: str) -> Period:
    """A month of a cluster; open, in version 0, before its closing begins.

    Raises:
        Unavailable: another Cohabit wrote what it is to be closed with.
    """
    wanted = select(PERIODS).where(PERIODS.c.cluster == cluster, PERIODS.c.period == period)
    row = connection.execute(wanted).first()
    return Period(cluster, period) if row is None else _period(row)


def periods(engine: Engine, cluster: str) -> list[Period]:
    """Months of a cluster whose closing has begun, the newest first."""
    wanted = select(PERIODS).where(PERIODS.c.cluster == cluster).order_by(PERIODS.c.period.desc())
    with reading(engine) as connection:
        return [_period(row) for row in connection.execute(wanted)]


def change(connection: Connection, before: Period, after: Period, entry: Entry) -> None:
    """Put a changed period in the place of the version that was seen, and say who did that.

    Raises:
        Conflict: that is not the newest version any more; then nothing is changed.
    """
    values = {
        "state": after.state,
        "version": after.version,
        "changed_us": after.changed_us,
        "changed_by": after.changed_by[:200],
        "draft": None if after.draft is None else draft_json(after.draft),
    }
    if before.version == 0:
        _insert_first(connection, after, values)
    else:
        here = and_(PERIODS.c.cluster == after.cluster, PERIODS.c.period == after.period)
        same = and_(here, PERIODS.c.version == before.version)
        if connection.execute(update(PERIODS).where(same).values(**values)).rowcount != 1:
            raise period_changed(after.period, before.version)
    audit.add(connection, entry)


def post(connection: Connection, draft: Draft, at_us: int, by: str) -> Payables:
    """Add a month's batches, their postings, and what accounts pay; all within the caller's transaction.

    Args:
        connection: that writes.
        draft: what is billed.
        at_us: when.
        by: whom.

    Returns:
        What accounts pay.

    Raises:
        AdvisorError: postings of a batch do not sum to zero.
        Conflict: it takes back, or bills late, what another month has taken back or billed meanwhile.
    """
    corrected = sorted({batch.about for batch in draft.batches} - {draft.period})
    if corrected and connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": CORRECTIONS_LOCK})
    for batch in draft.batches:
        refuse_unbalanced(batch.pool, batch.postings)
        number = _insert_batch(connection, _batch_row(draft, batch, at_us, by))
        rows = [_posting_row(number, one) for one in batch.postings]
        connection.execute(insert(LEDGER_POSTINGS), rows)
    for about in corrected:
        _refuse_twice(connection, draft.cluster, about)
    found = payables(draft.postings, exponent_of(draft.currency))
    connection.execute(insert(PAYABLES), _payable_rows(draft, found))
    return found


def batches(engine: Engine, cluster: str, period: str) -> list[Posted]:
    """What was billed in a month, in the order it was posted."""
    here = and_(LEDGER_BATCHES.c.cluster == cluster, LEDGER_BATCHES.c.period == period)
    with reading(engine) as connection:
        return _posted(connection, here)


def standing(engine: Engine, cluster: str, about: str) -> list[Posted]:
    """What is billed of a month's hours by now: batches about it that no other one has taken back."""
    here = and_(LEDGER_BATCHES.c.cluster == cluster, LEDGER_BATCHES.c.about == about)
    with reading(engine) as connection:
        found = _posted(connection, here)
    gone = {one.batch.corrects for one in found if one.batch.sign < 0}
    return [one for one in found if one.batch.sign > 0 and one.number not in gone]


def batch_by_file(engine: Engine, cluster: str, start_of_sha256: str) -> list[Posted]:
    """Batches whose file's name begins so, hex digits."""
    here = and_(LEDGER_BATCHES.c.cluster == cluster, LEDGER_BATCHES.c.sha256.startswith(start_of_sha256))
    with reading(engine) as connection:
        return _posted(connection, here)


def paid(engine: Engine, cluster: str, period: str) -> dict[str, tuple[int, int, str]]:
    """Of a closed month, by account: micro-units owed, minor units to pay, currency; ROUNDING is the residue."""
    here = and_(PAYABLES.c.cluster == cluster, PAYABLES.c.period == period)
    wanted = select(PAYABLES).where(here).order_by(PAYABLES.c.account)
    with reading(engine) as connection:
        return {row.account: (row.owed_micros, row.minor, row.currency) for row in connection.execute(wanted)}


def total(engine: Engine, cluster: str) -> int:
    """Micro-units that all postings of a cluster sum to: zero, unless the database was edited by hand."""
    joined = LEDGER_POSTINGS.join(LEDGER_BATCHES)
    wanted = select(func.coalesce(func.sum(LEDGER_POSTINGS.c.amount_micros), 0)).select_from(joined)
    with reading(engine) as connection:
        return int(connection.execute(wanted.where(LEDGER_BATCHES.c.cluster == cluster)).scalar_one())


def store_change(engine: Engine, before: Period, after: Period, entry: Entry) -> None:
    """A change of a period in a transaction of its own; see `change`."""
    with writing(engine) as connection:
        change(connection, before, after, entry)


def _insert_first(connection: Connection, after: Period, values: Mapping[str, object]) -> None:
    """The first change of a period makes its row; of two that do so at once one loses."""
    row = {"cluster": after.cluster, "period": after.period, **values}
    try:
        connection.execute(insert(PERIODS).values(**row))
    except IntegrityError as error:
        raise period_changed(after.period, 0) from error


def _insert_batch(connection: Connection, row: Mapping[str, object]) -> int:
    """The number of a new batch."""
    try:
        key = connection.execute(insert(LEDGER_BATCHES).values(**row)).inserted_primary_key
    except IntegrityError as error:
        raise _taken_back(str(row["pool"]), str(row["about"])) from error
    assert key is not None  # noqa: S101 - the column numbers itself
    return int(key[0])


def _refuse_twice(connection: Connection, cluster: str, about: str) -> None:
    """Nothing, if no pool's day stands twice in what is billed of a month's hours.

    Raises:
        Conflict: one does: an earlier month has billed what was late, and this one would again.
    """
    of = LEDGER_BATCHES.c
    gone = select(of.corrects).where(of.cluster == cluster, of.sign < 0, of.corrects.is_not(None))
    here = and_(of.cluster == cluster, of.about == about, of.sign > 0, of.id.not_in(gone))
    twice = select(of.pool).where(here).group_by(of.pool, of.start_us, of.book).having(func.count() > 1)
    if (row := connection.execute(twice).first()) is not None:
        raise _taken_back(row.pool, about)


def _period(row: Row[tuple[object, ...]]) -> Period:
    draft = None if row.draft is None else draft_from(bytes(row.draft))
    return Period(row.cluster, row.period, row.state, row.version, row.changed_us, row.changed_by, draft)


def _batch_row(draft: Draft, batch: Batch, at_us: int, by: str) -> dict[str, object]:
    return {
        "cluster": draft.cluster,
        "period": draft.period,
        "about": batch.about,
        "pool": batch.pool,
        "start_us": batch.start_us,
        "sign": batch.sign,
        "cost_micros": batch.cost_micros,
        "sha256": batch.sha256,
        "inputs_sha256": batch.inputs_sha256,
        "lines": batch.rows,
        "currency": draft.currency,
        "book": batch.book,
        "policy": batch.policy,
        "model": batch.model,
        "corrects": batch.corrects,
        "posted_us": at_us,
        "posted_by": by[:200],
    }


def _posting_row(batch: int, one: Posting) -> dict[str, object]:
    return {
        "batch": batch,
        "account": one.account,
        "kind": one.kind,
        "amount_micros": one.amount_micros,
        "memo_micros": one.memo_micros,
        "lines": one.lines,
    }


def _payable_rows(draft: Draft, found: Payables) -> list[dict[str, object]]:
    shared = {"cluster": draft.cluster, "period": draft.period, "currency": draft.currency}
    rows = [
        {**shared, "account": account, "owed_micros": found.owed_micros[account], "minor": minor}
        for account, minor in found.minor.items()
    ]
    return [*rows, {**shared, "account": ROUNDING, "owed_micros": found.residue_micros, "minor": 0}]


def _posted(connection: Connection, here: object) -> list[Posted]:
    wanted = select(LEDGER_BATCHES).where(here).order_by(LEDGER_BATCHES.c.id)  # type: ignore[arg-type]
    rows = connection.execute(wanted).all()
    numbers: Sequence[int] = [row.id for row in rows]
    found: dict[int, list[Posting]] = {number: [] for number in numbers}
    chosen = LEDGER_POSTINGS.c.batch.in_(numbers)
    for one in connection.execute(select(LEDGER_POSTINGS).where(chosen)):
        found[one.batch].append(Posting(one.account, one.kind, one.amount_micros, one.memo_micros, one.lines))
    return [
        Posted(row.id, row.period, row.currency, _batch(row, found[row.id]), row.posted_us, row.posted_by)
        for row in rows
    ]


def _batch(row: Row[tuple[object, ...]], postings: Sequence[Posting]) -> Batch:
    return Batch(
        about=row.about,
        pool=row.pool,
        start_us=row.start_us,
        sha256=row.sha256,
        inputs_sha256=row.inputs_sha256,
        rows=row.lines,
        cost_micros=row.cost_micros,
        book=row.book,
        policy=row.policy,
        model=row.model,
        postings=ordered(postings),
        corrects=row.corrects,
        sign=row.sign,
    )


def _taken_back(pool: str, about: str) -> Conflict:
    return Conflict(
        f"another month has corrected the charges of pool {pool} in {about} meanwhile: reopen this month (`cohabit "
        "bill reopen`) and draft it again"
    )
