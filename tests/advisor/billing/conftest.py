"""A migrated store on each database, for tests of the ledger."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from advisor.billing.ledger.closing import Closing
from advisor.database.engine import open_store
from tests.advisor.billing.months_drawn import NOW_US


@pytest.fixture
def store(store_address: str) -> Iterator[Engine]:
    with open_store(store_address) as engine:
        yield engine


@pytest.fixture
def closing(store: Engine) -> Closing:
    return Closing(store, "c", lambda: NOW_US)
