"""Evidence: who suffers by the newest windows of a stretch, and whose doing that is. From tables as they lie in a lake.

Minutes, labels and profiles in, diagnoses out; the same for the refresher, the command line and the benchmark.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.decision import LIMIT_SLOWDOWN
from advisor.diagnosis.blame import Blame, blame
from advisor.diagnosis.signs import ENOUGH, LOOKED, Signs, Windows, signs
from advisor.diagnosis.verdicts import MOST, MOST_SUSPECTS, TWO_SIDED_90, Circumstances, Diagnosis, Suspect, verdict_of
from features.arrow import floats, micros
from features.asof import key_codes, row_of
from features.catalog import NAMES, PRESSURES
from features.diagnosis import OWN, WINDOW_KEY, own_means
from features.grouping import group_codes
from features.labels import SIGNALS, label_windows
from features.node_state import is_best_effort
from features.residents import described
from features.windows import LABEL_US, WINDOW_US

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

BLAMED = 24
"""Windows by which neighbours are blamed: in two hours they come and go, and are still the same."""
USUAL_US = 24 * 3600 * 1_000_000
"""How long back is looked for what is usual of an app."""
WAITS = tuple(name for name in OWN if name.endswith("_frac") and name != "cpu_throttled_frac")
DEMANDS = tuple(f"demand_{name}" for name in NAMES)
PLACE = ["cluster", "node", "container"]
DESCRIBED = ["cluster", "app", "team", "platform"]
LATENCY = list(SIGNALS).index("latency")
PER_WINDOW = LABEL_US // WINDOW_US
DOUBTED = 1.5
"""What neighbours explain may be that much more than sensitivities say."""
UNEXPLAINED = 0.15
"""Slowdown beyond what neighbours explain, from which a container is slow for another reason."""
LEAST_OTHERS = 3
"""Containers behind a share."""


@dataclass(frozen=True, slots=True)
class Minutes:
    """(m,) minutes of containers: codes of node and container, end in minutes since 1970, (m, r) shares of the node."""

    node: Ints
    container: Ints
    end: Ints
    use: Floats

    def of(self, node: int, but: int) -> "Minutes":
        """Those of a node's containers but one."""
        rows = (self.node == node) & (self.container != but)
        return Minutes(self.node[rows], self.container[rows], self.end[rows], self.use[rows])


@dataclass(frozen=True, slots=True)
class Scene:
    """A stretch of time, window by window and minute by minute.

    Args:
        rows: (w,) who each window is of.
        place: (w,) code of the node.
        windows: what was measured.
        shown: what that shows.
        sensitivity: (w, r) slowdown - 1 per share of the node; NaN where not known.
        unexplained: (w,) slowdown - 1 beyond DOUBTED times what sensitivities expect of the neighbours' use.
        minutes: of all containers.
        newest: number of the window that ends last.
    """

    rows: pa.Table
    place: Ints
    windows: Windows
    shown: Signs
    sensitivity: Floats
    unexplained: Floats
    minutes: Minutes
    newest: int


def diagnose(state: pa.Table, labels: pa.Table, profiles: pa.Table, at_us: int) -> list[Diagnosis]:
    """What is wrong with whom.

    Args:
        state: rows of `node_state`, of whole nodes; the day before `at_us` counts.
        labels: rows of `labels` of the same containers and time.
        profiles: rows of `profiles`; only those as of `at_us` or before count.
        at_us: until when is looked, microseconds since 1970.

    Returns:
        A diagnosis of each latency-sensitive container that suffers in three of its last five windows, or is slow in
        some of them and too few are known, by slowdown, worst first. Best-effort ones are nobody's victim.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0042-diagnosis.md.
    """
    ends = micros(state["window_end"])
    state = state.filter(pa.array((ends > at_us - USUAL_US) & (ends <= at_us)))
    if not state.num_rows:
        return []
    scene = _scene(state, labels, profiles, at_us)
    found = [_diagnosis(scene, rows) for rows in _suffering(scene)]
    return sorted(found, key=lambda one: (-np.nan_to_num(one.slowdown, nan=1.0), one.node, one.container))


