"""Waited CPUs: what whole nodes wait says over how many CPUs each app waits, and little is claimed of little."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.columnar.arrow_columns import Floats
from features.contention.node_state import Facts, node_state
from features.labels.waited_cpus import CPUS, FEWEST, MOST_CPUS, NODE_WAITS, node_waits, waited_cpus
from ingest.schema.tables import NODE_USAGE
from tests.features.rows import at, nodes, placements, rows_of, usage

WINDOW_US = 300_000_000
START_US = round(at(0).timestamp() * 1e6)


def waits(pressure: Floats, waited: Floats, nodes_: int = 4, cluster: str = "c") -> pa.Table:
    """Rows of NODE_WAITS from (windows, apps) pressures and what whole nodes waited, window after window."""
    rows = [
        {
            "cluster": cluster,
            "node": f"n{number % nodes_}",
            "window_end": START_US + (number // nodes_ + 1) * WINDOW_US,
            "arrived_at": START_US + (number // nodes_ + 1) * WINDOW_US + 1,
            "app": f"app-{app}",
            "pressure": float(value),
            "waited": float(waited[number]),
        }
        for number, values in enumerate(pressure)
        for app, value in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, NODE_WAITS)


def drawn(cpus: Floats, windows: int = 400, noise: float = 0.2, seed: int = 0) -> pa.Table:
    """Apps of which some wait in some windows; what their nodes waited has errors and the system's own."""
    rng = np.random.default_rng(seed)
    pressure = rng.gamma(0.5, 0.2, (windows, len(cpus))) * (rng.random((windows, len(cpus))) < 0.6)
    return waits(pressure, (0.1 + pressure @ cpus) * rng.lognormal(0, noise, windows))


def late(of: pa.Table, windows: int = 10_000) -> dict[str, float]:
    """CPUs by app, after all windows."""
    found = waited_cpus(of, np.array([START_US + windows * WINDOW_US]))
    return dict(zip(found["app"].to_pylist(), found["cpus"].to_pylist(), strict=True))


TRUE = np.array([1.0, 3.0, 8.0, 24.0])


def test_apps_that_are_spread_wide_are_told_from_those_that_are_not() -> None:
    found = late(drawn(TRUE))

    assert [found[f"app-{number}"] for number in range(4)] == pytest.approx(TRUE, rel=0.3)


def test_without_errors_the_numbers_are_exact() -> None:
    found = late(drawn(TRUE, noise=0.0))

    assert [found[f"app-{number}"] for number in range(4)] == pytest.approx(TRUE, rel=0.01)


def test_an_app_that_hardly_waits_is_taken_for_one_cpu() -> None:
    rng = np.random.default_rng(1)
    pressure = np.column_stack([rng.gamma(0.5, 0.2, 200), np.full(200, 1e-6) * rng.random(200)])

    found = late(waits(pressure, pressure[:, 0] * 8.0 * rng.lognormal(0, 0.2, 200)))

    assert found["app-0"] == pytest.approx(8.0, rel=0.2)
    assert found["app-1"] == pytest.approx(1.0, abs=0.5)


def test_few_windows_say_nothing() -> None:
    assert late(drawn(TRUE, windows=FEWEST - 1)) == {}
    assert len(late(drawn(TRUE, windows=FEWEST))) == 4


def test_only_what_was_known_by_then_counts() -> None:
    whole = drawn(TRUE)
    then = START_US + 50 * WINDOW_US + 1
    known = whole.filter(pc.less_equal(whole["arrived_at"], pa.scalar(then, NODE_WAITS.field("arrived_at").type)))

    early, both = waited_cpus(known, np.array([then])), waited_cpus(whole, np.array([then, then + 10 * WINDOW_US]))

    assert both.slice(0, early.num_rows).equals(early)
    assert not both.slice(early.num_rows)["cpus"].equals(early["cpus"])


