"""Our choice on what the product learnt: within the offer and the queue, and less harmful than the most room."""

import numpy as np
import pytest

from benchmarks.best_effort.aware_chooser import Aware
from benchmarks.best_effort.best_effort_loop import Chooser, Outcome, Queue, View, most_room, run_best_effort
from benchmarks.best_effort.resident_tape import recorded
from benchmarks.best_effort.use_ratios import offered_world
from cohabit.backtest.advice import Scorers, scorers_of
from cohabit.backtest.history import Past, learnt_history
from cohabit.backtest.sight import CAPACITY, CPU, Measured
from cohabit.backtest.world import World, platforms_of

pytestmark = pytest.mark.long

NODES = 6
WORLD = offered_world("threshold", 3)


@pytest.fixture(scope="module")
def scorers(tmp_path_factory: pytest.TempPathFactory) -> Scorers:
    past = Past(nodes=9, hours=4.0, interval_s=300.0)
    return scorers_of(learnt_history(WORLD, past, tmp_path_factory.mktemp("history"), 3), WORLD.best_effort)


def view_of(world: World, room: float) -> View:
    """Some residents on each node, no pods, and a queue of two of each app."""
    latency_sensitive = np.flatnonzero(~world.best_effort)
    node = np.repeat(np.arange(NODES), 3)
    app = np.resize(latency_sensitive, len(node))
    unknown = np.full((len(node), CAPACITY.shape[1]), np.nan)
    nothing = Measured(np.zeros(0, np.int64), np.zeros(0, np.int64), unknown[:0])
    queue = np.repeat(np.flatnonzero(world.best_effort), 2)
    there = Measured(node, app, unknown)
    return View(platforms_of(NODES), np.full(NODES, room), there, nothing, world.request[:, 0], queue)


@pytest.mark.parametrize("room", [0.5, 1.0, 3.0, 100.0])
def test_it_places_no_more_than_there_is_room_for_and_each_pod_once(scorers: Scorers, room: float) -> None:
    view = view_of(WORLD, room)

    placed = Aware(scorers, 0.0)(view)

    booked = np.zeros(NODES)
    for position, node in placed:
        booked[node] += view.size[view.queue[position]]
    assert (booked <= room).all()
    assert len({position for position, _ in placed}) == len(placed)
    assert bool(placed) == (room >= view.size[view.queue].min())


def test_where_a_violation_costs_more_fewer_pods_are_placed(scorers: Scorers) -> None:
    cheap, dear, dearest = (len(Aware(scorers, price)(view_of(WORLD, 8.0))) for price in (0.0, 20.0, 1e6))

    assert cheap >= dear >= dearest
    assert cheap > dearest


def test_it_does_more_at_fewer_violations_than_the_most_room(scorers: Scorers) -> None:
    tape = recorded(WORLD, nodes=NODES, requested=0.4, hours=5.0, seed=3)
    offers = np.repeat(0.5 * CAPACITY[platforms_of(NODES)][:, [CPU]], len(tape), axis=1)

    def filled_by(chooser: Chooser) -> Outcome:
        queue = Queue(WORLD, 80, same_app=True, rng=np.random.default_rng(1))
        return run_best_effort(WORLD, tape, offers, chooser, queue=queue, rng=np.random.default_rng(1))

    ours, plain = filled_by(Aware(scorers, 1.0)), filled_by(most_room)

    assert ours.core_hours > plain.core_hours
    assert ours.violation_minutes < plain.violation_minutes
