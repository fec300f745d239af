"""Waited CPUs: over how many CPUs an app waits, from what whole nodes wait. Kernel.

Pressure of a container is a mean over the CPUs that its threads run on. Spread over eight of them it shows an eighth
of what it waited, and nothing that it reports says so. The scheduler's statistics of a node hold all that was waited
there. Over many minutes of many nodes, in which other apps wait, follows what each app's pressure adds to that sum.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack

from features.columnar.arrow_columns import Floats, Ints, floats, micros, table
from features.columnar.asof_join import key_codes, row_of
from features.columnar.composite_keys import joint, ranks
from features.columnar.group_means import group_starts
from features.columnar.hashing import label_window_hashes
from features.columnar.nonneg_ridge import least_within
from features.columnar.windows import LABEL_US, WINDOW_US, window_end
from ingest.schema.tables import TIMESTAMP

NODE_WAITS = pa.schema(
    [
        ("cluster", pa.string()),
        ("node", pa.string()),
        ("window_end", TIMESTAMP),
        ("arrived_at", TIMESTAMP),
        ("app", pa.string()),
        ("pressure", pa.float64()),
        ("waited", pa.float64()),
    ]
)
"""One row for each app on a node in five minutes: its containers' pressure on CPU without own throttling, and what all
tasks of the node waited, both sums of s/s over the minutes in which the node's is known."""
CPUS = pa.schema([("cluster", pa.string()), ("app", pa.string()), ("as_of", TIMESTAMP), ("cpus", pa.float64())])
"""Over how many CPUs apps wait, as known at a time."""
Flags = NDArray[np.bool_]
MINUTE = ["cluster", "node", "window_end"]
WHOLE = ("cluster", "node", "ts", "arrived_at", "run_delay_frac")
"""Columns of `node_usage` that are read."""
MOST_CPUS = 256.0
"""More is taken for an error of measurement."""
DOUBT = 0.01
"""How much must be seen of an app before one CPU more is believed, of the mean squared error by which nodes wait."""
LEAST = 0.05
"""Errors are relative to what a node waited, down to so much in five minutes: a hundredth of a CPU."""
TINY = 1e-12
FEWEST = 24
"""Windows of nodes in a cluster before anything is said: two hours of one node."""
MOST_NODES = 100
"""Of larger clusters so many nodes are looked at in each window, others in the next."""


def node_waits(state: pa.Table, node_usage: pa.Table, nodes: pa.Table) -> pa.Table:
    """What apps and their whole nodes waited for CPU.

    Args:
        state: rows of `node_state`, of whole nodes, any order.
        node_usage: rows of `node_usage`, columns WHOLE, of these nodes and others.
        nodes: rows of `nodes`, of every node of their clusters; columns cluster and node are read.

    Returns:
        Rows of NODE_WAITS, sorted; none where no node's waiting is known.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0065-waited-cpus.md; `node_schedstat_waiting_seconds_total` of node_exporter is the sum
        of run_delay of all tasks (kernel/sched/stats.h).
    """
    minutes = _minutes(node_usage.filter(pc.is_valid(node_usage["run_delay_frac"])))
    minutes = minutes.filter(pa.array(_chosen(minutes, nodes)))
    named = state.filter(pc.and_(pc.is_valid(state["app"]), pc.is_valid(state["psi_cpu_some_frac"])))
    rows = named.filter(pa.array(row_of(*key_codes(named, minutes, MINUTE)) >= 0))
    throttled = pc.fill_null(rows["cpu_throttled_frac"], 0.0)
    own = pc.max_element_wise(pc.subtract(rows["psi_cpu_some_frac"], throttled), 0.0)
    apps = rows.append_column("pressure", own).sort_by([(name, "ascending") for name in (*MINUTE, "app", "container")])
    apps = _by_window(apps, ["app"], "pressure")
    whole = _by_window(minutes, [], "run_delay_frac")
    at = pa.array(row_of(*key_codes(apps, whole, MINUTE)))
    arrived = pa.array(np.maximum(micros(apps["arrived_at"]), micros(whole["arrived_at"].take(at))), TIMESTAMP)
    columns: dict[str, object] = {name: apps[name] for name in (*MINUTE, "app", "pressure")}
    return table(columns | {"arrived_at": arrived, "waited": whole["run_delay_frac"].take(at)}, NODE_WAITS)


def _minutes(node_usage: pa.Table) -> pa.Table:
    """What whole nodes waited, minute by minute, sorted; `arrived_at` of the last record of each."""
    ends = pa.array(window_end(micros(node_usage["ts"]), WINDOW_US), TIMESTAMP)
    rows = (
        node_usage.select(WHOLE).append_column("window_end", ends).sort_by([(c, "ascending") for c in (*MINUTE, "ts")])
    )
    found = rows.group_by(MINUTE, use_threads=False).aggregate([("run_delay_frac", "mean"), ("arrived_at", "max")])
    return found.rename_columns({"run_delay_frac_mean": "run_delay_frac", "arrived_at_max": "arrived_at"})


def _by_window(minutes: pa.Table, also: list[str], summed: str) -> pa.Table:
    """Sums over five minutes of rows that are sorted by MINUTE."""
    ends = pa.array(window_end(micros(minutes["window_end"]), LABEL_US), TIMESTAMP)
    rows = minutes.set_column(minutes.column_names.index("window_end"), "window_end", ends)
    found = rows.group_by([*MINUTE, *also], use_threads=False).aggregate([(summed, "sum"), ("arrived_at", "max")])
    return found.rename_columns({f"{summed}_sum": summed, "arrived_at_max": "arrived_at"})


