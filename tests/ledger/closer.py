"""Closes a month in a process of its own, to be killed: address of the store, digest of the draft."""

import sys

from advisor.ledger.closing import Closing
from advisor.proposals.desk import Actor
from advisor.store import open_store

with open_store(sys.argv[1]) as engine:
    closing = Closing(engine, "c", lambda: 1_796_083_200_000_000)
    closing.one("2026-11")
    print("ready", flush=True)  # noqa: T201 - whoever kills it waits for that
    closing.close("2026-11", sys.argv[2], Actor("cron", "finance", "r3"))
