"""Descent: what the engine is compared with. Shifts of one instance at a time, by the contest's own rules."""

from collections.abc import Callable

import numpy as np

from advisor.optimizer.problem import NOWHERE, Floats
from benchmarks.reassign.tianchi import KNEE, ROUNDS, TIMES, Contest
from benchmarks.reassign.tianchi_plan import HOMELESS, STEEPEST, Machines, Step

LEAST_GAIN = 1e-9
Spent = Callable[[], float]


def first_improvement(contest: Contest, spent: Spent) -> list[Step]:
    """In each round every instance goes to the first machine where that costs less, until nobody does.

    Args:
        contest: by the rules of the semifinal.
        spent: share of the time that is over, 1 when all is.
    """
    field, steps = _Field(contest), list[Step]()
    for number in range(1, ROUNDS + 1):
        moved, gone, found = set[int](), list[tuple[int, int]](), True
        while found and spent() < 1.0:
            found = False
            for container in range(len(contest.instances)):
                if container in moved or spent() >= 1.0:
                    continue
                for node in np.flatnonzero(field.gains(container) > LEAST_GAIN).tolist():
                    if not field.machines.refusal(container, node):
                        gone.append((container, int(field.machines.place[container])))
                        field.go(container, node)
                        steps.append(Step(number, container, node))
                        moved.add(container)
                        found = True
                        break
        field.machines.leave_all(gone)
    return steps


def best_gain(contest: Contest, most: int) -> list[Step]:
    """So many moves, each the one that gains most of those that can be carried out in the round.

    Args:
        contest: by the rules of the semifinal.
        most: how many; who is placed nowhere at the start does not count.
    """
    field, steps, left = _Field(contest), list[Step](), 0
    for number in range(1, ROUNDS + 1):
        open_to, gone = np.ones((len(contest.instances), len(contest.machines)), np.bool_), list[tuple[int, int]]()
        while True:
            gains = np.stack([field.gains(container) for container in range(len(contest.instances))]) * open_to
            gains[(field.machines.place != NOWHERE) & (left >= most)] = 0.0
            container, node = (int(code) for code in np.unravel_index(np.argmax(gains), gains.shape))
            if gains[container, node] <= LEAST_GAIN:
                break
            if field.machines.refusal(container, node):
                open_to[container, node] = False
                continue
            gone.append((container, int(field.machines.place[container])))
            left += contest.problem.start[container] != NOWHERE
            field.go(container, node)
            steps.append(Step(number, container, node))
            open_to[container] = False
        field.machines.leave_all(gone)
    return steps


class _Field:
    """Machines with copies, and what they cost once old instances went."""

    def __init__(self, contest: Contest) -> None:
        problem = contest.problem
        self.machines, self._use = Machines(contest, problem.start), problem.use[:, :TIMES]
        self._capacity = problem.capacity[:, :TIMES]
        self._load = self.machines.used[:, :TIMES].copy()
        home = self.machines.place[self.machines.place != NOWHERE]
        self._count = np.bincount(home, minlength=len(problem.capacity)).astype(np.float64)

    def gains(self, container: int) -> Floats:
        """(n,) what it saves that an instance goes to each machine."""
        source, use = int(self.machines.place[container]), self._use[container]
        now = _cost(self._load, self._capacity, self._count)
        then = _cost(self._load + use, self._capacity, self._count + 1)
        if source == NOWHERE:
            return np.asarray(HOMELESS + now - then)
        left = _cost(self._load[source] - use, self._capacity[source], self._count[source] - 1)
        found = now[source] - left + now - then
        found[source] = 0.0
        return np.asarray(found)

    def go(self, container: int, node: int) -> None:
        """An instance is copied to a machine; the old one goes at the end of the round."""
        source = int(self.machines.place[container])
        if source != NOWHERE:
            self._load[source] -= self._use[container]
            self._count[source] -= 1
        self._load[node] += self._use[container]
        self._count[node] += 1
        self.machines.enter(container, node)


def _cost(load: Floats, capacity: Floats, count: Floats) -> Floats:
    """Of machines by the rules of the semifinal."""
    above = np.clip(load / capacity - KNEE, 0.0, STEEPEST)
    return np.asarray(np.where(count > 0, 1.0 + (1.0 + count) * np.expm1(above).mean(axis=-1), 0.0))
