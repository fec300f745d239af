"""Coverage: what runs is counted whether or not it is measured, and nothing is said of what was not looked at."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from advisor.diagnosis.coverage import KEYS, SHARED, Coverage, Looked, Unseen, coverage, running_windows, sentences

END = datetime(2026, 3, 2, tzinfo=UTC)
END_US = round(END.timestamp() * 1e6)
WINDOW = timedelta(minutes=5)
TEXT = pa.string()
TIME = pa.timestamp("us", "UTC")


def table(rows: Iterable[tuple[object, ...]], **more: pa.DataType) -> pa.Table:
    names = {**dict.fromkeys(KEYS, TEXT), **more}
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], pa.schema(list(names.items())))


def labels(*rows: tuple[object, ...]) -> pa.Table:
    found = table(rows, qos=TEXT, window_end=TIME, kind=TEXT, log_slowdown=pa.float64(), reason=TEXT)
    for name in (name for of in SHARED.values() for name in of):
        found = found.append_column(name, pa.array([0.1] * found.num_rows, pa.float64()))
    return found


def unreported(found: pa.Table, *names: str, rows: int = 100) -> pa.Table:
    """The same, where the first rows lack what neighbours use of some."""
    for name in names:
        place = found.column_names.index(name)
        values = [None if number < rows else 0.1 for number in range(found.num_rows)]
        found = found.set_column(place, name, pa.array(values, pa.float64()))
    return found


def state(*rows: tuple[object, ...]) -> pa.Table:
    return table(rows, qos=TEXT, window_end=TIME)


def placed(*rows: tuple[object, ...]) -> pa.Table:
    return table(rows, qos=TEXT, since_us=pa.int64())


WEB = ("c", "n1", "web", "web-1")
DARK = ("c", "n2", None, "dark-1")
SILENT = ("c", "n2", "db", "db-1")
BATCH = ("c", "n2", "batch", "batch-1")


def test_containers_without_labels_and_without_measurements_count_by_the_time_they_ran() -> None:
    minutes = [END - timedelta(minutes=minute) for minute in range(10)]
    found = coverage(
        running_windows(
            labels(
                (*WEB, "LS", END, "waiting", 0.1, None),
                (*WEB, "LS", END - WINDOW, "none", None, "own_limit"),
                (*BATCH, "BE", END, "none", None, "not_reported"),
            ),
            state(*((*WEB, "LS", at) for at in minutes), *((*DARK, None, at) for at in minutes)),
            placed((*WEB, "LS", END_US - 600 * 10**6), (*SILENT, "LS", END_US - 900 * 10**6), (*BATCH, "BE", 0)),
            END_US,
        )
    )

    assert (found.looked, found.containers, found.by_waiting) == (Looked(7, 1), 3, 1)
    assert found.unseen == (
        Unseen("not_measured", 3, 1, 1),
        Unseen("not_described", 2, 1, 0),
        Unseen("own_limit", 1, 1, 1),
    )
    assert found.nodes == {"n1": Looked(2, 1), "n2": Looked(5, 0)}
    assert found.apps == {"db": Looked(3, 0), "web": Looked(2, 1)}
    assert sentences(found)[0] == "looked at 14% of the time of 3 latency-sensitive containers that ran"
    assert "   43%  1 containers of 1 apps: runs by its placement, and no exporter sends anything of it" in sentences(
        found
    )
    assert "nodes looked at least: n2 0%, n1 50%" in sentences(found)


def test_windows_in_which_a_placed_container_is_not_measured_count_too() -> None:
    """Its kubelet stopped after the first of five windows; another one came a minute ago."""
    new = ("c", "n1", "web", "web-2")
    found = coverage(
        running_windows(
            labels((*WEB, "LS", END - 4 * WINDOW, "waiting", 0.1, None), (*new, "LS", END, "none", None, "warming_up")),
            state(),
            placed((*WEB, "LS", END_US - 1500 * 10**6), (*new, "LS", END_US - 60 * 10**6)),
            END_US,
        )
    )

    assert (found.looked, found.containers) == (Looked(6, 1), 2)
    assert found.unseen == (Unseen("not_measured", 4, 1, 1), Unseen("warming_up", 1, 1, 1))


def test_nothing_that_runs_is_nothing_looked_at() -> None:
    found = coverage(running_windows(labels(), state(), placed(), END_US))

    assert found == Coverage()
    assert found.share == 0
    assert sentences(found) == ["nothing was looked at: no latency-sensitive container was measured"]


def test_what_exporters_do_not_report_of_neighbours_is_named_where_most_windows_lack_it() -> None:
    def lacking(*names: str, rows: int = 100) -> tuple[str, ...]:
        some = labels(*((*WEB, "LS", END - number * WINDOW, "latency", 0.1, None) for number in range(4)))
        return coverage(running_windows(unreported(some, *names, rows=rows), state(), placed(), END_US)).unreported

    assert lacking() == ()
    assert lacking("pressure_disk") == ()
    assert lacking("pressure_disk", "pressure_disk_ios", "pressure_llc") == ("cache", "disk")
    assert lacking("pressure_net", rows=2) == ()
    assert lacking("pressure_net", rows=3) == ("network",)


def test_all_is_said_of_all_alone() -> None:
    assert "looked at 99% of" in sentences(Coverage(Looked(1000, 999), 10))[0]


def test_a_small_part_is_not_none() -> None:
    found = Coverage(Looked(1000, 996), 10, unseen=(Unseen("warming_up", 4, 1, 1),))

    assert any(line.startswith("   <1%  1 containers") for line in sentences(found))


def test_where_nearly_all_was_looked_at_a_blind_cluster_is_named() -> None:
    clusters = {"a": Looked(95, 95), "b": Looked(5, 0)}
    nodes = {"n1": Looked(50, 50), "n2": Looked(50, 45)}
    found = sentences(Coverage(Looked(100, 95), 10, clusters=clusters, nodes=nodes))

    assert "clusters looked at least: b 0%" in found
    assert not any(line.startswith("nodes") for line in found)
