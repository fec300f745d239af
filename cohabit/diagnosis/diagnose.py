"""Diagnose: victims and antagonists from the tables of a lake. An edge."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.diagnosis.analyse import COLUMNS, USUAL_US, Evidence, diagnose, worst_first
from advisor.diagnosis.coverage import LABELS, PLACED, STATE, Coverage, coverage, running_windows
from advisor.diagnosis.slowdown_causes import Diagnosis
from advisor.diagnosis.slowdown_outliers import ENOUGH, LEAST_OUT, LOOKED
from advisor.scoring.score_scale import LIMIT_SLOWDOWN
from cohabit.config.errors import CohabitError, NothingMeasured
from features.columnar.arrow_columns import floats
from features.columnar.windows import LABEL_US
from features.contention.node_state import is_best_effort, is_delete, standing
from features.jobs.lake_facts import facts_between
from features.labels.slowdown import NO_SIGNAL, WAITING
from ingest.lake.row_filter import EPOCH, microseconds
from ingest.lake.tables import Lake

USUAL = timedelta(microseconds=USUAL_US)
WINDOW = timedelta(microseconds=LABEL_US)
TICK = timedelta(microseconds=1)
LEAST = timedelta(hours=2)
STALE = timedelta(hours=3)
"""Labels that end so long before the newest metrics say nothing of now."""
LOOKED_BACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=31))
"""Labels are hours old at most where `cohabit features` runs."""
MAX_SCANNED = 40_000_000
"""Minutes of containers that are looked through at most; where a day has more, less of the past is."""
AT_ONCE = 1_000_000
"""Minutes that are in memory at once, about 2 GB: of so many nodes at a time."""


def newest_window(lake: Lake) -> datetime:
    """When the newest labelled window ended, up to a month before the newest metrics.

    Raises:
        NothingMeasured: there is none.
    """
    last = _measured_until(lake) + 2 * WINDOW
    for back in LOOKED_BACK:
        ends = lake.read("labels", max(EPOCH, last - back), last, columns=["window_end"])
        if ends.num_rows:
            newest: datetime = pc.max(ends["window_end"]).as_py()
            return newest
    raise NothingMeasured(lake.uri)


def stale(lake: Lake, until: datetime) -> str:
    """What to say where the newest labels end long before the newest metrics; empty where they do not."""
    behind = _measured_until(lake) - until
    if behind <= STALE:
        return ""
    return (
        f"stale: the newest labels end {behind / timedelta(hours=1):,.0f} hours before the newest metrics, so victims "
        "now are unknown: run `cohabit features`"
    )


def _measured_until(lake: Lake) -> datetime:
    ended = [span[1] for table in ("usage", "samples") if (span := lake.span(table))]
    return datetime.fromtimestamp(max(ended, default=0) / 1e6, UTC)


def window_until(at: datetime) -> datetime:
    """When the newest window ended that is over at a time."""
    return datetime.fromtimestamp(at.timestamp() // WINDOW.total_seconds() * WINDOW.total_seconds(), at.tzinfo)


def diagnosed(lake: Lake, at: datetime) -> list[Diagnosis]:
    """What is wrong with whom at a time, which is rounded down to a window's end.

    Args:
        lake: with features.
        at: until when is looked; with a zone.

    Returns:
        See advisor.diagnosis.analyse.diagnose. Where minutes do not fit into memory, only nodes are looked at on which
        a container is slow, so many at a time, and only these give an app's usual values.

    Raises:
        CohabitError: there are no labels of the last windows before then, or there are, and not what else is looked at.
        NothingMeasured: there are none at all.
    """
    until = window_until(at)
    past, end = USUAL, until + timedelta(microseconds=1)
    late = (max(EPOCH, until - LOOKED * WINDOW), end) if until > EPOCH + USUAL else (EPOCH, EPOCH)
    if not lake.read("labels", *late, columns=["window_end"]).num_rows:
        raise CohabitError(
            f"the lake {lake.uri} has no labels of the 25 minutes before {until:%Y-%m-%dT%H:%M} UTC: the newest "
            f"window ends at {newest_window(lake):%Y-%m-%dT%H:%M}; run `cohabit features`, or name another time"
        )
    if not lake.count("node_state", *late):
        raise CohabitError(
            f"the lake {lake.uri} has labels of the 25 minutes before {until:%Y-%m-%dT%H:%M} UTC, but no rows of "
            "node_state, so victims are unknown: run `cohabit features`, or name another time"
        )
    while past > LEAST and lake.count("node_state", until - past, end) > MAX_SCANNED:
        past /= 2
    profiles, facts = lake.read("profiles"), facts_between(lake, until - past, end, ahead=False)
    found, at_us = list[Diagnosis](), round(until.timestamp() * 1e6)
    for nodes in node_pieces(lake, until - past, end, until - LOOKED * WINDOW):
        state = lake.read("node_state", until - past, end, columns=COLUMNS, nodes=nodes)
        labels = lake.read("labels", until - past, end, nodes=nodes)
        found += diagnose(Evidence(state, labels, profiles, facts), at_us)
    return worst_first(found)


def looked_at(lake: Lake, until: datetime, span: timedelta = LOOKED * WINDOW) -> tuple[pa.Table, frozenset[str]]:
    """What ran in the windows of a diagnosis, and the containers that were measured in them.

    Args:
        lake: with features.
        until: when the last of the windows ended.
        span: how long before then is looked at.

    Returns:
        Rows of advisor.diagnosis.coverage.running_windows, and names of containers of any class.
    """
    end, start = until + TICK, max(EPOCH, until - span)
    measured = lake.rows("node_state", start + TICK, end, STATE)
    labels = lake.rows("labels", start + TICK, end, LABELS)
    containers = frozenset(pc.unique(measured["container"]).to_pylist())
    return running_windows(labels, measured, _placed(lake, start, end), microseconds(until)), containers


def unconfirmed(lake: Lake, until: datetime, victims: Iterable[str]) -> list[str]:
    """Latency-sensitive containers slower than allowed in ENOUGH of the last windows that are no victims.

    No second signal says so too, see advisor.diagnosis.slowdown_outliers.
    """
    columns = ["container", "qos", "kind", "log_slowdown"]
    rows = lake.read("labels", max(EPOCH, until - LOOKED * WINDOW) + TICK, until + TICK, columns=columns)
    is_judged = ~is_best_effort(rows["qos"]) & np.asarray(pc.not_equal(rows["kind"], WAITING))
    slow = rows.filter(pa.array(is_judged & (floats(rows["log_slowdown"]) >= np.log(LIMIT_SLOWDOWN))))
    times = pc.value_counts(slow["container"]).to_pylist()
    return sorted({one["values"] for one in times if one["counts"] >= ENOUGH} - {*victims})


def coverage_until(lake: Lake, until: datetime, span: timedelta = LOOKED * WINDOW) -> Coverage:
    """How much of what ran in a stretch of time could be looked at, see `looked_at`."""
    return coverage(looked_at(lake, until, span)[0])


def _placed(lake: Lake, start: datetime, end: datetime) -> pa.Table:
    """Containers that run at a time by their placements, and since when, not before a start."""
    events = facts_between(lake, end, end, ahead=False).placements
    rows, since, until = standing(events, ["cluster", "container"])
    runs = (until > microseconds(end)) & ~is_delete(rows)
    began = np.maximum(since[runs], microseconds(start))
    return rows.select(PLACED).filter(pa.array(runs)).append_column("since_us", pa.array(began))


def nodes_in_doubt(labels: pa.Table) -> list[str]:
    """Nodes that may have victims: containers slow in a window, or without label, as where they were throttled."""
    log, waited = floats(labels["log_slowdown"]), np.asarray(pc.equal(labels["kind"], WAITING))
    slow = np.isnan(log) | (log >= np.log(np.where(waited, LEAST_OUT, LIMIT_SLOWDOWN)))
    held = np.asarray(pc.fill_null(pc.equal(labels["reason"], "own_limit"), fill_value=False))
    judged = np.asarray(pc.not_equal(labels["kind"], NO_SIGNAL)) | held
    wrong = slow & judged & ~is_best_effort(labels["qos"])
    return sorted(pc.unique(labels["node"].filter(pa.array(wrong))).to_pylist())


def node_pieces(lake: Lake, start: datetime, end: datetime, judged_from: datetime) -> Iterator[list[str] | None]:
    """So many nodes that their minutes fit into memory; None for all of them, where these do.

    Args:
        lake: with features.
        start: of the minutes that are read.
        end: of them, exclusive.
        judged_from: time from which a container must be slow on a node for it to be included, where not all fit.
    """
    minutes = lake.count("node_state", start, end)
    if minutes <= AT_ONCE:
        yield None
        return
    nodes = nodes_in_doubt(lake.read("labels", judged_from, end))
    size = max(1, AT_ONCE * len(pc.unique(lake.read("nodes", columns=["node"])["node"])) // minutes)
    for begin in range(0, len(nodes), size):
        yield nodes[begin : begin + size]
