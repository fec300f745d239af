"""Tables the feature jobs write: node state, contention, antagonists, labels, profiles, training rows. Facts."""

import pyarrow as pa

from features.schema.catalog import COMPOSITION, EXPECTED, NAMES, PRESSURES, RAW, SENSITIVITIES, TOGETHER, expected_name
from ingest.schema.tables import (
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
PRESSURE_COUNTS = (
    _float("neighbours", "containers", "other containers on the node"),
    _float("neighbours_be", "containers", "other best-effort containers on the node"),
    _float("max_neighbour_cpu", "share of the node", "CPU use of the busiest neighbour"),
)
COMPOSITIONS = tuple(
    _float(name, "see features.contention.neighbour_mix", "which neighbours press, and how") for name in COMPOSITION
)

NODE_STATE = Table(
    "node_state",
    3,
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
        *PRESSURE_COUNTS,
        *COMPOSITIONS,
        _float("age_s", "s", "from the last sample to the window's end"),
        Column(
            "missing", pa.int64(), "bits", "bit i is set where the pressure of the catalogue's resource i is unknown"
        ),
        *(_float(f"peak_{name}", "share of the node", f"largest sample of own use of {name}") for name in NAMES),
    ),
    "Each container's minute, and how much its neighbours used of the node.",
)

CONTENTION = Table(
    "contention",
    2,
    ("cluster", "node", "window_end", "container"),
    "window_end",
    (
        CLUSTER,
        NODE,
        _time("window_start", "start of the five-minute window"),
        _time("window_end", "end of the five-minute window"),
        CONTAINER,
        APP,
        TEAM,
        QOS,
        PLATFORM,
        Column("minutes", pa.int64(), "minutes", "one-minute windows behind the row: its support", required=True),
        Column("samples", pa.int64(), "", "samples behind the row", required=True),
        _float("age_s", "s", "from the last sample to the window's end"),
        Column("missing", pa.int64(), "bits", "bit i is set where resource i's pressure was unknown in some minute"),
        ARRIVED_AT,
        *(_float(name, "share of the node", "mean of the minutes' neighbours' use") for name in PRESSURES),
        *(_float(f"{name}_max", "share of the node", "largest minute's neighbours' use") for name in PRESSURES),
        *PRESSURE_COUNTS,
        *COMPOSITIONS,
        _float("load_of_peak", "ratio", "own load over the app's largest known before the window; null without load"),
    ),
    "Features of each container's five minutes: what it and its neighbours press on.",
)

ANTAGONISTS = Table(
    "antagonists",
    1,
    ("cluster", "node", "window_end", "container", "rank"),
    "window_end",
    (
        CLUSTER,
        NODE,
        _time("window_end", "end of the half hour looked at"),
        CONTAINER,
        APP,
        Column("rank", pa.int64(), "", "1 is the neighbour whose use goes along most with the container's signal"),
        Column("signal", pa.string(), "", "the container's signal that was compared", required=True),
        Column("antagonist", pa.string(), "", "the neighbour", required=True),
        Column("antagonist_app", pa.string(), "", "its app"),
        Column("resource", pa.string(), "", "what it used when the signal rose", required=True),
        _float("correlation", "", "of the signal with that use, minute by minute; a hint, not a proof"),
        Column("minutes", pa.int64(), "minutes", "in which both were measured", required=True),
    ),
    "Neighbours that most probably slow a container down, by half hour.",
)

LABELS = Table(
    "labels",
    4,
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
        Column("kind", pa.string(), "", "cpi, latency, cpu_time, waiting or none (not modelled)", required=True),
        _float(
            "log_slowdown", "log ratio", "log of the signal over the app's baseline at that load; null: not modelled"
        ),
        Column("reason", pa.string(), "", "why there is no label, see features.labels.slowdown; null where there is"),
        _float("cpus", "CPUs", "over how many a label of waiting takes the app's pressure to be a mean; else null"),
        _float("weight", "samples", "samples behind the label"),
        *(_float(name, "share of the node", "mean pressure in the window") for name in PRESSURES),
    ),
    "Observed slowdown of each container's five minutes, or why there is none.",
)

