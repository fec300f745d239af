"""Reservations in SQL: written with an export, read by servers, withdrawn with the proposal."""

from collections.abc import Iterable
from dataclasses import asdict, fields

from sqlalchemy import Connection, Engine, bindparam, select

from advisor.database.engine import LEASES, reading
from advisor.placement.reservation_match import Lease
from advisor.placement.reservations import MOST_OPEN

COLUMNS = tuple(LEASES.c[field.name] for field in fields(Lease))


def open_leases(engine: Engine, cluster: str, now_us: int) -> list[Lease]:
    """Leases of a cluster that have not expired, the earliest to expire first, MOST_OPEN at most.

    Raises:
        StoreUnavailable: the database does not answer.
        StoreOutdated: there is no file yet.
    """
    wanted = select(*COLUMNS).where(LEASES.c.cluster == cluster, LEASES.c.expires_us > now_us)
    ordered = wanted.order_by(LEASES.c.expires_us, LEASES.c.lease).limit(MOST_OPEN)
    with reading(engine) as connection:
        return [Lease(*row) for row in connection.execute(ordered)]


def add_leases(connection: Connection, leases: Iterable[Lease]) -> None:
    """Open leases, within whatever else the connection writes; one of a name that is there replaces it."""
    rows = [asdict(lease) for lease in leases]
    if rows:
        named = LEASES.c.lease == bindparam("named")
        connection.execute(LEASES.delete().where(named), [{"named": row["lease"]} for row in rows])
        connection.execute(LEASES.insert(), rows)


def withdraw(connection: Connection, proposal: str) -> int:
    """End all leases of a proposal, within whatever else the connection writes; how many there were."""
    return connection.execute(LEASES.delete().where(LEASES.c.proposal == proposal)).rowcount
