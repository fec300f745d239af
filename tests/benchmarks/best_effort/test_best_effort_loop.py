"""Filling offers: what is offered is never exceeded, and the same seed gives the same outcome."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.best_effort.best_effort_loop import Outcome, Queue, View, most_room, run_best_effort
from benchmarks.best_effort.resident_tape import Stretch, recorded
from benchmarks.best_effort.use_ratios import SIZES, offered_world
from cohabit.backtest.world import NODE_CORES, World, platforms_of
from ingest.simulator.law import Floats

NODES, HOURS = 4, 4.0


@cache
def small() -> tuple[World, tuple[Stretch, ...]]:
    world = offered_world("threshold", 3)
    return world, recorded(world, nodes=NODES, requested=0.4, hours=HOURS, seed=3)


class Seen:
    """Most room, and what it saw and chose."""

    def __init__(self) -> None:
        self.views: list[View] = []
        self.placed: list[Sequence[tuple[int, int]]] = []

    def __call__(self, view: View) -> Sequence[tuple[int, int]]:
        self.views.append(view)
        self.placed.append(most_room(view))
        return self.placed[-1]


def drawn_offers(seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    cores = NODE_CORES[platforms_of(NODES)][:, None]
    offers = cores * rng.uniform(0.0, 1.0, (NODES, len(small()[1])))
    offers[rng.random(offers.shape) < 0.05] = np.nan
    return offers


def ran(offers: Floats, seen: Seen, *, seed: int = 0) -> Outcome:
    world, tape = small()
    queue = Queue(world, 40, same_app=seed % 2 == 0, rng=np.random.default_rng(seed))
    return run_best_effort(world, tape, offers, seen, queue=queue, rng=np.random.default_rng(seed))


def booked(view: View) -> Floats:
    return np.bincount(view.pods.node, view.size[view.pods.app], minlength=NODES).astype(np.float64)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000))
def test_pods_are_admitted_only_where_the_offer_covers_what_is_booked_with_them(seed: int) -> None:
    offers, seen = drawn_offers(seed), Seen()

    ran(offers, seen, seed=seed)

    for number, (view, placed) in enumerate(zip(seen.views, seen.placed, strict=True)):
        coming = np.zeros(NODES)
        for position, node in placed:
            coming[node] += view.size[view.queue[position]]
        after = booked(view) + coming
        assert (after[coming > 0] <= offers[coming > 0, number] + 1e-9).all()
        assert view.pods.app.size == 0 or small()[0].best_effort[view.pods.app].all()


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 1000))
def test_what_latency_sensitive_containers_do_does_not_depend_on_offers(seed: int) -> None:
    seen = Seen()

    outcome = ran(drawn_offers(seed), seen, seed=seed)

    tape = small()[1]
    assert [view.residents.node.tolist() for view in seen.views] == [one.node.tolist() for one in tape[1:]]
    assert outcome.ls_minutes == 5 * sum(len(one.node) for one in tape[13:])


def test_an_offer_that_ends_evicts_one_pod_per_node_and_interval() -> None:
    tape, seen = small()[1], Seen()
    offers = np.full((NODES, len(tape)), 16.0)
    offers[:, 24:] = 0.0

    outcome = ran(offers, seen)

    there = np.array([np.bincount(view.pods.node, minlength=NODES) for view in seen.views])
    there[23] += np.bincount([node for _, node in seen.placed[23]], minlength=NODES)
    assert (there[23] > 2).all()
    assert (there[24:26] < there[23:25]).all()
    assert 2 * NODES <= outcome.evictions < there[23].sum()
    assert not any(seen.placed[24:])


def test_without_an_offer_nothing_is_done_and_least_is_in_violation() -> None:
    offers = drawn_offers(1)

    none, some = ran(np.zeros_like(offers), Seen()), ran(offers, Seen())

    assert none.core_hours == none.evictions == 0
    assert none.violation_minutes <= some.violation_minutes
    assert some.core_hours > 0


def test_the_same_seed_gives_the_same_outcome_and_another_one_does_not() -> None:
    first, again, other = (ran(drawn_offers(1), Seen(), seed=seed) for seed in (1, 1, 2))

    assert first.by_app.tolist() == again.by_app.tolist()
    assert first.violation_minutes == again.violation_minutes
    assert first.core_hours != other.core_hours


def test_pods_wait_without_end_of_the_same_app_or_of_any() -> None:
    world = small()[0]
    same, other = (Queue(world, 24, same_app=same_app, rng=np.random.default_rng(0)) for same_app in (True, False))
    before = np.bincount(same.apps(), minlength=world.apps)

    for _ in range(20):
        same.take([0, 5])
        other.take([0, 5])

    assert np.bincount(same.apps(), minlength=world.apps).tolist() == before.tolist()
    assert len(other.apps()) == 24
    assert world.best_effort[other.apps()].all()


def test_best_effort_pods_request_what_covers_their_use_and_others_by_a_ratio() -> None:
    world = offered_world("queueing", 5)
    cores, request = world.law.apps.demand[:, 0], world.request[:, 0]

    assert set(request[world.best_effort].tolist()) <= set(SIZES.tolist())
    assert (request[world.best_effort] >= cores[world.best_effort]).all()
    assert (0.6 * cores <= request).all()
