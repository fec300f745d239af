"""`cohabit bill close --renew` and `closed`: a draft can be made again, and whether it was confirmed can be asked."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.periods import Period
from cohabit.cli.main import app
from cohabit.config.logs import set_up_logs
from ingest.lake.tables import Lake
from tests.advisor.billing.metered_month import HOURS, pool_rows, price_book, put, rows
from tests.advisor.billing.months_drawn import NOW_US, PERIOD

Run = Callable[..., str]


@pytest.fixture
def bill(store: Engine, store_address: str, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `cohabit bill`, some days after the month; what it printed."""
    entry, book = Entry(NOW_US, "ann", "finance", "x", "y", "done", "r"), price_book()
    shown = replace(book, policy=replace(book.policy, shadow=True), approved_by=None)
    book_store.propose(store, shown, NOW_US, entry)
    book_store.approve(store, book.version, "bob", NOW_US, entry)
    monkeypatch.setattr("cohabit.cli.bill.close.time_ns", lambda: NOW_US * 1000)
    own = {
        "COHABIT_LAKE": str(lake.root),
        "COHABIT_DATABASE": store_address,
        "COHABIT_BILLING__LEDGER_DIR": str(tmp_path / "lines"),
    }

    def run(*words: str, code: int = 0) -> str:
        ran = CliRunner().invoke(app, ["bill", *words], env=own | {"COHABIT_CLUSTER": "c", "COLUMNS": "300"})
        set_up_logs("DEBUG")
        assert ran.exit_code == code, ran.output
        return " ".join(ran.output.split())

    return run


def month_of(store: Engine) -> Period:
    return Closing(store, "c", lambda: NOW_US).one(PERIOD)


def test_a_draft_is_made_again_until_it_was_confirmed(bill: Run, store: Engine, lake: Lake) -> None:
    renew = ("close", "--month", PERIOD, "--renew")
    bill(*renew)
    first = month_of(store)
    bill(*renew)
    assert month_of(store) == first  # nothing came late

    put(lake, [row | {"within": 0} for row in rows()], pool_rows(HOURS))
    bill(*renew)
    late = month_of(store)
    assert (late.state, late.digest != first.digest) == ("closing", True)

    bill("close", "--month", PERIOD, "--confirm", late.digest[:12])
    assert f"{PERIOD} is closed: nothing was changed" in bill(*renew)
    assert month_of(store).digest == late.digest


def test_whether_a_month_is_closed_is_told_by_the_exit_code_too(bill: Run, store: Engine) -> None:
    assert f"{PERIOD} is open" in bill("closed", "--month", PERIOD, code=3)

    bill("close", "--month", PERIOD)
    digest = month_of(store).digest[:12]
    assert f"cohabit bill close --month {PERIOD} --confirm {digest}" in bill("closed", "--month", PERIOD, code=3)

    bill("close", "--month", PERIOD, "--confirm", digest)
    assert f"{PERIOD} is closed since" in bill("closed", "--month", PERIOD)
