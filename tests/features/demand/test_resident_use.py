"""Resident use: sums of those who are there, gaps never taken for idleness."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from features.demand.resident_use import Counted, resident_use

END = datetime(2026, 3, 1, 1, tzinfo=UTC)
END_US = int(END.timestamp() * 1e6)
NODES = pa.array(["a", "b"])


def minutes(*rows: tuple[str, str, float, float | None]) -> pa.Table:
    """Node, container, minutes before the end, use."""
    return pa.table(
        {
            "node": [node for node, *_ in rows],
            "container": [container for _, container, *_ in rows],
            "window_end": pa.array([END - timedelta(minutes=ago) for _, _, ago, _ in rows], pa.timestamp("us", "UTC")),
            "demand_cpu": pa.array([use for *_, use in rows], pa.float64()),
        }
    )


def counted(*who: tuple[str, str, float]) -> Counted:
    """Node, container, minutes before the end at which it came."""
    node, container, ago = zip(*who, strict=True)
    start = END_US - (np.array(ago) * 6e7).astype(np.int64)
    return Counted(pa.array(node), pa.array(container), start)


def use(rows: pa.Table, who: Counted, bins: int = 3) -> np.ndarray:
    return resident_use(rows, "demand_cpu", who, NODES, end_us=END_US, bins=bins)


def test_a_bin_is_the_sum_of_each_container_s_largest_minute() -> None:
    rows = minutes(("a", "x", 0, 0.1), ("a", "x", 1, 0.3), ("a", "y", 4, 0.2), ("a", "x", 5, 0.5), ("a", "y", 9, 0.25))

    found = use(rows, counted(("a", "x", 60), ("a", "y", 60)))

    np.testing.assert_allclose(found[0], [np.nan, 0.75, 0.5])
    assert np.isnan(found[1]).all()


def test_others_and_other_nodes_minutes_of_the_same_name_do_not_count() -> None:
    rows = minutes(("a", "x", 0, 0.1), ("a", "be", 0, 0.9), ("b", "x", 0, 0.7))

    assert use(rows, counted(("a", "x", 60)), bins=1)[0].tolist() == [0.1]


def test_a_node_of_which_one_resident_was_not_measured_is_not_known() -> None:
    rows = minutes(("a", "x", 0, 0.1), ("a", "y", 0, None))

    assert np.isnan(use(rows, counted(("a", "x", 60), ("a", "y", 60)), bins=1)[0]).all()


def test_a_resident_that_had_not_come_yet_is_not_missed() -> None:
    rows = minutes(("a", "x", 0, 0.1), ("a", "x", 5, 0.2), ("a", "y", 0, 0.4))

    np.testing.assert_allclose(use(rows, counted(("a", "x", 60), ("a", "y", 3)), bins=2)[0], [0.2, 0.5])
