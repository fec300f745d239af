"""Tianchi: instances of Alibaba's scheduling contest of 2018 as problems in columns.

A folder has four files, each perhaps packed with xz: app_resources (app, cpu and memory at 98 times each, divided by
`|`, disk, P, M, PM), machine_resources (machine, cpu, memory, disk, P, M, PM), instance_deploy (instance, app, machine
or nothing) and app_interference (A, B, k: a machine with an A holds at most k of B, and k + 1 where B is A).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Literal

import numpy as np

from advisor.optimizer.problem import NOWHERE, Curve, Floats, Ints, Limits, Problem
from benchmarks.reassign.errors import UnusableFile
from benchmarks.reassign.lines import lines_of

TIMES = 98
COUNTED = 4
"""Disk, P, M and PM."""
COLUMNS = 2 * TIMES + COUNTED
KNEE = 0.5
MOST = 200_000
"""Rows of a file that are read at most."""
LARGEST = 1e15
"""Beyond that sums are not exact any more."""
ROUNDS = 3
"""Of the semifinal."""
Rules = Literal["preliminary", "semifinal"]


@dataclass(frozen=True)
class Contest:
    """An instance of the contest.

    Args:
        problem: in columns.
        instances: name of each container.
        machines: name of each node.
        rules: that plans are carried out by.
    """

    problem: Problem
    instances: tuple[str, ...]
    machines: tuple[str, ...]
    rules: Rules


def read_contest(folder: Path, rules: Rules) -> Contest:
    """An instance and who is where.

    Raises:
        UnusableFile: a file is not there or not of the format.
    """
    apps, use = _apps(folder)
    machines, capacity = _machines(folder)
    instances, app, start = _deployed(folder, apps, machines)
    pair, most, alike = _interference(folder, apps, len(instances))
    problem = Problem(
        use=use[app],
        capacity=capacity,
        held=np.zeros(COLUMNS, np.bool_),
        app=app,
        start=start,
        limits=Limits(alike=alike, pair=pair, most=most),
        curve=_curve(rules),
    )
    return Contest(problem, tuple(instances), tuple(machines), rules)


def _curve(rules: Rules) -> Curve:
    curve = Curve(np.arange(TIMES), knee=KNEE, fixed=10.0, used=1.0)
    return curve if rules == "preliminary" else replace(curve, fixed=1.0, each=1.0)


def _apps(folder: Path) -> tuple[dict[str, int], Floats]:
    """Codes of apps, and (a, c) what a container of each takes."""
    codes, use = dict[str, int](), list[list[float]]()
    for row in _rows(folder, "app_resources", 3 + COUNTED):
        row.add(codes)
        profiles = [row.numbers(column, TIMES) for column in (1, 2)]
        use.append([*profiles[0], *profiles[1], *(row.number(column) for column in range(3, 3 + COUNTED))])
    return codes, np.array(use)


def _machines(folder: Path) -> tuple[dict[str, int], Floats]:
    """Codes of machines, and (n, c) what each has."""
    codes, capacity = dict[str, int](), list[list[float]]()
    for row in _rows(folder, "machine_resources", 3 + COUNTED):
        row.add(codes)
        cpu, memory, *counted = (row.number(column) for column in range(1, 3 + COUNTED))
        if not cpu:
            raise row.unusable("a machine without cpu")
        capacity.append([cpu] * TIMES + [memory] * TIMES + counted)
    return codes, np.array(capacity)


def _deployed(folder: Path, apps: dict[str, int], machines: dict[str, int]) -> tuple[dict[str, int], Ints, Ints]:
    """Codes of containers, and the app and the node of each."""
    codes, app, start = dict[str, int](), list[int](), list[int]()
    for row in _rows(folder, "instance_deploy", 3):
        row.add(codes)
        app.append(row.code(1, apps, "app"))
        start.append(row.code(2, machines, "machine") if row.words[2] else NOWHERE)
    return codes, np.array(app, np.int64), np.array(start, np.int64)


def _interference(folder: Path, apps: dict[str, int], containers: int) -> tuple[Ints, Ints, Ints]:
    """Pairs of apps, how many of the second may be beside one of the first, and how many of each among themselves."""
    pairs, most, alike = list[tuple[int, int]](), list[int](), np.full(len(apps), containers)
    for row in _rows(folder, "app_interference", 3, empty=True):
        first, second = row.code(0, apps, "app"), row.code(1, apps, "app")
        number = row.whole(2)
        if first == second:
            alike[first] = min(alike[first], number + 1)
        else:
            pairs.append((first, second))
            most.append(number)
    return np.array(pairs, np.int64).reshape(-1, 2), np.array(most, np.int64), alike


@dataclass(frozen=True)
class Row:
    """A line of a file."""

    path: Path
    line: int
    words: list[str]

    def unusable(self, reason: str) -> UnusableFile:
        """The error that tells what is wrong with it."""
        return UnusableFile(self.path, self.line, reason)

    def add(self, codes: dict[str, int]) -> None:
        """Give the first word the next code."""
        if not self.words[0] or self.words[0] in codes:
            raise self.unusable(f"{self.words[0] or 'a name that is empty'}, which stands there before")
        codes[self.words[0]] = len(codes)

    def code(self, column: int, codes: dict[str, int], what: str) -> int:
        """Of a name."""
        found = codes.get(self.words[column])
        if found is None:
            raise self.unusable(f"{what} {self.words[column]!r}, which is not known")
        return found

    def number(self, column: int) -> float:
        """At least 0."""
        return self._number(self.words[column])

    def whole(self, column: int) -> int:
        """A whole number, at least 0."""
        found = self.number(column)
        if found != int(found):
            raise self.unusable(f"not a whole number: {self.words[column]!r}")
        return int(found)

    def numbers(self, column: int, wanted: int) -> list[float]:
        """As many as wanted, each at least 0."""
        words = self.words[column].split("|")
        if len(words) != wanted:
            raise self.unusable(f"{len(words)} numbers divided by |, where {wanted} belong")
        return [self._number(word) for word in words]

    def _number(self, word: str) -> float:
        try:
            found = float(word if word.isascii() and "_" not in word else "")
        except ValueError as error:
            raise self.unusable(f"not a number: {word!r}") from error
        if not (isfinite(found) and 0 <= found <= LARGEST):
            raise self.unusable(f"not a number from 0 to {LARGEST:g}: {word!r}")
        return found


def _rows(folder: Path, name: str, columns: int, *, empty: bool = False) -> Iterator[Row]:
    """Lines of a file of the folder."""
    plain = folder / f"{name}.csv"
    packed = folder / f"{name}.csv.xz"
    path = packed if packed.exists() and not plain.exists() else plain
    count = 0
    for row in rows_of(path, columns):
        count += 1
        yield row
    if not count and not empty:
        raise UnusableFile(path, 1, "nothing in it")


def rows_of(path: Path, columns: int, of: str = "") -> Iterator[Row]:
    """Lines of a file, unpacked where it is packed; `of` tells what has so many columns.

    Raises:
        UnusableFile: it is not there, too long, or a line has not as many words as there are columns.
    """
    for line, text in enumerate(lines_of(path), 1):
        row = Row(path, line, [word.strip() for word in text.split(",")])
        if line > MOST:
            raise row.unusable(f"more than {MOST} lines, which are not read")
        if len(row.words) != columns:
            raise row.unusable(f"{len(row.words)} words divided by commas, where {columns} belong{of}")
        yield row
