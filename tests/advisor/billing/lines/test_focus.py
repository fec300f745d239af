"""FOCUS: what was billed, in rows that sum to what accounts pay and that the public validator accepts."""

import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import Engine

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.lines.accounts import ROUNDING
from advisor.billing.lines.focus import COLUMNS, Grain
from advisor.billing.pricing.price_book import HOUR_US
from advisor.errors import Conflict
from cohabit.billing.draft import draft_of
from cohabit.billing.statements.focus_export import export_focus
from features.schema.tables import METERED, POOL_HOURS
from tests.advisor.billing.billed import START_US
from tests.advisor.billing.lines.focus_validator import EXPECTED, failures
from tests.advisor.billing.metered_month import (
    END,
    HOURS,
    lake_of,
    metered_row,
    pool_rows,
    price_book,
    put,
    rows,
    table_of,
)
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD
from tests.advisor.stores import migrated_store

CATEGORIES = {"Usage", "Credit", "Adjustment"}
PRICING = {"", "Standard", "Dynamic"}


@dataclass(frozen=True)
class Billed:
    """November billed, and December, which corrects a late container of it."""

    store: Engine
    folder: Path


def billed(store: Engine, folder: Path) -> Billed:
    lake, lines = lake_of(folder / "lake", rows(), pool_rows()), folder / "lines"
    entry = Entry(0, "ann", "finance", "x", "y", "done", "r")
    book_store.propose(store, price_book(), START_US - HOUR_US, entry)
    book_store.approve(store, "2026-11", "bob", START_US - HOUR_US, entry)
    closing, books = Closing(store, "c", lambda: NOW_US), book_store.books(store)
    november = draft_of(lake, "c", PERIOD, books=books, folder=lines, progress=lambda *_: None)
    closing.close(PERIOD, closing.begin(november, 0, ANN).digest, BOB)
    put(lake, [*rows(), metered_row(HOURS[0], "late-1", "cpu", 1.0)], pool_rows())
    later = [END.replace(hour=h) for h in range(3)]
    lake.replace("metered", END, END.replace(day=2), "metering", table_of(rows(later), METERED))
    lake.replace("pool_hours", END, END.replace(day=2), "metering", table_of(pool_rows(later), POOL_HOURS))
    corrected = {PERIOD: ledger_store.standing(store, "c", PERIOD)}
    december = draft_of(lake, "c", "2026-12", books=books, folder=lines, progress=lambda *_: None, corrected=corrected)
    closing.close("2026-12", closing.begin(december, 0, ANN).digest, BOB)
    return Billed(store, folder)


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Billed]:
    folder = tmp_path_factory.mktemp("billed")
    with migrated_store(folder / "store.sqlite") as store:
        yield billed(store, folder)


def exported(of: Billed, *, hourly: bool = False) -> list[dict[str, str]]:
    out = of.folder / "2026-12.csv"
    grain: Grain = "hour" if hourly else "day"
    export_focus(of.store, "c", "2026-12", folder=of.folder / "lines", out=out, grain=grain, progress=lambda *_: None)
    with out.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_invoices_sum_to_what_accounts_pay_in_every_database(store: Engine, tmp_path: Path) -> None:
    """I17."""
    refuse_other_sums(billed(store, tmp_path), hourly=False)


def test_invoices_of_hours_sum_to_the_same(month: Billed) -> None:
    """I17."""
    refuse_other_sums(month, hourly=True)


def refuse_other_sums(of: Billed, *, hourly: bool) -> None:
    """Nothing, if invoices are what accounts pay, and all of them what pools cost."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in exported(of, hourly=hourly):
        sums[row["InvoiceId"]] += Decimal(row["BilledCost"])

    paid = ledger_store.paid(of.store, "c", "2026-12")
    assert {name: sums[f"c-2026-12-{name}"] for name in paid if name != ROUNDING} == {
        name: Decimal(minor) / 100 for name, (_, minor, _) in paid.items() if name != ROUNDING
    }
    owed = sum(micros for name, (micros, _, _) in paid.items() if name != ROUNDING)
    assert sum(sums.values()) == Decimal(owed) / 10**6


def test_hours_of_a_day_sum_to_the_day(month: Billed) -> None:
    def by_day(hourly: bool) -> dict[tuple[str, ...], Decimal]:  # noqa: FBT001 - one argument
        found: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
        for row in exported(month, hourly=hourly):
            key = row["ChargePeriodStart"][:10], row["SubAccountId"], row["ResourceId"], row["x_Kind"], row["SkuMeter"]
            found[key] += Decimal(row["BilledCost"])
        return {key: amount for key, amount in found.items() if amount}

    assert by_day(hourly=True) == by_day(hourly=False)


def test_every_value_of_a_list_is_one_of_the_specification(month: Billed) -> None:
    """I17: the validator passes a wrong one where another row of the column is right."""
    found = exported(month)

    assert tuple(found[0]) == COLUMNS
    assert {row["ChargeCategory"] for row in found} <= CATEGORIES
    assert {row["PricingCategory"] for row in found} <= PRICING
    assert {row["ChargeClass"] for row in found} == {"", "Correction"}
    assert {row["ChargeFrequency"] for row in found} <= {"Usage-Based", "One-Time", "Recurring"}
    assert {(row["ServiceCategory"], row["ServiceSubcategory"]) for row in found} == {("Compute", "Containers")}


def test_corrections_are_of_the_month_that_they_are_billed_in_and_charged_for_the_one_they_are_about(
    month: Billed,
) -> None:
    corrections = [row for row in exported(month) if row["ChargeClass"] == "Correction"]

    assert {row["BillingPeriodStart"][:7] for row in corrections} == {"2026-12"}
    assert {row["ChargePeriodStart"][:7] for row in corrections} == {"2026-11"}
    assert sum(Decimal(row["BilledCost"]) for row in corrections) == 0


def test_a_price_times_its_quantity_is_the_cost(month: Billed) -> None:
    for row in exported(month):
        if row["PricingQuantity"]:
            product = Decimal(row["ListUnitPrice"]) * Decimal(row["PricingQuantity"])
            assert abs(product - Decimal(row["ListCost"])) < Decimal("0.000001")


def test_a_month_that_is_not_closed_is_not_exported(store: Engine, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="is open and cannot be exported"):
        exported(Billed(store, tmp_path))
    assert not (tmp_path / "2026-12.csv").exists()


@pytest.mark.long
def test_the_public_validator_finds_nothing_that_was_not_expected(month: Billed, tmp_path: Path) -> None:
    exported(month)

    failed, looked_at = failures(month.folder / "2026-12.csv", tmp_path)

    assert looked_at > 200
    assert set(failed) <= EXPECTED, failed
