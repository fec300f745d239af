"""The feature job: which time it covers, when profiles are taken, and its progress. Facts for both runners."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Ints
from features.columnar.windows import LABEL_US, LATENESS_US, window_end
from features.contention.correlation import LOOK_BACK_US
from features.contention.node_state import Facts
from features.jobs.lake_facts import facts_between
from ingest.lake.tables import Lake
from ingest.schema.tables import TIMESTAMP

JOB = "features"
PROFILE_EVERY_US = 1800 * 1_000_000
"""How often profiles are taken: every half hour."""
LATE = f"samples left out, later than {LATENESS_US // 1_000_000} s after their time"

IMPOSSIBLE = "values of samples that are impossible"

Progress = Callable[[str, int], None]
"""Called with a table's name and its rows when it is written, and with what else was counted."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The time [start, end) a run covers, whole label windows, and how often profiles are taken."""

    start: datetime
    end: datetime
    profile_every_us: int = PROFILE_EVERY_US

    def ends(self, until: timedelta = timedelta(0)) -> tuple[datetime, datetime]:
        """The half-open range that holds the ends of its windows, those in (start, end + until]."""
        tick = timedelta(microseconds=1)
        return self.start + tick, self.end + until + tick

    def samples(self) -> tuple[datetime, datetime]:
        """The half-open range of the times of its samples: a window holds those whose time less 1 ms lies in it."""
        return self.start + timedelta(milliseconds=1), self.end + timedelta(milliseconds=1)


def facts_until(lake: Lake, stretch: Stretch) -> Facts:
    """Nodes and placements as recorded until a stretch's end, and as they ended."""
    return facts_between(lake, stretch.start, stretch.end)


def profile_times(stretch: Stretch) -> Ints:
    """Times at which profiles are taken: so often in the stretch, and at its end with all that arrived in time."""
    start, end = (int(moment.timestamp() * 1e6) for moment in (stretch.start, stretch.end))
    every = stretch.profile_every_us
    inside = np.arange(start // every + 1, end // every + 1) * every
    return np.unique(np.append(inside, end + LATENESS_US))


def antagonist_ends(stretch: Stretch) -> tuple[datetime, datetime]:
    """The half-open range that holds the ends of a stretch's half hours, of which the last may not be over yet."""
    start, end = stretch.ends()
    over = -(-round(stretch.end.timestamp() * 1e6) // LOOK_BACK_US) * LOOK_BACK_US - round(
        stretch.end.timestamp() * 1e6
    )
    return start, end + timedelta(microseconds=over)


def profile_ends(stretch: Stretch) -> tuple[datetime, datetime]:
    """The half-open range that holds a stretch's profiles."""
    return stretch.ends(timedelta(microseconds=LATENESS_US))


def whole_stretch(lake: Lake) -> Stretch | None:
    """The label windows that hold all usage and samples of the lake; None for a lake without any."""
    spans = [span for table in ("usage", "samples") if (span := lake.span(table))]
    if not spans:
        return None
    whole = min(start for start, _ in spans), max(end for _, end in spans)
    first, last = window_end(np.array(whole), LABEL_US).tolist()
    return Stretch(*(pa.scalar(us, TIMESTAMP).as_py() for us in (first - LABEL_US, last)))


def modelled(labels: pa.Table) -> int:
    """How many labels have a slowdown; the others count as 1.0."""
    return int(labels.num_rows - labels["log_slowdown"].null_count)
