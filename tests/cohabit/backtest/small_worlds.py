"""Small worlds to place containers in."""

from pathlib import Path

import numpy as np

from cohabit.backtest.pair_file import read_pairs
from cohabit.backtest.trace import Trace, drawn_trace
from cohabit.backtest.world import World, built_in_world, pair_world

STRESSED = """victim,aggressor,slowdown
web,cpu,1.4
web,cache,1.9
db,cpu,1.1
db,cache,1.3
ads,cpu,1.8
ads,cache,1.2
"""
"""Three victims that never stood beside each other, and two stressors."""


def stressed(folder: Path, compose: str = "additive") -> World:
    path = folder / "stressed.csv"
    path.write_text(STRESSED)
    return pair_world(read_pairs(path), compose, seed=1)


def threshold_world() -> World:
    return built_in_world("threshold", 3)


def trace_of(world: World, *, nodes: int = 12, hours: float = 6.0, seed: int = 1) -> Trace:
    rng = np.random.default_rng(seed)
    return drawn_trace(world, nodes=nodes, requested=0.7, hours=hours, interval_s=300.0, rng=rng)
