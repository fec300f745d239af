"""Statements: every line of a team with its name, and what it pays, in each form."""

import re
from collections.abc import Iterator
from csv import DictReader
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from sqlalchemy import Engine

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.postings import Payables
from advisor.billing.ledger.spreadsheet_safe import as_text
from advisor.billing.pricing.price_book import HOUR_US
from advisor.database.engine import open_store
from advisor.errors import Conflict
from cohabit.billing.draft import draft_of
from cohabit.billing.statements.explain import explain
from cohabit.billing.statements.statements import _printed, write_statement
from cohabit.billing.statements.tables import show_draft, show_explained, show_payables
from cohabit.config.errors import CohabitError
from cohabit.terminal.console import console
from tests.advisor.billing.billed import START_US
from tests.advisor.billing.metered_month import lake_of, pool_rows, price_book, rows
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD, SMALL, batch, draft
from tests.advisor.full_disk import no_room_beyond
from tests.advisor.stores import migrated_file


@dataclass(frozen=True)
class Month:
    """A closed one, of which tests write statements; none of them changes it."""

    store: Engine
    lines: Path

    def written(self, out: Path, team: str = "shop") -> Path:
        """The statement of a team in a new file."""
        write_statement(self.store, "c", PERIOD, team, folder=self.lines, out=out)
        return out


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def month(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Month]:
    folder = tmp_path_factory.mktemp("month")
    on_file = request.param == "sqlite"
    address = migrated_file(folder / "store.sqlite") if on_file else request.getfixturevalue("migrated_postgres")()
    with open_store(address) as store:
        entry = Entry(0, "ann", "finance", "x", "y", "done", "r")
        book_store.propose(store, price_book(), START_US - HOUR_US, entry)
        book_store.approve(store, "2026-11", "bob", START_US - HOUR_US, entry)
        lake, closing = lake_of(folder / "lake", rows(), pool_rows()), Closing(store, "c", lambda: NOW_US)
        books, lines = book_store.books(store), folder / "lines"
        of = draft_of(lake, "c", PERIOD, books=books, folder=lines, progress=lambda *_: None)
        closing.close(PERIOD, closing.begin(of, 0, ANN).digest, BOB)
        yield Month(store, lines)


@pytest.mark.parametrize("team", ["shop", "search", "platform", "unattributed"])
def test_the_lines_of_an_account_sum_to_what_it_owes(month: Month, tmp_path: Path, team: str) -> None:
    lines = pq.read_table(month.written(tmp_path / "s.parquet", team))

    owed = ledger_store.paid(month.store, "c", PERIOD)[team][0]
    assert sum(lines["amount"].to_pylist()) == Decimal(owed) / 10**6


def test_every_line_is_called_by_what_explains_it(month: Month, tmp_path: Path) -> None:
    lines = pq.read_table(month.written(tmp_path / "s.parquet")).to_pylist()

    for line in lines[::50]:
        told = explain(month.store, "c", line["line"], month.lines)
        assert (told.line["container"], told.line["kind"]) == (line["container"], line["kind"])
        assert Decimal(str(told.line["amount_micros"])) / 10**6 == line["amount"]


def test_csv_has_what_parquet_has(month: Month, tmp_path: Path) -> None:
    one, other = pv.read_csv(month.written(tmp_path / "s.csv")), pq.read_table(month.written(tmp_path / "s.parquet"))

    assert one.column_names == other.column_names
    assert [round(Decimal(amount), 6) for amount in one["amount"].to_pylist()] == other["amount"].to_pylist()
    assert (set(one["account"].to_pylist()), set(one["currency"].to_pylist())) == ({"shop"}, {"EUR"})


def test_hours_of_csv_have_no_fractions_of_a_second(month: Month, tmp_path: Path) -> None:
    first = next(DictReader(month.written(tmp_path / "s.csv").read_text().splitlines()))

    assert re.fullmatch(r"2026-11-\d\d \d\d:00:00Z", first["hour"])


def test_a_printed_one_says_what_of_it_corrects_which_month(month: Month, tmp_path: Path) -> None:
    lines = pq.read_table(month.written(tmp_path / "s.parquet"))
    later = [replace(one, period="2026-12") for one in ledger_store.batches(month.store, "c", PERIOD)]
    facts = {"team": "shop", "period": "2026-12", "cluster": "c", "books": [], "seen": ""}

    told = _printed(lines, later, (1, 1, "EUR"), facts)

    assert f"{sum(lines['amount'].to_pylist()):,.6f} EUR of that correct 2026-11." in told


