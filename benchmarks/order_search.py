"""Small problems of orders, and their least cost by trying every set of orders on every way to pack.

Written apart from the product: pods are tried on machines one by one, and nothing is shared with patterns or programs.
"""

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import numpy as np

from advisor.purchase.instance import DEVICE, MachineTypes, Shapes, instance
from advisor.purchase.orders.order_problem import Demand, Limits, OrderProblem, OrderTerms, Racks, order_problem

PERIODS, MOST = 3, 3
"""Periods of a drawn problem, and machines that can be had of each of its two SKUs."""
Machine = tuple[int, int]
"""Type and failure domain."""
Lines = tuple[tuple[int, int, int], ...]
"""Type, rack and period of each machine that is ordered."""


def drawn_problem(rng: np.random.Generator) -> OrderProblem:
    """A problem with up to six machines to order, and any of the limits that there are."""
    shapes = Shapes(
        cpu=rng.integers(1, 4, 3) * 1_000,
        memory=rng.integers(1, 9, 3) * 1_024,
        devices=np.array([0, 0, 1]),
        share=np.array([0, rng.integers(3, 8) * 100, 0]),
        pods=np.zeros(3, np.int64),
    )
    types = MachineTypes(
        name=("standing", "plain", "gpu"),
        cpu=np.array([6, rng.integers(4, 11), rng.integers(5, 15)]) * 1_000,
        memory=np.array([12, rng.integers(8, 21), rng.integers(8, 33)]) * 1_024,
        devices=np.array([1, 0, rng.integers(1, 4)]),
        price=np.array([0.0, *rng.permutation(np.arange(5, 25))[:2]]),
        most=np.array([0, MOST, MOST]),
    )
    racks = int(rng.integers(2, 4))
    domains = int(rng.integers(2, racks + 1))
    terms = OrderTerms(
        outlay=types.price * 30,
        lead=np.array([0, *rng.integers(0, 2, 2)]),
        lot=np.array([1, *rng.choice([1, 1, 1, 2], 2)]),
        first=np.array([0, *rng.choice([0, 0, 0, 1], 2)]),
        last=np.array([-1, *rng.choice([1, 2, 2], 2)]),
        power_w=np.array([300, *rng.integers(3, 9, 2) * 100]),
        units=np.array([1, *rng.integers(1, 3, 2)]),
        ports=np.array([1, 1, 2]),
        speed=np.array([0, 0, rng.integers(0, 2)]),
    )
    room = Racks(
        name=tuple(f"r{one}" for one in range(racks)),
        domain=np.arange(racks) % domains,
        domains=tuple(f"zone {one}" for one in range(domains)),
        power_w=rng.integers(12, 40, racks) * 100,
        units=rng.integers(2, 9, racks),
        ports=rng.integers(1, 7, (racks, 2)),
    )
    standing = np.zeros((3, racks, PERIODS), np.int64)
    standing[0, :, :] = rng.integers(0, 2, racks)[:, None]
    if rng.random() < 0.3:
        standing[0, 0, 2:] = 0
    pods = np.sort(rng.integers(0, rng.integers(2, 5), (1, PERIODS, 3)), axis=1)
    pods[:, : int(rng.integers(1, 3))] = 0
    demand = Demand(pods, rng.random(3) < 0.25, rng.choice([1, 1, 2], 3))
    limits = Limits(budget=float(rng.choice([np.inf, np.inf, 2_000.0])), kinds=float(rng.choice([np.inf, np.inf, 1.0])))
    return order_problem(instance(shapes, types), terms, room, standing, demand)._replace(limits=limits)


def least_cost(problem: OrderProblem) -> float | None:
    """Cost of the cheapest set of orders with which every case packs; None where there is no such set."""
    known: dict[object, bool] = {}
    tried = sorted((_cost(problem, lines), lines) for lines in _sets(problem))
    return next((cost for cost, lines in tried if _allowed(problem, lines) and _packs(problem, lines, known)), None)


def _sets(problem: OrderProblem) -> Iterator[Lines]:
    """Every set of orders within terms, lots and the number that can be had."""
    by_type = [list(_sets_of(problem, machine)) for machine in range(len(problem.of.types.name))]
    for parts in product(*by_type):
        yield tuple(line for part in parts for line in part)


def _sets_of(problem: OrderProblem, machine: int) -> Iterator[Lines]:
    terms = problem.terms
    last = min(int(terms.last[machine]), problem.periods - 1 - int(terms.lead[machine]))
    periods = range(int(terms.first[machine]), last + 1)
    one_order = [(machine, rack, period) for period in periods for rack in range(len(problem.racks.name))]
    for machines in range(int(problem.of.types.most[machine]) + 1):
        for lines in combinations_with_replacement(one_order, machines):
            if all(sum(line[2] == period for line in lines) % int(terms.lot[machine]) == 0 for period in periods):
                yield lines


