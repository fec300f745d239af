"""Coverage: how much of what runs a diagnosis could look at, and why not the rest. Kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import floor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Ints, micros
from features.columnar.asof_join import key_codes, row_of
from features.columnar.windows import LABEL_US, window_end
from features.contention.node_state import is_best_effort
from features.labels.slowdown import REASONS, WAITING

UNNAMED, UNMEASURED = "not_described", "not_measured"
"""Reasons of windows without label rows: see WHY."""
WHY = REASONS | {
    UNNAMED: "no placement names the app, or no record describes the node",
    UNMEASURED: "runs by its placement, and no exporter sends anything of it",
}
SHARED = {
    "CPU": ("pressure_cpu",),
    "cache": ("pressure_llc",),
    "memory bandwidth": ("pressure_memory_bandwidth",),
    "memory": ("pressure_memory",),
    "disk": ("pressure_disk", "pressure_disk_ios"),
    "network": ("pressure_net",),
}
"""What every node's containers share, by the columns that say how much neighbours use of it."""
KEYS = ("cluster", "node", "app", "container")
LABELS = (
    *KEYS, "window_end", "qos", "kind", "log_slowdown", "reason", *(name for of in SHARED.values() for name in of)
)  # fmt: skip
"""Columns of `labels` that coverage is made of."""
STATE = (*KEYS, "window_end", "qos")
"""The same of `node_state`."""
PLACED = (*KEYS, "qos")
"""The same of `placements`."""
LABELLED = ""
"""In the place of a reason."""
SUMMED = pa.schema(
    [
        *((name, pa.string()) for name in (*KEYS, "kind", "reason")),
        *((name, pa.int64()) for name in ("windows", *SHARED)),
    ]
)
"""Windows of containers, see running_windows."""
MOSTLY, BLIND = 0.9, 0.5
"""Below MOSTLY of all, clusters, nodes and apps below it are named; from it on, those below BLIND."""
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Unseen:
    """What was not looked at, for one reason.

    Args:
        reason: see WHY.
        windows: five-minute windows of containers.
        containers: in them.
        apps: of these.
    """

    reason: str
    windows: int
    containers: int
    apps: int


@dataclass(frozen=True, slots=True)
class Looked:
    """Five-minute windows in which latency-sensitive containers of one cluster, node or app ran.

    Args:
        windows: all of them.
        labelled: of them, with a label.
    """

    windows: int
    labelled: int

    @property
    def share(self) -> float:
        """Share of running container time that has a label; 0 without any container."""
        return self.labelled / self.windows if self.windows else 0.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was looked at in a stretch of time.

    Args:
        looked: windows of all latency-sensitive containers.
        containers: latency-sensitive containers that ran.
        by_waiting: of them, with labels made of waiting.
        unseen: why the rest of the windows has no label, most windows first.
        clusters: windows by cluster.
        nodes: windows by node.
        apps: windows by app; those of no known app are left out.
        unreported: of SHARED, what neighbours use in less than half of the windows with a label.
    """

    looked: Looked = Looked(0, 0)
    containers: int = 0
    by_waiting: int = 0
    unseen: tuple[Unseen, ...] = ()
    clusters: Mapping[str, Looked] = field(default_factory=dict)
    nodes: Mapping[str, Looked] = field(default_factory=dict)
    apps: Mapping[str, Looked] = field(default_factory=dict)
    unreported: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Share of running container time that has a label; 0 without any container."""
        return self.looked.share


