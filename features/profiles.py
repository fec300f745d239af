"""Profiles: what one container of an app typically uses, and how it suffers, as known at given times. Kernel."""

import numpy as np
import pyarrow as pa

from features.arrow import Floats, Ints, floats, micros, table
from features.catalog import NAMES, SENSITIVITIES
from features.harm import MIN_HARM_ROWS
from features.labels import label_app, label_windows, pressure_of
from features.ridge import RIDGE, non_negative_ridge
from features.tables import PROFILES
from ingest.schema import TIMESTAMP

MEANS = (*(f"demand_{name}" for name in NAMES), "cpi", "llc_mpki", "qps")
MIN_WINDOWS = MIN_HARM_ROWS
"""Label windows behind a sensitivity; fewer leave it unknown, and the harm in their normal too."""
DOUBT = 10.0
"""How many windows' worth of evidence speak for no sensitivity at all, so that few windows claim little."""
ORDER = ("arrived_at", "cluster", "node", "window_end", "container")


def profile_app(state: pa.Table, as_of_us: Ints) -> pa.Table:
    """Profiles of one app on one platform, one row for each time by which anything new was known.

    Args:
        state: its rows of `node_state`, at least one, any order.
        as_of_us: (t,) times, rising; only rows that had arrived by then are in a profile.

    Returns:
        Table `profiles`. A demand nobody measured, and a sensitivity with fewer than MIN_WINDOWS labels, are null.

    Source: ours, docs/decisions/0006-profiles.md.
    """
    ordered = state.sort_by([(c, "ascending") for c in ORDER]).combine_chunks()
    counts = np.searchsorted(micros(ordered["arrived_at"]), as_of_us, side="right")
    known = np.diff(counts, prepend=0) > 0
    values = np.column_stack([floats(ordered[c]) for c in MEANS])
    columns: dict[str, object] = dict(zip(MEANS, running_means(values, counts[known]).T, strict=True))
    columns |= dict(zip(SENSITIVITIES, running_sensitivities(ordered, as_of_us[known]).T, strict=True))
    columns |= {
        c: pa.array([ordered[c][0].as_py()] * int(known.sum()), pa.string()) for c in ("cluster", "app", "platform")
    }
    peak = np.fmax.accumulate(floats(ordered["qps"]))
    columns |= {"qps_peak": peak[counts[known] - 1]}
    columns |= {"as_of": pa.array(as_of_us[known], TIMESTAMP), "windows": counts[known].astype(np.float64)}
    return table(columns, PROFILES.schema)


def running_means(values: Floats, counts: Ints) -> Floats:
    """(t, k) means of the first counts[i] rows of values (n, k); NaN left out, NaN where all are."""
    known = np.isfinite(values)
    total = np.cumsum(np.where(known, values, 0.0), axis=0)[counts - 1]
    support = np.cumsum(known, axis=0)[counts - 1]
    with np.errstate(invalid="ignore"):
        means: Floats = total / support
    return means


def running_sensitivities(state: pa.Table, as_of_us: Ints) -> Floats:
    """How the app suffers from each resource, as could be told at each time.

    Args:
        state: rows of `node_state` of one app and platform, at least one, any order.
        as_of_us: (t,) times.

    Returns:
        (t, resources), as `sensitivities` of the label windows that had ended and arrived by each time. The app's
        normal is fitted anew for each time: labels of the whole stretch would let the future into the past.

    Source: ours, docs/decisions/0006-profiles.md.
    """
    windows = label_windows(state)
    since = np.maximum(micros(windows["arrived_at"]), micros(windows["window_end"]))
    result = np.full((len(as_of_us), len(NAMES)), np.nan)
    for i, time_us in enumerate(as_of_us):
        known = since <= time_us
        if np.count_nonzero(known) >= MIN_WINDOWS:
            then = windows.filter(pa.array(known))
            result[i] = sensitivities(label_app(then, np.zeros(then.num_rows, np.bool_)))
    return result


def sensitivities(labels: pa.Table) -> Floats:
    """How an app suffers from each resource.

    Args:
        labels: rows of `labels`.

    Returns:
        (resources,) slowdown - 1 per share of the node, >= 0; NaN with fewer than MIN_WINDOWS labels, and for a
        resource that nobody ever pressed on or whose pressure was never measured.

    Source: ours, docs/decisions/0006-profiles.md; non-negative ridge regression of slowdown - 1 on pressures.
    """
    x = pressure_of(labels)[:, : len(NAMES)]
    y = np.expm1(floats(labels["log_slowdown"]))
    pressed = (x > 0).any(axis=0)
    usable = np.isfinite(y) & np.isfinite(x[:, pressed]).all(axis=1)
    result = np.full(len(NAMES), np.nan)
    count = np.count_nonzero(usable)
    if count >= MIN_WINDOWS:
        result[pressed] = non_negative_ridge(x[np.ix_(usable, pressed)], y[usable], RIDGE + DOUBT / count)
    return result
