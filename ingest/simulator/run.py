"""A whole simulated run: messages in the order they would arrive, and the truth beside them."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from ingest.simulator.cluster import Truth, churn, empty_cluster, fill, step
from ingest.simulator.law import Apps, Law, draw_apps, draw_likeness
from ingest.simulator.laws import LAWS
from ingest.simulator.messages import Faults, Message, describe_events, describe_nodes, describe_usage


@dataclass(frozen=True, slots=True)
class Plan:
    """What to simulate; `law` is a name in LAWS, `team_likeness` the share of apps' variance that teams explain."""

    nodes: int = 24
    apps: int = 24
    per_node: int = 12
    hours: float = 6.0
    interval_s: float = 30.0
    churn_per_hour: float = 1.5
    seed: int = 1
    cluster: str = "sim"
    law: str = "saturating"
    team_likeness: float = 0.0
    start: datetime = datetime(2026, 3, 2, tzinfo=UTC)
    faults: Faults = field(default_factory=Faults)

    @property
    def steps(self) -> int:
        """Number of intervals."""
        return round(self.hours * 3600 / self.interval_s)


def hidden_apps(plan: Plan) -> Apps:
    """The apps of a plan, drawn from its seed."""
    share = plan.team_likeness
    likeness = draw_likeness(share, np.random.default_rng([plan.seed, 2])) if share else None
    return draw_apps(plan.apps, np.random.default_rng([plan.seed, 0]), likeness)


def simulate(plan: Plan, law: Law, best_effort: tuple[bool, ...]) -> Iterator[tuple[list[Message], Truth]]:
    """Run a plan under a law.

    Yields:
        For each interval the messages that arrived during it, in order of arrival, and what was true in it. The last
        interval also brings the stragglers.
    """
    rng = np.random.default_rng([plan.seed, 1])
    state = empty_cluster(plan.nodes, best_effort, plan.start.timestamp())
    waiting: list[tuple[int, int, Message]] = []
    count = 0
    for number in range(plan.steps):
        sent = describe_nodes(state, plan.cluster) if number == 0 else []
        rate = plan.churn_per_hour * plan.interval_s / 3600
        actions = fill(state, plan.per_node, rng) if number == 0 else churn(state, rate, rng)
        state, records, truth = step(state, actions, law=law, interval_s=plan.interval_s, rng=rng)
        sent += describe_events(records, plan.interval_s, best_effort, plan.cluster)
        sent += describe_usage(
            records,
            plan.interval_s,
            best_effort,
            cluster=plan.cluster,
            faults=plan.faults,
            seed=plan.seed,
            rng=rng,
        )
        for message in sent:
            heapq.heappush(waiting, (message.arrived_ms, count, message))
            count += 1
        until = float("inf") if number == plan.steps - 1 else state.time_s * 1000
        arrived = []
        while waiting and waiting[0][0] <= until:
            arrived.append(heapq.heappop(waiting)[2])
        yield arrived, truth


def built_in(plan: Plan) -> tuple[Law, tuple[bool, ...]]:
    """The plan's law over its apps, and which of them are BE."""
    apps = hidden_apps(plan)
    return LAWS[plan.law](apps), tuple(apps.best_effort.tolist())
