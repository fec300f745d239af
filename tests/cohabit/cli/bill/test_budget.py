"""`cohabit bill budget` and `budgets` as people type them, by a metered month."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from advisor.auth.audit_log import Entry, entries
from advisor.billing.budgets.forecast import Day, daily, forecast_of
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.drafts import Draft
from advisor.billing.ledger.postings import owed
from advisor.billing.lines.money import MICROS
from cohabit.billing.preview import unkept_draft
from cohabit.budgets import webhook as webhook_call
from cohabit.cli.main import app
from cohabit.config.logs import set_up_logs
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from tests.advisor.billing.metered_month import lake_of, pool_rows, price_book, rows
from tests.advisor.billing.months_drawn import ANN, NOW_US, PERIOD
from tests.advisor.stores import migrated_file

FIRST = datetime(2026, 11, 1, tzinfo=UTC)
HOURS = [FIRST + timedelta(hours=n) for n in range(3 * 24 + 5)]
FULL = {(FIRST + timedelta(days=n)).date() for n in range(3)}
Run = Callable[..., str]
Told = list[dict[str, object]]


@pytest.fixture
def store_address(tmp_path: Path) -> str:
    """SQLite alone: budgets are kept in each database in test_budgets.py."""
    return migrated_file(tmp_path / "store.sqlite")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days and five hours of the month."""
    folder = tmp_path_factory.mktemp("budgets") / "lake"
    lake_of(folder, rows(HOURS), pool_rows(HOURS))
    return folder


@pytest.fixture(scope="module")
def draft(lake: Path) -> Draft:
    """What that comes to."""
    return unkept_draft(Lake.open(lake, TABLES), "c", PERIOD, books=[price_book()], progress=lambda *_: None)


