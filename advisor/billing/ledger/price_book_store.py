"""Price books in SQL: proposed once, approved by another person, never changed. An edge."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy import Connection, Engine, insert, select, text, update
from sqlalchemy.engine import Row

from advisor.auth import audit_log as audit
from advisor.auth.audit_log import Entry
from advisor.billing.ledger.price_book_records import Kept, book_from, book_json, in_force, refuse_decided, refuse_far
from advisor.billing.pricing.price_book import PriceBook, added, approved, refuse_wrong, without
from advisor.database.engine import PRICE_BOOKS, reading, writing
from advisor.errors import Conflict, NotFound

BOOKS_LOCK = 0xC04AB19
"""PostgreSQL's advisory lock: one decision on price books at a time, since versions have to fit together."""


def propose(engine: Engine, book: PriceBook, at_us: int, entry: Entry) -> None:
    """Put a version before a second person.

    Raises:
        BadPriceBook: it cannot be billed by, or lies in no month.
        Conflict: there is one of that name.
    """
    refuse_wrong(book)
    refuse_far(book)
    with _alone(engine) as connection:
        if any(one.book.version == book.version for one in _all(connection)):
            raise Conflict(
                f"price book {book.version!r} already exists, and versions are immutable: choose another name"
            )
        row = {"version": book.version, "start_us": book.start_us, "document": book_json(book)}
        values = {**row, "proposed_by": book.proposed_by, "proposed_us": at_us}
        connection.execute(insert(PRICE_BOOKS).values(**values))
        audit.add(connection, entry)


def approve(engine: Engine, version: str, by: str, at_us: int, entry: Entry) -> PriceBook:
    """A second person agrees; the version in force before it ends where it begins.

    The very first one may begin in the past: nothing can have been billed without a price.

    Raises:
        NotFound: there is none.
        Forbidden: it is who proposed it.
        Conflict: it has a decision already; it would begin in an hour that has begun; another version applies then.
    """
    with _alone(engine) as connection:
        kept = _all(connection)
        one = _one(kept, version)
        refuse_decided(one)
        signed, before = approved(one.book, by), in_force(kept)
        added(before, signed, at_us if before else min(at_us, signed.start_us - 1))
        _set(connection, version, approved_by=by, approved_us=at_us)
        audit.add(connection, entry)
    return signed


def withdraw(engine: Engine, version: str, by: str, at_us: int, entry: Entry) -> None:
    """Take a version back that has not begun.

    Raises:
        NotFound: there is none.
        Conflict: it has begun, and was approved; it was withdrawn before.
    """
    with _alone(engine) as connection:
        kept = _all(connection)
        one = _one(kept, version)
        if one.withdrawn_by is not None:
            refuse_decided(one)
        without(in_force(kept), version, at_us)
        _set(connection, version, withdrawn_by=by, withdrawn_us=at_us)
        audit.add(connection, entry)


def kept_books(engine: Engine) -> list[Kept]:
    """All versions that were ever proposed, by when they begin."""
    with reading(engine) as connection:
        return _all(connection)


def books(engine: Engine) -> tuple[PriceBook, ...]:
    """The versions that hours are billed by, by time."""
    return in_force(kept_books(engine))


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """A transaction that excludes other decisions on price books."""
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": BOOKS_LOCK})
        yield connection


def _all(connection: Connection) -> list[Kept]:
    rows = connection.execute(select(PRICE_BOOKS).order_by(PRICE_BOOKS.c.start_us, PRICE_BOOKS.c.version))
    return [_kept(row) for row in rows]


def _kept(row: Row[tuple[object, ...]]) -> Kept:
    book = replace(book_from(bytes(row.document)), approved_by=row.approved_by)
    return Kept(book, row.proposed_us, row.approved_us, row.withdrawn_by)


def _one(kept: list[Kept], version: str) -> Kept:
    for one in kept:
        if one.book.version == version:
            return one
    raise NotFound(f"no price book {version[:80]!r}: `cohabit bill books` lists all versions")


def _set(connection: Connection, version: str, **values: object) -> None:
    connection.execute(update(PRICE_BOOKS).where(PRICE_BOOKS.c.version == version).values(**values))
