"""Coverage: how much of what runs a diagnosis could look at, and why not the rest. Kernel."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.contention.node_state import is_best_effort
from features.labels.slowdown import REASONS, WAITING

UNNAMED = "not_described"
"""Reason of containers without label rows: their app, or the platform of their node, is not known."""
WHY = REASONS | {UNNAMED: "no placement names the app, or no record describes the node"}


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was looked at in a stretch of time.

    Args:
        windows: five-minute windows of latency-sensitive containers.
        labelled: of them, with a label.
        containers: latency-sensitive containers that were measured.
        seen: of them, with a label in at least one window.
        by_waiting: of these, with labels made of waiting alone.
        unseen: the others, by the reason that most of their windows have.
        unseen_apps: number of apps of the others.
    """

    windows: int
    labelled: int
    containers: int
    seen: int
    by_waiting: int
    unseen: Mapping[str, int]
    unseen_apps: int

    @property
    def share(self) -> float:
        """Share of the time of containers that has a label; 0 without any container."""
        return self.labelled / self.windows if self.windows else 0.0


def coverage(labels: pa.Table, measured: pa.Table) -> Coverage:
    """How much of a stretch of time has labels.

    Args:
        labels: rows of `labels` of the stretch; `container`, `app`, `qos`, `kind`, `log_slowdown`, `reason`.
        measured: rows of `node_state` of the same stretch; `container`, `app`, `qos`.

    Returns:
        Best-effort containers are left out: they are never victims. A container that was measured and has no rows of
        `labels` counts as one window.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0063-waiting.md.
    """
    rows = labels.filter(pa.array(~is_best_effort(labels["qos"])))
    known = rows["log_slowdown"].is_valid()
    seen = set(rows.filter(known)["container"].to_pylist())
    waiting = set(rows.filter(pc.and_(known, pc.equal(rows["kind"], WAITING)))["container"].to_pylist())
    unseen, apps = dict[str, Counter[str]](), set[str | None]()
    for row in rows.filter(pc.invert(known)).select(["container", "app", "reason"]).to_pylist():
        if row["container"] not in seen:
            unseen.setdefault(row["container"], Counter())[row["reason"] or UNNAMED] += 1
            apps.add(row["app"])
    others = measured.filter(pa.array(~is_best_effort(measured["qos"])))
    found = zip(others["container"].to_pylist(), others["app"].to_pylist(), strict=True)
    left = {container: app for container, app in found if container not in seen and container not in unseen}
    reasons = Counter(counts.most_common(1)[0][0] for counts in unseen.values()) + Counter([UNNAMED] * len(left))
    return Coverage(
        windows=rows.num_rows + len(left),
        labelled=int(np.count_nonzero(known)),
        containers=len(seen) + len(unseen) + len(left),
        seen=len(seen),
        by_waiting=len(waiting),
        unseen=dict(reasons.most_common()),
        unseen_apps=len(apps | set(left.values())),
    )


def sentences(of: Coverage) -> list[str]:
    """What was looked at, and what was not and why, for people; the share comes first."""
    if not of.containers:
        return ["nothing was looked at: no latency-sensitive container was measured"]
    found = [f"looked at {of.share:.0%} of the time of {of.containers:,} latency-sensitive containers"]
    if of.unseen:
        number = sum(of.unseen.values())
        found.append(f"{number:,} containers of {of.unseen_apps:,} apps were not seen:")
        found += [f"  {count:,} {WHY[reason]}" for reason, count in of.unseen.items()]
    if of.by_waiting:
        found.append(
            f"{of.by_waiting:,} are judged by waiting alone: harm through cache and memory bandwidth is not seen"
        )
    return found
