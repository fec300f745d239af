"""Billing: a month of the lake as lines that sum to what pools cost, each worked out again to the micro-unit."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Engine

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.drafts import Draft, digest_of
from advisor.billing.ledger.postings import owed
from advisor.billing.lines.parquet import read_lines, reference
from advisor.billing.pricing.price_book import HOUR_US
from advisor.errors import Conflict, Invalid, NotFound, Unavailable
from cohabit.billing.draft import corrections, draft_of, refuse_unmetered
from cohabit.billing.statements.explain import explain
from cohabit.config.errors import CohabitError
from features.schema.tables import BILLS, METERED, POOL_HOURS
from ingest.lake.tables import Lake
from ingest.schema.provenance import BatchId
from tests.advisor.billing.billed import START_US
from tests.advisor.billing.metered_month import (
    COST,
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
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD, draft
from tests.advisor.billing.months_drawn import batch as drawn

LATER_US = round((END - timedelta(hours=5)).timestamp() * 1e6)
TWO_BOOKS = [replace(price_book(), end_us=LATER_US), price_book("2026-11b", LATER_US)]


def drafted(lake: Lake, folder: Path, books: object = None) -> Draft:
    found = books or [price_book()]
    return draft_of(lake, "c", PERIOD, books=found, folder=folder, progress=lambda *_: None)  # type: ignore[arg-type]


def test_a_month_comes_to_what_its_pools_cost_to_the_micro_unit(lake: Lake, tmp_path: Path) -> None:
    found = drafted(lake, tmp_path / "lines")

    amounts = owed(found.postings)
    assert sum(amounts.values()) == sum(COST + n for n in range(len(HOURS)))
    assert set(amounts) == {"shop", "search", "platform", "unattributed"}
    assert [batch.pool for batch in found.batches] == ["std@a"] * 2
    assert all(batch.amount_micros == batch.cost_micros for batch in found.batches)


def test_the_same_month_makes_the_same_draft_whatever_order_its_rows_are_in(tmp_path: Path, lake: Lake) -> None:
    mixed = rows()
    Random(3).shuffle(mixed)
    other = lake_of(tmp_path / "other", mixed, pool_rows()[::-1])

    assert digest_of(drafted(lake, tmp_path / "a")) == digest_of(drafted(other, tmp_path / "b"))
    assert {p.name for p in (tmp_path / "a").iterdir()} == {p.name for p in (tmp_path / "b").iterdir()}


def test_a_price_book_that_begins_within_a_day_changes_the_hours_from_then_on_alone(lake: Lake, tmp_path: Path) -> None:
    one, two = drafted(lake, tmp_path / "l"), drafted(lake, tmp_path / "l", TWO_BOOKS)

    assert [batch.book for batch in two.batches] == ["2026-11", "2026-11", "2026-11b"]
    before = [read_lines(tmp_path / "l" / f"{of.batches[1].sha256}.parquet")[0] for of in (one, two)]
    assert before[0].slice(0, before[1].num_rows).to_pylist() == before[1].to_pylist()


def test_late_data_makes_another_draft_and_what_was_closed_stays(lake: Lake, tmp_path: Path, closing: Closing) -> None:
    digest = closing.begin(drafted(lake, tmp_path / "l"), 0, ANN).digest
    closing.close(PERIOD, digest, BOB)
    put(lake, [*rows(), metered_row(HOURS[0], "late-1", "cpu", 1.0)], pool_rows())

    assert digest_of(drafted(lake, tmp_path / "l")) != digest
    assert closing.one(PERIOD).digest == digest


def test_every_line_that_was_billed_is_worked_out_again_the_same(store: Engine, lake: Lake, tmp_path: Path) -> None:
    entry = Entry(0, "ann", "finance", "x", "y", "done", "r")
    book_store.propose(store, price_book(), START_US - HOUR_US, entry)
    folder, closing = tmp_path / "l", Closing(store, "c", lambda: NOW_US)
    found = drafted(lake, folder)
    closing.close(PERIOD, closing.begin(found, 0, ANN).digest, BOB)
    put(lake, [], [])  # the lake has forgotten the month

    for batch in found.batches:
        for row in range(0, batch.rows, 7):
            told = explain(store, "c", reference(batch.sha256, row), folder)
            assert told.same, told
    assert told.batch.batch.book == "2026-11"


def test_a_line_is_explained_by_what_was_metered_of_it(store: Engine, lake: Lake, tmp_path: Path) -> None:
    entry = Entry(0, "ann", "finance", "x", "y", "done", "r")
    book_store.propose(store, price_book(), START_US - HOUR_US, entry)
    folder, closing = tmp_path / "l", Closing(store, "c", lambda: NOW_US)
    found = drafted(lake, folder)
    closing.close(PERIOD, closing.begin(found, 0, ANN).digest, BOB)
    lines, _ = read_lines(folder / f"{found.batches[0].sha256}.parquet")
    row = next(i for i, line in enumerate(lines.to_pylist()) if line["container"] == "web-2")

    told = explain(store, "c", reference(found.batches[0].sha256, row), folder)

    assert [one["container"] for one in told.metered] == ["web-2"]
    assert told.pools[0]["cost_micros"] == COST + HOURS.index(lines["hour"][row].as_py())


def test_what_is_no_line_or_was_changed_is_told(store: Engine, lake: Lake, tmp_path: Path) -> None:
    entry = Entry(0, "ann", "finance", "x", "y", "done", "r")
    book_store.propose(store, price_book(), START_US - HOUR_US, entry)
    folder, closing = tmp_path / "l", Closing(store, "c", lambda: NOW_US)
    found = drafted(lake, folder)
    closing.close(PERIOD, closing.begin(found, 0, ANN).digest, BOB)
    first = found.batches[0]

    for told, why in (
        ("nonsense", "called by"),
        ("0" * 12 + "-1", "begins so"),
        (reference(first.sha256, 10**9), "lines"),
    ):
        with pytest.raises(CohabitError, match=why):
            explain(store, "c", told, folder)
    inputs = folder / f"{first.inputs_sha256}.inputs"
    inputs.write_bytes(inputs.read_bytes()[:-1] + b"x")
    with pytest.raises(CohabitError, match="restore it from a backup"):
        explain(store, "c", reference(first.sha256, 0), folder)
    (folder / f"{first.sha256}.parquet").write_bytes(b"PAR1")
    with pytest.raises(Unavailable, match="restore it from a backup, or draft the month again"):
        explain(store, "c", reference(first.sha256, 0), folder)


def test_hours_without_price_and_months_without_hours_cannot_be_billed(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="`cohabit bill propose-book`"):
        drafted(lake, tmp_path, [price_book(start_us=round(END.timestamp() * 1e6))])
    with pytest.raises(Conflict, match="no metered hours"):
        draft_of(lake, "other", PERIOD, books=[price_book()], folder=tmp_path, progress=lambda *_: None)
    with pytest.raises(Invalid, match="is not a month"):
        draft_of(lake, "c", "2026-11-01", books=[price_book()], folder=tmp_path, progress=lambda *_: None)


@pytest.mark.parametrize(("changes", "fine"), [({}, False), ({"pool": "gpu@a"}, True), ({"currency": "EUR"}, True)])
def test_a_bill_in_another_currency_is_not_shared_out_as_if_it_were_the_price_books(
    lake: Lake, tmp_path: Path, changes: dict[str, str], *, fine: bool
) -> None:
    bill = {"cluster": "c", "hour": HOURS[3], "pool": "std@a", "bill": "aws", "item": "1", "currency": "USD"}
    lake.append("bills", table_of([{**bill, "cost_micros": 7, **changes}], BILLS), BatchId("bill-1", 0))

    if fine:
        assert drafted(lake, tmp_path).batches
    else:
        with pytest.raises(CohabitError, match=r"bill 'aws' is in USD, but price book '2026-11' is in EUR"):
            drafted(lake, tmp_path)


def test_all_pools_that_lack_a_cost_are_told_at_once(lake: Lake, tmp_path: Path) -> None:
    unknown = [
        {**row, "cost_micros": None, "cost_source": None, "pool": pool} for pool in "ab" for row in pool_rows()[:2]
    ]
    put(lake, rows(), [*pool_rows(), *unknown])

    told = r"pool 'a' has no cost in 2 of its hours, from 29 18:00 on; pool 'b' .*import.*meter --from 2026-11-01 --to"
    with pytest.raises(Conflict, match=told):
        drafted(lake, tmp_path)


def test_a_month_is_closed_when_it_is_over_and_each_of_its_hours_was_metered(lake: Lake) -> None:
    refuse_unmetered(lake, "c", PERIOD, END)
    with pytest.raises(Conflict, match="not over before 2026-12-01"):
        refuse_unmetered(lake, "c", PERIOD, END - timedelta(seconds=1))

    put(lake, rows(), pool_rows(HOURS[:5] + HOURS[6:]))

    with pytest.raises(Conflict, match=r"1 of its hours were not metered \(29 23:00"):
        refuse_unmetered(lake, "c", PERIOD, END)


def test_the_ledger_sums_to_zero_after_months_were_billed(lake: Lake, tmp_path: Path, closing: Closing) -> None:
    closing.close(PERIOD, closing.begin(drafted(lake, tmp_path / "l", TWO_BOOKS), 0, ANN).digest, BOB)

    assert ledger_store.total(closing.engine, "c") == 0
    paid = ledger_store.paid(closing.engine, "c", PERIOD)
    assert sum(micros for who, (micros, _, _) in paid.items() if who != "rounding") == sum(
        COST + n for n in range(len(HOURS))
    )


def closed(closing: Closing, of: Draft) -> None:
    begun = closing.begin(of, closing.one(of.period).version, ANN)
    closing.close(of.period, begun.digest, BOB)


DECEMBER = [END + timedelta(hours=h) for h in range(3)]


def test_a_correction_nets_to_the_new_cost_less_the_old_and_the_closed_month_stays(
    lake: Lake, tmp_path: Path, closing: Closing
) -> None:
    """I14: a container came late, the last hour's bill changed, and a day was metered that was not before."""
    books = [price_book()]
    closed(closing, drafted(lake, tmp_path / "l"))
    before = ledger_store.batches(closing.engine, "c", PERIOD)
    late = [*rows(), metered_row(HOURS[0], "late-1", "cpu", 1.0)]
    pools = [*pool_rows([HOURS[0] - timedelta(days=1)]), *pool_rows()[:-1], {**pool_rows()[-1], "cost_micros": 5}]
    put(lake, late, pools)
    lake.replace("metered", END, END + timedelta(days=1), "metering", table_of(rows(DECEMBER), METERED))
    lake.replace("pool_hours", END, END + timedelta(days=1), "metering", table_of(pool_rows(DECEMBER), POOL_HOURS))

    standing = ledger_store.standing(closing.engine, "c", PERIOD)
    december = draft_of(
        lake, "c", "2026-12", books=books, folder=tmp_path / "l", progress=lambda *_: None, corrected={PERIOD: standing}
    )
    closed(closing, december)

    corrected = [batch for batch in december.batches if batch.about == PERIOD]
    added = sum(batch.amount_micros for batch in corrected)
    assert added == COST + (5 - (COST + len(HOURS) - 1))
    assert [batch.sign for batch in corrected] == [-1, -1, 1, 1, 1]
    assert ledger_store.batches(closing.engine, "c", PERIOD) == before
    assert ledger_store.total(closing.engine, "c") == 0
    now = ledger_store.standing(closing.engine, "c", PERIOD)
    assert sum(one.batch.amount_micros for one in now) == sum(row["cost_micros"] for row in pools)  # type: ignore[misc]


