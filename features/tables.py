"""Tables the feature jobs write: node state, labels, profiles, training rows. Facts."""

import pyarrow as pa

from features.catalog import NAMES, PRESSURES, RAW, SENSITIVITIES
from ingest.schema import (
    APP,
    CLUSTER,
    CONTAINER,
    DEAD_LETTERS,
    LANDED,
    NODE,
    QOS,
    SIGNALS,
    TEAM,
    TIMESTAMP,
    Column,
    Table,
)


def _float(name: str, unit: str, meaning: str) -> Column:
    return Column(name, pa.float64(), unit, meaning)


def _time(name: str, meaning: str) -> Column:
    return Column(name, TIMESTAMP, "UTC", meaning, required=True)


SIGNAL_NAMES = tuple(c.name for c in SIGNALS)
PLATFORM = Column("platform", pa.string(), "", "CPU model of the node; null where the node is not described")
ARRIVED_AT = _time("arrived_at", "when the last sample behind the row had arrived")

NODE_STATE = Table(
    "node_state",
    1,
    ("cluster", "node", "window_end", "container"),
    "window_end",
    (
        CLUSTER,
        NODE,
        _time("window_end", "end of the one-minute window"),
        CONTAINER,
        APP,
        TEAM,
        QOS,
        PLATFORM,
        Column("samples", pa.int64(), "", "samples in the window", required=True),
        ARRIVED_AT,
        *(Column(c.name, c.type, c.unit, f"mean over the window: {c.meaning}") for c in SIGNALS),
        *(_float(f"demand_{name}", "share of the node", f"own use of {name}") for name in NAMES),
        *(_float(name, "share of the node", "neighbours' use") for name in PRESSURES),
        _float("neighbours", "containers", "other containers on the node"),
        _float("neighbours_be", "containers", "other best-effort containers on the node"),
        _float("max_neighbour_cpu", "share of the node", "CPU use of the busiest neighbour"),
    ),
)

LABELS = Table(
    "labels",
    1,
    ("cluster", "node", "window_end", "container"),
    "window_end",
    (
        CLUSTER,
        NODE,
        _time("window_start", "start of the five-minute window; the decision a label belongs to is taken here"),
        _time("window_end", "end of the five-minute window"),
        CONTAINER,
        APP,
        TEAM,
        QOS,
        PLATFORM,
        ARRIVED_AT,
        Column("kind", pa.string(), "", "cpi, latency, cpu_time or none (not modelled)", required=True),
        _float(
            "log_slowdown", "log ratio", "log of the signal over the app's own normal at that load; null: not modelled"
        ),
        _float("weight", "samples", "samples behind the label"),
        *(_float(name, "share of the node", "mean pressure in the window") for name in PRESSURES),
    ),
)

PROFILES = Table(
    "profiles",
    1,
    ("cluster", "app", "platform", "as_of"),
    "as_of",
    (
        CLUSTER,
        Column("app", pa.string(), "", "workload", required=True),
        Column("platform", pa.string(), "", "CPU model", required=True),
        _time("as_of", "only windows that had ended and arrived by then are in it"),
        _float("windows", "windows", "one-minute windows behind the profile"),
        *(_float(f"demand_{name}", "share of the node", f"typical use of {name} by one container") for name in NAMES),
        *(
            _float(name, "slowdown - 1 per share of the node", "how the app suffers; null: not yet known")
            for name in SENSITIVITIES
        ),
        _float("cpi", "cycles/instruction", "typical CPI"),
        _float("llc_mpki", "1/1000 instructions", "typical cache misses"),
        _float("qps", "1/s", "typical load of one container"),
    ),
)

TRAINING = Table(
    "training",
    1,
    ("cluster", "node", "window_end", "container"),
    "window_end",
    (
        CLUSTER,
        NODE,
        _time("window_end", "end of the label's window"),
        CONTAINER,
        APP,
        TEAM,
        QOS,
        PLATFORM,
        _time("as_of", "when the decision was taken: nothing that arrived later is in the features"),
        *(_float(f.name, f.unit, "feature, as features.catalog says") for f in RAW),
        _float("log_slowdown", "log ratio", "label"),
        _float("weight", "samples", "weight of the row"),
    ),
)

DERIVED = {t.name: t for t in (NODE_STATE, LABELS, PROFILES, TRAINING)}
TABLES = {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS, **DERIVED}
"""Every table of the lake."""