def running_windows(labels: pa.Table, measured: pa.Table, placed: pa.Table, end_us: int) -> pa.Table:
    """Five-minute windows of latency-sensitive containers, with a label or with the reason why there is none.

    Args:
        labels: rows of `labels` of a stretch of time, columns LABELS.
        measured: rows of `node_state` of the same stretch, columns STATE.
        placed: containers that run at its end by their placements; KEYS, `qos`, `since_us` (not before its start).
        end_us: end of the stretch, microseconds since 1970.

    Returns:
        Columns KEYS, `kind`, `reason` (LABELLED where there is a label), `windows` (how many), and for each of SHARED
        the number of windows with a label in which its use by neighbours is known. Best-effort containers are left
        out: they are no victims. What is measured and has no row in `labels` is UNNAMED; what is placed and
        not measured is UNMEASURED, window by window.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0064-coverage.md.
    """
    known = pc.is_valid(labels["log_slowdown"])
    reason = pc.if_else(known, LABELLED, pc.fill_null(labels["reason"], UNNAMED))
    ends = window_end(micros(measured["window_end"]), LABEL_US)
    state = measured.set_column(measured.column_names.index("window_end"), "window_end", pa.array(ends))
    state = state.group_by(list(STATE), use_threads=False).aggregate([])
    keys = ["cluster", "container", "window_end"]
    named = labels.select(keys[:2]).append_column("window_end", pa.array(micros(labels["window_end"])))
    left = state.filter(pa.array(~np.isin(*key_codes(state, named, keys))))
    heard = pa.concat_tables([named, state.select(keys).cast(named.schema)]).group_by(keys).aggregate([])
    missed = _missed(placed, heard.group_by(keys[:2]).aggregate([([], "count_all")]), end_us)
    silent = placed.filter(pa.array(missed > 0))
    known_use = {name: pc.and_(known, _any_valid(labels, columns)) for name, columns in SHARED.items()}
    labelled = labels.select([*KEYS, "qos", "kind"]).append_column("reason", reason)
    for name, there in known_use.items():
        labelled = labelled.append_column(name, there.cast(pa.int64()))
    parts = [
        _part(labelled, np.ones(labels.num_rows, np.int64)),
        _part(_without_label(left, UNNAMED), np.ones(left.num_rows, np.int64)),
        _part(_without_label(silent, UNMEASURED), missed[missed > 0]),
    ]
    sums = ("windows", *SHARED)
    by = pa.concat_tables(parts).group_by([*KEYS, "kind", "reason"], use_threads=False)
    return by.aggregate([(name, "sum") for name in sums]).rename_columns({f"{name}_sum": name for name in sums})


