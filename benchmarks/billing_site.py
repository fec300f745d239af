"""A site to bill: pools of nodes, containers that are there all the time, and their usage, drawn a day at a time."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.columnar.windows import WINDOW_US
from features.metering.units import COLUMNS, GIB, Hours
from features.schema.tables import BILLS
from ingest.schema.tables import NODES, PLACEMENTS, TIMESTAMP, USAGE, Table

Ints = NDArray[np.int64]
DAY_HOURS = 24
START_US = 1_793_491_200_000_000  # 2026-11-01 00:00 UTC
PER_NODE = 20
TEAMS, APPS = 40, 200
LOST = 0.005
"""Share of minutes that were never measured."""
UNASKED = 0.02
"""Share of containers that request nothing, whose lost minutes are gaps."""


@dataclass(frozen=True)
class Site:
    """Containers in pools of equal size, and the share of them whose minutes are drawn."""

    all_containers: int
    pools: int
    share: float

    @property
    def containers(self) -> int:
        """Of a pool."""
        return max(1, self.all_containers // self.pools)

    @property
    def measured(self) -> int:
        """Containers of a pool whose minutes are drawn."""
        return max(1, round(self.share * self.containers))

    @property
    def nodes(self) -> int:
        """Of a pool."""
        return -(-self.containers // PER_NODE)

    @property
    def measured_nodes(self) -> int:
        """Nodes that the measured containers are on."""
        return -(-self.measured // PER_NODE)

    def copied(self, sums: pa.Table, pool: int, rng: np.random.Generator) -> pa.Table:
        """What was metered, and for every other container what was metered of one of them, moved a little."""
        of = _place(sums["container"], container_names(pool, self.measured))
        copies = -(-self.containers // self.measured)
        row, copy = np.tile(np.arange(sums.num_rows), copies), np.repeat(np.arange(copies), sums.num_rows)
        number = copy * self.measured + of[row]
        kept = np.flatnonzero(number < self.containers)
        row, copy, number = row[kept], copy[kept], number[kept]
        more = np.where(copy == 0, 0, rng.integers(0, 1_000_000, len(row)))
        told = sums.take(pa.array(row))
        columns = {
            "container": _texts(number, container_names(pool, self.containers)),
            "node": _texts(number // PER_NODE, node_names(pool, self.nodes)),
            "requested": pa.array(told["requested"].to_numpy() + more),
            "within": pa.array(told["within"].to_numpy() + more),
        }
        return pa.table([columns.get(f.name, told[f.name]) for f in sums.schema], schema=sums.schema)


def container_names(pool: int, count: int) -> list[str]:
    """As long as uids are."""
    return [f"{pool:08x}-6f1c-4d2a-9b3e-{i:012x}" for i in range(count)]


def node_names(pool: int, count: int) -> list[str]:
    """Of a pool."""
    return [f"node-{pool:03d}-{i:05d}" for i in range(count)]


def described(site: Site, pool: int) -> pa.Table:
    """Nodes of a pool, told before the month began."""
    names = pa.array(node_names(pool, site.nodes))
    known = {
        "node": names,
        "cores": np.full(site.nodes, 64.0),
        "memory_bytes": np.full(site.nodes, 256 * GIB),
        "pool": [f"std-{pool}"] * site.nodes,
        "zone": ["a"] * site.nodes,
        "cost_micros_per_hour": 1_900_000 + np.arange(site.nodes) % 1000,
    }
    return _filled(NODES, site.nodes, known, np.full(site.nodes, START_US - WINDOW_US))


def placed(site: Site, pool: int, rng: np.random.Generator) -> pa.Table:
    """Additions of the measured containers, before the month began."""
    count = site.measured
    asked = rng.random(count) >= UNASKED
    cores, memory = rng.integers(1, 32, count) / 4, rng.integers(1, 64, count) * GIB / 4
    known = {
        "node": _texts(np.arange(count) // PER_NODE, node_names(pool, site.measured_nodes)),
        "container": pa.array(container_names(pool, count)),
        "event": ["add"] * count,
        "cpu_request_cores": pa.array(cores, mask=~asked),
        "memory_request_bytes": pa.array(memory, mask=~asked),
    }
    return _filled(PLACEMENTS, count, known, np.full(count, START_US - WINDOW_US))


def used(site: Site, pool: int, day: Hours, rng: np.random.Generator) -> pa.Table:
    """Usage of the measured containers, a row a minute, some lost; columns that metering reads."""
    which = np.tile(np.arange(site.measured), day.minutes)
    ts = day.start_us + (np.repeat(np.arange(day.minutes), site.measured) + 1) * WINDOW_US
    kept = rng.random(len(which)) >= LOST
    which, ts = which[kept], ts[kept]
    known = {
        "node": _texts(which // PER_NODE, node_names(pool, site.measured_nodes)),
        "container": _texts(which, container_names(pool, site.measured)),
        "app": _texts(which % APPS, [f"app-{i}" for i in range(APPS)]),
        "team": _texts(which % TEAMS, [f"team-{i}" for i in range(TEAMS)]),
        "qos": _texts(which % 3 // 2, ["LS", "BE"]),
        "interval_s": np.full(len(which), 60.0),
        "cpu_cores": rng.gamma(2.0, 0.8, len(which)),
        "memory_bytes": rng.gamma(4.0, GIB, len(which)),
    }
    return _filled(USAGE, len(which), known, ts).select(COLUMNS)


def bills() -> pa.Table:
    """None."""
    return BILLS.schema.empty_table()


def _filled(kind: Table, count: int, known: dict[str, object], ts_us: Ints) -> pa.Table:
    told = {
        **known,
        "cluster": ["c"] * count,
        "topic": [kind.name] * count,
        "partition": np.zeros(count, np.int32),
        "offset": np.arange(count),
        "ts": pa.array(ts_us, TIMESTAMP),
        "arrived_at": pa.array(ts_us, TIMESTAMP),
    }
    columns = [pa.array(told[f.name]).cast(f.type) if f.name in told else pa.nulls(count, f.type) for f in kind.schema]
    return pa.table(columns, schema=kind.schema)


def _texts(codes: Ints, names: list[str]) -> pa.Array:
    return pa.array(names).take(pa.array(codes))


def _place(column: pa.ChunkedArray, names: list[str]) -> Ints:
    place = {name: i for i, name in enumerate(names)}
    encoded = column.combine_chunks().dictionary_encode()
    places: Ints = np.array([place[name] for name in encoded.dictionary.to_pylist()], np.int64)
    found: Ints = np.take(places, encoded.indices.to_numpy())
    return found
