"""Stock: what kubelets as they come show of simulated containers: use, pressure and throttling. Kernel.

Nothing of requests, latency or hardware counters. Harm through CPU and disk makes tasks wait; harm through the
last-level cache, memory bandwidth or the network does not.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ingest.simulator.law import HIDDEN, PLATFORMS, Apps, Floats, Ints, Law
from ingest.simulator.simulated_cluster import Records, State, load_at, neighbour_load

Flags = NDArray[np.bool_]
SENT = (
    *("cpu_cores", "memory_bytes", "disk_read_bytes_s", "disk_write_bytes_s", "disk_ios_s"),
    *("net_rx_bytes_s", "net_tx_bytes_s"),
)
"""Usage columns that are sent as they are."""
WORK = ("cpi", "llc_mpki", "qps", "cpu_us_per_request", "rt_mean_ms", "rt_p95_ms", "rt_p99_ms")
"""Usage columns by which an app's work is known."""
CPU, DISK = HIDDEN.index("cpu"), HIDDEN.index("disk")
MEDIAN_ERROR, TAILS = 0.148, 1.5
"""Of log stall, and degrees of freedom of its distribution: measured runs have a factor of 1.16 in the median and 1.9
in nine of ten."""
MAX_ERROR, MAX_PRESSURE = 1.5, 0.95
SYSTEM_WAITS = 0.02
"""What tasks outside containers wait on a node, s/s."""
LIMITED_EVERY, LIMIT_SHARE = 6, 0.8
"""Every sixth app has a CPU limit, of so much of its demand at full load."""


@dataclass(frozen=True, slots=True)
class Stock:
    """What labels do not know of apps.

    Args:
        spread: (apps,) CPUs that an app's threads are spread over.
        limit_cores: (apps,) CPU limit of a container; NaN for none.
        noise: scale of the errors of stalls.
        only: (apps,) apps that report nothing of their work themselves, in a cluster whose exporters count the
            hardware's events; None in a stock cluster.
    """

    spread: Floats
    limit_cores: Floats
    noise: float = 1.0
    only: Flags | None = None


def draw_stock(apps: Apps, rng: np.random.Generator) -> Stock:
    """Random spreads, from one CPU to all of the smallest node, and limits."""
    count = len(apps.best_effort)
    most = min(platform.cores for platform in PLATFORMS)
    limited = np.arange(count) % LIMITED_EVERY == LIMITED_EVERY - 2
    limit = np.where(limited, LIMIT_SHARE * apps.demand[:, CPU], np.nan)
    return Stock(np.round(most ** rng.random(count)), limit)


def some_stock(stock: Stock, only: Flags) -> Stock:
    """The same where (apps,) `only` some apps report nothing of their work; without limits."""
    return replace(stock, only=only, limit_cores=np.full(len(only), np.nan))


def by_resource(law: Law, app: Ints, neighbours: Floats, load: Floats, platform: Ints) -> Floats:
    """True slowdown if neighbours pressed on one resource alone.

    Args:
        law: how containers slow each other down.
        app: (n,) apps.
        neighbours: see Law.slowdown.
        load: (n,) load as a share of its peak.
        platform: (n,) platform of the node.

    Returns:
        (n, hidden resources) ratios >= 1.

    Raises:
        Nothing.

    Source: ours.
    """
    alone = []
    for resource in range(len(HIDDEN)):
        pressure = np.zeros_like(law.apps.pressure)
        pressure[:, resource] = law.apps.pressure[:, resource]
        pressing = replace(law, apps=replace(law.apps, pressure=pressure))  # type: ignore[type-var]
        alone.append(pressing.slowdown(app, neighbours, load, platform))
    return np.column_stack(alone)


def stock_records(records: Records, state: State, law: Law, stock: Stock, rng: np.random.Generator) -> Records:
    """The records as a kubelet would show them.

    Args:
        records: of one interval.
        state: the cluster after it.
        law: by which containers slowed each other down.
        stock: of the apps.
        rng: errors of stalls.

    Returns:
        Records with SENT, `psi_cpu_some_frac`, `psi_memory_some_frac`, `psi_memory_full_frac`, `psi_io_full_frac` and,
        of limited containers, `cpu_throttled_frac`. Pressure on CPU holds time throttled by the own limit, as the
        kernel counts it, and is a mean over the CPUs that the container runs on. Where `only` some apps report nothing
        of their work, the pressures of these in place of WORK, and everything else as it was. `waited` is what all
        tasks of each node waited, as node_exporter counts it: over all CPUs, without throttled time, with errors of
        its own.

    Raises:
        Nothing.

    Source: ours; stalls are the inverse of features.labels.waiting, with CPUs that it does not know.
    """
    if not records.containers:
        return records
    app = np.array([c.app for c in records.containers], np.int64)
    node = np.array([c.node for c in records.containers], np.int64)
    load = load_at(app, records.time_s)
    neighbours = neighbour_load(app, node, load, len(state.best_effort))
    slowed = by_resource(law, app, neighbours, load, state.platform[node])
    wanted, limit = records.signals["cpu_cores"], stock.limit_cores[app]
    use = np.fmin(wanted, limit)
    throttled = 1.0 - use / wanted
    spread = np.maximum(stock.spread[app], np.ceil(use))
    stall = (slowed[:, CPU] - 1.0) * use / spread * _errors(len(app), rng) ** stock.noise
    disk = 1.0 - 1.0 / (1.0 + (slowed[:, DISK] - 1.0) * _errors(len(app), rng) ** stock.noise)
    none = np.zeros(len(app))
    shown = {name: records.signals[name] for name in SENT} | {"cpu_cores": use}
    shown |= {"psi_cpu_some_frac": np.minimum(stall + throttled, MAX_PRESSURE), "psi_io_full_frac": disk}
    shown |= {"psi_memory_some_frac": none, "psi_memory_full_frac": none}
    shown["cpu_throttled_frac"] = np.where(np.isnan(limit), np.nan, throttled)
    lost = (slowed[:, CPU] - 1.0) * use * _errors(len(app), rng) ** stock.noise
    waited: Floats = np.asarray(SYSTEM_WAITS + np.bincount(node, lost, minlength=len(state.platform)), np.float64)
    signals = shown if stock.only is None else _merged(records.signals, shown, stock.only[app])
    return replace(records, signals=signals, waited=waited)


def _merged(signals: dict[str, Floats], shown: dict[str, Floats], only: Flags) -> dict[str, Floats]:
    """What is sent where some containers show waiting in place of their work."""
    pressures = {name: np.where(only, values, np.nan) for name, values in shown.items() if name not in SENT}
    work = {name: np.where(only, np.nan, signals[name]) for name in WORK if name in signals}
    return signals | pressures | work


def _errors(count: int, rng: np.random.Generator) -> Floats:
    """(n,) factors, MEDIAN_ERROR in the middle, with long tails."""
    middle = 0.86  # of |t| with TAILS degrees of freedom
    drawn: Floats = np.exp(np.clip(rng.standard_t(TAILS, count) * MEDIAN_ERROR / middle, -MAX_ERROR, MAX_ERROR))
    return drawn
