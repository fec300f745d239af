"""Reservations in SQL: written with an export, read by servers, withdrawn with the plan."""

from collections.abc import Iterable
from dataclasses import asdict, fields

from sqlalchemy import Connection, Engine, bindparam, select

from advisor.database.engine import RESERVATIONS, reading
from advisor.placement.reservation_match import Reservation
from advisor.placement.reservations import MAX_OPEN

COLUMNS = tuple(RESERVATIONS.c[field.name] for field in fields(Reservation))


def open_reservations(engine: Engine, cluster: str, now_us: int) -> list[Reservation]:
    """Reservations of a cluster that have not expired, the earliest to expire first, MAX_OPEN at most.

    Raises:
        StoreUnavailable: the database does not answer.
        StoreOutdated: there is no file yet.
    """
    wanted = select(*COLUMNS).where(RESERVATIONS.c.cluster == cluster, RESERVATIONS.c.expires_us > now_us)
    ordered = wanted.order_by(RESERVATIONS.c.expires_us, RESERVATIONS.c.reservation).limit(MAX_OPEN)
    with reading(engine) as connection:
        return [Reservation(*row) for row in connection.execute(ordered)]


def add_reservations(connection: Connection, reservations: Iterable[Reservation]) -> None:
    """Open reservations in the connection's transaction; an existing one of the same name is replaced."""
    rows = [asdict(reservation) for reservation in reservations]
    if rows:
        named = RESERVATIONS.c.reservation == bindparam("named")
        connection.execute(RESERVATIONS.delete().where(named), [{"named": row["reservation"]} for row in rows])
        connection.execute(RESERVATIONS.insert(), rows)


def withdraw(connection: Connection, plan: str) -> int:
    """End all reservations of a plan in the connection's transaction; returns their number."""
    return connection.execute(RESERVATIONS.delete().where(RESERVATIONS.c.plan == plan)).rowcount
