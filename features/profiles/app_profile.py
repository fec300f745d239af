"""Profiles: an app's typical use by one container, and its sensitivity, as known at given times. Kernel."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Floats, Ints, floats, micros, table
from features.columnar.group_means import group_codes
from features.profiles.sensitivity import running_sensitivities
from features.schema.catalog import NAMES, SENSITIVITIES
from features.schema.tables import PROFILES
from ingest.schema.tables import TIMESTAMP

MEANS = (*(f"demand_{name}" for name in NAMES), "cpi", "llc_mpki", "qps")
ORDER = ("arrived_at", "cluster", "node", "window_end", "container")


def profile_app(states: Sequence[pa.Table], as_of_us: Ints, cpus: Floats) -> pa.Table:
    """Profiles of one app, one row for each platform and each time by which anything new was known of it.

    Args:
        states: its rows of `node_state`, one table a platform, none empty, any order.
        as_of_us: (t,) times, rising; only rows that had arrived by then are in a profile.
        cpus: (t,) over how many it waits, as known at each time, see features.labels.waited_cpus.

    Returns:
        Table `profiles`, platform by platform. An unmeasured demand, and a sensitivity with too few labels, are
        null.

    Source: ours, docs/decisions/0006-profiles.md.
    """
    sensitivity, kind = running_sensitivities(states, as_of_us, cpus)
    of_app = {"team": running_teams(states, as_of_us), "kind": pa.array(kind, pa.string())}
    return pa.concat_tables(
        _on_platform(state, as_of_us, found, of_app) for state, found in zip(states, sensitivity, strict=True)
    )


def newest(profiles: pa.Table, now_us: int) -> pa.Table:
    """Profiles that still count from a time on: each one's newest by then, and all later ones.

    Args:
        profiles: rows of `profiles`, any order.
        now_us: that time, microseconds since 1970.

    Returns:
        The rows that stand for their app and platform at that time or later, in their order.

    Raises:
        Nothing.

    Source: the definition of profiles as of a time, docs/decisions/0007-point-in-time.md.
    """
    code, since = group_codes(profiles, ["cluster", "app", "platform"]), micros(profiles["as_of"])
    order = np.lexsort((since, code))
    start_us, next_us = since[order], np.append(since[order][1:], 0)
    last = np.diff(code[order], append=-1) != 0
    stands = last | (next_us > now_us) | (start_us > now_us)
    return profiles.take(pa.array(np.sort(order[stands])))


def running_teams(states: Sequence[pa.Table], as_of_us: Ints) -> pa.Array:
    """(t,) the last team by each time in rows of `node_state` that had arrived; null where there is none."""
    rows = pa.concat_tables([state.select([*ORDER, "team"]) for state in states])
    with_team = _in_order(rows.filter(pc.is_valid(rows["team"])))
    count = np.searchsorted(micros(with_team["arrived_at"]), as_of_us, side="right")
    return with_team["team"].combine_chunks().take(pa.array(count - 1, mask=count == 0))


def _on_platform(state: pa.Table, as_of_us: Ints, sensitivity: Floats, of_app: Mapping[str, pa.Array]) -> pa.Table:
    ordered = _in_order(state)
    counts = np.searchsorted(micros(ordered["arrived_at"]), as_of_us, side="right")
    known = np.diff(counts, prepend=0) > 0
    values = np.column_stack([floats(ordered[c]) for c in MEANS])
    columns: dict[str, object] = dict(zip(MEANS, running_means(values, counts[known]).T, strict=True))
    columns |= dict(zip(SENSITIVITIES, sensitivity[known].T, strict=True))
    columns |= {
        c: pa.array([ordered[c][0].as_py()] * int(known.sum()), pa.string()) for c in ("cluster", "app", "platform")
    }
    peak = np.fmax.accumulate(floats(ordered["qps"]))
    columns |= {"qps_peak": peak[counts[known] - 1]} | {c: of_app[c].filter(pa.array(known)) for c in of_app}
    columns |= {"as_of": pa.array(as_of_us[known], TIMESTAMP), "windows": counts[known].astype(np.float64)}
    return table(columns, PROFILES.schema)


def _in_order(state: pa.Table) -> pa.Table:
    return state.sort_by([(c, "ascending") for c in ORDER]).combine_chunks()


def running_means(values: Floats, counts: Ints) -> Floats:
    """(t, k) means of the first counts[i] rows of values (n, k); NaN left out, NaN where all are."""
    known = np.isfinite(values)
    total = np.cumsum(np.where(known, values, 0.0), axis=0)[counts - 1]
    support = np.cumsum(known, axis=0)[counts - 1]
    with np.errstate(invalid="ignore"):
        means: Floats = total / support
    return means
