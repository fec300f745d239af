"""What orders are planned from: machines that stand, SKUs with their terms, racks, and demand by path and period."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from advisor.purchase.instance import Flags, Floats, Instance, Ints

NOTHING_LOST = -1
"""The domain that a case loses where it loses none."""


class OrderTerms(NamedTuple):
    """How types of machine are ordered, and what one takes of a rack; arrays of length m.

    Args:
        outlay: paid once per machine, which the budget limits; the price of a type is by period instead.
        lead: periods from the order to the first period of service.
        lot: machines are ordered in multiples of it, at least 1; a lot may be divided among racks.
        first: first period in which it can be ordered; below 0 before the first period of demand.
        last: last period in which it can be ordered; below `first` where it cannot.
        power_w: watts per machine.
        units: rack units per machine.
        ports: switch ports per machine.
        speed: index of the slowest port that suffices, into the speeds of the racks.
    """

    outlay: Floats
    lead: Ints
    lot: Ints
    first: Ints
    last: Ints
    power_w: Ints
    units: Ints
    ports: Ints
    speed: Ints


class Racks(NamedTuple):
    """Racks; arrays of length r, of which each belongs to a failure domain.

    Args:
        name: unique.
        domain: (r,) failure domain of each, from 0.
        domains: names of the failure domains.
        power_w: (r,) watts.
        units: (r,) rack units.
        ports: (r, s) switch ports by speed, slowest first; a faster port serves a slower machine.
    """

    name: tuple[str, ...]
    domain: Ints
    domains: tuple[str, ...]
    power_w: Ints
    units: Ints
    ports: Ints


class Demand(NamedTuple):
    """Pods that run at once.

    Args:
        pods: (w, t, n) pods by path, period and shape; one path where demand is certain.
        protected: (n,) whether the shape must still run on what is left after the loss of any one domain.
        min_domains: (n,) a domain holds at most 1/min_domains of the shape's pods, rounded up; 1 for no limit.
    """

    pods: Ints
    protected: Flags
    min_domains: Ints


class Limits(NamedTuple):
    """Limits of all orders together; `np.inf` for none."""

    budget: float = np.inf
    kinds: float = np.inf


class OrderProblem(NamedTuple):
    """Everything that a plan of orders rests on.

    Args:
        of: shapes, whose own counts are not used; types with their price by machine and period; which may run where.
        terms: of the m types.
        racks: r of them.
        standing: (m, r, t) machines that serve without a new order: the fleet and deliveries, less retirements.
        demand: of the n shapes.
        limits: budget, and most SKUs that are ordered.
    """

    of: Instance
    terms: OrderTerms
    racks: Racks
    standing: Ints
    demand: Demand
    limits: Limits = Limits()

    @property
    def periods(self) -> int:
        """Periods of the plan."""
        return int(self.demand.pods.shape[1])


class Case(NamedTuple):
    """Pods that must run at once on the machines of a period, but for those of a lost domain.

    Args:
        path: of the demand.
        period: from 0.
        lost: a domain, or `NOTHING_LOST`.
        pods: (n,) by shape.
    """

    path: int
    period: int
    lost: int
    pods: Ints


def order_problem(of: Instance, terms: OrderTerms, racks: Racks, standing: Ints, demand: Demand) -> OrderProblem:
    """A problem without limits of all orders together, whose parts fit each other.

    Raises:
        ValueError: arrays differ in length, or a lot or a number of domains is below 1.
    """
    m, n, r = len(of.types.name), len(of.shapes.pods), len(racks.name)
    _, periods, shapes = demand.pods.shape
    if standing.shape != (m, r, periods) or shapes != n or any(len(column) != m for column in terms):
        raise ValueError("standing machines, demand and terms differ in types, racks, periods or shapes")
    if len(demand.protected) != n or len(demand.min_domains) != n or racks.ports.shape[0] != r:
        raise ValueError("columns of shapes or of racks differ in length")
    if min(int(terms.lot.min(initial=1)), int(demand.min_domains.min(initial=1))) < 1:
        raise ValueError("a lot and a number of domains are at least 1")
    return OrderProblem(of, terms, racks, standing, demand)


def cases_of(problem: OrderProblem, wanted: list[tuple[int, int]]) -> list[Case]:
    """What must pack of some paths and periods: all pods on all machines, and protected ones without each domain."""
    return [case for path, period in wanted for case in _cases(problem, path, period)]


def _cases(problem: OrderProblem, path: int, period: int) -> Iterator[Case]:
    pods = problem.demand.pods[path, period]
    yield Case(path, period, NOTHING_LOST, pods)
    protected = np.where(problem.demand.protected, pods, 0)
    if protected.any():
        for lost in range(len(problem.racks.domains)):
            yield Case(path, period, lost, protected)


def groups_of(problem: OrderProblem, case: Case) -> list[Ints]:
    """Racks that hold the case: of each domain apart where a spread limits what a domain holds, else all together."""
    domain = problem.racks.domain
    if case.lost != NOTHING_LOST:
        return [np.flatnonzero(domain != case.lost)]
    if (problem.demand.min_domains > 1).any():
        return [np.flatnonzero(domain == one) for one in range(len(problem.racks.domains))]
    return [np.arange(len(domain))]


def most_in_a_domain(demand: Demand, pods: Ints) -> Ints:
    """(n,) pods of each shape that one domain may hold: all of them where the shape has no spread.

    Source: `minDomains` of Kubernetes' topology spread constraints, with a skew that rounds up.
    """
    return np.asarray(-(-pods // demand.min_domains), np.int64)


def room_of_racks(problem: OrderProblem, period: int) -> tuple[Ints, Ints, Ints]:
    """(r,) watts, (r,) units and (r, s) ports, of that speed or faster, that orders may take; 0 where none is left."""
    standing, terms, racks = problem.standing[:, :, period], problem.terms, problem.racks
    fast = racks.ports[:, ::-1].cumsum(axis=1)[:, ::-1]
    needs = np.arange(racks.ports.shape[1]) <= terms.speed[:, None]
    ports = standing.T @ (needs * terms.ports[:, None])
    left = racks.power_w - terms.power_w @ standing, racks.units - terms.units @ standing, fast - ports
    power, units, port = (np.maximum(one, 0).astype(np.int64) for one in left)
    return power, units, port
