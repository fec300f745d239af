"""A month of a pool that nobody takes all of: by cause, paid by whom the price book says, each line explained."""

from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from json import loads
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import Engine

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.breakdown import accounts_of, idle_by_cause
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.drafts import Draft
from advisor.billing.lines.focus import Invoice, focus_rows
from advisor.billing.lines.parquet import read_lines
from advisor.billing.pricing.price_book import HOUR_US, IdleKeys, PriceBook
from cohabit.billing.draft import draft_of
from cohabit.billing.statements.explain import explain
from cohabit.billing.statements.tables import show_explained
from ingest.lake.tables import Lake
from tests.advisor.billing.billed import POLICY, START_US
from tests.advisor.billing.metered_month import END, HOURS, lake_of, leave, pool_rows, price_book, rows
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD

KEYS = IdleKeys(headroom="teams", stranded="causers")
BOOK = replace(price_book(), policy=replace(POLICY, idle=KEYS))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """The month as ever, a part of it stranded by two teams, a part failed, every hour."""
    made = lake_of(tmp_path / "lake", rows(), pool_rows())
    leave(made)
    return made


def drafted(lake: Lake, folder: Path, book: PriceBook = BOOK) -> Draft:
    return draft_of(lake, "c", PERIOD, books=[book], folder=folder, progress=lambda *_: None)


def by_kind_and_account(draft: Draft) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = defaultdict(int)
    for account in accounts_of(draft.batches):
        for kind, amount in account.by_kind.items():
            found[kind, account.name] += amount
    return dict(found)


def test_causes_are_all_of_what_nobody_took_and_each_is_paid_by_its_key(lake: Lake, tmp_path: Path) -> None:
    """I1: who pays moves between accounts, and the sum of the month stays."""
    draft = drafted(lake, tmp_path)
    nobody_told = drafted(lake_of(tmp_path / "bare", rows(), pool_rows()), tmp_path)

    found, idle = by_kind_and_account(draft), idle_by_cause(accounts_of(draft.batches))

    assert sum(found.values()) == sum(row["cost_micros"] for row in pool_rows())  # type: ignore[misc]
    assert set(idle) == {"failure", "headroom", "stranded"}
    assert sum(idle.values()) == sum(idle_by_cause(accounts_of(nobody_told.batches)).values())
    stranded = [found["idle_stranded", account] for account in ("platform", "search", "shop")]
    assert max(stranded) - min(stranded) <= len(HOURS)
    assert found["idle_failure", "platform"] == pytest.approx(2 * stranded[0], abs=3 * len(HOURS))
    base = {account: amount for (kind, account), amount in found.items() if kind == "base"}
    for account, amount in base.items():
        share = found["idle_headroom", account] / idle["headroom"]
        assert share == pytest.approx(amount / sum(base.values()), abs=0.01)


def test_lines_of_idle_are_explained_by_what_was_free_and_by_whom(
    store: Engine, lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = Entry(0, "ann", "finance", "x", "y", "done", "r")
    book_store.propose(store, BOOK, START_US - HOUR_US, entry)
    book_store.approve(store, BOOK.version, "bob", START_US - HOUR_US, entry)
    closing, folder = Closing(store, "c", lambda: NOW_US), tmp_path / "lines"
    draft = draft_of(lake, "c", PERIOD, books=book_store.books(store), folder=folder, progress=lambda *_: None)
    closing.close(PERIOD, closing.begin(draft, 0, ANN).digest, BOB)
    batch = draft.batches[0]
    lines = read_lines(folder / f"{batch.sha256}.parquet")[0]

    for row, line in enumerate(lines.to_pylist()):
        if line["kind"].startswith("idle_"):
            found = explain(store, "c", f"{batch.sha256[:12]}-{row}", folder)
            assert found.same
            assert bool(found.idle) == (line["kind"] != "idle_headroom")
    row = lines["kind"].to_pylist().index("idle_stranded")
    show_explained("x", explain(store, "c", f"{batch.sha256[:12]}-{row}", folder))

    told = capsys.readouterr().out
    assert "paid by: causers" in told
    assert "memory: 3.000000 unit-hours (search adds 1.000000, shop adds 1.000000)" in told


@pytest.mark.parametrize("grain", ["day", "hour"])
def test_rows_of_focus_are_allocated_from_the_charge_of_each_cause(lake: Lake, tmp_path: Path, grain: str) -> None:
    """I17: ratios of a charge sum to 1, exactly, and its parts to the charge."""
    [first, *_] = drafted(lake, tmp_path).batches
    lines = read_lines(tmp_path / f"{first.sha256}.parquet")[0]
    of = Invoice("c", (END, END, PERIOD), PERIOD, "EUR", "std@a", BOOK.version, {"cpu": "core", "memory": "GiB"})

    ratios, costs = defaultdict(list), defaultdict(list)
    for row in focus_rows(lines, of, grain):  # type: ignore[arg-type]
        assert row["x_Kind"].startswith("idle_") == bool(row["x_AllocatedMethodDetails"])
        if row["x_AllocatedMethodDetails"]:
            charge = row["ChargePeriodStart"], row["x_AllocatedMethodId"], row["x_AllocatedResourceId"]
            [element] = loads(row["x_AllocatedMethodDetails"], parse_float=Decimal)["Elements"]
            ratios[charge].append(element["AllocatedRatio"])
            costs[charge].append(Decimal(row["BilledCost"]))

    assert {charge[1] for charge in ratios} == {f"2026-11/idle_{c}" for c in ("failure", "headroom", "stranded")}
    for charge, parts in ratios.items():
        assert sum(parts) == 1
        whole = sum(costs[charge])
        assert all(abs(r * whole - cost) < Decimal("0.000002") for r, cost in zip(parts, costs[charge], strict=True))


def test_the_same_rows_in_another_order_make_the_same_draft(lake: Lake, tmp_path: Path) -> None:
    """I3."""
    before = drafted(lake, tmp_path)
    told = lake.read("idle")
    backwards = told.take(pa.array(range(told.num_rows - 1, -1, -1)))
    lake.replace("idle", HOURS[0].replace(hour=0), END, "metering", backwards)

    assert drafted(lake, tmp_path) == before