PROFILES = Table(
    "profiles",
    5,
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
            _float(name, "slowdown - 1 per share of the node", "the app's sensitivity; null: not yet known")
            for name in SENSITIVITIES
        ),
        _float("cpi", "cycles/instruction", "typical CPI"),
        _float("llc_mpki", "1/1000 instructions", "typical cache misses"),
        _float("qps", "1/s", "typical load of one container"),
        _float("qps_peak", "1/s", "largest load of one container in a minute so far"),
        Column(
            "team", pa.string(), "", "team that owned the app when it was last reported, on any platform; null: never"
        ),
        Column("kind", pa.string(), "", "kind of the labels behind the sensitivities, see `labels`; null: none yet"),
    ),
    "What is known of an app on a platform: demand, sensitivity, baseline.",
)

TRAINING = Table(
    "training",
    4,
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
        *(_float(f.name, f.unit, "feature, as features.schema.catalog says") for f in RAW),
        _float("log_slowdown", "log ratio", "label"),
        _float("weight", "samples", "weight of the row"),
        *(
            _float(expected_name(f.name), f.unit, f"{f.name} that would be expected, had the app never run")
            for f in RAW
            if f.name in EXPECTED
        ),
        *(
            _float(name, "slowdown - 1", "by all apps there together, see features.contention.co_runner_effects")
            for name in TOGETHER
        ),
        *(_float(expected_name(n), "slowdown - 1", f"{n} of an app that never ran") for n in TOGETHER),
    ),
    "Rows to train on: features as known before the placement, with the label.",
)

HOUR = _time("hour", "start of the hour")
POOL = Column(
    "pool",
    pa.string(),
    "",
    "what is paid for together: node class and site, see features.metering.usage_hours",
    required=True,
)


def _sum(name: str, meaning: str, *, required: bool = True) -> Column:
    return Column(name, pa.int64(), "micro-unit-minutes", meaning, 0, required=required)


METERED = Table(
    "metered",
    1,
    ("cluster", "hour", "container", "node", "resource"),
    "hour",
    (
        CLUSTER,
        HOUR,
        NODE,
        CONTAINER,
        Column(
            "resource",
            pa.string(),
            "",
            "cpu, memory, gpu, network or disk, see features.metering.usage_hours",
            required=True,
        ),
        POOL,
        APP,
        TEAM,
        QOS,
        _sum("requested", "request of each minute; what was used where the request is not known"),
        _sum("within", "use of each minute up to the request; the request where use was not measured"),
        _sum("beyond", "use of each minute beyond the request"),
        Column("minutes", pa.int64(), "minutes", "of which request or use is known", 0, 60, required=True),
        Column(
            "gap_minutes", pa.int64(), "minutes", "in which it was there and neither is known", 0, 60, required=True
        ),
    ),
    "Resources that containers had and used, by hour.",
)
"""What a container reserved and used in an hour: three sums that every rule of billing is linear in."""

POOL_HOURS = Table(
    "pool_hours",
    1,
    ("cluster", "hour", "pool"),
    "hour",
    (
        CLUSTER,
        HOUR,
        POOL,
        Column("nodes", pa.int64(), "nodes", "that were there at some time of the hour", 0, required=True),
        Column("cost_micros", pa.int64(), "10^-6 of the currency", "of the hour; null: no node or bill has one"),
        Column("cost_source", pa.string(), "", "nodes, or the name of the bill; null as cost_micros is"),
        Column(
            "capacity",
            pa.map_(pa.string(), pa.int64()),
            "micro-unit-minutes",
            "by resource; what is not known is left out",
        ),
    ),
    "Capacity and use of pools of nodes, by hour.",
)
"""What there was of each pool in an hour, and what it cost."""

