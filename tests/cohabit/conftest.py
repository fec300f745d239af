"""Fixtures of the ledger and of the advisor, for the commands over them."""

from tests.advisor.billing.conftest import closing, lake
from tests.advisor.conftest import bundle, placement, store

__all__ = ["bundle", "closing", "lake", "placement", "store"]
