"""Evidence: containers slowed in the newest windows of a stretch, and their antagonists. From lake tables.

Minutes, labels and profiles in, diagnoses out; the same for the command line and the benchmark.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.diagnosis.attribution import Attribution, attribute, only
from advisor.diagnosis.slowdown_causes import (
    MAX_SUSPECTS,
    MOST,
    TWO_SIDED_90,
    Circumstances,
    Diagnosis,
    Suspect,
    verdict_of,
)
from advisor.diagnosis.slowdown_outliers import ALONE, ENOUGH, LOOKED, Signs, Windows, signs
from advisor.scoring.score_scale import LIMIT_SLOWDOWN
from features.columnar.arrow_columns import floats, micros
from features.columnar.asof_join import key_codes, row_of
from features.columnar.group_means import group_codes
from features.columnar.windows import LABEL_US, WINDOW_US
from features.contention.lifetimes import CONTAINER_SILENCE_US
from features.contention.node_state import Facts, is_best_effort, is_delete, known_at
from features.labels.slowdown import SIGNALS, WAITING, WINDOW_COLUMNS, label_windows
from features.labels.waiting import WAITED, waits
from features.schema.catalog import NAMES, PRESSURES
from features.training.diagnosis_rows import OWN, STATE_COLUMNS, WINDOW_KEY, own_means
from features.training.residents import described
from ingest.schema.cpuset import membership

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

ATTRIBUTION_WINDOWS = 24
"""Windows for the attribution to neighbours: in two hours load changes, and neighbours are still the same."""
USUAL_US = 24 * 3600 * 1_000_000
"""How long back is looked for what is usual of an app."""
WAITS = tuple(name for name in OWN if name.endswith("_frac") and name != "cpu_throttled_frac")
DEMANDS = tuple(f"demand_{name}" for name in NAMES)
PLACE = ["cluster", "node", "container"]
DESCRIBED = ["cluster", "app", "team", "platform"]
CPU = NAMES.index("cpu")
RESOURCES = (*NAMES, "cpu elsewhere")
"""What neighbours may press on; CPU is that of the victim's own cores."""
WAITED_AS = {"disk_ios": "disk", "cpu elsewhere": "cpu"}
"""Where what is waited for has another name."""
LATENCY = list(SIGNALS).index("latency")
PER_WINDOW = LABEL_US // WINDOW_US
HALF = 0.5
"""Share of the slow windows in which a suspect must have used something."""
MAX_USE = 10.0
"""Shares of a node: a reported value beyond is an error of measurement."""
DOUBTED = 1.5
"""What neighbours explain may be that much more than sensitivities say."""
COLUMNS = tuple(dict.fromkeys([*WINDOW_COLUMNS, *STATE_COLUMNS, *DEMANDS]))
"""Of `node_state`, that are read."""
UNEXPLAINED = 0.15
"""Slowdown beyond what neighbours explain, from which a container is slow for another reason."""
BY_WAITING = "; judged by waiting alone: slower than is usual of its app, by at least what is shown"
"""What is added to the reason of a verdict whose label has no known level."""
LEAST_OTHERS = 3
"""Containers behind a share."""


@dataclass(frozen=True, slots=True)
class Minutes:
    """(m,) minutes of containers, node after node: codes of both, end in minutes since 1970, (m, r) shares of nodes."""

    node: Ints
    container: Ints
    end: Ints
    use: Floats

    def of(self, node: int, but: int, number: Ints) -> "Minutes":
        """Those of a node's containers but one, in windows of some numbers and the minute before the first."""
        first, last = (number.min() - 1) * PER_WINDOW, number.max() * PER_WINDOW
        here = slice(*np.searchsorted(self.node, [node, node + 1]))
        rows = (self.container[here] != but) & (self.end[here] >= first) & (self.end[here] <= last)
        return Minutes(self.node[here][rows], self.container[here][rows], self.end[here][rows], self.use[here][rows])