BY_TEAM = pa.map_(pa.string(), pa.int64())
IDLE = Table(
    "idle",
    1,
    ("cluster", "hour", "pool", "cause", "resource"),
    "hour",
    (
        CLUSTER,
        HOUR,
        POOL,
        Column(
            "cause",
            pa.string(),
            "",
            "failure, lead_time or stranded, see features.metering.idle_causes",
            required=True,
        ),
        Column("resource", pa.string(), "", "as in metered", required=True),
        _sum("quantity", "idle for this cause"),
        Column(
            "by_team",
            BY_TEAM,
            "micro-unit-minutes",
            "of it, by leave-one-out; the rest belongs to no team",
            required=True,
        ),
    ),
    "Capacity that was not used, by cause and hour.",
)
"""Capacity that is idle for a cause that the cluster shows; any other free capacity is headroom."""

BILLS = Table(
    "bills",
    1,
    ("cluster", "bill", "item"),
    "hour",
    (
        CLUSTER,
        HOUR,
        POOL,
        Column("bill", pa.string(), "", "name of the imported bill", required=True),
        Column("item", pa.string(), "", "row of the bill and hour that this is a part of", required=True),
        Column("cost_micros", pa.int64(), "10^-6 of the currency", "of this hour; negative is a credit", required=True),
        Column("currency", pa.string(), "ISO 4217", "of the cost", required=True),
    ),
    "What a provider's bill says that pools cost.",
)
"""Costs that were billed from outside, by the hour; of an hour and pool that has some, they are its cost."""

NEIGHBOUR = pa.struct(
    [
        pa.field("container", pa.string(), nullable=False),
        pa.field("added", pa.float64(), nullable=False),  # slowdown - 1
        pa.field("llc", pa.float64()),  # share of the node that it used
        pa.field("memory_bandwidth", pa.float64()),  # share of the node that it used
    ]
)
SLOWED = Table(
    "slowed",
    2,
    ("cluster", "hour", "container", "node"),
    "hour",
    (
        CLUSTER,
        HOUR,
        NODE,
        CONTAINER,
        APP,
        Column(
            "low",
            pa.list_(pa.float64()),
            "ratio",
            "of each five-minute window of the hour, above which its slowdown surely was; null: nothing shows one",
            required=True,
        ),
        _float("excess", "slowdown - 1", "mean over the windows that show one"),
        Column(
            "neighbours",
            pa.list_(NEIGHBOUR),
            "",
            "containers co-located in these windows, what each added and used, see advisor.diagnosis.slowed_hours",
            required=True,
        ),
        Column("method", pa.string(), "", "rules by which that was diagnosed", required=True),
    ),
    "Hours in which a container was slowed down, and by whom.",
)
"""Who was slowed down in an hour, surely by how much, and what of it was whose doing. It knows no prices."""

SCARCITY = Table(
    "scarcity",
    1,
    ("cluster", "hour", "pool", "resource"),
    "hour",
    (
        CLUSTER,
        HOUR,
        POOL,
        Column("resource", pa.string(), "", "as in metered", required=True),
        Column("scarcity_ppm", pa.int64(), "10^-6", "how scarce it will be", 0, 1_000_000, required=True),
        Column("mean_ppm", pa.int64(), "10^-6", "mean over the hours of its day", 0, 1_000_000, required=True),
        _time("published_at", "when that was said"),
    ),
    "Forecast of how scarce resources of a pool are.",
)
"""How scarce hours will be, said before their month begins, and billed as said; rows are never changed."""

DERIVED = {
    t.name: t
    for t in (
        NODE_STATE,
        CONTENTION,
        ANTAGONISTS,
        LABELS,
        PROFILES,
        TRAINING,
        METERED,
        POOL_HOURS,
        IDLE,
        BILLS,
        SLOWED,
        SCARCITY,
    )
}
TABLES = {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS, **DERIVED}
"""Every table of the lake."""