def test_clusters_say_nothing_of_each_other() -> None:
    one, other = drawn(TRUE), waits(np.full((200, 1), 0.1), np.full(200, 1.0), cluster="d")

    found = waited_cpus(pa.concat_tables([other, one]), np.array([START_US + 10_000 * WINDOW_US]))

    here = found.filter(pc.equal(found["cluster"], "c"))
    assert here.equals(waited_cpus(one, np.array([START_US + 10_000 * WINDOW_US])))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), scale=st.floats(0, 1e4))
def test_cpus_are_at_least_one_and_bounded_and_the_order_of_rows_changes_no_bit(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    pressure = rng.gamma(0.2, 1.0, (60, 5)) * (rng.random((60, 5)) < 0.5)
    rows = waits(pressure, rng.gamma(0.5, 1.0, 60) * scale)
    mixed = rows.take(pa.array(rng.permutation(rows.num_rows)))

    found = waited_cpus(rows, np.array([START_US + 1000 * WINDOW_US]))

    assert pc.all(pc.and_(pc.greater_equal(found["cpus"], 1.0), pc.less_equal(found["cpus"], MOST_CPUS))).as_py()
    assert found.equals(waited_cpus(mixed, np.array([START_US + 1000 * WINDOW_US])))


def test_pressures_of_an_apps_containers_and_what_the_node_waited_are_added_up_without_own_throttling() -> None:
    minutes = [30, 90, 150]
    told: list[dict[str, object]] = [
        {"container": name, "app": app, "psi_cpu_some_frac": 0.3, "cpu_throttled_frac": held, "ts": ts}
        for ts in minutes
        for name, app, held in (("a", "web", 0.1), ("b", "web", None), ("c", "db", 0.5))
    ]
    facts = Facts(nodes({"platform": "p"}), placements())
    known: list[dict[str, object]] = [{"interval_s": 60.0, "run_delay_frac": 2.0, "ts": ts} for ts in minutes[:2]]
    whole = rows_of(NODE_USAGE, *known)

    found = node_waits(node_state(usage(*told), facts), whole, facts.nodes).to_pylist()

    assert [(one["app"], round(one["pressure"], 9), one["waited"]) for one in found] == [
        ("db", 0.0, 4.0), ("web", 1.0, 4.0),
    ]  # fmt: skip


def test_without_what_nodes_waited_nothing_is_said() -> None:
    told: list[dict[str, object]] = [{"container": "a", "psi_cpu_some_frac": 0.3, "ts": 30}]
    facts = Facts(nodes({"platform": "p"}), placements())
    state = node_state(usage(*told), facts)

    none = node_waits(state, rows_of(NODE_USAGE, {"interval_s": 60.0, "ts": 30}), facts.nodes)

    assert none.num_rows == 0
    assert waited_cpus(none, np.array([START_US])).equals(CPUS.empty_table())


def test_of_a_large_cluster_some_nodes_are_looked_at_in_each_window_and_of_a_small_one_all() -> None:
    members: list[dict[str, object]] = [{"cluster": "large", "node": f"n{number}"} for number in range(400)]
    members += [{"cluster": "small", "node": f"n{number}"} for number in range(100)]
    sampled = [
        one | {"container": f"a-{one['cluster']}-{one['node']}", "psi_cpu_some_frac": 0.3, "ts": ts}
        for one in members
        for ts in (30, 330)
    ]
    facts = Facts(nodes(*(one | {"platform": "p"} for one in members)), placements())
    minutes = [
        {"cluster": row["cluster"], "node": row["node"], "run_delay_frac": 2.0, "ts": row["ts"]} for row in sampled
    ]

    found = node_waits(node_state(usage(*sampled), facts), rows_of(NODE_USAGE, *minutes), facts.nodes)

    small = found.filter(pc.equal(found["cluster"], "small"))
    large = found.filter(pc.equal(found["cluster"], "large"))
    first, second = (
        set(large.filter(pc.equal(large["window_end"], end))["node"].to_pylist())
        for end in pc.unique(large["window_end"])
    )
    assert small.num_rows == 200
    assert 60 < len(first) < 140
    assert first != second
