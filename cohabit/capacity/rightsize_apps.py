"""Right-size apps: requests that apps should have, from the tables of a lake. An edge."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.capacity.rightsize import Present, Recommendation, Rule, Windows, rightsize
from advisor.capacity.undisturbed_demand import Flags, Measured
from cohabit.config.errors import CohabitError
from cohabit.diagnosis.diagnose import newest_window
from cohabit.terminal.console import printable
from features.columnar.arrow_columns import Floats, Ints, floats, micros
from features.columnar.asof_join import key_codes, row_of
from features.columnar.windows import LABEL_US, WINDOW_US, window_end
from features.contention.node_state import is_delete, standing
from features.jobs.lake_facts import facts_between
from features.labels.slowdown import WAITING
from ingest.lake.row_filter import EPOCH, microseconds
from ingest.lake.tables import Lake
from ingest.schema.tables import TIMESTAMP

DAY = timedelta(days=1)
DAY_US = DAY // timedelta(microseconds=1)
TICK = timedelta(microseconds=1)
KEYS = ["cluster", "node", "container"]
USED = ("cpu_cores", "cpu_throttled_frac", "run_delay_frac", "psi_cpu_some_frac", "qps", "rt_mean_ms")
MEMORY = ("memory_bytes", "peak_memory", "demand_memory")
STATE = [*KEYS, "app", "qos", "window_end", *USED, *MEMORY]
LABELLED = [*KEYS, "window_end", "kind", "log_slowdown"]
UNSIZED = "SYSTEM"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many minutes of containers are held.

    Args:
        minutes: that are looked at, about 1.5 GB; where the days have more, fewer days are.
        at_once: that are read at once: of so many nodes at a time.
    """

    minutes: int = 20_000_000
    at_once: int = 1_000_000


USUAL = Bounds()


@dataclass(frozen=True, slots=True)
class Pod:
    """A container that runs now, as its newest placement describes it; empty texts where it does not.

    Args:
        app: name, as in recommendations.
        container: its uid.
        namespace: of the pod.
        name: of the pod.
        owner: kind/name of its workload.
    """

    app: str
    container: str
    namespace: str
    name: str
    owner: str


@dataclass(frozen=True, slots=True)
class Sized:
    """Recommendations, and how much they rest on.

    Args:
        found: one for each app.
        pods: that run at the end.
        start: of the first minute that was looked at.
        until: its end.
        minutes: of containers, of named apps.
        containers: in them.
        unnamed: minutes left out, as no record names the app or it is of the system.
        labelled: minutes with a label of slowdown.
        asked_days: that were asked for.
        several: whether pods are of more than one cluster.
    """

    found: tuple[Recommendation, ...]
    pods: tuple[Pod, ...]
    start: datetime
    until: datetime
    minutes: int
    containers: int
    unnamed: int
    labelled: int
    asked_days: float
    several: bool = False


@dataclass
class _Seen:
    """What was read so far."""

    parts: list[Windows] = field(default_factory=list)
    containers: set[str] = field(default_factory=set)
    minutes: int = 0
    unnamed: int = 0
    first_us: int = 1 << 60

    @property
    def start(self) -> datetime:
        """Of the first minute."""
        return datetime.fromtimestamp((self.first_us - WINDOW_US) / 1e6, UTC)

    def add(self, state: pa.Table, labels: pa.Table, names: dict[str, int], *, several: bool) -> None:
        """Add rows of some nodes."""
        part = windows_of(state, labels, names, several=several)
        self.parts.append(part)
        self.minutes += len(part.app)
        self.unnamed += state.num_rows - len(part.app)
        self.containers |= set(pc.unique(state.filter(_named(state))["container"]).to_pylist())
        self.first_us = int(micros(state["window_end"]).min(initial=self.first_us))


