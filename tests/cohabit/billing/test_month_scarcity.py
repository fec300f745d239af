"""Scarcity in a month: published once before it begins, billed as published, and every day comes to its cost."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sqlalchemy import Engine
from typer.testing import CliRunner

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.drafts import Draft
from advisor.billing.lines.focus import Invoice, focus_rows
from advisor.billing.lines.money import MICROS
from advisor.billing.lines.parquet import in_line_order, read_lines, reference
from advisor.billing.pricing.price_book import HOUR_US
from cohabit.billing.draft import draft_of
from cohabit.billing.quotes.publish_scarcity import publish, published
from cohabit.billing.statements.explain import explain
from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from features.schema.tables import POOL_HOURS, SCARCITY, TABLES
from ingest.lake.tables import Lake
from tests.advisor.billing.billed import START_US
from tests.advisor.billing.metered_month import END, HOURS, lake_of, pool_rows, price_book, put, rows, table_of
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD

BOOK = replace(price_book(), policy=replace(price_book().policy, gamma_ppm=MICROS))
BEFORE = datetime(2026, 10, 28, tzinfo=UTC)


def said(hour: datetime) -> list[dict[str, object]]:
    shared = {"cluster": "c", "hour": hour, "pool": "std@a", "published_at": BEFORE, "mean_ppm": 300_000}
    return [{**shared, "resource": of, "scarcity_ppm": hour.hour * 40_000} for of in ("cpu", "memory")]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = lake_of(tmp_path / "lake", rows(), pool_rows())
    told = [row for hour in HOURS for row in said(hour)]
    made.replace("scarcity", END - timedelta(days=30), END, "test", table_of(told, SCARCITY))
    return made


def drafted(lake: Lake, folder: Path) -> Draft:
    return draft_of(lake, "c", PERIOD, books=[BOOK], folder=folder, progress=lambda *_: None)


def lines_of(found: Draft, folder: Path) -> list[pa.Table]:
    return [read_lines(folder / f"{batch.sha256}.parquet")[0] for batch in found.batches]


def total(lines: pa.Table, kind: str) -> int:
    return int(pc.sum(lines.filter(pc.equal(lines["kind"], kind))["amount_micros"]).as_py() or 0)


def test_every_day_comes_to_its_cost_whatever_was_published(lake: Lake, tmp_path: Path) -> None:
    found = drafted(lake, tmp_path / "l")

    for batch, lines in zip(found.batches, lines_of(found, tmp_path / "l"), strict=True):
        assert batch.amount_micros == batch.cost_micros
        assert total(lines, "scarcity") + total(lines, "scarcity_true_up") == 0
        assert total(lines, "scarcity") != 0
        assert in_line_order(lines).equals(lines)


def test_crowded_hours_cost_more_than_empty_ones(lake: Lake, tmp_path: Path) -> None:
    lines = pa.concat_tables(lines_of(drafted(lake, tmp_path / "l"), tmp_path / "l"))

    change: dict[int, set[bool]] = {}
    for row in lines.filter(pc.equal(lines["kind"], "scarcity")).to_pylist():
        change.setdefault(row["hour"].hour, set()).add(row["amount_micros"] > 0)
    assert change[1] == {False}
    assert change[23] == {True}


def test_every_line_is_worked_out_again_the_same(store: Engine, lake: Lake, tmp_path: Path) -> None:
    book_store.propose(store, BOOK, START_US - HOUR_US, Entry(0, "ann", "finance", "x", "y", "done", "r"))
    folder, closing = tmp_path / "l", Closing(store, "c", lambda: NOW_US)
    found = drafted(lake, folder)
    closing.close(PERIOD, closing.begin(found, 0, ANN).digest, BOB)
    put(lake, [], [])

    for batch in found.batches:
        for row in [*range(5), *range(5, batch.rows, 17)]:
            told = explain(store, "c", reference(batch.sha256, row), folder)
            assert told.same, told


def test_true_up_is_a_row_of_focus_of_its_day(lake: Lake, tmp_path: Path) -> None:
    lines = lines_of(drafted(lake, tmp_path / "l"), tmp_path / "l")[-1]
    period = (datetime(2026, 11, 1, tzinfo=UTC), END, PERIOD)
    of = Invoice("c", period, PERIOD, "EUR", "std@a", "2026-11", {"cpu": "core", "memory": "GiB"})

    told = [row for row in focus_rows(lines, of) if row["x_Kind"] == "scarcity_true_up"]

    assert {row["ChargePeriodStart"] for row in told} == {"2026-11-30T00:00:00Z"}
    assert sum(round(float(row["BilledCost"]) * MICROS) for row in told) == total(lines, "scarcity_true_up")


@pytest.fixture
def past(tmp_path: Path) -> Lake:
    made = Lake.open(tmp_path / "past", TABLES)
    hours = [BEFORE - timedelta(hours=n) for n in range(1, 24 * 21)]
    made.replace("pool_hours", hours[-1], BEFORE, "metering", table_of([{**r} for r in pool_rows(hours)], POOL_HOURS))
    return made


def test_a_month_is_published_once_before_it_begins_and_what_comes_later_changes_nothing(past: Lake) -> None:
    new, first = publish(past, "c", PERIOD, BEFORE)
    again, second = publish(past, "c", PERIOD, BEFORE + timedelta(days=2))
    late, third = publish(past, "c", PERIOD, END)

    assert (new, again, late) == (True, False, False)
    assert first.num_rows == 2 * 30 * 24
    assert first.equals(second)
    assert first.equals(third)
    with pytest.raises(CohabitError, match="publish a later month"):
        publish(past, "c", "2026-10", BEFORE)
    with pytest.raises(CohabitError, match="`cohabit bill meter`"):
        publish(past, "other", "2026-12", BEFORE)
    assert published(past, "other", PERIOD).num_rows == 0


def test_the_command_shows_what_was_said(past: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(past, "c", PERIOD, BEFORE)
    monkeypatch.setenv("COHABIT_LAKE", str(past.root))
    monkeypatch.setenv("COHABIT_CLUSTER", "c")

    done = CliRunner().invoke(app, ["bill", "publish", "--month", PERIOD])

    assert done.exit_code == 0, done.output
    assert "std@a" in done.output
    assert "never changed" in done.output
