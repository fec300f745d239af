"""Offer study: every method's offers filled on the same tape of a seed, under one law."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.best_effort.aware_chooser import Aware
from benchmarks.best_effort.best_effort_loop import (
    FILLED_OVER,
    Chooser,
    Outcome,
    Queue,
    most_room,
    run_best_effort,
)
from benchmarks.best_effort.compared_offers import BATCH_USAGE, N_SIGMA, OURS, TRAINED, Offers, offers_of
from benchmarks.best_effort.resident_tape import INTERVAL_S, Stretch, beyond_requests, node_use, recorded
from benchmarks.best_effort.use_ratios import drawn_ratios, offered_world
from cohabit.backtest.advice import scorers_of
from cohabit.backtest.history import Past, learnt_history
from cohabit.backtest.world import BUILT_IN_APPS, World
from ingest.simulator.law import Floats

NONE, OFFERS_ALONE = "none", "ours_most_room"
"""No best-effort pods, and our offers filled as others fill theirs."""
SCALES = (0.25, 0.5, 0.75, 1.0)
"""What other methods' offers are multiplied by, so that they can be compared at equal violations."""
WAITING = 240
"""Pods in the queue."""
PRICE = 1.0
"""Cores of undisturbed work that a latency-sensitive container in violation is worth; chosen on seeds 1001 and 1002."""
Key = tuple[str, float]
"""Method, and scale of its offers."""


@dataclass(frozen=True)
class OfferPlan:
    """How much is simulated.

    Args:
        nodes: of the cluster.
        requested: share of its cores that latency-sensitive containers request; openb's request 0.49.
        hours: judged, after a day of use, a day to train and tune on, the hour of its last outcome, and an hour in
            which pods fill the offers.
        price: see PRICE.
        past: what is learnt from.
    """

    nodes: int = 16
    requested: float = 0.49
    hours: float = 6.0
    price: float = PRICE
    past: Past = field(
        default_factory=lambda: Past(nodes=12, hours=12.0, interval_s=300.0, profile_every_us=21_600_000_000)
    )


@dataclass(frozen=True)
class Filled:
    """All methods on one seed.

    Args:
        law: name.
        seed: draws everything.
        outcomes: by method and scale, where pods of all apps always wait: as one starts, one of its app joins.
        in_turn: the same where one of any app joins: those that are left standing fill the queue, so that in the end
            pods of all apps run about as often.
        ratio: use over request of latency-sensitive apps.
        beyond: container-intervals that use more than requested, and all.
        n: that N-sigma was tuned to.
        sigma_hours: of the past that it looks at.
        exceeded: share of forecasts exceeded, by method.
        used: share of the cluster's cores that latency-sensitive containers use.
    """

    law: str
    seed: int
    outcomes: Mapping[Key, Outcome]
    in_turn: Mapping[Key, Outcome]
    ratio: Floats
    beyond: tuple[int, int]
    n: float
    sigma_hours: int
    exceeded: Mapping[str, float]
    used: float


def filled(law: str, seed: int, plan: OfferPlan) -> Filled:
    """Learn from a history, record a tape, and fill every method's offers on it.

    Args:
        law: a name in ingest.simulator.laws.LAWS.
        seed: draws apps, history, tape, queue and lives; the same for every method.
        plan: how much.

    Returns:
        All outcomes. Nothing of the truth goes into an offer or a choice.

    Raises:
        ModelsError: the history says too little to train on.

    Source: ours, docs/backtest.md.
    """
    world = offered_world(law, seed)
    hours = (TRAINED + 1 + FILLED_OVER) * INTERVAL_S / 3600 + plan.hours
    tape = recorded(world, nodes=plan.nodes, requested=plan.requested, hours=hours, seed=seed)
    use = node_use(tape, plan.nodes)
    offers = offers_of(use, fit_until=TRAINED)
    with tempfile.TemporaryDirectory(prefix="cohabit-headroom-") as folder:
        learnt = learnt_history(world, plan.past, Path(folder), seed)
        aware = Aware(scorers_of(learnt, world.best_effort), plan.price)
        outcomes, in_turn = (
            _outcomes(world, tape[TRAINED:], offers, aware, partial(_queue, world, seed, same_app=same_app))
            for same_app in (True, False)
        )
    ratio = drawn_ratios(BUILT_IN_APPS, np.random.default_rng([seed, 40]))[~world.best_effort]
    beyond = beyond_requests(tape, world)
    used = float(use.mean())
    return Filled(law, seed, outcomes, in_turn, ratio, beyond, offers.n, offers.hours, offers.exceeded, used)


def _queue(world: World, seed: int, *, same_app: bool) -> Queue:
    """The same for every method."""
    return Queue(world, WAITING, same_app=same_app, rng=np.random.default_rng([seed, 42]))


def _outcomes(
    world: World, tape: tuple[Stretch, ...], offers: Offers, aware: Chooser, queue: Callable[[], Queue]
) -> dict[Key, Outcome]:
    """Every method; others also with less than they offer."""

    def run(cores: Floats, chooser: Chooser) -> Outcome:
        judged, rng = cores[:, -len(tape) :], np.random.default_rng(0)
        return run_best_effort(world, tape, judged, chooser, queue=queue(), rng=rng)

    found = {(NONE, 1.0): run(np.zeros_like(offers.cores[OURS]), most_room)}
    found[OURS, 1.0] = run(offers.cores[OURS], aware)
    found[OFFERS_ALONE, 1.0] = run(offers.cores[OURS], most_room)
    others = [(name, scale) for name in (BATCH_USAGE, N_SIGMA) for scale in SCALES]
    return found | {(name, scale): run(scale * offers.cores[name], most_room) for name, scale in others}