def _scene(state: pa.Table, labels: pa.Table, profiles: pa.Table, at_us: int) -> Scene:
    rows = label_windows(state)
    row = row_of(*key_codes(rows, labels, list(WINDOW_KEY)))
    told = labels.take(pa.array(row, mask=row < 0))
    kinds = np.asarray(pc.fill_null(pc.index_in(told["kind"], pa.array(list(SIGNALS))), -1), np.int64)
    slowdown = np.exp(floats(told["log_slowdown"]))
    own = own_means(rows, state)
    container, container_then = key_codes(rows, state, PLACE)
    node, node_then = key_codes(rows, state, PLACE[:2])
    windows = Windows(
        container=container,
        kin=group_codes(rows, ["cluster", "app", "platform"]),
        number=micros(rows["window_end"]) // LABEL_US,
        slowdown=slowdown,
        told_by=np.where(np.isfinite(slowdown), kinds, -1),
        working=np.column_stack([floats(rows[name]) for name in SIGNALS.values()]),
        waiting=own[:, [list(OWN).index(name) for name in WAITS]],
        throttled=floats(rows["cpu_throttled_frac"]),
    )
    sensitivity = described(rows.select(DESCRIBED), np.full(rows.num_rows, at_us), profiles)[:, : len(NAMES)]
    pressure = np.column_stack([floats(rows[name]) for name in PRESSURES[: len(NAMES)]])
    expected = np.nan_to_num(sensitivity * pressure).sum(axis=1)
    minutes = Minutes(
        node=node_then,
        container=container_then,
        end=micros(state["window_end"]) // WINDOW_US,
        use=np.column_stack([floats(state[name]) for name in DEMANDS]),
    )
    shown = signs(windows, LIMIT_SLOWDOWN)
    return Scene(
        rows, node, windows, shown, sensitivity, slowdown - 1.0 - DOUBTED * expected, minutes, at_us // LABEL_US
    )


def _suffering(scene: Scene) -> list[Ints]:
    """Rows of the last windows of each container that something is wrong with."""
    of = scene.windows
    late = np.flatnonzero((of.number > scene.newest - LOOKED) & ~is_best_effort(scene.rows["qos"]))
    order = late[np.argsort(of.container[late], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(of.container[order])) + 1) if len(order) else []
    return [rows for rows in groups if _is_wrong(scene, rows)]


def _is_wrong(scene: Scene, rows: Ints) -> bool:
    shown, slow = scene.shown, scene.windows.slowdown[rows] >= LIMIT_SLOWDOWN
    few = shown.known[rows].sum() < ENOUGH and bool(slow.any())
    return bool(_is_local(scene, rows) or _is_downstream(scene, rows) or few or shown.held[rows].sum() >= ENOUGH)


def _is_local(scene: Scene, rows: Ints) -> bool:
    return bool(scene.shown.slow[rows].sum() >= ENOUGH)


def _is_downstream(scene: Scene, rows: Ints) -> bool:
    """Whether its answers alone are late, and those of its replicas elsewhere too."""
    of, shown = scene.windows, scene.shown
    late = rows[(of.slowdown[rows] >= LIMIT_SLOWDOWN) & (of.told_by[rows] == LATENCY)]
    here = shown.worked[late] | shown.waited[late]
    if len(late) < ENOUGH or here.any():
        return False
    replicas = np.isin(of.number, of.number[late]) & (of.kin == of.kin[late[0]]) & shown.known
    replicas &= scene.place != scene.place[late[0]]
    return _share(of.slowdown[replicas] >= LIMIT_SLOWDOWN, of.container[replicas]) >= MOST


