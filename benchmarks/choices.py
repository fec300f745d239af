"""Choices: newcomers with a hundred nodes to choose from, as serving would describe them, and what the law says."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.contention.co_runner_effects import Company, Victims, company_of, power_sums, roots
from features.contention.node_state import capacities
from features.contention.pressure import Members
from features.profiles.cold_start_prior import expected_of_new
from features.schema.catalog import NAMES, PRESSURES, RAW_NAMES, RESOURCES, SENSITIVITIES
from features.training.model_input import node_matrix, raw_features
from features.training.residents import described
from features.training.rows import joining_pressure
from ingest.lake.tables import Lake
from ingest.simulator.law import PLATFORMS, counters
from ingest.simulator.messages import app_name, team_name
from ingest.simulator.simulate import Plan, built_in
from ingest.simulator.simulated_cluster import DAY_S, load_at

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CANDIDATES = 100
CROWDING = {"": (0.1, 1.9), "_busy": (0.9, 1.1)}
"""Containers on a candidate beside the plan's average, by suffix of the figure: from empty to crowded as simulated, or
all nodes about as crowded, so that nothing but the mix tells them apart."""


@dataclass(frozen=True)
class Together:
    """What the residents of candidates do to newcomers, see features.contention.co_runner_effects.

    Args:
        company: the residents, app by app.
        app: (n,) the newcomer.
    """

    company: Company
    app: Ints

    def harm(self, described: Floats) -> Floats:
        """(n, orders) to newcomers of whom the first columns of (n, k) tell the sensitivities."""
        none = np.zeros((len(self.app), len(NAMES)))
        return roots(
            power_sums(Victims(np.arange(len(self.app)), self.app, described[:, : len(NAMES)], none), self.company)
        )


@dataclass(frozen=True)
class Choices:
    """Decisions with CANDIDATES nodes each, rows of a decision together.

    Args:
        decision: (n,) which decision each candidate belongs to.
        app: (n,) the newcomer, a number of the simulator.
        raw: (n, raw features) as known at the decision.
        log_slowdown: (n,) what the law says would become of the newcomer there.
        expected: (n, expected columns) what would be expected of the newcomer's app, had it never run.
        expected_of_any: the same did nobody know any team.
        together: what residents do together to who has such sensitivities.
    """

    decision: Ints
    app: Ints
    raw: Floats
    log_slowdown: Floats
    expected: Floats
    expected_of_any: Floats
    together: "Together"

    def harm(self) -> Floats:
        """(n, orders) what the residents do together to a newcomer as it is known."""
        return self.together.harm(self.raw[:, RAW_NAMES.index(SENSITIVITIES[0]) :])

    def scores(self) -> dict[str, Floats]:
        """What schedulers without a model go by, (n,) each, lower is better; `random` cannot tell nodes apart."""
        pressure = np.nan_to_num(self.raw[:, [RAW_NAMES.index(name) for name in PRESSURES]])
        return {
            "sum_of_pressure": pressure.sum(axis=1),
            "least_cpu": pressure[:, PRESSURES.index("pressure_cpu")],
            "random": np.zeros(len(self.raw)),
        }


def draw_choices(
    lake: Lake, plan: Plan, apps: Ints, *, crowding: tuple[float, float], count: int, rng: np.random.Generator
) -> Choices:
    """Random newcomers, each with nodes to choose from that hold random apps of the plan.

    Args:
        lake: holds the plan's nodes and profiles.
        plan: what was simulated; its law is what is true.
        apps: apps of which newcomers are drawn.
        crowding: least and most containers on a node beside the plan's average.
        count: how many decisions.
        rng: draws newcomers, times, nodes, residents and the noise of their counters.

    Returns:
        count * CANDIDATES rows. A profile that is not known is NaN.
    """
    law, best_effort = built_in(plan)
    n = count * CANDIDATES
    decision = np.repeat(np.arange(count), CANDIDATES)
    victim, time_s = rng.choice(apps, count)[decision], rng.uniform(0, DAY_S, count)[decision]
    platform = rng.integers(len(PLATFORMS), size=n)
    size = np.round(plan.per_node * rng.uniform(*crowding, n)).astype(np.int64)
    group = np.repeat(np.arange(n), size)
    beside = rng.integers(plan.apps, size=len(group))
    load = load_at(beside, time_s[group])
    neighbours = np.zeros((n, plan.apps))
    np.add.at(neighbours, (group, beside), load)
    truth = law.slowdown(victim, neighbours, load_at(victim, time_s), platform)
    where = nodes_of(lake, platform)
    shown = counters(law.apps, beside, load, slowdown=np.ones(len(group)), platform=platform[group], rng=rng)
    home = members_of(group, shown, capacities(where)[group], np.array(best_effort)[beside])
    pressure = joining_pressure(home, np.arange(n), capacities(where))
    raw = raw_features(pressure, profiles_of(lake, where, victim), node_matrix(where))
    profiles = lake.read("profiles")
    keys, newest = keys_of(where, victim), np.full(n, 2**62)
    kin = expected_of_new(keys, newest, profiles)
    anybody = expected_of_new(without_teams(keys), newest, without_teams(profiles))
    together = Together(company_of(home.use / home.capacity, group, beside, n), victim)
    return Choices(decision, victim, raw, np.log(truth), kin, anybody, together)


def nodes_of(lake: Lake, platform: Ints) -> pa.Table:
    """(n,) a node of each platform."""
    nodes = lake.read("nodes")
    one_of = [pc.index(nodes["platform"], p.name).as_py() for p in PLATFORMS]
    return nodes.take(pa.array(np.array(one_of)[platform]))


def members_of(group: Ints, shown: dict[str, Floats], capacity: Floats, best_effort: NDArray[np.bool_]) -> Members:
    """Containers whose counters show so much, by group of neighbours; (n,) and (n, resources) capacities."""
    unknown = np.full(len(group), np.nan)
    return Members(
        group=group,
        use=np.column_stack([np.sum([shown.get(c, unknown) for c in r.usage], axis=0) for r in RESOURCES]),
        capacity=capacity,
        best_effort=best_effort,
        cpuset=[None] * len(group),
    )


def profiles_of(lake: Lake, where: pa.Table, app: Ints) -> Floats:
    """(n, profile columns) what each newcomer's app is like on its candidate's platform."""
    keys = keys_of(where, app)
    return described(keys, np.full(len(app), 2**62), lake.read("profiles"))


def keys_of(where: pa.Table, app: Ints) -> pa.Table:
    """(n,) cluster, app, team and platform of newcomers on nodes."""
    names = {"app": [app_name(a) for a in app.tolist()], "team": [team_name(a) for a in app.tolist()]}
    return pa.table({"cluster": where["cluster"], **names, "platform": where["platform"]})


def without_teams(rows: pa.Table) -> pa.Table:
    """The same rows, of which nobody told the team."""
    return rows.set_column(rows.column_names.index("team"), "team", pa.nulls(rows.num_rows, pa.string()))
