"""Tianchi plan: submissions of Alibaba's scheduling contest, read, carried out step by step, and refused with a reason.

Shares nothing with the engine: who checks must not repeat its mistakes.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from advisor.optimizer.problem import NOWHERE, Floats, Ints
from benchmarks.reassign.errors import UnusableFile
from benchmarks.reassign.tianchi import KNEE, ROUNDS, TIMES, Contest, Row, rows_of

TOLERANCE = 1e-9
"""What may be used beyond a capacity."""
STEEPEST = 20.0
"""Above the knee, beyond which what no legal machine has costs no more, so that it is a number."""
HOMELESS = 1e9
"""Cost of an instance that is nowhere."""


@dataclass(frozen=True)
class Step:
    """A line: an instance goes to a machine, in a round (0 without rounds)."""

    round: int
    container: int
    node: int


def write_plan(path: Path, contest: Contest, steps: Sequence[Step]) -> None:
    """Write steps as the contest's rules ask for them."""
    rounds = contest.rules == "semifinal"
    lines = [f"{contest.instances[step.container]},{contest.machines[step.node]}\n" for step in steps]
    if rounds:
        lines = [f"{step.round},{line}" for step, line in zip(steps, lines, strict=True)]
    path.write_text("".join(lines))


def read_plan(path: Path, contest: Contest) -> list[Step]:
    """Steps of a file.

    Raises:
        UnusableFile: a line is not of the format, or names what there is not.
    """
    instances = {name: code for code, name in enumerate(contest.instances)}
    machines = {name: code for code, name in enumerate(contest.machines)}
    first = int(contest.rules == "semifinal")
    steps = list[Step]()
    for row in rows_of(path, 2 + first, f" by the rules of the {contest.rules}"):
        number = _round(row, steps[-1].round if steps else 1) if first else 0
        steps.append(Step(number, row.code(first, instances, "instance"), row.code(first + 1, machines, "machine")))
    return steps


def _round(row: Row, before: int) -> int:
    """The round of a line, not before that of the line above."""
    word = row.words[0]
    if word not in {str(number) for number in range(before, ROUNDS + 1)}:
        raise row.unusable(f"round {word!r}, which is not one of {before} to {ROUNDS}")
    return int(word)


def carried_out(path: Path, contest: Contest, steps: Sequence[Step]) -> Ints:
    """(k,) where everybody is after all steps.

    Raises:
        UnusableFile: a step breaks a rule, or somebody is nowhere in the end; with the line and why.
    """
    machines, gone = Machines(contest, contest.problem.start), list[tuple[int, int]]()
    present, moved = 1, set[int]()
    for line, step in enumerate(steps, 1):
        if step.round > present:
            machines.leave_all(gone)
            present, gone, moved = step.round, [], set()
        name = contest.instances[step.container]
        if step.round and step.container in moved:
            raise UnusableFile(path, line, f"instance {name} moves twice in round {step.round}")
        moved.add(step.container)
        source = int(machines.place[step.container])
        if step.round == 0:
            machines.leave_all([(step.container, source)])
        elif source == step.node:
            raise UnusableFile(path, line, f"instance {name} is on that machine already")
        else:
            gone.append((step.container, source))
        reason = machines.refusal(step.container, step.node)
        if reason:
            raise UnusableFile(path, line, f"{name} cannot go to {contest.machines[step.node]}: {reason}")
        machines.enter(step.container, step.node)
    machines.leave_all(gone)
    nowhere = np.flatnonzero(machines.place == NOWHERE)
    if len(nowhere):
        first = contest.instances[nowhere[0]]
        reason = f"after the last line {len(nowhere)} instances have no machine, among them {first}"
        raise UnusableFile(path, max(len(steps), 1), reason)
    return machines.place


@dataclass
class Machines:
    """What is used of each machine, and by how many instances of each app."""

    contest: Contest
    place: Ints
    used: Floats = field(init=False)

    def __post_init__(self) -> None:
        """Put everybody where they are, legal or not."""
        problem = self.contest.problem
        self.place, self.used = self.place.copy(), np.zeros(problem.capacity.shape)
        self._apps = [Counter[int]() for _ in self.contest.machines]
        self._most: dict[int, dict[int, int]] = {}
        self._most_beside: dict[int, dict[int, int]] = {}
        for (first, second), most in zip(problem.limits.pair.tolist(), problem.limits.most.tolist(), strict=True):
            for table, one, other in ((self._most, first, second), (self._most_beside, second, first)):
                limits = table.setdefault(one, {})
                limits[other] = min(most, limits.get(other, most))
        for container in np.flatnonzero(self.place != NOWHERE).tolist():
            self.enter(container, int(self.place[container]))

    def refusal(self, container: int, node: int) -> str:
        """Why an instance cannot go to a machine; nothing where it can."""
        problem, apps = self.contest.problem, self._apps[node]
        over = self.used[node] + problem.use[container] - problem.capacity[node]
        if (over > TOLERANCE).any():
            return f"{over.max():g} too much of column {int(over.argmax())}"
        app = int(problem.app[container])
        if apps[app] + 1 > problem.limits.alike[app]:
            return f"{apps[app] + 1} of the same app"
        for other, most in self._most.get(app, {}).items():
            if apps[other] > most:
                return f"{apps[other]} of an app of which {most} may be beside it"
        for other, most in self._most_beside.get(app, {}).items():
            if apps[other] and apps[app] + 1 > most:
                return f"{apps[app] + 1} of its app beside one that bears {most}"
        return ""

    def broken(self) -> int:
        """Machines that have less than is used of them, or hold instances that may not be together."""
        excess: Floats = (self.used - self.contest.problem.capacity).max(axis=1)
        return sum(excess[node] > TOLERANCE or self._conflicts(apps) for node, apps in enumerate(self._apps))

    def _conflicts(self, apps: Counter[int]) -> bool:
        present = {app: number for app, number in apps.items() if number}
        alike = self.contest.problem.limits.alike
        return any(number > alike[app] for app, number in present.items()) or any(
            present.get(other, 0) > most for app in present for other, most in self._most.get(app, {}).items()
        )

    def enter(self, container: int, node: int) -> None:
        """An instance is created on a machine."""
        self.used[node] += self.contest.problem.use[container]
        self._apps[node][int(self.contest.problem.app[container])] += 1
        self.place[container] = node

    def leave_all(self, gone: Sequence[tuple[int, int]]) -> None:
        """Instances go from the machines they were on."""
        for container, node in gone:
            if node != NOWHERE:
                self.used[node] -= self.contest.problem.use[container]
                self._apps[node][int(self.contest.problem.app[container])] -= 1


def cost_of(contest: Contest, place: Ints) -> float:
    """The contest's cost: of each machine in use the mean over times of 1 + w (exp(max(0, share - 0.5)) - 1)."""
    problem, total = contest.problem, 0.0
    for node in np.unique(place[place != NOWHERE]).tolist():
        here = place == node
        weight = 10.0 if contest.rules == "preliminary" else 1.0 + here.sum()
        share = problem.use[here, :TIMES].sum(axis=0) / problem.capacity[node, :TIMES]
        total += float(np.mean(1.0 + weight * np.expm1(np.clip(share - KNEE, 0.0, STEEPEST))))
    return total + HOMELESS * int((place == NOWHERE).sum())
