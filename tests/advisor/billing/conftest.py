"""A ledger on each database."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from advisor.billing.ledger.closing import Closing
from ingest.lake.tables import Lake
from tests.advisor.billing.metered_month import lake_of, pool_rows, rows
from tests.advisor.billing.months_drawn import NOW_US


@pytest.fixture
def closing(store: Engine) -> Closing:
    return Closing(store, "c", lambda: NOW_US)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """With a metered month in it."""
    return lake_of(tmp_path / "lake", rows(), pool_rows())
