"""Newest hour: what of a lake quotes are made from, read again when it may have changed. An edge."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc

from advisor.billing.quotes.errors import NoLakeToQuote
from advisor.billing.quotes.hourly_inputs import Newest
from advisor.errors import NotFound
from cohabit.config.errors import NoLake
from cohabit.config.settings import Settings
from cohabit.terminal.locations import existing_lake
from features.columnar.arrow_columns import micros
from features.metering.node_hours import pools_of
from ingest.lake.row_filter import EPOCH
from ingest.lake.tables import Lake
from ingest.schema.errors import IngestError

KEPT_US = 60 * 1_000_000
"""How long what was read is quoted by; an hour that is metered again counts from then on."""
HOUR = timedelta(hours=1)
LOOKED = timedelta(days=2)
"""Before the end of what was metered: the newest hour lies there."""


def newest_hour(lake: Lake, cluster: str) -> Newest:
    """The newest hour that was metered of a cluster.

    Raises:
        NotFound: none was.
    """
    end_us = max((part.end_us for part in lake.range_parts("pool_hours")), default=0)
    end = EPOCH + timedelta(microseconds=end_us)
    known = _of(lake.read("pool_hours", max(EPOCH, end - LOOKED), end), cluster)
    if not known.num_rows:
        raise NotFound(
            f"no hour of cluster {cluster!r} is metered yet, so the cost of its pools is unknown: run `cohabit bill "
            "meter`"
        )
    hour = pc.max(known["hour"]).as_py()
    metered = _of(lake.read("metered", hour, hour + HOUR), cluster)
    pools = known.filter(pc.equal(known["hour"], pa.scalar(hour, known.schema.field("hour").type)))
    return Newest(int(micros(pools["hour"])[0]), metered, pools, _pool_of(lake, cluster, hour))


def _pool_of(lake: Lake, cluster: str, hour: datetime) -> dict[str, str]:
    """Pool of each node that was described by the end of an hour."""
    nodes = _of(lake.read("nodes", EPOCH, hour + HOUR), cluster)
    names = pc.unique(nodes["node"]).to_pylist()
    rows = pa.table(
        {"cluster": [cluster] * len(names), "node": pa.array(names, pa.string()), "hour": _times(hour, names)}
    )
    return dict(zip(names, pools_of(rows, nodes).to_pylist(), strict=True)) if names else {}


def _times(hour: datetime, names: list[str]) -> pa.Array:
    return pa.array([hour] * len(names), pa.timestamp("us", tz="UTC"))


def _of(rows: pa.Table, cluster: str) -> pa.Table:
    return rows.filter(pc.equal(rows["cluster"], cluster))


@dataclass
class NewestHour:
    """The newest hour of the lake that settings name, read again after a while.

    Args:
        settings: with the lake and the cluster.
        now_us: the clock.
        lake: named by an option; None takes that of the settings.
    """

    settings: Settings
    now_us: Callable[[], int]
    lake: str | None = None
    _kept: tuple[int, Newest] | None = field(default=None, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def __call__(self) -> Newest:
        """What quotes are made from.

        Raises:
            NotFound: no hour was metered.
            NoLakeToQuote: there is no lake, or it cannot be read.
        """
        with self._lock:
            if self._kept is None or not 0 <= self.now_us() - self._kept[0] < KEPT_US:
                self._kept = self.now_us(), self._read()
            return self._kept[1]

    def _read(self) -> Newest:
        try:
            return newest_hour(existing_lake(self.settings, self.lake, reads=True), self.settings.cluster)
        except (NoLake, IngestError, OSError) as error:
            raise NoLakeToQuote(str(error)) from error
