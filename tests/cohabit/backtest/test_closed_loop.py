"""Loop and trace: nobody is lost, nothing is overfull, and the same seed gives the same tally."""

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.backtest.closed_loop import VIOLATED, Tally, run
from cohabit.backtest.oracle import oracle
from cohabit.backtest.policies import DEFAULT, FAMILIES
from cohabit.backtest.sight import Floats, Ints, Sight
from cohabit.backtest.trace import Trace
from cohabit.backtest.world import NODE_CORES, NODE_MEMORY, World, platforms_of
from ingest.simulator.simulated_cluster import Records, State, Truth
from tests.cohabit.backtest.small_worlds import stressed, threshold_world, trace_of


class Watched:
    """Keeps what was there after each interval."""

    def __init__(self) -> None:
        self.apps: list[Counter[int]] = []
        self.there: list[list[tuple[int, int]]] = []
        self.slowdown: list[list[float]] = []

    def see(self, state: State, _: Records, truth: Truth) -> None:
        self.apps.append(Counter(c.app for c in state.containers))
        self.there.append([(c.node, c.app) for c in state.containers])
        self.slowdown.append(truth.slowdown.tolist())


def alive(trace: Trace) -> list[Counter[int]]:
    """Jobs of each app by interval, as the trace has them."""
    running: set[int] = set()
    found = []
    for moment in trace.moments:
        running = running - set(moment.ends) | set(moment.starts)
        found.append(Counter(int(trace.app[job]) for job in running))
    return found


def watched(world: World, trace: Trace, nodes: int = 12) -> tuple[Tally, Watched]:
    seen = Watched()
    return run(world, trace, nodes, DEFAULT, rng=np.random.default_rng(1), observe=seen.see), seen


def test_every_job_runs_from_its_start_to_its_end_through_deploys_and_failures() -> None:
    world = threshold_world()
    drawn = trace_of(world, hours=12.0)
    moments = [replace(moment, fails=(0.5,)) if at == 40 else moment for at, moment in enumerate(drawn.moments)]
    trace = replace(drawn, moments=tuple(moments))

    _, seen = watched(world, trace, nodes=14)

    assert seen.apps == alive(trace)
    assert any(moment.restarts for moment in trace.moments)
    assert 7 in {node for node, _ in seen.there[39]}
    assert 7 not in {node for there in seen.there[40:52] for node, _ in there}
    assert 7 in {node for there in seen.there[52:] for node, _ in there}


def test_whoever_fits_nowhere_waits_and_is_told_of() -> None:
    world = threshold_world()

    tally, seen = watched(world, trace_of(world), nodes=6)

    assert tally.pending_minutes > 0
    assert sum(seen.apps[-1].values()) < sum(alive(trace_of(world))[-1].values())


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), policy=st.sampled_from(sorted(FAMILIES)))
def test_no_node_is_ever_asked_for_more_than_it_has(seed: int, policy: str) -> None:
    world, platform = threshold_world(), platforms_of(11)
    seen = Watched()
    chosen = next(iter(FAMILIES[policy].values()))

    trace = trace_of(world, hours=2.0, seed=seed)
    run(world, trace, 11, chosen, rng=np.random.default_rng(seed), observe=seen.see)

    for there in seen.there:
        asked = np.zeros((11, 2))
        for node, app in there:
            asked[node] += world.request[app]
        assert (asked <= np.column_stack([NODE_CORES[platform], NODE_MEMORY[platform]]) + 1e-6).all()


def test_what_was_never_measured_together_never_shares_a_node(tmp_path: Path) -> None:
    world = stressed(tmp_path)

    _, seen = watched(world, trace_of(world))

    for there in seen.there:
        victims = Counter(node for node, app in there if not world.best_effort[app])
        assert max(victims.values()) == 1


def test_the_same_seed_gives_the_same_tally_and_another_one_does_not() -> None:
    world = threshold_world()

    first, again, other = (
        asdict(watched(world, trace_of(world, seed=seed))[0]) | {"slowdowns": None} for seed in (1, 1, 2)
    )

    assert first == again
    assert first != other


def test_violation_minutes_are_those_of_latency_sensitive_containers_after_the_cluster_was_filled() -> None:
    world = threshold_world()
    trace = trace_of(world)

    tally, seen = watched(world, trace)

    counted = range(trace.filling, len(trace.moments))
    violated = sum(
        slow > VIOLATED and not world.best_effort[app]
        for at in counted
        for (_, app), slow in zip(seen.there[at], seen.slowdown[at], strict=True)
    )
    assert tally.violation_minutes == 5 * violated
    assert tally.ls_minutes == 5 * sum(not world.best_effort[app] for at in counted for _, app in seen.there[at])


def test_who_knows_the_law_violates_less_than_who_throws_dice() -> None:
    world = threshold_world()
    trace = trace_of(world)

    def violations(policy: str) -> float:
        chosen = oracle(world) if policy == "oracle" else FAMILIES["random"][""]
        return run(world, trace, 12, chosen, rng=np.random.default_rng(1)).violation_minutes

    assert violations("oracle") < 0.5 * violations("random")


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_a_policy_does_not_care_in_which_order_nodes_are_offered(name: str) -> None:
    seen: list[tuple[Floats, Floats]] = []

    def both_ways(sight: Sight, app: int, nodes: Ints) -> Floats:
        policy = next(iter(FAMILIES[name].values()))
        forward, backward = policy(sight, app, nodes), policy(sight, app, nodes[::-1])[::-1]
        seen.append((forward, backward))
        return forward

    world = threshold_world()
    run(world, trace_of(world, hours=2.0), 12, both_ways, rng=np.random.default_rng(1))

    assert len(seen) > 50
    assert all(np.allclose(forward, backward) for forward, backward in seen)