def rightsized(lake: Lake, days: float, rule: Rule, only: str | None = None, *, bounds: Bounds = USUAL) -> Sized:
    """Requests for the apps of a lake.

    Args:
        lake: with features.
        days: up to the newest labels.
        rule: risk, margins and floors.
        only: one app; None for all.
        bounds: of what is held in memory.

    Returns:
        See Sized. Apps of several clusters are named cluster/app.

    Raises:
        NothingMeasured: there are no features.
        CohabitError: there are labels and no node state, or nothing is known of the app.
    """
    until = newest_window(lake)
    end = until + TICK
    start = max(EPOCH, until - days * DAY)
    while until - start > timedelta(hours=1) and lake.count("node_state", start, end) > bounds.minutes:
        start = until - (until - start) / 2
    placements = _running(lake, end)
    names = dict[str, int]()
    described = lake.read("nodes", end=end, columns=["cluster"])["cluster"]
    several = len({*described.to_pylist(), *placements["cluster"].to_pylist()}) > 1
    seen = _Seen()
    for nodes in _pieces(lake, start, end, bounds.at_once):
        seen.add(*_piece(lake, (start + TICK, end), nodes), names, several=several)
    if not seen.minutes:
        raise CohabitError(
            f"the lake {lake.uri} has no minute of a container with an app from {start:%Y-%m-%dT%H:%M} to "
            f"{until:%Y-%m-%dT%H:%M} UTC: run `cohabit features`, or name more --days"
        )
    pods = _pods(placements, several=several)
    present = _present(placements, _codes(_apps(placements, several=several), names))
    windows = _joined(seen.parts)
    found = rightsize(windows, present, list(names), rule)
    if only is not None and not (found := tuple(one for one in found if one.app == only)):
        raise CohabitError(
            f"--app {printable(only)}: none of the {len(names):,} apps since {seen.start:%Y-%m-%d %H:%M} UTC has "
            "this name; `cohabit capacity rightsize` lists them"
        )
    return Sized(
        found=found,
        pods=tuple(pod for pod in pods if only is None or pod.app == only),
        start=seen.start,
        until=until,
        minutes=seen.minutes,
        containers=len(seen.containers),
        unnamed=seen.unnamed,
        labelled=int(np.isfinite(windows.measured.slowdown_ratio).sum()),
        asked_days=days,
        several=several,
    )


