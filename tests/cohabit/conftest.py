"""Fixtures of the ledger and of the advisor, for the commands over them."""

from tests.advisor.billing.conftest import closing, store
from tests.advisor.conftest import bundle, placement

__all__ = ["bundle", "closing", "placement", "store"]
