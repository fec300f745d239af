"""Candidate set: residents and the pending pod on each candidate node, as the model reads them. Kernel."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from features.contention.co_runner_effects import Company, Victims, apart, company_of, joined_sums, power_sums, roots
from features.contention.pressure import Members, pressures
from features.schema.catalog import NAMES, ORDERS
from features.training.model_input import raw_features
from features.training.residents import DEMAND, EXPECTED_THERE
from features.training.rows import joining_pressure

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Crowd:
    """Containers on the candidate nodes, candidate after candidate.

    Args:
        members: k of them, see features.contention.pressure; NaN where a use is not known.
        resident: (k,) row in the snapshot, -1 for a pending pod.
        app: (k,) code of their apps: an unknown app of a resident has its own code, that of a pending pod is -1.
        profile: (k, profile columns) of their apps, see features.training.model_input; NaN where not known.
        facts: (k, 4) of their nodes, see features.training.model_input.
    """

    members: Members
    resident: Ints
    app: Ints
    profile: Floats
    facts: Floats

    def raw(self, pressure: Floats) -> Floats:
        """(n, raw features) under the given pressures."""
        return raw_features(pressure, self.profile, self.facts)

    def share(self) -> Floats:
        """(k, resources) use as a share of the node; NaN where not known."""
        return self.members.use / self.members.capacity

    def company(self, candidates: int) -> Company:
        """The same app by app, on so many candidates."""
        return company_of(self.share(), self.members.group, self.app, candidates)

    def victims(self) -> Victims:
        """The same containers as victims, each included in the sums; for pending pods `own` is their own use."""
        return Victims(self.members.group, self.app, self.profile[:, : len(NAMES)], self.share())

    def outsiders(self) -> Victims:
        """The same containers as victims, none included in the sums."""
        return replace(self.victims(), own=np.zeros(self.members.use.shape))


@dataclass(frozen=True, slots=True)
class Harms:
    """Combined effect of neighbours on residents of candidates and on pending pods, see co_runner_effects.

    Args:
        home: the residents.
        company: the same app by app; None where the caller does not request harms, which are then all unknown.
        sums: (k, orders) sums of powers of the effect on each resident without a pending pod.
    """

    home: Crowd
    company: Company | None
    sums: Floats

    def before(self) -> Floats:
        """(k, orders) effect on residents without a pending pod."""
        return roots(self.sums)

    def after(self, seats: Crowd) -> Floats:
        """(k, orders) effect on residents with a pending pod on each candidate."""
        if self.company is None:
            return self.sums
        return roots(joined_sums(self.sums, self.home.victims(), self.company, seats.victims()))

    def felt(self, seats: Crowd) -> Floats:
        """(n, orders) effect on a pending pod on each candidate; bit-equal to features.training.rows for a label."""
        if self.company is None:
            return np.full((len(seats.app), len(ORDERS)), np.nan)
        return roots(power_sums(seats.outsiders(), self.company))


def harms_of(home: Crowd, candidates: int, *, wanted: bool) -> Harms:
    """Harms on so many candidates; unknown where they are not wanted."""
    if not wanted:
        return Harms(home, None, np.full((len(home.resident), len(ORDERS)), np.nan))
    company = home.company(candidates)
    return Harms(home, company, power_sums(home.victims(), company))


def home_of(snapshot: Snapshot, nodes: NDArray[np.int32]) -> Crowd:
    """The residents of each candidate."""
    start, counts = snapshot.first[nodes], snapshot.first[nodes + 1] - snapshot.first[nodes]
    group = np.repeat(np.arange(len(nodes)), counts)
    resident = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(start, counts)
    no_team = np.full(len(resident), -1)
    profile, capacity = _profiles(snapshot, snapshot.resident_app[resident], no_team, nodes[group])
    own = snapshot.resident_use[resident]
    members = Members(
        group=group,
        use=np.where(np.isfinite(own), own, profile[:, DEMAND] * capacity),
        capacity=capacity,
        best_effort=snapshot.resident_best_effort[resident],
        cpuset=[snapshot.cpusets[row] for row in resident],
    )
    app = apart(snapshot.resident_app[resident], len(snapshot.apps))
    return Crowd(members, resident, app, profile, snapshot.node_facts[nodes[group]])


def seats_of(snapshot: Snapshot, pending_pod: PendingPod, nodes: NDArray[np.int32]) -> Crowd:
    """The pending pod, once on each candidate."""
    app = np.full(len(nodes), snapshot.app_index.get(pending_pod.app, -1))
    team = np.full(len(nodes), -1 if pending_pod.team is None else snapshot.team_index.get(pending_pod.team, -1))
    profile, capacity = _profiles(snapshot, app, team, nodes)
    members = Members(
        group=np.arange(len(nodes)),
        use=profile[:, DEMAND] * capacity,
        capacity=capacity,
        best_effort=np.full(len(nodes), pending_pod.best_effort),
        cpuset=[None] * len(nodes),
    )
    return Crowd(members, np.full(len(nodes), -1), app, profile, snapshot.node_facts[nodes])


def felt_by_pending(snapshot: Snapshot, home: Crowd, nodes: NDArray[np.int32]) -> Floats:
    """(n, pressures) that any pending pod feels on each candidate. Sums exclude its own use, as in training."""
    return joining_pressure(home.members, np.arange(len(nodes)), snapshot.node_capacity[nodes])


def joined_pressure(home: Crowd, seats: Crowd) -> Floats:
    """(residents, pressures) on each resident once the pending pod is there."""
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