def _others_unexplained(scene: Scene, rows: Ints) -> float:
    """Share of the others on the node that are slower than their neighbours explain, in the windows where it is."""
    of = scene.windows
    late = rows[of.slowdown[rows] >= LIMIT_SLOWDOWN]
    if not len(late):
        return float("nan")
    others = np.isin(of.number, of.number[late]) & (scene.place == scene.place[late[0]]) & scene.shown.known
    others &= of.kin != of.kin[late[0]]
    return _share(scene.unexplained[others] >= UNEXPLAINED, of.container[others])


def _share(flags: Flags, container: Ints) -> float:
    """Share of windows with a flag; NaN where they are of too few containers."""
    return float(flags.mean()) if len(np.unique(container)) >= LEAST_OTHERS else float("nan")


def _diagnosis(scene: Scene, late: Ints) -> Diagnosis:
    """What is wrong with the container of some late windows."""
    of, shown = scene.windows, scene.shown
    slow = late[of.slowdown[late] >= LIMIT_SLOWDOWN]
    found, suspects = _blamed(scene, slow) if len(slow) else (None, ())
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
    return Diagnosis(
        **row,
        window_end_us=scene.newest * LABEL_US,
        slowdown=float(of.slowdown[slow].mean()) if len(slow) else float("nan"),
        verdict=verdict,
        reason=reason,
        suspects=suspects,
    )


def _blamed(scene: Scene, slow: Ints) -> tuple[Blame, tuple[Suspect, ...]]:
    """What neighbours add in the slow windows of a container, and the strongest of them."""
    of, place = scene.windows, scene.place[slow[0]]
    own = np.flatnonzero((of.container == of.container[slow[0]]) & (of.number > scene.newest - BLAMED))
    minutes = scene.minutes.of(place, of.container[slow[0]])
    neighbours, use = _use(minutes, of.number[own])
    found = blame(of.slowdown[own] - 1.0, use, scene.sensitivity[slow[0]], np.isin(own, slow))
    order = np.argsort(-found.added, kind="stable")[:MOST_SUSPECTS]
    there = [j for j in order.tolist() if found.spread[j] > 0]
    return found, tuple(_suspect(scene, int(neighbours[j]), found, j) for j in there)


def _suspect(scene: Scene, container: int, found: Blame, j: int) -> Suspect:
    row = int(np.flatnonzero(scene.windows.container == container)[-1])
    half = TWO_SIDED_90 * found.spread[j]
    return Suspect(
        **{name: scene.rows[name][row].as_py() for name in ("container", "app", "qos")},
        resource=NAMES[int(np.argmax(found.by_resource[j]))],
        added=float(found.added[j]),
        low=float(found.added[j] - half),
        high=float(found.added[j] + half),
        surely=float(found.surely[j]),
    )


def _use(minutes: Minutes, number: Ints) -> tuple[Ints, Floats]:
    """(j,) neighbours, and (t, j, r) what they used in each window and the minute before it; 0 where not there."""
    neighbours, who = np.unique(minutes.container, return_inverse=True)
    first = (number.min() - 1) * PER_WINDOW
    shape = ((number.max() + 1) * PER_WINDOW - first + 1, len(neighbours), minutes.use.shape[1])
    there, known, total = np.zeros(shape[:2]), np.zeros(shape), np.zeros(shape)
    at = (minutes.end - first, who)
    inside = (at[0] >= 0) & (at[0] < shape[0])
    at = (at[0][inside], at[1][inside])
    there[at], known[at] = 1.0, np.isfinite(minutes.use[inside])
    total[at] = np.nan_to_num(minutes.use[inside])
    ends = number * PER_WINDOW - first
    span = ends[:, None] - np.arange(PER_WINDOW + 1)
    presence = there[span].mean(axis=1)
    return neighbours, total[span].sum(axis=1) / np.maximum(known[span].sum(axis=1), 1.0) * presence[:, :, None]