def _cost(problem: OrderProblem, lines: Lines) -> float:
    lead, price = problem.terms.lead, problem.of.types.price
    return float(sum(price[machine] * (problem.periods - period - lead[machine]) for machine, _, period in lines))


def _allowed(problem: OrderProblem, lines: Lines) -> bool:
    """Whether orders stay within the budget, the number of SKUs and what racks have left."""
    terms, racks = problem.terms, problem.racks
    if sum(terms.outlay[machine] for machine, _, _ in lines) > problem.limits.budget:
        return False
    if len({machine for machine, _, _ in lines}) > problem.limits.kinds:
        return False
    for period, rack in product(range(problem.periods), range(len(racks.name))):
        new = [line[0] for line in lines if line[1] == rack and line[2] + terms.lead[line[0]] <= period]
        old = np.repeat(np.arange(len(terms.lead)), problem.standing[:, rack, period]).tolist()
        for need, have in ((terms.power_w, racks.power_w), (terms.units, racks.units)):
            if new and sum(need[one] for one in new + old) > have[rack]:
                return False
        slow_first = sorted(((terms.speed[one], terms.ports[one]) for one in new + old), reverse=True)
        if new and not _ported(slow_first, racks.ports[rack].tolist()):
            return False
    return True


def _ported(machines: list[tuple[int, int]], free: list[int]) -> bool:
    """Whether the fastest machines first take the slowest port that serves them."""
    free = list(free)
    for speed, ports in machines:
        for _ in range(ports):
            serving = [at for at in range(speed, len(free)) if free[at]]
            if not serving:
                return False
            free[serving[-1] if speed else serving[0]] -= 1
    return True


def _packs(problem: OrderProblem, lines: Lines, known: dict[object, bool]) -> bool:
    domain, lead, demand = problem.racks.domain, problem.terms.lead, problem.demand
    for path, period in product(range(len(demand.pods)), range(problem.periods)):
        there = [(m, int(domain[rack])) for m, rack, ordered in lines if ordered + lead[m] <= period]
        for machine, rack in zip(*np.nonzero(problem.standing[:, :, period]), strict=True):
            there += [(int(machine), int(domain[rack]))] * int(problem.standing[machine, rack, period])
        count = demand.pods[path, period]
        for lost in range(-1, len(problem.racks.domains)):
            pods = count if lost < 0 else np.where(demand.protected, count, 0)
            most = -(-count // demand.min_domains) if lost < 0 else count
            left = tuple(sorted(machine for machine in there if machine[1] != lost))
            key = left, tuple(pods.tolist()), tuple(most.tolist())
            if key not in known:
                known[key] = packed_by_hand(problem, list(left), pods.tolist(), most.tolist())
            if not known[key]:
                return False
    return True


def packed_by_hand(problem: OrderProblem, machines: list[Machine], pods: list[int], most: list[int]) -> bool:
    """Whether pods fit on machines, no more of a shape in a domain than it may hold: every way is tried."""
    shapes, types = problem.of.shapes, problem.of.types
    sizes = sorted(
        ((int(shapes.cpu[one]), one) for one, number in enumerate(pods) for _ in range(number)), reverse=True
    )
    free = [[int(types.cpu[m]), int(types.memory[m]), *[DEVICE] * int(types.devices[m])] for m, _ in machines]
    held = {(domain, shape): 0 for _, domain in machines for shape in range(len(pods))}

    def go(at: int) -> bool:
        if at == len(sizes):
            return True
        shape = sizes[at][1]
        seen = set()
        for (machine, domain), room in zip(machines, free, strict=True):
            state = machine, domain, tuple(room[:2]), tuple(sorted(room[2:]))
            if state in seen or held[domain, shape] >= most[shape]:
                continue
            seen.add(state)
            for taken in _ways(problem, shape, machine, room):
                held[domain, shape] += 1
                for column, amount in taken:
                    room[column] -= amount
                done = go(at + 1)
                for column, amount in taken:
                    room[column] += amount
                held[domain, shape] -= 1
                if done:
                    return True
        return False

    return go(0)


def _ways(problem: OrderProblem, shape: int, machine: int, room: list[int]) -> Iterator[list[tuple[int, int]]]:
    """What a pod takes of a machine's columns, on each device that its share may go to."""
    shapes = problem.of.shapes
    cpu, memory, whole, share = (int(column[shape]) for column in shapes[:4])
    if not problem.of.allowed[shape, machine] or room[0] < cpu or room[1] < memory:
        return
    empty = [at for at in range(2, len(room)) if room[at] == DEVICE]
    if len(empty) < whole:
        return
    taken = [(0, cpu), (1, memory), *((at, DEVICE) for at in empty[:whole])]
    if not share:
        yield taken
    for at in range(2, len(room)) if share else ():
        if room[at] >= share:
            yield [*taken, (at, share)]