def test_what_did_not_change_is_not_corrected(lake: Lake, tmp_path: Path, closing: Closing) -> None:
    of = drafted(lake, tmp_path / "l")
    closed(closing, of)

    assert corrections(of.batches, ledger_store.standing(closing.engine, "c", PERIOD)) == []


def test_two_months_do_not_correct_the_same_twice(lake: Lake, tmp_path: Path, closing: Closing) -> None:
    closed(closing, drafted(lake, tmp_path / "l"))
    put(lake, [*rows(), metered_row(HOURS[0], "late-1", "cpu", 1.0)], pool_rows())
    standing = ledger_store.standing(closing.engine, "c", PERIOD)
    again = corrections(drafted(lake, tmp_path / "l").batches, standing)
    closed(closing, draft(*again, period="2026-12"))

    with pytest.raises(Conflict, match="reopen this month"):
        closed(closing, draft(*again, period="2027-01"))
    assert closing.one("2027-01").state == "closing"
    assert ledger_store.batches(closing.engine, "c", "2027-01") == []


def test_two_months_do_not_bill_twice_what_came_late(closing: Closing) -> None:
    closed(closing, draft(drawn("std@a", ("shop", "base", 7))))
    late = drawn("late@a", ("shop", "base", 11))
    drafts = [
        draft(replace(drawn("std@a", ("shop", "base", 7)), about=month), late, period=month)
        for month in ("2026-12", "2027-01")
    ]
    digests = [closing.begin(one, 0, ANN).digest for one in drafts]
    closing.close("2026-12", digests[0], BOB)

    with pytest.raises(Conflict, match="another month has corrected the charges of pool late@a in 2026-11"):
        closing.close("2027-01", digests[1], BOB)
    assert ledger_store.batches(closing.engine, "c", "2027-01") == []
    assert [one.batch.pool for one in ledger_store.standing(closing.engine, "c", PERIOD)] == ["std@a", "late@a"]
