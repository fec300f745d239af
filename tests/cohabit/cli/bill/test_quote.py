"""`cohabit bill quote`: a new container, another request and a move, by lake, store, snapshot and model of a folder."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.pricing.price_book import HOUR_US
from advisor.cluster.snapshot import publish
from advisor.database.engine import open_store
from advisor.plans.plan_service import Actor
from cohabit.billing.quotes.last_hour import newest_hour
from cohabit.cli.main import app
from cohabit.config.logs import set_up_logs
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.schema.provenance import BatchId
from ingest.schema.tables import NODES as NODES_TABLE
from models.registry.registry import Registry
from tests.advisor.billing.bill_offices import NODES
from tests.advisor.billing.metered_month import HOURS, lake_of, pool_rows, price_book, rows
from tests.advisor.billing.months_drawn import ANN, BOB
from tests.advisor.neighbourhood import neighbourhood
from tests.advisor.stores import migrated_file


def entry_of(actor: Actor, action: str) -> Entry:
    return Entry(0, actor.who, actor.role, action, "2026-11", "done", actor.request_id)


Run = Callable[..., tuple[int, str]]
NEW = ("--team", "shop", "--app", "web", "--node", "n0", "--request", "cpu=2", "--use", "cpu=1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lake with a metered month, and a migrated store; neither price book nor model."""
    lake = lake_of(tmp_path / "lake", rows(), pool_rows())
    then = datetime(2026, 11, 1, tzinfo=UTC)
    about = {"cluster": "c", "ts": then, "pool": "std", "zone": "a", "topic": "nodes", "partition": 0}
    told = [about | {"node": node, "offset": place, "arrived_at": then} for place, node in enumerate(NODES)]
    lake.append("nodes", pa.Table.from_pylist(told, schema=NODES_TABLE.schema), BatchId("told", 0))
    migrated_file(tmp_path / "store.sqlite")
    (tmp_path / "registry").mkdir()
    return tmp_path


@pytest.fixture
def priced(folder: Path) -> Path:
    """The same with a price book."""
    book, now_us = replace(price_book(start_us=400_000 * HOUR_US), approved_by=None), time_ns() // 1000
    with open_store(str(folder / "store.sqlite")) as store:
        book_store.propose(store, book, now_us, entry_of(ANN, "propose price book"))
        book_store.approve(store, book.version, "bob", now_us, entry_of(BOB, "approve price book"))
    return folder


@pytest.fixture
def ready(priced: Path, bundle: Path) -> Path:
    """The same with a model, and a snapshot of now."""
    registry = Registry(priced / "registry")
    (registry.root / "first").symlink_to(bundle)
    registry.promote("first")
    publish(priced / "snapshots", neighbourhood(time_ns() // 1000))
    return priced


@pytest.fixture
def quote(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `cohabit bill quote`; exit code, and what it printed."""
    for name in [name for name in os.environ if name.startswith("COHABIT_")]:
        monkeypatch.delenv(name)

    def run(*words: str) -> tuple[int, str]:
        places = {name: str(folder / name.lower()) for name in ("LAKE", "REGISTRY", "SNAPSHOTS", "BILLING__LEDGER_DIR")}
        own = {f"COHABIT_{name}": place for name, place in places.items()}
        own |= {"COHABIT_DATABASE": str(folder / "store.sqlite"), "COHABIT_CLUSTER": "c", "COLUMNS": "300"}
        ran = CliRunner().invoke(app, ["bill", "quote", *words], env=own, catch_exceptions=False)
        set_up_logs("DEBUG")
        return ran.exit_code, " ".join(ran.output.split())

    return run


def test_a_new_container_is_quoted_with_its_neighbours(ready: Path, quote: Run) -> None:
    code, told = quote(*NEW, "--hours", "720")

    assert code == 0, told
    assert "base charge of 720 hours: 826." in told
    assert "by what was sold in the hour from 2026-11-30 23:00 UTC" in told
    assert "expected slowdown there" in told
    assert all(f"uid-{row}" in told for row in range(4))


def test_another_request_and_a_move_are_told_beside_what_is(ready: Path, quote: Run) -> None:
    asked = quote("--container", "web-2", "--request", "cpu=2")
    moved = quote("--container", "crawl-1", "--move-to", "n2")

    assert asked[0] == moved[0] == 0, (asked, moved)
    assert "as it is, n1 ┃ quoted, n1 ┃ difference" in asked[1]
    assert "as it is, n1 ┃ quoted, n2 ┃ difference" in moved[1]
    for told in (asked[1], moved[1]):
        assert all(f"│ {row} │" in told for row in ("base", "rebate", "surcharge", "with both", "owed"))


def test_without_a_model_the_base_charge_is_told_alone(priced: Path, quote: Run) -> None:
    code, told = quote(*NEW)

    assert (code, "base charge of 1 hour: 1.14" in told) == (0, True), told
    assert "what interference would move is not known: no model is promoted: run `cohabit model train`" in told
    assert "reload failed; the loaded version stays" not in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--container", "web-1", "--team", "shop"), "--team: omit these for a running container"),
        (("--team", "shop", "--move-to", "n1"), "--move-to needs --container"),
        (("--team", "shop", "--node", "n1", "--request", "cpu"), "write RESOURCE=UNITS such as cpu=4"),
        (("--team", "shop", "--node", "n1", "--request", "gold=1"), "there are cpu, memory, gpu, network, disk"),
        (("--team", "shop", "--node", "n1", "--request", "cpu=nan"), "write RESOURCE=UNITS"),
        (("--team", "shop", "--node", "n1"), "name at least one resource"),
        (("--node", "n1", "--request", "cpu=1"), "name the team that would pay"),
        (("--team", "shop", "--request", "cpu=1"), "name a node or a pool: known pools are std@a"),
        ((*NEW, "--hours", "0"), "use 1 to 8784"),
        ((*NEW, "--lake", "nowhere"), "cost estimates are not available"),
    ],
)
def test_errors_say_what_to_do(priced: Path, quote: Run, words: tuple[str, ...], says: str) -> None:
    code, told = quote(*words)

    assert (code, says in told) == (1, True), told


def test_without_a_price_book_it_is_said(folder: Path, quote: Run) -> None:
    assert "no price book covers" in quote(*NEW)[1]


def test_the_newest_hour_is_read_with_the_pools_of_nodes(folder: Path) -> None:
    found = newest_hour(Lake.open(folder / "lake", TABLES), "c")

    assert found.hour_us == round(HOURS[-1].timestamp() * 1e6)
    assert found.pool_of == dict.fromkeys(NODES, "std@a")
    assert set(found.metered["hour"].to_pylist()) == {HOURS[-1]}
    assert found.pools.num_rows == 1
