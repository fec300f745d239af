"""Resolution: a sample is of the pod that had its name then, on the node where that was placed."""

import pyarrow as pa

from features.contention.container_resolution import LINGER_US, resolved
from features.contention.node_state import Facts
from ingest.schema.tables import SAMPLES, WHOLE_NODE
from tests.features.rows import nodes, placements, rows_of

HASH = "9aac5b5c8815def09a2ef9e37b89da55"
SHOP: dict[str, object] = {"namespace": "shop", "name": "db-0"}


def samples(*rows: dict[str, object]) -> pa.Table:
    known = {"container": "shop/db-0", "metric": "cpu_cores", "kind": "gauge", "value": 1.0}
    return rows_of(SAMPLES, *({**known, **row} for row in rows))


def who(rows: pa.Table, *placed: dict[str, object], described: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    there: list[dict[str, object]] = [{"node": name} for name in described]
    facts = Facts(nodes(*there), placements(*placed))
    found = resolved(rows, facts).samples
    return list(zip(found["node"].to_pylist(), found["container"].to_pylist(), strict=True))


def test_a_pod_made_anew_in_the_second_its_predecessor_was_deleted_has_the_name() -> None:
    found = who(
        samples({"ts": 10}, {"ts": 61}),
        {**SHOP, "container": "old", "ts": 0},
        {**SHOP, "container": "new", "ts": 60.0},
        {**SHOP, "container": "old", "ts": 60.9, "event": "delete"},
    )

    assert found == [("n", "old"), ("n", "new")]


def test_a_deletion_that_was_heard_late_does_not_take_the_name_back() -> None:
    found = who(
        samples({"ts": 700}),
        {**SHOP, "container": "old", "ts": 0},
        {**SHOP, "container": "new", "ts": 60},
        {**SHOP, "container": "old", "ts": 650, "event": "delete"},
    )

    assert found == [("n", "new")]


def test_whole_seconds_of_the_api_and_milliseconds_of_samples_are_compared_by_seconds() -> None:
    assert who(samples({"ts": 60.2}), {**SHOP, "container": "uid", "ts": 60.7}) == [("n", "uid")]


def test_where_only_the_deletion_of_a_pod_is_left_it_had_the_name_until_then() -> None:
    found = who(samples({"ts": 50}), {**SHOP, "container": "old", "ts": 60, "event": "delete"})

    assert found == [("n", "old")]


def test_before_a_pod_came_its_name_was_not_its_own_however_it_ended() -> None:
    found = who(
        samples({"ts": 10}, {"ts": 70}),
        {**SHOP, "container": "new", "ts": 60},
        {**SHOP, "container": "new", "ts": 600, "event": "delete"},
    )

    assert found == [("n", "shop/db-0"), ("n", "new")]


def test_a_name_whose_pod_ended_long_ago_is_nobodys() -> None:
    later = 60 + LINGER_US / 1e6
    found = who(
        samples({"ts": later}, {"ts": later + 1}),
        {**SHOP, "container": "old", "ts": 0},
        {**SHOP, "container": "old", "ts": 60, "event": "delete"},
    )

    assert found == [("n", "old"), ("n", "shop/db-0")]


def test_a_static_pod_that_runs_again_has_its_name_for_as_long_as_it_runs() -> None:
    runs: list[dict[str, object]] = [{"ts": 0}, {"ts": 60, "event": "delete"}, {"ts": 1000}]
    later = 61 + LINGER_US / 1e6

    found = who(
        samples({"ts": 10}, {"ts": later}, {"ts": 1000 + later}),
        *({**SHOP, "container": f"{HASH}@n", **run} for run in runs),
    )

    assert [name for _, name in found] == [f"{HASH}@n", "shop/db-0", f"{HASH}@n"]


def test_the_node_is_where_the_pod_was_placed_whatever_the_exporter_calls_its_own() -> None:
    rows = samples(
        {"ts": 10, "container": "uid", "node": "cadvisor-x7k2p"},
        {"ts": 10, "container": "/", "node": "cadvisor-x7k2p"},
        {"ts": 10, "container": "unplaced", "node": "cadvisor-x7k2p"},
    )

    placed = {**SHOP, "container": "uid", "node": "ip-10-0-0-3"}
    found = who(rows, placed, described=("ip-10-0-0-3",))

    assert found == [("ip-10-0-0-3", "uid"), ("ip-10-0-0-3", "/"), ("ip-10-0-0-3", "unplaced")]


def test_a_name_that_is_a_node_keeps_its_own_samples() -> None:
    rows = samples({"ts": 10, "container": "uid", "node": "n1"}, {"ts": 10, "container": "/", "node": "n1"})

    found = who(rows, {**SHOP, "container": "uid", "node": "n2"}, described=("n1", "n2"))

    assert found == [("n2", "uid"), ("n1", "/")]


def test_a_static_pod_that_is_placed_under_its_api_uid_is_found_by_its_name() -> None:
    rows = samples({"ts": 10, "container": f"{HASH}@n", "pod": "kube-system/etcd-n"})

    found = who(rows, {"container": "api-uid", "namespace": "kube-system", "name": "etcd-n"})

    assert found == [("n", "api-uid")]


def test_which_names_were_other_nodes_is_said() -> None:
    facts = Facts(nodes(), placements({**SHOP, "container": "uid", "node": "n2"}))

    moved = resolved(samples({"ts": 10, "container": "uid", "node": "n1"}), facts).moved

    assert moved.to_pylist() == [{"cluster": "c", "node": "n1", "placed_on": "n2"}]


def test_pieces_of_samples_are_resolved_as_the_whole_is() -> None:
    """An exporter in a pod reports its own host name for all of its node: also for what no placement knows."""
    rows = samples(
        {"node": "collector", "container": "web", "ts": 10},
        {"node": "collector", "container": "unknown", "ts": 10},
        {"node": "collector", "container": WHOLE_NODE, "ts": 10},
        {"node": "central", "container": "web", "ts": 20},
        {"node": "central", "container": "db", "ts": 20},
        {"node": "central", "container": "unknown", "ts": 20},
    )
    facts = Facts(
        nodes({"node": "n1"}, {"node": "n2"}),
        placements({"container": "web", "node": "n1"}, {"container": "db", "node": "n2"}),
    )

    whole = resolved(rows, facts)
    pieces = [resolved(rows.slice(number, 1), facts, whole.moved).samples for number in range(rows.num_rows)]

    assert whole.samples["node"].to_pylist() == ["n1", "n1", "n1", "n1", "n2", "central"]
    assert pa.concat_tables(pieces).equals(whole.samples)