def _pieces(lake: Lake, start: datetime, end: datetime, at_once: int) -> Iterator[list[str] | None]:
    """So many nodes that their minutes fit into memory; None for all, where these do."""
    minutes = lake.count("node_state", start, end)
    if minutes <= at_once:
        yield None
        return
    nodes = sorted(pc.unique(lake.rows("node_state", start, end, ["node"])["node"]).to_pylist())
    size = max(1, at_once * len(nodes) // minutes)
    for begin in range(0, len(nodes), size):
        yield nodes[begin : begin + size]


def _piece(lake: Lake, span: tuple[datetime, datetime], nodes: list[str] | None) -> tuple[pa.Table, pa.Table]:
    """Rows of node state and labels of some nodes."""
    state = lake.read("node_state", *span, columns=STATE, nodes=nodes)
    upto = span[1] + timedelta(microseconds=LABEL_US)
    return state, lake.read("labels", span[0], upto, columns=LABELLED, nodes=nodes)


def windows_of(state: pa.Table, labels: pa.Table, names: dict[str, int], *, several: bool = False) -> Windows:
    """Windows of containers of named apps; apps that are new are added to the names.

    Args:
        state: rows of `node_state`.
        labels: rows of `labels` of the same time.
        names: position of each app.
        several: whether names begin with the cluster.
    """
    rows = state.filter(_named(state)).combine_chunks()
    slowdown, is_waiting = _slowdowns(rows, labels)
    app = _codes(_apps(rows, several=several), names)
    used = {name: floats(rows[name]) for name in USED}
    measured = Measured(
        cpu_cores=used["cpu_cores"],
        throttled_frac=used["cpu_throttled_frac"],
        run_delay_frac=used["run_delay_frac"],
        queued_frac=used["psi_cpu_some_frac"],
        qps=used["qps"],
        rt_mean_ms=used["rt_mean_ms"],
        slowdown_ratio=slowdown,
        is_waiting=is_waiting,
    )
    return Windows(app, (micros(rows["window_end"]) - 1) // DAY_US, _memory(rows), measured)


def _named(state: pa.Table) -> pa.ChunkedArray:
    of_system = pc.fill_null(pc.equal(state["qos"], UNSIZED), fill_value=False)
    return pc.and_not(pc.is_valid(state["app"]), of_system)


def _apps(rows: pa.Table, *, several: bool) -> pa.ChunkedArray:
    """Names of apps, with their cluster where there are several."""
    return pc.binary_join_element_wise(rows["cluster"], rows["app"], "/") if several else rows["app"]


def _codes(apps: pa.ChunkedArray, names: dict[str, int]) -> Ints:
    """(n,) position of each app in the names, to which new ones are added."""
    coded = pa.chunked_array(apps, pa.string()).combine_chunks().dictionary_encode()
    place = np.array([names.setdefault(one, len(names)) for one in coded.dictionary.to_pylist()], np.int64)
    return place[coded.indices.to_numpy()] if len(coded) else np.zeros(0, np.int64)


def _memory(rows: pa.Table) -> Floats:
    """(n,) largest sample of memory in each window, bytes; the mean where the node's memory is not known."""
    mean, share, peak = (floats(rows[name]) for name in ("memory_bytes", "demand_memory", "peak_memory"))
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = mean * peak / share
    return np.where(np.isfinite(largest), np.fmax(largest, mean), mean)


def _slowdowns(rows: pa.Table, labels: pa.Table) -> tuple[Floats, Flags]:
    """(n,) slowdown ratio of the label's five minutes, NaN without one, and whether it is made of waiting."""
    ends = pa.array(window_end(micros(rows["window_end"]), LABEL_US), TIMESTAMP)
    keyed = rows.select(KEYS).append_column("window_end", ends)
    row = row_of(*key_codes(keyed, labels, [*KEYS, "window_end"]))
    ratio = np.exp(np.append(floats(labels["log_slowdown"]), np.nan))
    is_waiting = np.append(np.asarray(pc.equal(labels["kind"], WAITING)).astype(np.bool_), [False])
    return ratio[row], is_waiting[row]


def _joined(parts: list[Windows]) -> Windows:
    measured = [np.concatenate([getattr(one.measured, column.name) for one in parts]) for column in fields(Measured)]
    return Windows(
        np.concatenate([one.app for one in parts]),
        np.concatenate([one.day for one in parts]),
        np.concatenate([one.memory_bytes for one in parts]),
        Measured(*measured),
    )


def _running(lake: Lake, end: datetime) -> pa.Table:
    """Newest placement of each container of a named app that runs at the end."""
    rows, since, until = standing(facts_between(lake, end, end, ahead=False).placements, ["cluster", "container"])
    at = microseconds(end)
    runs = (since <= at) & (until > at) & ~is_delete(rows)
    return rows.filter(pa.array(runs, pa.bool_())).filter(pc.is_valid(pc.field("app")))


def _pods(placements: pa.Table, *, several: bool) -> tuple[Pod, ...]:
    """Running containers, in the order of the placements."""
    columns = [placements[name].to_pylist() for name in ("container", "namespace", "name", "owner")]
    apps = _apps(placements, several=several).to_pylist()
    return tuple(Pod(app, *(text or "" for text in texts)) for app, *texts in zip(apps, *columns, strict=True))


def _present(placements: pa.Table, app: Ints) -> Present:
    columns = ("cpu_request_cores", "memory_request_bytes", "cpu_limit_cores", "memory_limit_bytes")
    cores, memory, limit_cores, limit_bytes = (floats(placements[name]) for name in columns)
    return Present(app, cores, memory, limit_cores, limit_bytes)