def _missed(placed: pa.Table, heard: pa.Table, end_us: int) -> Ints:
    """(n,) whole windows since a container was placed in which it was not measured; at least one where it never was."""
    lasted = np.maximum((end_us - placed["since_us"].to_numpy()) // LABEL_US, 1)
    row = row_of(*key_codes(placed, heard, ["cluster", "container"]))
    counted = np.append(heard["count_all"].to_numpy(), 0)[row]
    missed: Ints = np.maximum(lasted - counted, 0)
    return missed


def _any_valid(rows: pa.Table, columns: Sequence[str]) -> pa.ChunkedArray:
    """(n,) whether any of some columns is there."""
    return reduce(pc.or_, (rows[name].is_valid() for name in columns))


def _without_label(rows: pa.Table, reason: str) -> pa.Table:
    count = rows.num_rows
    found = rows.append_column("kind", pa.nulls(count, pa.string()))
    found = found.append_column("reason", pa.array([reason] * count, pa.string()))
    for name in SHARED:
        found = found.append_column(name, pa.array(np.zeros(count, np.int64)))
    return found


def _part(rows: pa.Table, count: Ints) -> pa.Table:
    """Rows as they are counted, without best-effort ones."""
    counted = rows.append_column("windows", pa.array(count, pa.int64()))
    return counted.filter(pa.array(~is_best_effort(rows["qos"]))).select(SUMMED.names).cast(SUMMED)


def coverage(windows: pa.Table) -> Coverage:
    """How much of a stretch of time has labels.

    Args:
        windows: from `running_windows`.

    Returns:
        The figures, over all clusters; filter the rows for those of one.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0064-coverage.md.
    """
    known = pc.equal(windows["reason"], LABELLED)
    rows = windows.append_column("labelled", pc.if_else(known, windows["windows"], 0))
    waited = rows.filter(pc.and_(known, pc.fill_null(pc.equal(rows["kind"], WAITING), fill_value=False)))
    return Coverage(
        looked=Looked(*(int(pc.sum(rows[name]).as_py() or 0) for name in ("windows", "labelled"))),
        containers=_containers(rows),
        by_waiting=_containers(waited),
        unseen=_unseen(rows.filter(pc.invert(known))),
        clusters=_split(rows, "cluster"),
        nodes=_split(rows, "node"),
        apps=_split(rows, "app"),
        unreported=_unreported(rows),
    )


def _unreported(rows: pa.Table) -> tuple[str, ...]:
    labelled = pc.sum(rows["labelled"]).as_py() or 0
    return tuple(name for name in SHARED if 2 * (pc.sum(rows[name]).as_py() or 0) < labelled)


def _containers(rows: pa.Table) -> int:
    return int(rows.group_by(["cluster", "container"], use_threads=False).aggregate([]).num_rows)


def _unseen(rows: pa.Table) -> tuple[Unseen, ...]:
    sums = [("windows", "sum"), ("container", "count_distinct"), ("app", "count_distinct")]
    found = rows.group_by("reason", use_threads=False).aggregate(sums)
    ordered = found.sort_by([("windows_sum", "descending"), ("reason", "ascending")])
    names = ("reason", "windows_sum", "container_count_distinct", "app_count_distinct")
    return tuple(Unseen(*(row[name] for name in names)) for row in ordered.to_pylist())


def _split(rows: pa.Table, name: str) -> dict[str, Looked]:
    sums = [("windows", "sum"), ("labelled", "sum")]
    found = rows.filter(rows[name].is_valid()).group_by(name, use_threads=False).aggregate(sums).sort_by(name)
    return {row[name]: Looked(row["windows_sum"], row["labelled_sum"]) for row in found.to_pylist()}


def rounded_down(share: float) -> int:
    """A share in whole percent, rounded down, so that all is said of all alone."""
    return floor(100 * share + 1e-9)


def whole_percent(share: float) -> str:
    """A share in percent, rounded down."""
    return f"{rounded_down(share)}%"


def part_percent(share: float) -> str:
    """A share of what was not looked at, in percent, so that nothing is said of nothing alone."""
    return f"{share:.0%}" if share >= 0.005 or not share else "<1%"


def sentence(of: Coverage | None) -> str:
    """How much was looked at, in one sentence."""
    if of is None:
        return "how much was looked at is not known: run `cohabit victims --publish` of this version"
    if not of.containers:
        return "nothing was looked at: no latency-sensitive container was measured"
    return f"looked at {whole_percent(of.share)} of the time of {of.containers:,} latency-sensitive containers that ran"


def sentences(of: Coverage) -> list[str]:
    """What was looked at, and what was not and why, for people; the share comes first."""
    found = [sentence(of)]
    if of.unseen:
        found.append("why not the rest:")
    for one in of.unseen:
        apps = f" of {one.apps:,} apps" if one.apps else ""
        part = part_percent(one.windows / of.looked.windows)
        found.append(f"  {part:>4}  {one.containers:,} containers{apps}: {WHY.get(one.reason, one.reason)}")
    parts, low = {"clusters": of.clusters, "nodes": of.nodes, "apps": of.apps}, MOSTLY if of.share < MOSTLY else BLIND
    found += [f"{name} looked at least: {text}" for name, part in parts.items() if (text := _least(part, low))]
    if of.by_waiting:
        found.append(
            f"{of.by_waiting:,} are judged by waiting alone: harm through cache and memory bandwidth is not seen"
        )
    if of.unreported:
        found.append(f"use of {', '.join(of.unreported)} is not reported: no neighbour is named for harm through it")
    return found


def _least(parts: Mapping[str, Looked], limit: float) -> str:
    """Those of which least was looked at, and less than a share; empty for a single one."""
    low = sorted((part.share, name) for name, part in parts.items() if part.share < limit)
    if len(parts) < 2:
        return ""
    return ", ".join(f"{name} {whole_percent(share)}" for share, name in low[:MOST_NAMED])
