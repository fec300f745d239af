"""Gang reservations in SQL: one row each, changed by one owner at a time. An edge.

All changes of a database follow one another: an advisory lock of PostgreSQL, a transaction that writes from its start
in SQLite. Each raises the version of its cluster's grants; what was computed from an older version is computed again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Engine, and_, insert, or_, select, text, update

from advisor.cluster.gang_slots import GangSlot
from advisor.database.engine import GANG_GRANTS, GANGS, reading, writing
from advisor.errors import NotFound, Unavailable
from advisor.gangs.gang_lifecycle import GangReservation, current, waiting

GANGS_LOCK = 0xC04AB1B
"""PostgreSQL's advisory lock that the owner of all grants holds."""
RECENT_US = 3_600_000_000
"""Reservations that are not open are read for so long after their last change; room is never older."""
KEPT_US = 7 * 86_400_000_000
"""Reservations that are over are deleted so long after their last change."""
MAX_LISTED, MAX_ENDS = 10_000, 16
_decode = msgspec.json.Decoder(GangReservation).decode


class Grants(NamedTuple):
    """Reservations of a cluster that may hold room, and the version of its grants."""

    version: int
    gangs: list[GangReservation]


@contextmanager
def owning(engine: Engine) -> Iterator[Connection]:
    """A connection whose owner is the only one that changes grants; all its statements count at the end, or none.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": GANGS_LOCK})
        yield connection


def read_grants(engine: Engine, cluster: str, now_us: int) -> Grants:
    """The grants of a cluster as they are now.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    with reading(engine) as connection:
        return grants_of(connection, cluster, now_us)


def grants_of(connection: Connection, cluster: str, now_us: int) -> Grants:
    """The same in a connection's transaction.

    Raises:
        Unavailable: there are too many to read them all.
    """
    version = connection.scalar(select(GANG_GRANTS.c.version).where(GANG_GRANTS.c.cluster == cluster)) or 0
    recent = and_(GANGS.c.changed_us > now_us - RECENT_US, GANGS.c.held > 0)
    found = _gangs(connection, and_(GANGS.c.cluster == cluster, or_(GANGS.c.state == "open", recent)))
    if len(found) == MAX_LISTED:
        raise Unavailable(f"{MAX_LISTED} gangs hold slots: release some, nothing is granted meanwhile")
    return Grants(version, found)


def open_slots(engine: Engine, cluster: str, now_us: int) -> list[GangSlot]:
    """Slots of a cluster that wait for a pod, also those that failed members left.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    return [
        GangSlot(f"{one.namespace}/{one.gang}", slot.node, of._replace(team=""), slot_until)
        for one in read_grants(engine, cluster, now_us).gangs
        for slot, slot_until in waiting(one, now_us)
        if (of := one.members[slot.member].of)
    ]


def with_known_end(connection: Connection, cluster: str, now_us: int) -> list[GangReservation]:
    """Settled gangs that are expected to end, the first ones first."""
    wanted = and_(GANGS.c.cluster == cluster, GANGS.c.state == "settled", GANGS.c.ends_us > now_us)
    rows = select(GANGS.c.document).where(wanted).order_by(GANGS.c.ends_us, GANGS.c.id).limit(MAX_ENDS)
    return [_decode(row[0]) for row in connection.execute(rows)]


def recent_sizes(connection: Connection, cluster: str, most: int) -> list[int]:
    """Members of the newest gangs of a cluster."""
    rows = select(GANGS.c.size).where(GANGS.c.cluster == cluster).order_by(GANGS.c.created_us.desc()).limit(most)
    return [row[0] for row in connection.execute(rows)]


def of_key(connection: Connection, cluster: str, namespace: str, gang: str) -> list[GangReservation]:
    """Reservations of all generations of a gang that are kept."""
    here = and_(GANGS.c.cluster == cluster, GANGS.c.namespace == namespace, GANGS.c.gang == gang)
    return _gangs(connection, here)


def one_of(connection: Connection, cluster: str, name: str) -> GangReservation:
    """A reservation by its id.

    Raises:
        NotFound: there is none.
    """
    found = _gangs(connection, and_(GANGS.c.cluster == cluster, GANGS.c.id == name))
    if not found:
        raise NotFound(f"no gang reservation {name[:80]!r}: GET /v1/gangs lists all")
    return found[0]


def put(connection: Connection, one: GangReservation) -> None:
    """Keep a reservation in the place of the one of its id, and raise the version of grants; for the owner."""
    row = {
        "state": one.state,
        "size": len(one.slots),
        "held": sum(one.state == "open" or slot.state != "open" for slot in one.slots),
        "until_us": one.until_us,
        "changed_us": one.changed_us,
        "ends_us": one.ends_us,
        "document": msgspec.json.encode(one),
    }
    if not connection.execute(update(GANGS).where(GANGS.c.id == one.id).values(**row)).rowcount:
        key = {name: getattr(one, name) for name in ("id", "cluster", "namespace", "gang", "generation", "created_us")}
        connection.execute(insert(GANGS).values(**key, **row))
    here = GANG_GRANTS.c.cluster == one.cluster
    if not connection.execute(update(GANG_GRANTS).where(here).values(version=GANG_GRANTS.c.version + 1)).rowcount:
        connection.execute(insert(GANG_GRANTS).values(cluster=one.cluster, version=1))


def sweep(connection: Connection, cluster: str, now_us: int) -> list[GangReservation]:
    """End reservations whose time is over, and forget old ones; those that ended. For the owner."""
    over = and_(GANGS.c.cluster == cluster, GANGS.c.state == "open", GANGS.c.until_us <= now_us)
    ended = [current(one, now_us) for one in _gangs(connection, over)]
    for one in ended:
        put(connection, one)
    old = and_(GANGS.c.cluster == cluster, GANGS.c.state != "open", GANGS.c.changed_us <= now_us - KEPT_US)
    connection.execute(GANGS.delete().where(old, or_(GANGS.c.ends_us.is_(None), GANGS.c.ends_us <= now_us)))
    return ended


def _gangs(connection: Connection, wanted: ColumnElement[bool]) -> list[GangReservation]:
    rows = select(GANGS.c.document).where(wanted).order_by(GANGS.c.created_us, GANGS.c.id).limit(MAX_LISTED)
    return [_decode(row[0]) for row in connection.execute(rows)]
