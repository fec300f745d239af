"""Resident tape: latency-sensitive containers of a cluster, interval by interval, placed without any best-effort pod.

Kernel. What they use does not depend on their neighbours in the simulator, so that one tape serves every policy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cohabit.backtest.closed_loop import measured_in, run
from cohabit.backtest.policies import DEFAULT
from cohabit.backtest.sight import CAPACITY, CPU
from cohabit.backtest.trace import drawn_trace
from cohabit.backtest.world import World, platforms_of
from ingest.simulator.law import Floats, Ints
from ingest.simulator.simulated_cluster import Records, State, Truth

INTERVAL_S = 300.0
"""Of forecasts, see models.headroom.peak_features."""


@dataclass(frozen=True)
class Stretch:
    """Latency-sensitive containers in one interval.

    Args:
        time_s: its end, seconds since 1970.
        number: (m,) of each, in order of birth.
        node: (m,) of each.
        app: (m,) of each.
        use: (m, resources) in absolute units, NaN where not measured.
    """

    time_s: float
    number: Ints
    node: Ints
    app: Ints
    use: Floats


def recorded(world: World, *, nodes: int, requested: float, hours: float, seed: int) -> tuple[Stretch, ...]:
    """Let the default policy place latency-sensitive containers, and keep what was measured.

    Args:
        world: apps, requests and the law.
        nodes: of the cluster.
        requested: share of it that they request, in (0, 1).
        hours: how long.
        seed: draws who comes and goes, and noise; no node fails.

    Returns:
        One stretch per interval.

    Raises:
        Nothing.

    Source: ours, docs/backtest.md.
    """
    rng = np.random.default_rng([seed, 41])
    alone = replace(world, request=np.where(world.best_effort[:, None], np.inf, world.request))
    drawn = drawn_trace(alone, nodes=nodes, requested=requested, hours=hours, interval_s=INTERVAL_S, rng=rng)
    trace = replace(drawn, moments=tuple(replace(moment, fails=()) for moment in drawn.moments))
    tape = list[Stretch]()

    def keep(_: State, records: Records, __: Truth) -> None:
        seen = measured_in(records)
        number = np.array([int(c.uid[1:]) for c in records.containers], np.int64)
        tape.append(Stretch(records.time_s, number, seen.node, seen.app, seen.use))

    run(world, trace, nodes, DEFAULT, rng=rng, observe=keep)
    return tuple(tape)


def node_use(tape: Sequence[Stretch], nodes: int) -> Floats:
    """(n, t) share of each node's cores that is used, by interval."""
    cores = CAPACITY[platforms_of(nodes)][:, CPU]
    sums = [np.bincount(one.node, np.nan_to_num(one.use[:, CPU]), minlength=nodes) for one in tape]
    return np.asarray(np.column_stack(sums) / cores[:, None])


def beyond_requests(tape: Sequence[Stretch], world: World) -> tuple[int, int]:
    """Container-intervals that use more cores than requested, and all."""
    above: list[NDArray[np.bool_]] = [one.use[:, CPU] > world.request[one.app, 0] for one in tape]
    return sum(int(some.sum()) for some in above), sum(len(some) for some in above)
