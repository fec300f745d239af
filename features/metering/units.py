"""Meter: what is metered, in which units, from which columns, and the hours it is metered by. Facts."""

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from features.columnar.windows import WINDOW_US
from ingest.lake.row_filter import microseconds
from ingest.schema.tables import USAGE

MICROS = 1_000_000
MINUTES = 60
HOUR_US = MINUTES * WINDOW_US
GIB = 2.0**30
KEYS = ["cluster", "node", "container"]
IDENTITY = ("app", "team", "qos")


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that is metered.

    Args:
        name: as in table `metered`.
        usage: columns of usage that add up to it.
        scale: units of it in one of theirs.
        request: column of placements; None where nothing is requested.
        unless: column of usage that says that its value is not what the container used itself.
    """

    name: str
    usage: tuple[str, ...]
    scale: float
    request: str | None = None
    unless: str | None = None


RESOURCES = (
    Resource("cpu", ("cpu_cores",), 1.0, "cpu_request_cores"),
    Resource("memory", ("memory_bytes",), 1 / GIB, "memory_request_bytes"),
    Resource("gpu", ("gpu_sm_frac",), 1.0, "gpu_request", "gpu_share_unknown"),
    Resource("network", ("net_rx_bytes_s", "net_tx_bytes_s"), 60 / GIB),
    Resource("disk", ("disk_read_bytes_s", "disk_write_bytes_s"), 60 / GIB),
)
"""Cores, GiB and GPUs; of network and disk what was moved, GiB a minute."""
EVERYBODYS = ("cpu", "memory")
"""Every container has some: of these, hours of which nothing at all is known are recorded too."""
USED = [*dict.fromkeys(name for resource in RESOURCES for name in resource.usage)]
DOUBTED = [resource.unless for resource in RESOURCES if resource.unless is not None]
COLUMNS = [*KEYS, *IDENTITY, "ts", "interval_s", *USED, *DOUBTED, "topic", "partition", "offset"]
"""Columns of usage that metering reads."""
READ = pa.schema([USAGE.schema.field(name) for name in COLUMNS])


@dataclass(frozen=True, slots=True)
class Hours:
    """Whole hours in a row: the first one's start, microseconds since 1970, and how many."""

    start_us: int
    count: int

    @staticmethod
    def between(start: datetime, end: datetime) -> "Hours":
        """Those that overlap [start, end)."""
        first = microseconds(start) // HOUR_US
        return Hours(first * HOUR_US, max(0, -(-microseconds(end) // HOUR_US) - first))

    @property
    def end_us(self) -> int:
        """End of the last one, exclusive."""
        return self.start_us + self.count * HOUR_US

    @property
    def minutes(self) -> int:
        """How many they are."""
        return self.count * MINUTES
