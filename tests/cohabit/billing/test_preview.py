"""A previewed price book: the same one changes nothing, another one moves cost between accounts and makes none."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.postings import owed
from advisor.billing.lines.errors import BadPriceBook
from advisor.billing.pricing.billed_quantity import Rule
from advisor.billing.pricing.price_book import PriceBook, UnitPrice
from advisor.billing.pricing.price_book_toml import EXAMPLE
from advisor.database.engine import open_store
from advisor.errors import Conflict, Invalid
from cohabit.billing.draft import draft_of
from cohabit.billing.preview import Preview, preview
from cohabit.billing.statements.preview_tables import show_preview
from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from cohabit.config.logs import set_up_logs
from cohabit.terminal.console import console
from ingest.lake.tables import Lake
from tests.advisor.billing.billed import POLICY, book
from tests.advisor.billing.metered_month import COST, END, HOURS, lake_of, pool_rows, price_book, rows
from tests.advisor.billing.months_drawn import NOW_US, PERIOD
from tests.advisor.stores import migrated_store

TOTAL = sum(COST + n for n in range(len(HOURS)))
OTHER = replace(
    price_book("2027-01", round(END.timestamp() * 1e6)),
    prices=(UnitPrice("cpu", "core", 10_000), UnitPrice("memory", "GiB", 30_000)),
    policy=replace(POLICY, version="policy-2", rule=Rule(1.0, 1.0), recovery="full"),
    approved_by=None,
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake_of(tmp_path_factory.mktemp("preview") / "lake", rows(), pool_rows())


def previewed(lake: Lake, proposed: PriceBook, period: str = PERIOD) -> Preview:
    return preview(lake, "c", period, books=[price_book()], proposed=proposed, progress=lambda *_: None)


def test_the_same_price_book_changes_nothing_to_the_micro_unit(lake: Lake) -> None:
    found = previewed(lake, replace(price_book(), start_us=OTHER.start_us, approved_by=None))

    assert [one.more_micros for one in found.accounts] == [0] * 4
    assert sum(one.before_micros for one in found.accounts) == found.cost_micros == TOTAL


def test_another_price_book_moves_cost_and_makes_none(lake: Lake, tmp_path: Path) -> None:
    found = previewed(lake, OTHER)

    assert sum(one.before_micros for one in found.accounts) == TOTAL
    assert sum(one.after_micros for one in found.accounts) == TOTAL
    assert (found.books, found.book, found.cost_micros) == (("2026-11",), "2027-01", TOTAL)
    moved = replace(OTHER, start_us=price_book().start_us, approved_by="bob")
    billed = draft_of(lake, "c", PERIOD, books=[moved], folder=tmp_path, progress=lambda *_: None)
    amounts = {one.account: one.after_micros for one in found.accounts if one.after_micros}
    assert amounts == owed(billed.postings)
    assert any(one.more_micros for one in found.accounts)


def test_the_first_version_of_all_is_previewed_alone(lake: Lake) -> None:
    found = preview(lake, "c", PERIOD, books=[], proposed=OTHER, progress=lambda *_: None)

    beside = {one.account: one.after_micros for one in previewed(lake, OTHER).accounts if one.after_micros}
    assert {one.account: one.after_micros for one in found.accounts} == beside
    with console.capture() as got:
        show_preview(found)
    told = " ".join(got.get().split())
    assert "account ┃ by 2027-01 ┃" in told
    assert f"no version is in force yet; it comes to what the pools cost, {TOTAL / 1e6:,.6f} EUR" in told


def test_what_cannot_be_previewed_is_told(lake: Lake) -> None:
    with pytest.raises(CohabitError, match="is billed in EUR"):
        previewed(lake, replace(OTHER, currency="USD"))
    with pytest.raises(Conflict, match="no metered hours"):
        previewed(lake, OTHER, "2026-10")
    with pytest.raises(Invalid, match="is not a month"):
        previewed(lake, OTHER, "2026-13")
    with pytest.raises(BadPriceBook):
        previewed(lake, replace(book(), prices=()))


def test_a_preview_is_printed_and_nothing_is_kept(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("COHABIT_")]:
        monkeypatch.delenv(name)
    address, file = str(tmp_path / "store.sqlite"), tmp_path / "book.toml"
    file.write_text(EXAMPLE)
    with migrated_store(tmp_path / "store.sqlite") as engine:
        entry = Entry(NOW_US, "ann", "finance", "x", "y", "done", "r")
        book_store.propose(engine, replace(price_book(), approved_by=None), NOW_US, entry)
        book_store.approve(engine, price_book().version, "bob", NOW_US, entry)
    own = {
        "COHABIT_LAKE": str(lake.root),
        "COHABIT_DATABASE": address,
        "COHABIT_BILLING__LEDGER_DIR": str(tmp_path / "lines"),
        "COHABIT_CLUSTER": "c",
        "COLUMNS": "300",
    }

    ran = CliRunner().invoke(app, ["bill", "propose-book", str(file), "--preview", PERIOD], env=own)
    set_up_logs("DEBUG")

    told = " ".join(ran.output.split())
    assert ran.exit_code == 0, told
    assert "by 2026-11, in force ┃ by 2026-12 ┃ difference" in told
    assert f"both come to what the pools cost, {TOTAL / 1e6:,.6f} EUR; nothing of this is kept" in told
    with open_store(address) as engine:
        assert [one.book.version for one in book_store.kept_books(engine)] == ["2026-11"]
    assert not (tmp_path / "lines").exists()
