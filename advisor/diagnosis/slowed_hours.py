"""Slowed hours: confirmed victims by hour, and the attribution of their slowdown. From tables of a lake.

The same slow windows and attribution as a diagnosis, hour by hour and for all slow containers, however little. It
knows no
prices: what of it is paid for is the policy's to say.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from advisor.diagnosis.analyse import ATTRIBUTION_WINDOWS, PER_WINDOW, Evidence, Scene, Weighed, scene_of, weighed
from advisor.diagnosis.attribution import LEVEL, NOISE, UNKNOWN
from advisor.diagnosis.slowdown_outliers import ALONE, Signs, Windows
from features.columnar.windows import LABEL_US, WINDOW_US
from features.contention.node_state import is_best_effort
from features.labels.warm_up import limited
from features.schema.catalog import NAMES
from features.schema.tables import SLOWED
from ingest.schema.tables import TIMESTAMP

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

METHOD = "slowed-2"
HOUR_US = 3600 * 1_000_000
PER_HOUR = HOUR_US // LABEL_US
BEFORE_US = ATTRIBUTION_WINDOWS * PER_WINDOW * WINDOW_US
"""How long before an hour windows are read, to attribute changes to co-located containers."""
ONE_SIDED_90 = 1.2815515655446004
"""Standard deviations below which one tenth of a normal distribution lies."""
LEAST_BELOW = 20
"""Windows faster than their baseline that estimate an app's noise; with fewer it is at least NOISE."""
EXPLAINED = 0.85
"""Share of a slowdown that neighbours must explain; slowdown of another cause gets no rebate."""


def slowed_hours(evidence: Evidence, start_us: int, end_us: int) -> pa.Table:
    """Who was slowed down in hours.

    Args:
        evidence: of whole nodes, from BEFORE_US before they start; profiles as of their end or before.
        start_us: of the first hour, microseconds since 1970.
        end_us: of the last one.

    Returns:
        Table `slowed`: one row for each latency-sensitive container, node and hour with a window in which it was surely
        slower than its normal, a second signal said so too, its own limit did not hold it back, and neighbours explain
        EXPLAINED of it. Where it has a CPU limit and throttling is not reported, its limit may have: no row. A bound is
        that of what they explain. Rows by hour, container and node.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0050-transfers.md.
    """
    if not evidence.state.num_rows:
        return SLOWED.schema.empty_table()
    scene = scene_of(evidence, end_us)
    low = lower_bounds(scene.windows, scene.shown)
    ends_us = scene.windows.number * LABEL_US
    unclear = limited(scene.rows, evidence.facts.placements) & np.isnan(scene.windows.throttled)
    counted = (low > 1.0) & ~is_best_effort(scene.rows["qos"]) & ~unclear & (ends_us > start_us) & (ends_us <= end_us)
    hours = ((hour_us, slow, weighed(scene, slow)) for hour_us, slow in _hours_of(scene, counted))
    rows = [_row(scene, low[slow], hour_us, of, slow) for hour_us, slow, of in hours if explained(of) >= EXPLAINED]
    found = pa.Table.from_pylist(rows, SLOWED.schema)
    return found.sort_by([(name, "ascending") for name in ("hour", "container", "node")]).combine_chunks()


def lower_bounds(windows: Windows, shown: Signs) -> Floats:
    """What the slowdown of each window surely was above.

    Args:
        windows: of a stretch of time, (w,).
        shown: what they show.

    Returns:
        (w,) ratios: the lower end of a one-sided 90 % interval, from how far windows of the same app and platform lie
        below their baseline, which no neighbour can cause, and from the baseline's error; NaN where no slowdown
        is known, no second signal shows one, the label is made of waiting alone, whose level is not known, or the own
        limit held it back.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0050-transfers.md; the spread of a half-normal distribution is its root mean square.
    """
    log = np.log(windows.slowdown)
    below, app_platform = log < 0, windows.app_platform
    count = np.bincount(app_platform, below, int(app_platform.max(initial=-1)) + 1)
    noise = np.sqrt(np.bincount(app_platform, np.where(below, log**2, 0.0), len(count)) / np.maximum(count, 1.0))
    noise = np.where(count >= LEAST_BELOW, noise, np.maximum(noise, NOISE))[app_platform]
    confirmed = (shown.worked | shown.waited) & ~shown.held & (windows.label_signal != ALONE)
    bound: Floats = np.where(confirmed, np.exp(log - ONE_SIDED_90 * np.hypot(noise, LEVEL)), np.nan)
    return bound


def explained(weights: Weighed) -> float:
    """Share of a container's slowdown that all of its neighbours explain together, 0 to 1."""
    added = float(np.maximum(weights.found.added, 0.0).sum())
    return min(1.0, added / weights.found.excess) if weights.found.excess > 0 else 0.0


def added_by(gained: Floats, used: Floats, sensitivity: Floats) -> Floats:
    """What neighbours added, by what the victim's slowdown moved with and by what it is sensitive to, half and half.

    Args:
        gained: (j,) slowdown - 1 that each adds, from advisor.diagnosis.attribution; below 0 counts as 0.
        used: (j, r) shares of the node.
        sensitivity: (r,) of the victim; NaN where not known, which counts as UNKNOWN.

    Returns:
        (j,) amounts >= 0 with the sum of the former: the mean of its shares and those of use times sensitivity.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0050-transfers.md: either alone is further from what each truly adds.
    """
    seen = np.maximum(gained, 0.0)
    expected = used @ np.nan_to_num(sensitivity, nan=UNKNOWN)
    if not expected.sum():
        return seen
    both: Floats = 0.5 * (seen + seen.sum() * (expected / expected.sum()))
    return both


def _hours_of(scene: Scene, counted: NDArray[np.bool_]) -> Iterator[tuple[int, Ints]]:
    """Of each container and hour the rows that count, rising in time."""
    of = scene.windows
    rows = np.flatnonzero(counted)
    rows = rows[np.lexsort((of.number[rows], of.container[rows]))]
    hour = (of.number[rows] * LABEL_US - 1) // HOUR_US
    new = (np.diff(of.container[rows]) != 0) | (np.diff(hour) != 0)
    for part in np.split(np.arange(len(rows)), np.flatnonzero(new) + 1) if len(rows) else []:
        yield int(hour[part[0]]) * HOUR_US, rows[part]


def _row(scene: Scene, low: Floats, hour_us: int, weights: Weighed, slow: Ints) -> dict[str, object]:
    place = (scene.windows.number[slow] * LABEL_US - hour_us) // LABEL_US - 1
    bounds = np.full(PER_HOUR, np.nan)
    bounds[place] = 1.0 + (low - 1.0) * explained(weights)
    used = weights.use[weights.bad].mean(axis=0)
    added = added_by(weights.found.added, used, scene.sensitivity[int(slow[-1])])
    names = scene.rows["container"].take(pa.array(weights.rows)).to_pylist()
    neighbours = [
        {
            "container": name,
            "added": gained,
            "llc": shares[NAMES.index("llc")],
            "memory_bandwidth": shares[NAMES.index("memory_bandwidth")],
        }
        for name, gained, shares in zip(names, added.tolist(), used.tolist(), strict=True)
    ]
    last = int(slow[-1])
    return {
        **{name: scene.rows[name][last].as_py() for name in ("cluster", "node", "container", "app")},
        "hour": pa.scalar(hour_us, TIMESTAMP).as_py(),
        "low": [None if np.isnan(bound) else bound for bound in bounds.tolist()],
        "excess": weights.found.excess,
        "neighbours": sorted(neighbours, key=lambda one: str(one["container"])),
        "method": METHOD,
    }