@dataclass(frozen=True, slots=True)
class Pins:
    """(w,) cpuset of each window's container, None for the whole node, and cores of the node, NaN where not known."""

    cpuset: NDArray[np.object_]
    cores: Floats

    def overlap(self, one: int, others: Ints) -> tuple[Floats, Floats]:
        """Of containers of some rows, how their CPU use counts for that of one row, as neighbour_sums counts it.

        Returns:
            (k,) factors from shares of the node to shares of its own cores, and (k,) shares that are on other cores.
        """
        if not np.isfinite(self.cores[one]) or all(name is None for name in self.cpuset[[one, *others]]):
            return np.ones(len(others)), np.zeros(len(others))
        cores = max(1, int(self.cores[one]))
        allowed = membership(self.cpuset[[one, *others]].tolist(), cores).astype(np.float64)
        common = allowed[1:] @ allowed[0] / allowed[1:].sum(axis=1)
        return common * cores / allowed[0].sum(), 1.0 - common


@dataclass(frozen=True, slots=True)
class Scene:
    """A stretch of time, window by window and minute by minute.

    Args:
        rows: (w,) who each window is of.
        place: (w,) code of the node.
        app: (w,) code of the app.
        windows: what was measured.
        kind: (w,) of each label.
        shown: what that shows.
        sensitivity: (w, r + 1) slowdown - 1 per share of the node, last of CPU on cores of others; NaN where not known.
        unexplained: (w,) slowdown - 1 beyond DOUBTED times what sensitivities expect of the neighbours' use; NaN where
            none is known.
        pins: to which cores each is pinned.
        minutes: of all containers.
        newest_row: (c,) newest row of each container, by its code.
        newest: number of the window that ends last.
        running: (c,) whether each container still runs, by its code.
    """

    rows: pa.Table
    place: Ints
    app: Ints
    windows: Windows
    kind: pa.ChunkedArray
    shown: Signs
    sensitivity: Floats
    unexplained: Floats
    pins: Pins
    minutes: Minutes
    newest_row: Ints
    newest: int
    running: Flags


@dataclass(frozen=True, slots=True)
class Evidence:
    """Tables as they lie in a lake, any row order.

    Args:
        state: rows of `node_state`, of whole nodes.
        labels: rows of `labels` of the same containers and time.
        profiles: rows of `profiles`.
        facts: nodes and placements.
    """

    state: pa.Table
    labels: pa.Table
    profiles: pa.Table
    facts: Facts


def diagnose(evidence: Evidence, at_us: int) -> list[Diagnosis]:
    """What is wrong with whom.

    Args:
        evidence: the day before `at_us` counts, and profiles as of then or before.
        at_us: until when is looked, microseconds since 1970.

    Returns:
        One diagnosis per latency-sensitive container with a sign in three of its last five windows. Signs: slowdown,
        throttling by its own limit, late answers together with its replicas elsewhere. Also of one that is slow in
        some windows, with too few known. By slowdown, worst first. Best-effort containers are never victims; what has
        ended is neither a victim nor a suspect.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0042-diagnosis.md.
    """
    ends = micros(evidence.state["window_end"])
    state = evidence.state.filter(pa.array((ends > at_us - USUAL_US) & (ends <= at_us)))
    if not state.num_rows:
        return []
    scene = scene_of(replace(evidence, state=state), at_us)
    return worst_first([_diagnosis(scene, rows) for rows in _degraded(scene)])


