"""The commands that bring in what others tell: watch."""

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from cohabit.command_parts import stop_on_signals
from cohabit.console import console
from cohabit.settings import Settings
from ingest.topics import NODES, PLACEMENTS

if TYPE_CHECKING:
    from ingest.kubernetes import Follower, Surroundings


def run_watch(
    settings: Settings,
    *,
    kubeconfig: Path | None,
    context: str | None,
    namespaces: Sequence[str],
    cluster: str | None,
    bootstrap: str | None,
    state: Path,
    once: bool,
) -> None:
    """See `cohabit watch`."""
    from ingest.broker import create_topics
    from ingest.kubernetes import Surroundings, WatchMetrics, follow_all
    from ingest.kubernetes_feed import IN_CLUSTER, core_api
    from ingest.producer import Sender

    stop, brokers = stop_on_signals(), bootstrap or settings.kafka.bootstrap
    api = core_api(kubeconfig, context, in_cluster=IN_CLUSTER in os.environ)
    create_topics(brokers, (NODES, PLACEMENTS))
    metrics = WatchMetrics.on(CollectorRegistry())
    with closing(Sender(brokers)) as sender:
        around = Surroundings(cluster or settings.cluster, sender, _now_ms, metrics)
        followers = _followers(api, namespaces, state / around.cluster, around)
        console.print(f"cluster {around.cluster} at {api.api_client.configuration.host} goes to {brokers}")
        follow_all(followers, stop, "listed" if once else "stopped")
    console.print(f"{metrics.sent():,} records sent, {metrics.passed_over():,} malformed objects passed over")


def _followers(api: Any, namespaces: Sequence[str], state: Path, around: "Surroundings") -> list["Follower"]:
    """One for nodes, and one for pods or one for those of each namespace; each keeps its own position."""
    from ingest.cluster_events import CLUSTER_NODES, PODS
    from ingest.kubernetes import Follower
    from ingest.kubernetes_feed import node_feed, pod_feed

    nodes = Follower(CLUSTER_NODES, node_feed(api), state / "nodes.json", around)
    names = {f"pods-{name}" if name else "pods": name for name in (dict.fromkeys(namespaces) or (None,))}
    pods = [Follower(PODS, pod_feed(api, name), state / f"{stem}.json", around) for stem, name in names.items()]
    return [nodes, *pods]


def _now_ms() -> int:
    return time_ns() // 1_000_000
