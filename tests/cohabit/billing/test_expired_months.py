"""Forgotten: what expired of a lake is neither billed as nothing nor taken back."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.months import bounds
from advisor.errors import Conflict
from cohabit.billing.draft import draft_of
from cohabit.billing.expired_months import refuse_forgotten
from cohabit.cli.main import app
from cohabit.config.logs import set_up_logs
from ingest.lake.tables import Lake
from ingest.lake.upkeep import expire
from tests.advisor.billing.metered_month import HOURS, price_book
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD

NOW = datetime(2026, 12, 1, tzinfo=UTC)
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def bill(store: Engine, store_address: str, lake: Lake, tmp_path: Path) -> Run:
    """Runs `cohabit bill` where the month is closed; exit code, and what it printed."""
    entry = Entry(NOW_US, "ann", "finance", "x", "y", "done", "r")
    book_store.propose(store, replace(price_book(), approved_by=None), NOW_US, entry)
    book_store.approve(store, price_book().version, "bob", NOW_US, entry)
    closing, folder = Closing(store, "c", lambda: NOW_US), tmp_path / "lines"
    of = draft_of(lake, "c", PERIOD, books=[price_book()], folder=folder, progress=lambda *_: None)
    closing.close(PERIOD, closing.begin(of, 0, ANN).digest, BOB)
    own = {
        "COHABIT_LAKE": str(lake.root),
        "COHABIT_DATABASE": store_address,
        "COHABIT_BILLING__LEDGER_DIR": str(folder),
    }

    def run(*words: str) -> tuple[int, str]:
        ran = CliRunner().invoke(app, ["bill", *words], env=own | {"COHABIT_CLUSTER": "c", "COLUMNS": "300"})
        set_up_logs("DEBUG")
        return ran.exit_code, " ".join(ran.output.split())

    return run


def test_a_month_is_neither_billed_nor_corrected_by_what_is_left_of_it(bill: Run, lake: Lake) -> None:
    expire(lake, "metered", HOURS[-1])

    for words in (("--month", PERIOD), ("--month", "2026-12", "--correct", PERIOD)):
        code, told = bill("draft", *words)
        assert (code, f"period {PERIOD} cannot be closed: the lake has let rows of metered" in told) == (1, True), told


@pytest.mark.parametrize(("table", "refused"), [("pool_hours", True), ("usage", False)])
def test_only_what_was_metered_is_missed(lake: Lake, table: str, *, refused: bool) -> None:
    expire(lake, table, bounds(PERIOD)[0])
    refuse_forgotten(lake, PERIOD)
    expire(lake, table, HOURS[0] + timedelta(hours=1))

    if refused:
        with pytest.raises(Conflict, match="let rows of pool_hours before 2026-11-29 go"):
            refuse_forgotten(lake, PERIOD)
    else:
        refuse_forgotten(lake, PERIOD)