def worst_first(found: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Diagnoses by slowdown; those whose limit hides it last."""
    return sorted(found, key=lambda one: (-np.nan_to_num(one.slowdown, nan=1.0), one.node, one.container))


def scene_of(evidence: Evidence, at_us: int) -> Scene:
    """All that was measured by a time, window by window."""
    state, rows = evidence.state, label_windows(evidence.state)
    row = row_of(*key_codes(rows, evidence.labels, list(WINDOW_KEY)))
    labels = evidence.labels.take(pa.array(row, mask=row < 0))
    rows, log = rows.append_column("cpus", labels["cpus"]), floats(labels["log_slowdown"])
    slowdown = np.exp(np.where(np.isfinite(log), log, np.nan))
    container, container_then = key_codes(rows, state, PLACE)
    node, node_then = key_codes(rows, state, PLACE[:2])
    order = np.argsort(node_then, kind="stable")
    windows = _windows(rows, state, container, labels["kind"], slowdown)
    sensitivity = sensitivities(rows, np.full(rows.num_rows, at_us), evidence.profiles)
    pressure = np.column_stack([floats(rows[name]) for name in PRESSURES[: len(NAMES)]])
    expected = np.nansum(sensitivity[:, : len(NAMES)] * pressure, axis=1)
    unknown = np.isnan(sensitivity[:, : len(NAMES)]).all(axis=1)
    return Scene(
        rows=rows,
        place=node,
        app=group_codes(rows, ["cluster", "app"]),
        windows=windows,
        kind=labels["kind"],
        shown=signs(windows, LIMIT_SLOWDOWN),
        sensitivity=sensitivity,
        unexplained=np.where(unknown, np.nan, slowdown - 1.0 - DOUBTED * expected),
        pins=_pins(rows, evidence.facts),
        minutes=Minutes(
            node=node_then[order],
            container=container_then[order],
            end=micros(state["window_end"])[order] // WINDOW_US,
            use=np.clip(np.column_stack([floats(state[name]) for name in DEMANDS])[order], 0.0, MAX_USE),
        ),
        newest_row=_newest_rows(windows),
        newest=at_us // LABEL_US,
        running=_running(rows, windows, evidence.facts, at_us),
    )


def _running(rows: pa.Table, windows: Windows, facts: Facts, at_us: int) -> Flags:
    """(c,) which containers run: placements say so; of those that they do not know, those measured of late."""
    newest = rows.take(pa.array(_newest_rows(windows)))
    placed = known_at(newest.select(PLACE), np.full(newest.num_rows, at_us), facts.placements, ["cluster", "container"])
    measured = micros(newest["window_end"]) > at_us - CONTAINER_SILENCE_US
    known = np.asarray(placed["event"].is_valid())
    return np.where(known, ~is_delete(placed), measured)


def sensitivities(rows: pa.Table, time_us: Ints, profiles: pa.Table) -> Floats:
    """(w, r + 1) how sensitive each window's app is, as known by then; the last, to CPU on cores of others, is 0."""
    found = described(rows.select(DESCRIBED), time_us, profiles)[:, : len(NAMES)]
    sane = np.where(np.isfinite(found), np.maximum(found, 0.0), np.nan)
    return np.column_stack([sane, np.zeros(rows.num_rows)])


def _windows(rows: pa.Table, state: pa.Table, container: Ints, kind: pa.ChunkedArray, slowdown: Floats) -> Windows:
    kinds = np.asarray(pc.fill_null(pc.index_in(kind, pa.array(list(SIGNALS))), -1), np.int64)
    kinds = np.where(np.asarray(pc.is_in(kind, pa.array([WAITING]))), ALONE, kinds)
    own = own_means(rows, state)
    return Windows(
        container=container,
        app_platform=group_codes(rows, ["cluster", "app", "platform"]),
        number=micros(rows["window_end"]) // LABEL_US,
        slowdown=slowdown,
        label_signal=np.where(np.isfinite(slowdown), kinds, -1),
        working=np.column_stack([floats(rows[name]) for name in SIGNALS.values()]),
        waiting=own[:, [list(OWN).index(name) for name in WAITS]],
        throttled=floats(rows["cpu_throttled_frac"]),
    )


def _pins(rows: pa.Table, facts: Facts) -> Pins:
    ends = micros(rows["window_end"])
    placed = known_at(rows.select(PLACE), ends, facts.placements, ["cluster", "container"])
    node = known_at(rows.select(PLACE[:2]), ends, facts.nodes, PLACE[:2])
    return Pins(np.array(placed["cpuset"].to_pylist(), object), floats(node["cores"]))


def _degraded(scene: Scene) -> list[Ints]:
    """Rows of the last windows of each container that something is wrong with."""
    of = scene.windows
    newest = of.number > scene.newest - LOOKED
    late = np.flatnonzero(newest & ~is_best_effort(scene.rows["qos"]) & scene.running[of.container])
    order = late[np.argsort(of.container[late], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(of.container[order])) + 1) if len(order) else []
    return [rows for rows in groups if _is_wrong(scene, rows)]


def _is_wrong(scene: Scene, rows: Ints) -> bool:
    shown, slow = scene.shown, _late(scene, rows)
    few = shown.known[rows].sum() < ENOUGH and bool(slow.any())
    return bool(_is_local(scene, rows) or _is_downstream(scene, rows) or few or shown.held[rows].sum() >= ENOUGH)


def _late(scene: Scene, rows: Ints) -> Flags:
    """Which rows are slower than allowed, whatever a second signal says."""
    late: Flags = scene.windows.slowdown[rows] >= scene.shown.limit[rows]
    return late


def _is_local(scene: Scene, rows: Ints) -> bool:
    return bool(scene.shown.slow[rows].sum() >= ENOUGH)


def _is_downstream(scene: Scene, rows: Ints) -> bool:
    """Whether its answers alone are late, and those of its replicas elsewhere too."""
    of, shown = scene.windows, scene.shown
    late = rows[(of.slowdown[rows] >= LIMIT_SLOWDOWN) & (of.label_signal[rows] == LATENCY)]
    here = shown.worked[late] | shown.waited[late]
    if len(late) < ENOUGH or here.any():
        return False
    replicas = np.isin(of.number, of.number[late]) & (scene.app == scene.app[late[0]]) & shown.known
    replicas &= scene.place != scene.place[late[0]]
    return _share(of.slowdown[replicas] >= LIMIT_SLOWDOWN, of.container[replicas]) >= MOST


def _others_unexplained(scene: Scene, rows: Ints) -> float:
    """Share of the others on the node that are slower than their neighbours explain, in the windows where it is."""
    of = scene.windows
    late = rows[_late(scene, rows)]
    if not len(late):
        return float("nan")
    others = (
        np.isin(of.number, of.number[late]) & (scene.place == scene.place[late[0]]) & np.isfinite(scene.unexplained)
    )
    others &= scene.app != scene.app[late[0]]
    return _share(scene.unexplained[others] >= UNEXPLAINED, of.container[others])


def _share(flags: Flags, container: Ints) -> float:
    """Share of windows with a flag; NaN where they are of too few containers."""
    return float(flags.mean()) if len(np.unique(container)) >= LEAST_OTHERS else float("nan")


def _diagnosis(scene: Scene, late: Ints) -> Diagnosis:
    """What is wrong with the container of some late windows."""
    of, shown = scene.windows, scene.shown
    slow = late[_late(scene, late)]
    found, suspects = attributed(scene, slow, scene.running) if len(slow) else (None, ())
    verdict, reason = verdict_of(
        Circumstances(
            known=int(shown.known[late].sum()),
            held=int(shown.held[late].sum()),
            others_unexplained=_others_unexplained(scene, late),
            downstream=_is_downstream(scene, late),
        ),
        found,
        ENOUGH,
    )
    row = {name: scene.rows[name][int(late[-1])].as_py() for name in (*PLACE, "app")}
    kind = scene.kind[int(slow[-1])].as_py() if len(slow) else None
    own = _own(scene, int(slow[-1] if len(slow) else late[-1]))
    return Diagnosis(
        **row,
        window_end_us=scene.newest * LABEL_US,
        slowdown=float(of.slowdown[slow].mean()) if len(slow) else float("nan"),
        verdict=verdict,
        reason=reason + BY_WAITING * (kind == WAITING),
        ends_us=tuple((of.number[own] * LABEL_US).tolist()),
        slowdowns=tuple(of.slowdown[own].tolist()),
        suspects=suspects,
        kind=kind,
    )


def attributed(scene: Scene, slow: Ints, running: Flags | None = None) -> tuple[Attribution, tuple[Suspect, ...]]:
    """What neighbours add in the slow windows of a container, and the strongest of them.

    Args:
        scene: what was measured.
        slow: rows of a container's windows that are to be explained, rising; those of ATTRIBUTION_WINDOWS windows
        before count too.
        running: (c,) containers that may be suspects, by their code; None: all.

    Returns:
        What each neighbour adds that may be a suspect and used something in at least half of the slow windows, and the
        MAX_SUSPECTS strongest of them, most first. The others count in the fit, so that what they added is not
        attributed to those that are left.

    Raises:
        AdvisorError: the slowdown of none is known.
    """
    weights = weighed(scene, slow)
    used = (weights.use[weights.bad] > 0).any(axis=2).mean(axis=0) if len(weights.rows) else np.zeros(0)
    may = np.ones(len(used), np.bool_) if running is None else running[scene.windows.container[weights.rows]]
    left = np.flatnonzero(may & (used >= HALF))
    found, rows, use = only(weights.found, left), weights.rows[left], weights.use[:, left]
    order = np.argsort(-found.added, kind="stable")[:MAX_SUSPECTS]
    there = [j for j in order.tolist() if found.spread[j] > 0]
    return found, tuple(_suspect(scene, int(rows[j]), found, j, use) for j in there)


@dataclass(frozen=True, slots=True)
class Weighed:
    """What j neighbours of a victim add, and what they used in t windows of r resources, see RESOURCES.

    Args:
        found: what each adds.
        rows: (j,) newest row of each.
        use: (t, j, r) shares of the node, of CPU of the victim's own cores.
        bad: (t,) windows that were to be explained.
    """

    found: Attribution
    rows: Ints
    use: Floats
    bad: Flags


def weighed(scene: Scene, slow: Ints) -> Weighed:
    """What all neighbours add in the slow windows of a container; see `attributed`."""
    of, victim = scene.windows, int(slow[-1])
    own = _own(scene, victim)
    minutes = scene.minutes.of(scene.place[victim], of.container[victim], of.number[own])
    neighbours, use = _use(minutes, of.number[own])
    rows = scene.newest_row[neighbours]
    on_own, elsewhere = scene.pins.overlap(victim, rows)
    use = np.concatenate([use, use[:, :, CPU, None] * elsewhere[:, None]], axis=2)
    use[:, :, CPU] *= on_own
    use *= _waited_for(scene, slow)
    bad = np.isin(own, slow)
    return Weighed(attribute(of.slowdown[own] - 1.0, use, scene.sensitivity[victim], bad), rows, use, bad)


def _waited_for(scene: Scene, slow: Ints) -> Floats:
    """(r + 1,) share of the waiting in some windows that is for each of RESOURCES; all 1 where more is known than that.

    A label of waiting holds no harm through what no task waits for; where CPI is known, it holds that too.
    """
    if (scene.windows.label_signal[slow] != ALONE).any() or np.isfinite(floats(scene.rows["cpi"])[slow]).any():
        return np.ones(len(RESOURCES))
    rows = scene.rows.take(pa.array(slow))
    lost = np.log(waits(rows, floats(rows["cpus"]))).sum(axis=0)
    share = dict(zip(WAITED, (lost / max(lost.sum(), 1e-9)).tolist(), strict=True))
    return np.array([share.get(WAITED_AS.get(name, name), 0.0) for name in RESOURCES])


def _own(scene: Scene, row: int) -> Ints:
    """Rows of a container up to ATTRIBUTION_WINDOWS windows before one of them, rising."""
    of = scene.windows
    own = np.flatnonzero((of.container == of.container[row]) & (of.number > of.number[row] - ATTRIBUTION_WINDOWS))
    return np.asarray(own[np.argsort(of.number[own], kind="stable")])


def _suspect(scene: Scene, row: int, found: Attribution, j: int, use: Floats) -> Suspect:
    half, resource = TWO_SIDED_90 * found.spread[j], int(np.argmax(found.by_resource[j]))
    return Suspect(
        **{name: scene.rows[name][row].as_py() for name in ("container", "app", "qos")},
        resource=RESOURCES[resource],
        added=float(found.added[j]),
        low=float(found.added[j] - half),
        high=float(found.added[j] + half),
        surely=float(found.surely[j]),
        through=float(found.by_resource[j, resource]),
        used=tuple(use[:, j, resource].tolist()),
    )


def _newest_rows(windows: Windows) -> Ints:
    """(c,) newest row of each container, by its code."""
    newest = np.full(int(windows.container.max(initial=-1)) + 1, -1, np.int64)
    order = np.argsort(windows.number, kind="stable")
    newest[windows.container[order]] = order
    return newest


def _use(minutes: Minutes, number: Ints) -> tuple[Ints, Floats]:
    """(j,) neighbours, and (t, j, r) what they used in each window and the minute before it; 0 where not there."""
    neighbours, who = np.unique(minutes.container, return_inverse=True)
    first = (number.min() - 1) * PER_WINDOW
    shape = (number.max() * PER_WINDOW - first + 1, len(neighbours), minutes.use.shape[1])
    there, known, total = np.zeros(shape[:2]), np.zeros(shape), np.zeros(shape)
    at = (minutes.end - first, who)
    there[at], known[at], total[at] = 1.0, np.isfinite(minutes.use), np.nan_to_num(minutes.use)
    span = (number * PER_WINDOW - first)[:, None] - np.arange(PER_WINDOW + 1)
    presence = there[span].mean(axis=1)
    return neighbours, total[span].sum(axis=1) / np.maximum(known[span].sum(axis=1), 1.0) * presence[:, :, None]
