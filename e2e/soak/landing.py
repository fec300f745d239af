"""Landing: how far ingestion is behind, and how often it commits to each table, while everything else goes on."""

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
from deltalake import DeltaTable
from prometheus_client.parser import text_string_to_metric_families

from cohabit.terminal.console import show_table

MAX_MORE = 1.5
"""How many times as far behind it may be in the last third as in the first."""
COMMIT_S = 10.0
"""Ingestion commits once to a table in so long."""
LANDED = ("usage", "node_usage", "samples")
"""Tables that stream without end."""


@dataclass
class Behind:
    """Messages that were not landed yet, when looked at.

    Args:
        log: where ingestion says at which address it serves metrics.
    """

    log: Path
    at_s: list[float] = field(default_factory=list)
    messages: list[float] = field(default_factory=list)

    def look(self, since_s: float) -> None:
        """Ask once."""
        found = re.search(r"metrics at http://(\S+):(\d+)", self.log.read_text())
        if found is None:
            return
        with closing(HTTPConnection(found[1], int(found[2]), timeout=10)) as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        lags = (family for family in text_string_to_metric_families(text) if family.name == "cohabit_ingest_lag")
        self.at_s.append(since_s)
        self.messages.append(sum(one.value for family in lags for one in family.samples))

    def thirds(self, begin_s: float, end_s: float) -> list[float]:
        """Mean of each third of a stretch of time, in messages; NaN without a look."""
        edges = np.linspace(begin_s, end_s, 4)
        which = np.digitize(self.at_s, edges)
        return [
            float(np.mean(np.array(self.messages)[which == i])) if (which == i).any() else np.nan for i in (1, 2, 3)
        ]


def steady(thirds: Sequence[float]) -> bool:
    """Whether ingestion keeps up: it is no farther behind at the end than at the beginning, by thirds of messages."""
    first, _, last = thirds
    return last <= MAX_MORE * max(first, 1.0)


def commits(lake: Path, begin_s: float, end_s: float) -> dict[str, float]:
    """Commits of each landed table in `COMMIT_S`, those of `lake compact` too, between two times since 1970."""
    found = {}
    for name in LANDED:
        if (lake / name).is_dir():
            times = [one["timestamp"] / 1000 for one in DeltaTable(str(lake / name)).history()]
            inside = sum(begin_s <= at < end_s for at in times)
            found[name] = inside * COMMIT_S / (end_s - begin_s)
    return found


def show(behind: Sequence[float], often: dict[str, float]) -> None:
    """Show both."""
    rows = [(name, f"{one:.2f}") for name, one in often.items()]
    lag = ", ".join(f"{one:.0f}" for one in behind)
    show_table(f"messages not landed, by third: {lag}", ("table", f"commits in {COMMIT_S:g} s"), rows)
