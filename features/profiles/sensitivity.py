"""Sensitivity: how an app is slowed down through each resource, on each platform and on all together. Kernel."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Floats, Ints, floats, micros
from features.columnar.nonneg_ridge import non_negative_ridge
from features.labels.app_version import UNKNOWN
from features.labels.interference_adjust import MIN_HARM_ROWS, bent
from features.labels.slowdown import NO_SIGNAL, WAITING, label_app, label_windows, pressure_of
from features.schema.catalog import NAMES

TYPICAL = 0.5
"""Pressure at which harm is read off, a share of the node: a sensitivity is the harm there over it."""
MIN_WINDOWS = MIN_HARM_ROWS
"""Label windows behind a sensitivity; fewer leave it unknown, and the harm in their normal too."""
RIDGE = 0.005
"""Penalty, of a column's mean square."""
DOUBT = 2.0
"""How many windows' worth of evidence speak for no sensitivity at all, so that few windows claim little."""
BORROWED = 250.0
"""Windows of a platform by which its own word counts as much as that of all platforms."""


def running_sensitivities(
    states: Sequence[pa.Table], as_of_us: Ints, cpus: Floats
) -> tuple[list[Floats], list[str | None]]:
    """An app's sensitivity to each resource on each platform, as known at each time.

    Args:
        states: rows of `node_state` of one app, one table a platform, any order.
        as_of_us: (t,) times, rising.
        cpus: (t,) see features.profiles.app_profile.profile_app.

    Returns:
        (t, resources) for each platform, as `sensitivities` of the label windows that had ended and arrived by each
        time, and (t,) kinds of their labels: `waiting` if those of any platform are, None where there is no label. The
        app's normal is fitted anew for each time: labels of the whole stretch would let the future into the past.

    Source: ours, docs/decisions/0006-profiles.md.
    """
    labels_of = [_RunningLabels(state) for state in states]
    found, kinds = [], []
    for time, spread in zip(as_of_us.tolist(), cpus.tolist(), strict=True):
        labels = [platform.by(time, spread) for platform in labels_of]
        found.append(sensitivities(labels))
        kinds.append(_kind(labels))
    whole = np.array(found).reshape(len(as_of_us), len(states), len(NAMES))
    return list(whole.transpose(1, 0, 2)), kinds


def _kind(labels: Sequence[pa.Table]) -> str | None:
    """The kind whose level is the least known, of an app's labels on all platforms; None without any."""
    kinds: set[str] = {part["kind"][0].as_py() for part in labels if part.num_rows} - {NO_SIGNAL}
    return WAITING if WAITING in kinds else min(kinds, default=None)


def sensitivities(labels: Sequence[pa.Table]) -> Floats:
    """An app's sensitivity to each resource on each of its platforms.

    Args:
        labels: rows of `labels`, one table a platform.

    Returns:
        (platforms, resources) slowdown - 1 at half a node's pressure per share of the node, >= 0: a mean of what the
        platform alone says and what all say, by the number of windows. NaN with fewer than MIN_WINDOWS labels, and for
        a resource without any pressure or whose pressure was never measured.

    Source: ours, docs/decisions/0006-profiles.md; non-negative ridge regression of slowdown - 1 on bent pressures.
    """
    rows = [_measured(part) for part in labels]
    shared = _harm_at_typical(np.vstack([x for x, _ in rows]), np.concatenate([y for _, y in rows]))
    own = np.array([_harm_at_typical(x, y) for x, y in rows])
    count = np.array([len(y) for _, y in rows])[:, None]
    both = (count * own + BORROWED * shared) / (count + BORROWED)
    found: Floats = np.where(np.isnan(own), shared, np.where(np.isnan(shared), own, both))
    return found


class _RunningLabels:
    """Labels of one platform, made anew only when there are more of them, or waiting is over other CPUs."""

    def __init__(self, state: pa.Table) -> None:
        self._windows = label_windows(state)
        self._since = np.maximum(micros(self._windows["arrived_at"]), micros(self._windows["window_end"]))
        self._stalls = self._windows["psi_cpu_some_frac"].null_count < self._windows.num_rows
        self._made_of, self._labels = (0, 1.0), _labels(self._windows.slice(0, 0), 1.0)

    def by(self, time_us: int, cpus: float) -> pa.Table:
        """Labels of the windows known by a time; none where they are too few."""
        known = self._since <= time_us
        count = int(np.count_nonzero(known))
        made_of = (count, cpus if self._stalls else 1.0)
        if count >= MIN_WINDOWS and made_of != self._made_of:
            self._made_of, self._labels = made_of, _labels(self._windows.filter(pa.array(known)), cpus)
        return self._labels


def _labels(windows: pa.Table, cpus: float) -> pa.Table:
    count = windows.num_rows
    return label_app(windows, np.zeros(count, np.bool_), np.full(count, UNKNOWN), None, cpus)


def _measured(labels: pa.Table) -> tuple[Floats, Floats]:
    """(n, resources) pressures and (n,) slowdown - 1 of the rows that have a label."""
    y = np.expm1(floats(labels["log_slowdown"]))
    known = np.isfinite(y)
    return pressure_of(labels)[known, : len(NAMES)], y[known]


def _harm_at_typical(x: Floats, y: Floats) -> Floats:
    """(resources,) harm at the typical pressure over it; NaN where it cannot be estimated."""
    found = np.full(len(NAMES), np.nan)
    pressed = (x > 0).any(axis=0)
    usable = np.isfinite(x[:, pressed]).all(axis=1)
    count = np.count_nonzero(usable)
    if count >= MIN_WINDOWS and pressed.any():
        slopes = non_negative_ridge(bent(x[np.ix_(usable, pressed)]), y[usable], RIDGE + DOUBT / count)
        at_typical = bent(np.full((1, np.count_nonzero(pressed)), TYPICAL))[0]
        found[pressed] = (slopes * at_typical).reshape(-1, np.count_nonzero(pressed)).sum(axis=0) / TYPICAL
    return found