def _chosen(minutes: pa.Table, nodes: pa.Table) -> Flags:
    """(n,) minutes that are looked at: all, or in large clusters those of about MOST_NODES nodes in each window."""
    sizes = nodes.group_by(["cluster", "node"]).aggregate([]).group_by("cluster").aggregate([([], "count_all")])
    at = row_of(*key_codes(minutes, sizes, ["cluster"]))
    many = np.where(at >= 0, np.append(floats(sizes["count_all"]), 0.0)[at], 0.0)
    named = minutes.append_column("container", pa.array([""] * minutes.num_rows, pa.string()))
    share = label_window_hashes(named) / np.float64(2**64)
    return np.asarray(share * many < MOST_NODES, np.bool_)


def waited_cpus(waits: pa.Table, as_of_us: Ints) -> pa.Table:
    """Over how many CPUs each app waits.

    Args:
        waits: rows of NODE_WAITS, each once, any order.
        as_of_us: (t,) times, rising; only what had ended and arrived by then counts.

    Returns:
        Rows of CPUS: for each time the apps of which any pressure was known. Nothing is said of clusters with fewer
        than FEWEST windows. An app of which too little was seen is taken for one CPU.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0065-waited-cpus.md; non-negative least squares with a ridge.
    """
    ordered = waits.sort_by([(name, "ascending") for name in ("cluster", "window_end", "node", "app")])
    parts = [CPUS.empty_table()]
    for cluster in pc.unique(ordered["cluster"]).to_pylist():
        parts += _of_cluster(ordered.filter(pc.equal(ordered["cluster"], cluster)), as_of_us)
    return pa.concat_tables(parts)


def _of_cluster(waits: pa.Table, as_of_us: Ints) -> Iterator[pa.Table]:
    """Rows of CPUS, one table a time; of one cluster's waits, sorted."""
    window, app = joint([ranks(waits["window_end"]), ranks(waits["node"])]), ranks(waits["app"])
    names = pc.unique(waits["app"]).sort()
    starts = group_starts(window)
    line = np.cumsum(np.isin(np.arange(len(window)), starts)) - 1
    pressure = csr_matrix((floats(waits["pressure"]), (line, app)), (len(starts), len(names)))
    waited, since = (
        floats(waits["waited"])[starts],
        np.maximum(micros(waits["window_end"]), micros(waits["arrived_at"])),
    )
    known_us = np.maximum.reduceat(since, starts)
    fit, done = _Fit(len(names)), 0
    for time in as_of_us.tolist():
        new = np.flatnonzero((known_us <= time) & (known_us > done))
        fit.add(pressure[new], waited[new])
        done = time
        if fit.windows >= FEWEST:
            seen = np.flatnonzero(fit.seen())
            columns: dict[str, object] = {
                "cluster": waits["cluster"].slice(0, 1).take(pa.array(np.zeros(len(seen), np.int64))),
                "app": names.take(pa.array(seen)),
                "as_of": pa.array(np.full(len(seen), time), TIMESTAMP),
                "cpus": fit.cpus()[seen],
            }
            yield table(columns, CPUS)


class _Fit:
    """Sums of squares and products of all windows so far: the apps' pressures, and a constant for the system's own."""

    def __init__(self, apps: int) -> None:
        self.windows = 0
        self._gram, self._target, self._square = np.zeros((apps + 1, apps + 1)), np.zeros(apps + 1), 0.0
        self._beyond, self._new = np.zeros(apps + 1), False

    def add(self, pressure: csr_matrix, waited: Floats) -> None:
        """Count (n,) windows with (n, apps) pressures."""
        if len(waited):
            x = hstack([pressure, csr_matrix(np.ones((len(waited), 1)))]).tocsr()
            beyond = waited - np.asarray(pressure.sum(axis=1)).ravel()
            weight = 1.0 / (waited + LEAST)
            x, beyond = csr_matrix(x.multiply(weight[:, None])), beyond * weight
            self.windows, self._new = self.windows + len(waited), True
            self._gram += (x.T @ x).toarray()
            self._target += x.T @ beyond
            self._square += float(beyond @ beyond)

    def seen(self) -> Flags:
        """(apps,) whether any pressure was known."""
        return np.asarray(self._gram.diagonal()[:-1] > 0, np.bool_)

    def cpus(self) -> Floats:
        """(apps,) CPUs, at least 1."""
        if self._new:
            free = self._least(self._beyond, 0.0)
            left = self._square - 2.0 * float(free @ self._target) + float(free @ self._gram @ free)
            self._beyond, self._new = self._least(free, DOUBT * max(left, 0.0) / self.windows), False
        return np.minimum(1.0 + self._beyond[:-1], MOST_CPUS)

    def _least(self, start: Floats, ridge: float) -> Floats:
        """(apps + 1,) CPUs beyond the first, and what the system waits by itself."""
        gram = self._gram.copy()
        gram[np.diag_indices(len(gram))] += ridge + TINY * gram.diagonal().max()
        scale = np.sqrt(gram.diagonal())
        target = self._target / scale
        size = max(float(np.abs(target).max()), TINY)
        return least_within(gram / np.outer(scale, scale), target / size, start * scale / size) * size / scale
