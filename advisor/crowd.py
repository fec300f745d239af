"""Crowd: containers on candidate nodes, residents and a newcomer on each, as the model reads them. Kernel."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.newcomers import Newcomer
from advisor.snapshot import Snapshot
from features.placement import raw_features
from features.pressure import Members, pressures
from features.residents import DEMAND, EXPECTED_THERE
from features.training import joining_pressure

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Crowd:
    """Containers on the candidate nodes, candidate after candidate.

    Args:
        members: k of them, see features.pressure; NaN where a use is not known.
        resident: (k,) row in the snapshot, -1 for a newcomer.
        profile: (k, profile columns) of their apps, see features.placement; NaN where not known.
        facts: (k, 4) of their nodes, see features.placement.
    """

    members: Members
    resident: Ints
    profile: Floats
    facts: Floats

    def raw(self, pressure: Floats) -> Floats:
        """(n, raw features) under the given pressures."""
        return raw_features(pressure, self.profile, self.facts)


def home_of(snapshot: Snapshot, nodes: NDArray[np.int32]) -> Crowd:
    """The residents of each candidate."""
    start, counts = snapshot.first[nodes], snapshot.first[nodes + 1] - snapshot.first[nodes]
    group = np.repeat(np.arange(len(nodes)), counts)
    resident = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(start, counts)
    nobody = np.full(len(resident), -1)
    profile, capacity = _profiles(snapshot, snapshot.resident_app[resident], nobody, nodes[group])
    own = snapshot.resident_use[resident]
    members = Members(
        group=group,
        use=np.where(np.isfinite(own), own, profile[:, DEMAND] * capacity),
        capacity=capacity,
        best_effort=snapshot.resident_best_effort[resident],
        cpuset=[snapshot.cpusets[row] for row in resident],
    )
    return Crowd(members, resident, profile, snapshot.node_facts[nodes[group]])


def seats_of(snapshot: Snapshot, newcomer: Newcomer, nodes: NDArray[np.int32]) -> Crowd:
    """The newcomer, once on each candidate."""
    app = np.full(len(nodes), snapshot.app_index.get(newcomer.app, -1))
    team = np.full(len(nodes), -1 if newcomer.team is None else snapshot.team_index.get(newcomer.team, -1))
    profile, capacity = _profiles(snapshot, app, team, nodes)
    members = Members(
        group=np.arange(len(nodes)),
        use=profile[:, DEMAND] * capacity,
        capacity=capacity,
        best_effort=np.full(len(nodes), newcomer.best_effort),
        cpuset=[None] * len(nodes),
    )
    return Crowd(members, np.full(len(nodes), -1), profile, snapshot.node_facts[nodes])


def felt_by_newcomers(snapshot: Snapshot, home: Crowd, nodes: NDArray[np.int32]) -> Floats:
    """(n, pressures) that any newcomer feels on each candidate. Its own use stays out of the sums, as in training."""
    return joining_pressure(home.members, np.arange(len(nodes)), snapshot.node_capacity[nodes])


def joined_pressure(home: Crowd, seats: Crowd) -> Floats:
    """(residents, pressures) on each resident once the newcomer is there."""
    return pressures(_joined(home.members, seats.members))[: len(home.resident)]


def _joined(home: Members, seats: Members) -> Members:
    return Members(
        group=np.concatenate([home.group, seats.group]),
        use=np.concatenate([home.use, seats.use]),
        capacity=np.concatenate([home.capacity, seats.capacity]),
        best_effort=np.concatenate([home.best_effort, seats.best_effort]),
        cpuset=[*home.cpuset, *seats.cpuset],
    )


def _profiles(snapshot: Snapshot, app: Ints, team: Ints, nodes: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Profiles of apps on the nodes' platforms, and capacities.

    Of an app that the snapshot does not know there is what is expected of its team, and 0 windows.
    """
    apps, platforms, width = snapshot.profile.shape
    platform = snapshot.node_platform[nodes]
    profile = np.full((len(app), width), np.nan)
    profile[:, -1] = 0.0
    known = (app >= 0) & (platform >= 0)
    new = app < 0
    profile[new, EXPECTED_THERE] = snapshot.expected(team[new], platform[new])
    profile[known] = snapshot.profile.reshape(apps * platforms, width)[app[known] * platforms + platform[known]]
    return profile, snapshot.node_capacity[nodes]
