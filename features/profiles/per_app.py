"""Labels and profiles of many apps at once: the kernels of one app, app by app. Kernel."""

from collections.abc import Iterator
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Ints
from features.columnar.composite_keys import joint, ranks, rising
from features.columnar.group_means import group_starts
from features.labels.app_version import versions
from features.labels.slowdown import label_app, label_windows
from features.labels.warm_up import limited, starts, warming
from features.profiles.app_profile import profile_app
from features.schema.tables import LABELS, PROFILES

APP_KEYS = ("cluster", "app", "platform")


def labels_of(state: pa.Table, placements: pa.Table) -> pa.Table:
    """Labels of every named app and platform in `node_state`; `placements` give starts and deploys."""
    begun = starts(placements)
    windows = (label_windows(part) for part in by_app(state))
    parts = [
        label_app(part, warming(part, begun), versions(part, placements), limited(part, placements)) for part in windows
    ]
    return pa.concat_tables([LABELS.schema.empty_table(), *parts])


def profiles_of(state: pa.Table, as_of_us: Ints) -> pa.Table:
    """Profiles of every named app and platform in `node_state`, as of each time; all of an app must be there."""
    apps = groupby(by_app(state), key=lambda part: (part["cluster"][0].as_py(), part["app"][0].as_py()))
    parts = [profile_app(list(platforms), as_of_us) for _, platforms in apps]
    return pa.concat_tables([PROFILES.schema.empty_table(), *parts])


def by_app(state: pa.Table) -> Iterator[pa.Table]:
    """Rows of each named app on each platform, apps in the order of their names."""
    named = state.filter(pc.and_(pc.is_valid(state["app"]), pc.is_valid(state["platform"])))
    code = joint([ranks(named[c]) for c in APP_KEYS])
    order = rising(code)
    bounds = np.append(group_starts(code[order]), len(order))
    for start, end in pairwise(bounds):
        yield named.take(pa.array(order[start:end]))
