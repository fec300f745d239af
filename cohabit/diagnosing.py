"""Diagnosing: who suffers beside whom, by what a lake holds. An edge."""

from datetime import datetime, timedelta

import pyarrow.compute as pc

from advisor.diagnosis.evidence import USUAL_US, Evidence, diagnose
from advisor.diagnosis.verdicts import Diagnosis
from cohabit.errors import NothingMeasured
from features.node_state import Facts
from features.windows import LABEL_US
from ingest.lake import Lake
from ingest.schema import TIMESTAMP
from ingest.selection import EPOCH

USUAL = timedelta(microseconds=USUAL_US)
WINDOW = timedelta(microseconds=LABEL_US)
LEAST = timedelta(hours=2)
MOST_ROWS = 5_000_000
"""Minutes of containers that are read at once, about 3 GB; where there are more, less of the past is looked at."""


def newest_window(lake: Lake) -> datetime:
    """When the newest labelled window ended.

    Raises:
        NothingMeasured: there is none.
    """
    ends = lake.read("labels", columns=["window_end"])
    if not ends.num_rows:
        raise NothingMeasured(lake.root)
    newest: datetime = pc.max(ends["window_end"]).cast(TIMESTAMP).as_py()
    return newest


def diagnosed(lake: Lake, at: datetime) -> list[Diagnosis]:
    """What is wrong with whom at a time, which is rounded down to a window's end.

    Args:
        lake: with features.
        at: until when is looked; with a zone.

    Returns:
        See advisor.diagnosis.evidence.diagnose.
    """
    until = datetime.fromtimestamp(at.timestamp() // WINDOW.total_seconds() * WINDOW.total_seconds(), at.tzinfo)
    past, end = USUAL, until + timedelta(microseconds=1)
    while past > LEAST and lake.count("node_state", until - past, end) > MOST_ROWS:
        past /= 2
    state, labels = (lake.read(name, until - past, end) for name in ("node_state", "labels"))
    facts = Facts(lake.read("nodes"), lake.read("placements", EPOCH, end))
    return diagnose(Evidence(state, labels, lake.read("profiles"), facts), round(until.timestamp() * 1e6))
