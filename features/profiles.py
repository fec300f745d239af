"""Profiles: what one container of an app typically uses, and how it suffers, as known at given times. Kernel."""

import numpy as np
import pyarrow as pa

from features.arrow import Floats, Ints, floats, micros, table
from features.catalog import NAMES, SENSITIVITIES
from features.labels import pressure_of
from features.ridge import non_negative_ridge
from features.tables import PROFILES
from ingest.schema import TIMESTAMP

MEANS = (*(f"demand_{name}" for name in NAMES), "cpi", "llc_mpki", "qps")
MIN_WINDOWS = 24
"""Label windows behind a sensitivity; fewer leave it unknown."""


def profile_app(state: pa.Table, labels: pa.Table, as_of_us: Ints) -> pa.Table:
    """Profiles of one app on one platform, one row for each time by which anything new was known.

    Args:
        state: its rows of `node_state`.
        labels: its rows of `labels`.
        as_of_us: (t,) times; only rows that had arrived by then are in a profile.

    Returns:
        Table `profiles`. A demand nobody measured, and a sensitivity with fewer than MIN_WINDOWS labels, are null.

    Source: ours, docs/decisions/0006-profiles.md.
    """
    arrived = micros(state["arrived_at"])
    order = np.argsort(arrived, kind="stable")
    values = np.column_stack([floats(state[c]) for c in MEANS])[order]
    counts = np.searchsorted(arrived[order], as_of_us, side="right")
    known = np.diff(counts, prepend=0) > 0
    columns: dict[str, object] = dict(zip(MEANS, running_means(values, counts[known]).T, strict=True))
    columns |= dict(zip(SENSITIVITIES, running_sensitivities(labels, as_of_us[known]).T, strict=True))
    columns |= {
        c: pa.array([state[c][0].as_py()] * int(known.sum()), pa.string()) for c in ("cluster", "app", "platform")
    }
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


def running_sensitivities(labels: pa.Table, as_of_us: Ints) -> Floats:
    """How the app suffers from each resource, from the labels known at each time.

    Args:
        labels: rows of `labels`, any order.
        as_of_us: (t,) times.

    Returns:
        (t, resources) slowdown - 1 per share of the node, >= 0; NaN with fewer than MIN_WINDOWS labels, and for a
        resource whose pressure was never measured.

    Source: ours; non-negative ridge regression of slowdown - 1 on pressures, linear in slowdown so that it adds up.
    """
    x = pressure_of(labels)[:, : len(NAMES)]
    y = np.expm1(floats(labels["log_slowdown"]))
    measured = np.isfinite(x).any(axis=0) if len(x) else np.zeros(len(NAMES), np.bool_)
    usable = np.isfinite(y) & np.isfinite(x[:, measured]).all(axis=1)
    arrived = micros(labels["arrived_at"])[usable]
    order = np.argsort(arrived, kind="stable")
    x, y = x[usable][:, measured][order], y[usable][order]
    result = np.full((len(as_of_us), len(NAMES)), np.nan)
    for i, count in enumerate(np.searchsorted(arrived[order], as_of_us, side="right")):
        if count >= MIN_WINDOWS:
            result[i, measured] = non_negative_ridge(x[:count], y[:count])
    return result
