"""Gangs: placements against the best of all, and reservations under races and kill -9. A line of JSON each.

The last line has the worst value of each figure over all lines. Scenarios are modules, found when they are asked for.
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import NamedTuple

import numpy as np

from benchmarks.runner import TOP, Benchmark, Result

SCENARIOS = {"rack": "gang_rack", "races": "gang_races"}
"""Module of each scenario: its function `lines` measures."""
MORE_IS_BETTER = frozenset({"grants_per_s", "utilisation"})
"""Figures of which the smallest is the worst."""


class Line(NamedTuple):
    """One case of a scenario.

    Args:
        about: what it is, as size or policy.
        figures: what was measured.
    """

    about: Mapping[str, str | float]
    figures: Mapping[str, float]


def worst(lines: list[Line]) -> dict[str, float]:
    """The worst value of each figure."""
    found: dict[str, float] = {}
    for name, value in (pair for line in lines for pair in line.figures.items()):
        pick = min if name in MORE_IS_BETTER else max
        found[name] = pick(found.get(name, value), value)
    return found


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """All scenarios, or those that are named."""
    lines = list[Line]()
    for scenario in arguments.scenario or SCENARIOS:
        measured: Iterator[Line] = import_module(f"benchmarks.{SCENARIOS[scenario]}").lines(arguments, rng)
        for line in measured:
            lines.append(line)
            print(json.dumps({"scenario": scenario, **line.about, **line.figures}), flush=True)
    return {TOP: worst(lines)}


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="one of them; all by default")
    parser.add_argument("--draws", type=int, default=300, help="of each size of gang that is compared with the best")
    parser.add_argument("--nodes", type=int, default=5000, help="of the cluster whose answers are timed")
    parser.add_argument("--asked", type=int, default=100, help="gangs that are timed")
    parser.add_argument("--gangs", type=int, default=500, help="that race")
    parser.add_argument("--kills", type=int, default=20, help="processes that are killed meanwhile")
    parser.add_argument("--store", help="PostgreSQL for the races; a new SQLite file by default")


BENCHMARK = Benchmark("gang", "gangs placed whole, and reserved whole under races", run, 1, _arguments)
