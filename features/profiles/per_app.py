"""Labels and profiles of many apps at once: the kernels of one app, app by app. Kernel."""

from collections.abc import Iterator
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Floats, Ints, floats, micros
from features.columnar.composite_keys import joint, ranks, rising
from features.columnar.group_means import group_starts
from features.labels.app_version import versions
from features.labels.slowdown import label_app, label_windows
from features.labels.waited_cpus import CPUS
from features.labels.warm_up import limited, starts, warming
from features.profiles.app_profile import profile_app
from features.schema.tables import LABELS, PROFILES

APP_KEYS = ("cluster", "app", "platform")
NO_CPUS = CPUS.empty_table()
_UNKNOWN: tuple[Ints, Floats] = np.zeros(1, np.int64), np.ones(1)
"""CPUs of an app of which nothing is known."""


def labels_of(state: pa.Table, placements: pa.Table, cpus: pa.Table = NO_CPUS) -> pa.Table:
    """Labels of every named app and platform in `node_state`.

    Args:
        state: rows of `node_state`.
        placements: give starts and deploys.
        cpus: rows of features.labels.waited_cpus.CPUS, of which the last of each app counts.
    """
    begun, spread = starts(placements), _by_name(cpus)
    windows = (label_windows(part) for part in by_app(state))
    parts = [
        label_app(
            part,
            warming(part, begun),
            versions(part, placements),
            limited(part, placements),
            spread.get(_name(part), _UNKNOWN)[1][-1],
        )
        for part in windows
    ]
    return pa.concat_tables([LABELS.schema.empty_table(), *parts])


def profiles_of(state: pa.Table, as_of_us: Ints, cpus: pa.Table = NO_CPUS) -> pa.Table:
    """Profiles of every named app and platform in `node_state`, as of each time; all of an app must be there.

    Args:
        state: rows of `node_state`.
        as_of_us: (t,) times, rising.
        cpus: see `labels_of`; of each app the last by a time counts.
    """
    spread = _by_name(cpus)
    parts = [
        profile_app(list(platforms), as_of_us, _as_of(spread.get(name, _UNKNOWN), as_of_us))
        for name, platforms in groupby(by_app(state), key=_name)
    ]
    return pa.concat_tables([PROFILES.schema.empty_table(), *parts])


def _name(rows: pa.Table) -> tuple[str, str]:
    return rows["cluster"][0].as_py(), rows["app"][0].as_py()


def _by_name(cpus: pa.Table) -> dict[tuple[str, str], tuple[Ints, Floats]]:
    """Times, rising, and CPUs by cluster and app."""
    ordered = cpus.sort_by([("cluster", "ascending"), ("app", "ascending"), ("as_of", "ascending")])
    starts_ = group_starts(joint([ranks(ordered["cluster"]), ranks(ordered["app"])]))
    times, values = micros(ordered["as_of"]), floats(ordered["cpus"])
    bounds = np.append(starts_, len(values)).tolist()
    names = zip(*(ordered[c].take(pa.array(starts_)).to_pylist() for c in ("cluster", "app")), strict=True)
    return {name: (times[a:b], values[a:b]) for name, (a, b) in zip(names, pairwise(bounds), strict=True)}


def _as_of(known: tuple[Ints, Floats], as_of_us: Ints) -> Floats:
    """(t,) CPUs by each time; 1 before anything was known."""
    times, values = known
    return np.append(1.0, values)[np.searchsorted(times, as_of_us, side="right")]


def by_app(state: pa.Table) -> Iterator[pa.Table]:
    """Rows of each named app on each platform, apps in the order of their names."""
    named = state.filter(pc.and_(pc.is_valid(state["app"]), pc.is_valid(state["platform"])))
    code = joint([ranks(named[c]) for c in APP_KEYS])
    order = rising(code)
    bounds = np.append(group_starts(code[order]), len(order))
    for start, end in pairwise(bounds):
        yield named.take(pa.array(order[start:end]))