def test_a_printed_one_says_for_what_interference_could_be_seen(month: Month, tmp_path: Path) -> None:
    told = month.written(tmp_path / "s.html").read_text()

    assert "Interference could be seen in 0% of the time of latency-sensitive containers" in told


def test_a_line_is_explained_in_words_and_in_its_currency(month: Month, tmp_path: Path) -> None:
    line = pq.read_table(month.written(tmp_path / "s.parquet"))["line"][0].as_py()

    with console.capture() as got:
        show_explained(line, explain(month.store, "c", line, month.lines))

    told = " ".join(got.get().split())
    found = re.search(r": base, shop, ([\d.]+) EUR .*= ([\d.]+) unit-hours, at ([\d.]+) EUR each \(tier LS\)", told)
    assert found is not None, told
    amount, units, price = map(float, found.groups())
    assert abs(units * price - amount) < 2e-6


def test_the_printed_one_says_who_pays_what_and_by_which_rules(month: Month, tmp_path: Path) -> None:
    told = month.written(tmp_path / "s.html").read_text(encoding="utf-8")

    minor = ledger_store.paid(month.store, "c", PERIOD)["shop"][1]
    assert f"Pays {Decimal(minor) / 100:,.2f} EUR" in told
    assert "0.5 x requested" in told
    assert "cohabit bill explain" in told


def test_nothing_is_written_for_nobody_of_no_form_or_before_the_month_is_closed(month: Month, tmp_path: Path) -> None:
    with pytest.raises(CohabitError, match="billed accounts: platform, search, shop, unattributed"):
        month.written(tmp_path / "s.csv", team="nobody")
    with pytest.raises(CohabitError, match="use one of"):
        month.written(tmp_path / "s.xlsx")
    with pytest.raises(Conflict, match=r"2026-12 is open .*\(`cohabit bill close`"):
        write_statement(month.store, "c", "2026-12", "shop", folder=month.lines, out=tmp_path / "s.csv")
    assert not list(tmp_path.glob("s.*"))


def test_names_in_csv_are_no_formulas() -> None:
    names = ["=1+1", "+1", "-1", "@x", "\tx", "web-1", None]
    told = as_text(pa.table({"container": names, "amount": [-1, 2, 3, 4, 5, 6, 7]}))

    assert told["container"].to_pylist() == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "web-1", None]
    assert told["amount"][0].as_py() == -1


@pytest.mark.parametrize("name", ["s.html", "s.csv", "s.parquet"])
def test_a_statement_is_written_whole_or_not_at_all(month: Month, tmp_path: Path, name: str) -> None:
    before = month.written(tmp_path / name).read_bytes()
    with no_room_beyond(100), pytest.raises(OSError, match="File too large"):
        month.written(tmp_path / name, team="search")

    assert (tmp_path / name).read_bytes() == before
    assert [path.name for path in tmp_path.glob("*s.*")] == [name]


def test_a_terminal_is_shown_names_and_obeys_none_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    show_draft(draft(batch("std@a", ("shop\x1b[2Jx", "base", 7))))
    show_payables(PERIOD, Payables({"shop\x1b]0;x": 1}, {"shop\x1b]0;x": 10_000}, 0), "EUR")

    told = capsys.readouterr().out
    assert ("shop?[2Jx" in told, "shop?]0;x" in told, "\x1b[2J" in told, "\x1b]" in told) == (True, True, False, False)


def test_a_month_that_is_being_closed_is_called_so(store: Engine, tmp_path: Path) -> None:
    Closing(store, "c", lambda: NOW_US).begin(SMALL, 0, ANN)

    with pytest.raises(Conflict, match=r"2026-11 is closing .*\(`cohabit bill close --confirm`"):
        Month(store, tmp_path / "lines").written(tmp_path / "s.csv")


def test_names_of_teams_are_shown_as_text(month: Month, tmp_path: Path) -> None:
    """A team may be called anything; the statement is a page."""
    lines = pq.read_table(month.written(tmp_path / "s.parquet"))
    facts = {"team": "<script>", "period": PERIOD, "cluster": "c", "books": []}
    told = _printed(lines, ledger_store.batches(month.store, "c", PERIOD), (1, 1, "EUR"), facts)

    assert "<script>" not in told
