"""A bill office over a metered month: its store, its lines, and the month begun to be closed or closed."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine

from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.drafts import Draft
from advisor.billing.quotes.dependencies import BillOffice
from advisor.billing.quotes.hourly_inputs import Newest
from cohabit.billing.draft import draft_of
from features.schema.tables import METERED, POOL_HOURS
from tests.advisor.billing.metered_month import (
    HOURS,
    judge,
    lake_of,
    leave,
    pool_rows,
    price_book,
    rows,
    slowed_row,
    table_of,
)
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD

NODES = ("n0", "n1", "n2")
LATER_US = NOW_US + 30 * 86_400 * 10**6
"""When a version of the price book that is proposed now may begin; a full hour."""


def bill_office(store: Engine, folder: Path) -> BillOffice:
    """One that has a price book, and a month that is being closed."""
    office = BillOffice(Closing(store, "c", lambda: NOW_US), folder / "lines", new_id=lambda: "r1", newest=last_hour)
    book = replace(price_book(), approved_by=None)
    book_store.propose(store, book, NOW_US, office.entry(ANN, "propose price book", book.version))
    book_store.approve(store, book.version, "bob", NOW_US, office.entry(BOB, "approve price book", book.version))
    draft, files = drafted()
    office.lines.mkdir(parents=True)
    for name, content in files.items():
        (office.lines / name).write_bytes(content)
    office.closing.begin(draft, 0, ANN)
    return office


@cache
def last_hour() -> Newest:
    """The month's last hour; everybody is on n1."""
    last = HOURS[-1]
    metered, pools = ([row for row in of if row["hour"] == last] for of in (rows(), pool_rows()))
    pool_of = dict.fromkeys(NODES, "std@a")
    return Newest(round(last.timestamp() * 1e6), table_of(metered, METERED), table_of(pools, POOL_HOURS), pool_of)


@cache
def drafted() -> tuple[Draft, dict[str, bytes]]:
    """What the month comes to, and its files: made once, since that takes longer than most tests."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        lake, files = lake_of(folder / "lake", rows(), pool_rows()), folder / "lines"
        judge(lake, [slowed_row(hour) for hour in HOURS[-3:]])
        leave(lake)
        found = draft_of(lake, "c", PERIOD, books=[price_book()], folder=files, progress=lambda *_: None)
        return found, {path.name: path.read_bytes() for path in files.iterdir()}


def proposed(office: BillOffice, version: str = "2027-01") -> str:
    """A version of the price book that waits for a second person; its name."""
    book = replace(price_book(version, LATER_US), proposed_by="ann", approved_by=None)
    book_store.propose(office.closing.engine, book, NOW_US, office.entry(ANN, "propose price book", version))
    return version


def closed(office: BillOffice) -> BillOffice:
    """The same, with its month closed."""
    office.closing.close(PERIOD, office.closing.one(PERIOD).digest, BOB)
    return office
