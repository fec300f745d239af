"""Roadef: instances of the Google ROADEF/EURO Challenge 2012 as problems in columns.

A model file is numbers between white space: resources (transient, weight), machines (neighbourhood, location,
capacities, safety capacities, costs of moves to each machine), services (least locations, services needed), processes
(service, requirements, cost of a move), balances (two resources, target, weight), and the weights of moves. An
assignment is the machine of each process.
"""

from pathlib import Path

import numpy as np

from advisor.optimizer.problem import Balance, Excess, Ints, Limits, Moves, Problem
from benchmarks.reassign.errors import UnusableFile
from benchmarks.reassign.lines import lines_of

MOST = 200_000
"""Machines, services or processes that are read at most."""
LARGEST = 2**53
"""Beyond that numbers are not exact any more."""
DIGITS = 40
"""That a number is read with at most."""


def read_model(model: Path, assignment: Path) -> Problem:
    """A model and where its processes are.

    Raises:
        UnusableFile: a file is not there or not of the format.
    """
    words = _Words(model)
    resources = words.some("resources")
    transient, weight = words.table(resources, 2, "resource").T
    machines = words.some("machines")
    rows = words.table(machines, 2 + 2 * resources + machines, "machine")
    services = words.some("services")
    spread, needs = _services(words, services)
    processes = words.some("processes")
    process = words.table(processes, 2 + resources, "process")
    words.below(process[:, 0], services, "service")
    balances = words.count("balances")
    balance = words.table(balances, 4, "balance")
    words.below(balance[:, :2], resources, "resource")
    process_weight, service_weight, machine_weight = words.table(1, 3, "weights")[0]
    words.end()
    capacity = rows[:, 2 : 2 + resources]
    columns = np.arange(resources)
    return Problem(
        use=process[:, 1:-1].astype(np.float64),
        capacity=capacity.astype(np.float64),
        held=transient.astype(np.bool_),
        app=process[:, 0],
        start=read_assignment(assignment, processes, machines),
        limits=Limits(
            alike=np.ones(services, np.int64),
            location=_codes(rows[:, 1]),
            spread=spread,
            neighbourhood=_codes(rows[:, 0]),
            needs=needs,
        ),
        excess=Excess(
            columns, weight.astype(np.float64), rows[:, 2 + resources : 2 + 2 * resources].astype(np.float64)
        ),
        balance=Balance(balance[:, 0], balance[:, 1], balance[:, 2].astype(float), balance[:, 3].astype(float)),
        moves=Moves(
            container=float(process_weight) * process[:, -1].astype(np.float64),
            most_of_app=float(service_weight),
            site=np.arange(machines),
            trip=float(machine_weight) * rows[:, 2 + 2 * resources :].astype(np.float64),
        ),
    )


def _codes(numbers: Ints) -> Ints:
    """(n,) 0, 1, ... for each number there is."""
    return np.unique(numbers, return_inverse=True)[1]


def _services(words: "_Words", services: int) -> tuple[Ints, Ints]:
    """Least locations of each service, and pairs of services of which the first needs the second."""
    spread, needs = np.zeros(services, np.int64), list[tuple[int, int]]()
    for service in range(services):
        spread[service], count = words.table(1, 2, "service")[0]
        needed = words.table(1, int(count), "service needed")[0]
        words.below(needed, services, "service")
        needs += [(service, other) for other in needed.tolist()]
    return spread, np.array(needs, np.int64).reshape(-1, 2)


def read_assignment(path: Path, processes: int, machines: int) -> Ints:
    """(processes,) machine of each.

    Raises:
        UnusableFile: not one machine for each process.
    """
    words = _Words(path)
    place: Ints = words.table(1, processes, "machine of a process")[0]
    words.end()
    words.below(place, machines, "machine")
    return place


def write_assignment(path: Path, place: Ints) -> None:
    """Write the machine of each process."""
    path.write_text(" ".join(map(str, place.tolist())) + "\n")


class _Words:
    """The numbers of a file, and on which line each is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers, self._lines = _numbers(path)
        self._next = 0

    def count(self, what: str) -> int:
        """The number of something that follows."""
        found = int(self.table(1, 1, f"number of {what}")[0, 0])
        if found > MOST:
            raise UnusableFile(self._path, self._line(), f"{found} {what}, of which at most {MOST} are read")
        return found

    def some(self, what: str) -> int:
        """The number of something of which there has to be one at least."""
        found = self.count(what)
        if not found:
            raise UnusableFile(self._path, self._line(), f"no {what}")
        return found

    def table(self, rows: int, columns: int, what: str) -> Ints:
        """(rows, columns) the numbers that follow."""
        wanted = rows * columns
        if self._next + wanted > len(self._numbers):
            missing = self._next + wanted - len(self._numbers)
            raise UnusableFile(self._path, self._line(), f"the file ends {missing} numbers before the end of: {what}")
        found = self._numbers[self._next : self._next + wanted].reshape(rows, columns)
        self._next += wanted
        return found

    def below(self, found: Ints, end: int, what: str) -> None:
        """Refuse a code of something there is none of, among the numbers just read."""
        if found.size and found.max() >= end:
            raise UnusableFile(self._path, self._line(), f"{what} {found.max()}, where there are {end}")

    def end(self) -> None:
        """Refuse what follows."""
        if self._next < len(self._numbers):
            belong, self._next = self._next, self._next + 1
            told = f"{len(self._numbers)} numbers, where {belong} belong"
            raise UnusableFile(self._path, self._line(), told)

    def _line(self) -> int:
        return int(self._lines[min(self._next, len(self._lines)) - 1]) if len(self._lines) else 1


def _numbers(path: Path) -> tuple[Ints, Ints]:
    """All numbers of a file, and their lines."""
    numbers, lines = list[int](), list[int]()
    for line, text in enumerate(lines_of(path), 1):
        words = text.split()
        odd = [word for word in words if not (word.isascii() and word.isdigit())]
        if odd:
            raise UnusableFile(path, line, f"not a whole number of at least 0: {odd[0][:DIGITS]!r}")
        if any(len(word) > DIGITS or int(word) > LARGEST for word in words):
            raise UnusableFile(path, line, f"a number outside 0 to {LARGEST}")
        found = [int(word) for word in words]
        numbers += found
        lines += [line] * len(found)
    return np.array(numbers, np.int64), np.array(lines, np.int64)
