"""Label windows of one app, and their labels."""

import numpy as np
import pyarrow as pa

from features.labels.app_version import UNKNOWN
from features.labels.slowdown import MEANS, label_app
from features.schema.tables import LABELS


def windows(pressure: np.ndarray, **signals: np.ndarray) -> pa.Table:
    """Five-minute windows of one app, one after the other, whose only pressure is that of cpu."""
    n = len(pressure)
    columns: dict[str, object] = {
        c: pa.array(["x"] * n) for c in ("cluster", "node", "container", "app", "team", "qos", "platform")
    }
    ends = (np.arange(n) + 1) * 300_000_000
    columns |= {c: pa.array(ends, LABELS.schema.field(c).type) for c in ("window_start", "window_end", "arrived_at")}
    means = {c: np.full(n, np.nan) for c in MEANS} | {"pressure_cpu": pressure}
    return pa.table({**columns, "weight": np.ones(n), **means, **signals})


def settled_labels(rows: pa.Table, limited: np.ndarray | None = None) -> pa.Table:
    """Labels of windows that follow no start and no deploy."""
    count = rows.num_rows
    return label_app(rows, np.zeros(count, np.bool_), np.full(count, UNKNOWN), limited)
