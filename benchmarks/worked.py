"""Worked: what best-effort containers of a simulated cluster lose by being held back or started anew.

The truth that a remedy's price is judged by. A container works at its resources one after the other, for shares of the
time that nobody measures, so that one held to a share of one resource takes longer for that part alone; and it keeps
what it has done every so often, each app as often as it does, so that a restart costs what was done since.
"""

from dataclasses import dataclass

import numpy as np

from advisor.scoring.score_scale import BE_WEIGHT
from ingest.simulator.law import HIDDEN, PLATFORMS, Apps, Floats, capacities_of

EVEN = 4.0
"""Of the Dirichlet distribution of times: how alike the times of apps are that use the same."""
LEAST_HOURS, MAX_HOURS = 0.5, 8.0
"""Between two times that an app keeps what it has done."""
STARTING_HOURS = 1 / 30
"""Until a container works that was started anew."""


@dataclass(frozen=True)
class Work:
    """How apps work.

    Args:
        time: (apps, hidden resources) share of its time that each needs each resource for; rows sum to 1.
        kept_hours: (apps,) after how much work each keeps what it has done.
    """

    time: Floats
    kept_hours: Floats


def work_of(apps: Apps, seed: int) -> Work:
    """Drawn: a resource takes the more time the more of a node an app uses of it."""
    rng = np.random.default_rng([seed, 43])
    share = apps.demand / capacities_of(PLATFORMS)[0]
    alpha = EVEN * share / share.sum(axis=1, keepdims=True)
    time = np.array([rng.dirichlet(row + 1e-3) for row in alpha])
    return Work(time, np.exp(rng.uniform(np.log(LEAST_HOURS), np.log(MAX_HOURS), len(time))))


def cost_of_throttle(work: Work, app: int, resource: str, kept: float, hours: float) -> float:
    """What a container costs that is held to a share of a resource for so long, as score_scale counts it."""
    longer = float(work.time[app, HIDDEN.index(resource)]) * (1.0 / kept - 1.0)
    return BE_WEIGHT * longer * hours


def cost_of_restart(work: Work, app: int, ran_hours: float) -> float:
    """What it costs to start a container anew that has run for so long."""
    return BE_WEIGHT * (STARTING_HOURS + ran_hours % float(work.kept_hours[app]))
