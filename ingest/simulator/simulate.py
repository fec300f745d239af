"""A whole simulated run: messages in the order they would arrive, and the truth next to them."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from ingest.simulator.law import Apps, Law, draw_apps, draw_likeness, with_antagonist
from ingest.simulator.laws import LAWS
from ingest.simulator.messages import Faults, Message, describe_beats, describe_events, describe_nodes, describe_usage
from ingest.simulator.simulated_cluster import Action, Place, Truth, churn, empty_cluster, fill, step
from ingest.simulator.stock import Stock, draw_stock, some_stock, stock_records


@dataclass(frozen=True, slots=True)
class Plan:
    """What to simulate.

    Args:
        law: a name in LAWS.
        team_likeness: the share of apps' variance that teams explain.
        antagonists: noisy neighbours, all of one more app, that start at half-time on nodes drawn from the seed.
        stock: only what kubelets as they come send, see ingest.simulator.stock.
        mixed: of every second app pressure stalls in place of latency, requests and CPI, see ingest.simulator.stock.
        stock_noise: scale of the errors of their stalls.
    """

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
    antagonists: int = 0
    stock: bool = False
    mixed: bool = False
    stock_noise: float = 1.0
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
    apps = draw_apps(plan.apps, np.random.default_rng([plan.seed, 0]), likeness)
    return with_antagonist(apps) if plan.antagonists else apps


def planted(plan: Plan, app: int) -> list[Action]:
    """Starts of a plan's noisy neighbours, on less crowded nodes: on others many press, and none stands out."""
    nodes = np.random.default_rng([plan.seed, 3]).integers(plan.nodes // 4, (plan.nodes + 1) // 2, plan.antagonists)
    return [Place(app, int(node)) for node in nodes]


class InFlight:
    """Messages that were sent and have not arrived yet."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Message]] = []
        self._count = 0

    def send(self, messages: Iterable[Message]) -> None:
        """Messages on their way; of those that arrive at the same time the first sent is the first to arrive."""
        for message in messages:
            heapq.heappush(self._waiting, (message.arrived_ms, self._count, message))
            self._count += 1

    def arrived(self, until_ms: float) -> list[Message]:
        """Those that arrive by then, in order of arrival."""
        found = []
        while self._waiting and self._waiting[0][0] <= until_ms:
            found.append(heapq.heappop(self._waiting)[2])
        return found


@dataclass(frozen=True, slots=True)
class Later:
    """A law that holds from an interval on, as after a release that changed the apps' sensitivities."""

    step: int
    law: Law


def simulate(
    plan: Plan, law: Law, best_effort: tuple[bool, ...], later: Later | None = None
) -> Iterator[tuple[list[Message], Truth]]:
    """Run a plan under a law, and later under another one where there is one.

    Yields:
        For each interval the messages that arrived during it, in order of arrival, and what was true in it. The last
        interval also brings the stragglers.
    """
    rng, apps = np.random.default_rng([plan.seed, 1]), len(best_effort) - (plan.antagonists > 0)
    stock, errors = _stock_of(plan), np.random.default_rng([plan.seed, 5])
    state = empty_cluster(plan.nodes, best_effort, plan.start.timestamp())
    sending = InFlight()
    for number in range(plan.steps):
        sent = describe_nodes(state, plan.cluster) if number == 0 else []
        rate = plan.churn_per_hour * plan.interval_s / 3600
        drawn = fill(state, plan.per_node, rng, apps) if number == 0 else churn(state, rate, rng, apps)
        actions = [*drawn, *planted(plan, apps)] if number == plan.steps // 2 else drawn
        holds = later.law if later is not None and number >= later.step else law
        state, records, truth = step(state, actions, law=holds, interval_s=plan.interval_s, rng=rng)
        if stock is not None:
            records = stock_records(records, state, stock[0], stock[1], errors)
        sent += describe_beats(state, plan.interval_s, plan.cluster, records.waited)
        sent += describe_events(
            records, plan.interval_s, best_effort, plan.cluster, None if stock is None else stock[1].limit_cores
        )
        sent += describe_usage(
            records,
            plan.interval_s,
            best_effort,
            cluster=plan.cluster,
            faults=plan.faults,
            seed=plan.seed,
            rng=rng,
        )
        sending.send(sent)
        last = number == plan.steps - 1
        yield sending.arrived(float("inf") if last else state.time_s * 1000), truth


def _stock_of(plan: Plan) -> tuple[Law, Stock] | None:
    """The law and what is drawn of its apps, where a plan is of a stock cluster."""
    if not (plan.stock or plan.mixed):
        return None
    apps = hidden_apps(plan)
    drawn = draw_stock(apps, np.random.default_rng([plan.seed, 4]))
    if plan.mixed:
        drawn = some_stock(drawn, np.arange(plan.apps) % 2 == 0)
    return LAWS[plan.law](apps), replace(drawn, noise=plan.stock_noise)


def built_in(plan: Plan) -> tuple[Law, tuple[bool, ...]]:
    """The plan's law over its apps, and which of them are BE."""
    apps = hidden_apps(plan)
    return LAWS[plan.law](apps), tuple(apps.best_effort.tolist())
