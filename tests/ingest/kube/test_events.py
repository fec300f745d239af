"""Events: a node's end, a mirror pod made anew, and pods heard of when they were long over."""

from typing import Any

import pytest

from ingest.kube.events import CLUSTER_NODES, PODS, Heard, still_there
from tests.ingest.api_server import a_node, a_pod

HASH = "9aac5b5c8815def09a2ef9e37b89da55"
MINUTE_MS = 60_000


def heard(at_ms: int = 1_772_366_400_000) -> Heard:
    return Heard("c", at_ms)


def mirror(uid: str) -> dict[str, Any]:
    pod = a_pod(uid)
    pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": HASH}
    return pod


def test_a_deleted_node_has_a_record_of_its_end_and_one_made_anew_comes_after_it() -> None:
    node = a_node("n1")
    seen = CLUSTER_NODES.seen(None, node, heard())

    gone = CLUSTER_NODES.gone(seen.published, node, heard(1_772_366_400_000 + 90 * MINUTE_MS))
    again = CLUSTER_NODES.seen(gone.published, node, heard(1_772_366_400_000 + 90 * MINUTE_MS))

    (end,), new = gone.records, again.records[-1]
    assert (end["event"], end["node"], new["event"]) == ("delete", "n1", "add")
    assert int(str(new["ts"])) > int(str(end["ts"]))


@pytest.mark.parametrize("deletion", ["heard", "missed"])
def test_a_node_made_anew_while_the_watch_was_lost_is_there_from_its_creation(deletion: str) -> None:
    before = CLUSTER_NODES.seen(None, a_node("n1"), heard()).published
    gone = CLUSTER_NODES.gone(before, a_node("n1"), heard()).published if deletion == "heard" else before
    anew = a_node("n1", heartbeat="2026-03-01T14:00:00Z")
    anew["metadata"]["creationTimestamp"] = "2026-03-01T13:00:00Z"

    anew["status"]["capacity"]["cpu"] = "96"
    records = CLUSTER_NODES.seen(gone, anew, heard(1_772_366_400_000 + 125 * MINUTE_MS)).records

    assert [int(str(record["ts"])) - 1_772_366_400_000 for record in records] == [60 * MINUTE_MS, 120 * MINUTE_MS]


def test_a_node_that_a_list_lacks_has_ended_too() -> None:
    seen = CLUSTER_NODES.seen(None, a_node("n1"), heard())

    (end,) = CLUSTER_NODES.gone(seen.published, None, heard()).records

    assert (end["event"], end["node"]) == ("delete", "n1")


def test_a_node_is_said_to_be_there_until_it_is_gone() -> None:
    published = CLUSTER_NODES.seen(None, a_node("n1"), heard()).published
    assert published is not None
    gone = CLUSTER_NODES.gone(published, None, heard()).published
    assert gone is not None

    assert still_there(published, heard(5_000)) == {"cluster": "c", "node": "n1", "ts": 5_000, "interval_s": 300}
    assert still_there(gone, heard()) is None


def test_a_mirror_pod_made_anew_is_the_same_container_and_runs_again() -> None:
    first = PODS.seen(None, mirror("api-1"), heard())
    assert PODS.key(mirror("api-1")) == PODS.key(mirror("api-2"))

    gone = PODS.gone(first.published, mirror("api-1"), heard())
    again = PODS.seen(gone.published, mirror("api-2"), heard())

    records = [*first.records, *gone.records, *again.records]
    assert len({record["container"] for record in records}) == 1
    assert str(records[0]["container"]).startswith(f"{HASH}@")
    assert [record["event"] for record in (first.records[0], gone.records[-1], again.records[-1])] == [
        "add",
        "delete",
        "add",
    ]
    times = [int(str(record["ts"])) for record in records]
    assert times == sorted(times)


def test_an_evicted_pod_ended_when_its_conditions_say_so() -> None:
    pod = a_pod("u1")
    ended = "2026-03-01T12:30:00Z"
    pod["status"] = {
        "phase": "Failed",
        "reason": "Evicted",
        "startTime": "2026-03-01T12:00:00Z",
        "conditions": [
            {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": ended},
            {"type": "Ready", "status": "False", "lastTransitionTime": "2026-03-01T12:29:58Z"},
        ],
    }

    records = PODS.seen(None, pod, heard(1_772_366_400_000 + 600 * MINUTE_MS)).records

    assert [record["event"] for record in records][-1] == "delete"
    assert records[-1]["ts"] == 1_772_368_200_000


def test_a_finished_pod_that_somebody_labelled_later_ended_when_its_containers_did() -> None:
    pod = a_pod("u1")
    finished, labelled = "2026-03-01T12:30:00Z", "2026-03-01T13:20:00Z"
    pod["metadata"]["managedFields"] = [{"manager": "kubectl-label", "operation": "Update", "time": labelled}]
    state = {"terminated": {"exitCode": 0, "finishedAt": finished}}
    pod["status"] = {"phase": "Succeeded", "containerStatuses": [{"name": "a", "state": state}]}

    records = PODS.seen(None, pod, heard(1_772_366_400_000 + 600 * MINUTE_MS)).records

    assert records[-1]["event"] == "delete"
    assert 0 <= int(str(records[-1]["ts"])) - 1_772_368_200_000 <= 1
