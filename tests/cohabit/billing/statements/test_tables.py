"""Tables of drafts and closed months: what people add up by hand comes to what is written below it."""

from dataclasses import replace
from decimal import Decimal

import pytest

from advisor.billing.ledger.postings import payables
from advisor.billing.ledger.price_book_records import Kept
from cohabit.billing.statements.tables import show_books, show_draft, show_payables
from cohabit.terminal.console import console
from tests.advisor.billing.metered_month import price_book
from tests.advisor.billing.months_drawn import NOW_US, SMALL, batch, draft


def cells(told: str, account: str) -> list[str]:
    row = next(line for line in told.splitlines() if line.startswith(f"│ {account} "))
    return [cell.strip() for cell in row.strip("│").split("│")][1:]


def test_a_version_ends_where_the_next_one_in_force_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    first = price_book()
    second = replace(first, version="2026-12", start_us=NOW_US)

    with console.capture() as got:
        show_books([Kept(first, 0, 1), Kept(second, 0, 1), Kept(replace(second, version="other"), 0)])

    told = [cells(got.get(), name)[0] for name in ("2026-11", "2026-12", "other")]
    assert told[0].endswith("until 2026-12-01 00:00 UTC")
    assert all(one == "from 2026-12-01 00:00 UTC until the next version begins" for one in told[1:])


def test_what_accounts_pay_by_a_draft_sums_to_its_last_row() -> None:
    thirds = draft(*(batch(f"p{n}@a", *((f"team-{m}", "base", 3_333_333) for m in range(7))) for n in range(2)))

    with console.capture() as got:
        show_draft(thirds)

    told = got.get()
    pays = [Decimal(cells(told, f"team-{m}")[-1]) for m in range(7)]
    assert sum(pays) == Decimal(cells(told, "together")[-1]) == Decimal("46.67")
    assert "correct" not in told


def test_no_amount_is_cut_off_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    kinds = ("base", "idle_headroom", "platform_share", "rebate", "surcharge", "unattributed")
    wide = draft(batch("std@a", *(("unattributed", kind, 12_345_678_910_000) for kind in kinds)))

    with console.capture() as got:
        show_draft(wide)

    assert cells(got.get(), "unattributed") == ["12,345,678.91"] * len(kinds) + ["74,074,073.46"]


def test_a_draft_tells_what_of_it_is_about_an_earlier_month() -> None:
    late = batch("std@a", ("ads", "base", 1_500_000))
    earlier = draft(*SMALL.batches, late, period="2026-12")

    with console.capture() as got:
        show_draft(earlier)

    assert "4.000015 EUR of that correct 2026-11" in got.get()


def test_a_closed_month_is_told_in_its_currency_and_not_in_coins() -> None:
    with console.capture() as got:
        show_payables("2026-11", payables(SMALL.postings, 2), "EUR")

    told = got.get()
    assert cells(told, "search") == ["1.250001", "1.25"]
    assert cells(told, "together") == ["2.500015", "2.50"]
    assert "0.000015 EUR are what no coin can pay" in told