@pytest.fixture
def bill(store: Engine, store_address: str, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `cohabit bill` on that lake and a store with a price book; what it printed."""
    for name in [name for name in os.environ if name.startswith("COHABIT_")]:
        monkeypatch.delenv(name)
    entry = Entry(NOW_US, "ann", "finance", "x", "y", "done", "r")
    book_store.propose(store, replace(price_book(), approved_by=None), NOW_US, entry)
    book_store.approve(store, price_book().version, "bob", NOW_US, entry)
    own = {
        "COHABIT_LAKE": str(lake),
        "COHABIT_DATABASE": store_address,
        "COHABIT_BILLING__LEDGER_DIR": str(tmp_path / "lines"),
        "COHABIT_CLUSTER": "c",
        "COLUMNS": "300",
    }

    def run(*words: str, code: int = 0, **more: str) -> str:
        ran = CliRunner().invoke(app, ["bill", *words], env=own | more, catch_exceptions=False)
        set_up_logs("DEBUG")
        assert ran.exit_code == code, ran.output
        return " ".join(ran.output.split())

    return run


@pytest.fixture
def hook() -> Iterator[tuple[str, Told, list[int]]]:
    """A server that keeps what it is told, and what it says."""
    told, says = Told(), [204]

    class Keeps(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(says[0])
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Keeps)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/budgets", told, says
    server.shutdown()
    thread.join()
    server.server_close()


def set_budget(bill: Run, team: str, micros: int, *more: str) -> str:
    return bill("budget", "--team", team, "--amount", f"{micros // MICROS}", "--since", PERIOD, *more)


def test_a_month_that_goes_on_is_shown_by_what_was_metered(bill: Run, draft: Draft, tmp_path: Path) -> None:
    so_far = owed(draft.postings)
    days: list[Day] = daily(draft.batches, FULL, ["shop"])["shop"]
    ahead = forecast_of(days, PERIOD)
    assert ahead is not None
    set_budget(bill, "shop", 20 * so_far["shop"])
    set_budget(bill, "search", so_far["search"])
    set_budget(bill, "platform", 2 * so_far["platform"], "--warn", "1")

    told = bill("budgets", "--month", PERIOD)

    shop = told[told.index("│ shop") :]
    assert f"{so_far['shop'] / 1e6:,.2f} │ 5 % │ [█" in shop
    assert (
        f"{ahead.micros / 1e6:,.2f} │ {ahead.low_micros / 1e6:,.2f} to {ahead.high_micros / 1e6:,.2f} │ within" in shop
    )
    assert "› │" in told[told.index("│ search") : told.index("│ shop")]
    assert [told.count(f"{state} │") for state in ("within", "warned", "exceeded")] == [1, 1, 1]
    assert not (tmp_path / "lines").exists()


def test_a_month_that_is_being_closed_comes_to_its_draft_without_a_lake(bill: Run, store: Engine, draft: Draft) -> None:
    Closing(store, "c", lambda: NOW_US).begin(draft, 0, ANN)
    micros = owed(draft.postings)["shop"]
    set_budget(bill, "shop", 2 * micros)

    told = bill("budgets", "--month", PERIOD, "--lake", "/nowhere")

    amount = f"{micros / 1e6:,.2f}"
    assert f"{amount} │ 50 % │ [██████████··········] │ {amount} │ {amount} to {amount} │ within" in told


def test_a_budget_applies_until_the_next_one_begins(bill: Run, store: Engine) -> None:
    bill("budget", "--team", "shop", "--amount", "500", "--since", "2027-02", "--warn", "0.905")
    told = bill("budget", "--team", "shop", "--amount", "1234.56", "--since", "2026-12")

    assert told == (
        "shop has a budget of 1,234.56 EUR a month from 2026-12 on, until another one begins in 2027-02, and is "
        "warned at 80 % of it"
    )
    assert "1,234.56 │ 0.00 │ 0 %" in bill("budgets", "--month", "2027-01")
    assert "500.00 │ 0.00 │ 0 %" in bill("budgets", "--month", "2027-02")
    assert "no team has a budget in 2026-11" in bill("budgets", "--month", PERIOD)
    assert "shop has no budget from 2027-03 on" in bill(
        "budget", "--team", "shop", "--amount", "0", "--since", "2027-03"
    )
    assert "no team has a budget in 2027-03" in bill("budgets", "--month", "2027-03")
    kept = [(one.subject, one.outcome) for one in entries(store) if one.action == "set budget"]
    assert kept[1] == ("c shop", "1,234.56 EUR from 2026-12")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--amount", "-5"), "give 0 to"),
        (("--amount", "nan"), "give EUR as in 1234.56"),
        (("--amount", "1e30"), "to 1,000,000,000,000"),
        (("--amount", "0.001"), "EUR has 2 decimals: round it"),
        (("--amount", "5", "--warn", "80"), "such as 0.8"),
        (("--amount", "5", "--since", "2026-13"), "is not a month: write it as 2026-11"),
        (("--amount", "5", "--since", "2020-01"), "cohabit bill books"),
        (("--amount", "5", "--team", "pool:x"), "has account 'team:pool:x'"),
    ],
)
def test_what_is_no_budget_is_refused_in_a_line(bill: Run, store: Engine, words: tuple[str, ...], says: str) -> None:
    assert says in bill("budget", "--team", "shop", "--since", PERIOD, *words, code=1)
    assert "set budget" not in [one.action for one in entries(store)]


def test_a_webhook_is_told_once_of_each_change_for_the_worse(
    bill: Run, draft: Draft, hook: tuple[str, Told, list[int]]
) -> None:
    url, told, says = hook
    so_far = owed(draft.postings)
    set_budget(bill, "shop", 2 * so_far["shop"])  # the forecast is more
    set_budget(bill, "search", 50 * so_far["search"])
    run = ("budgets", "--month", PERIOD, "--alert")

    says[0] = 500
    assert "did not accept 1 budget alerts (shop: HTTP Error 500" in bill(*run, code=1, COHABIT_BUDGETS__WEBHOOK=url)
    says[0] = 204
    first = bill(*run, COHABIT_BUDGETS__WEBHOOK=url)
    again = bill(*run, COHABIT_BUDGETS__WEBHOOK=url)
    set_budget(bill, "search", so_far["search"] // 2)
    bill(*run, COHABIT_BUDGETS__WEBHOOK=url)

    assert "1 of 2 budgets of 2026-11 were sent as alerts" in first
    assert "0 of 2 budgets" in again
    assert [(one["team"], one["state"]) for one in told[1:]] == [("shop", "warned"), ("search", "exceeded")]
    assert told[0] == told[1]
    assert told[1]["owed_micros"] == so_far["shop"]
    assert str(told[1]["text"]).startswith("budget warned: shop owes ")


def test_a_webhook_that_answers_letter_by_letter_is_not_waited_for() -> None:
    told = Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=_drip, args=(server, told))
        thread.start()
        try:
            with pytest.raises(TimeoutError, match=r"not answered in 0\.3 s"):
                webhook_call.post(f"http://127.0.0.1:{server.getsockname()[1]}/", {}, limit_s=0.3)
        finally:
            told.set()
            thread.join()


def _drip(server: socket.socket, told: Event) -> None:
    with server.accept()[0] as line:
        while not told.wait(0.05):
            line.send(b"H")


def test_without_a_webhook_alerts_are_printed_once(bill: Run, draft: Draft, store: Engine) -> None:
    set_budget(bill, "shop", owed(draft.postings)["shop"] // 2)

    first, again = (bill("budgets", "--month", PERIOD, "--alert") for _ in range(2))

    assert first.startswith("budget exceeded: shop owes")
    assert first.endswith("four times in five)")
    assert "nothing new" in again
    assert [one.outcome for one in entries(store) if one.action == "budget alert"] == ["1: exceeded"]
