"""Closes month after month in a process of its own, to be killed: address of the store, then months.

Says each month as it begins with it: whoever kills it knows how far it is, however quick the machine.
"""

import sys

from advisor.billing.ledger.closing import Closing
from advisor.database.engine import open_store
from advisor.plans.plan_service import Actor

with open_store(sys.argv[1]) as engine:
    closing = Closing(engine, "c", lambda: 1_796_083_200_000_000)
    digests = {period: closing.one(period).digest for period in sys.argv[2:]}
    for period, digest in digests.items():
        print(period, flush=True)  # noqa: T201
        closing.close(period, digest, Actor("cron", "finance", "r3"))
