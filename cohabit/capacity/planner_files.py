"""Planner's files: dated events and pods that waited, as CSV; a bad line is named by file, line and column. An edge."""

import csv
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cohabit.capacity.demand_series import RESOURCES, DemandSeries, hour_of
from cohabit.config.errors import CohabitError
from features.metering.units import HOUR_US
from models.demand.planner_inputs import ANY, NEVER, Event

Floats = NDArray[np.float64]
T = TypeVar("T")

EVENT_COLUMNS = ("at", "until", "class", "pool", "factor", "who", "why")
PENDING_COLUMNS = ("ts", "class", "pool", "resource", "amount")
MAX_BYTES = 1 << 26
MAX_FACTOR = 1000.0


class _Line:
    """One line of a file."""

    def __init__(self, path: Path, number: int, row: dict[str, str | None]) -> None:
        self.path, self.number, self.row = path, number, row

    def text(self, column: str) -> str:
        return (self.row.get(column) or "").strip()

    def value(self, column: str, parse: Callable[[str], T], wanted: str) -> T:
        """What a column says.

        Raises:
            CohabitError: it says nothing that can be read.
        """
        try:
            return parse(self.text(column))
        except ValueError as error:
            raise self.refused(column, wanted) from error

    def refused(self, column: str, wanted: str) -> CohabitError:
        return CohabitError(
            f"{self.path}:{self.number}: column {column}: {self.text(column)!r} is not {wanted}; nothing was forecast"
        )


def read_events(path: Path) -> list[Event]:
    """Events of a file with columns EVENT_COLUMNS; until, class and pool may be empty: it stays, all, all.

    Raises:
        CohabitError: a column is missing, or a line cannot be read.
    """
    return [_event(line) for line in _lines(path, EVENT_COLUMNS)]


def _event(line: _Line) -> Event:
    start = line.value("at", _hour, "a time such as 2026-11-27 or 2026-11-27T08:00Z")
    end = line.value("until", _hour, "a time after `at`, or empty") if line.text("until") else NEVER
    if end <= start:
        raise line.refused("until", "after `at`")
    factor = line.value("factor", _positive, f"a factor above 0 and up to {MAX_FACTOR:g}; 1.5 is half as much again")
    for column in ("who", "why"):
        if not line.text(column):
            raise line.refused(column, "a text: an event is signed and has a reason")
    return Event(
        start, end, line.text("class") or ANY, line.text("pool") or ANY, factor, line.text("who"), line.text("why")
    )


def read_pending(path: Path, known: DemandSeries) -> Floats:
    """(n, t) requests of pods that waited in each hour; NaN outside the hours of the file, where it is not known.

    Args:
        path: file with columns PENDING_COLUMNS, in cores, GPUs or GiB, several rows of an hour add up. An hour between
            its first and last without a row had no pod waiting.
        known: whose series.

    Raises:
        CohabitError: a column is missing, a line cannot be read or names no series, or nothing is in it.
    """
    row_of = {key: row for row, key in enumerate(known.keys)}
    first, hours = int(known.hours_us[0]), len(known.hours_us)
    rows = []
    for line in _lines(path, PENDING_COLUMNS):
        hour = line.value("ts", _hour, "a time such as 2026-11-27T08:00Z")
        amount = line.value("amount", _amount, "an amount of at least 0")
        if line.text("resource") not in RESOURCES:
            raise line.refused("resource", f"one of {', '.join(RESOURCES)}")
        key = (line.text("class"), line.text("pool"), line.text("resource"))
        if key not in row_of:
            raise line.refused("pool", f"a pool that is known with class {key[0]!r} and resource {key[2]!r}")
        rows.append((row_of[key], (hour - first) // HOUR_US, amount))
    if not rows:
        raise CohabitError(f"{path}: has no line: give the hours in which pods waited, at least the first and last")
    found = np.full((len(known.keys), hours), np.nan)
    low, high = (choose(at for _, at, _ in rows) for choose in (min, max))
    found[:, max(0, low) : max(0, high + 1)] = 0.0
    for row, at, amount in rows:
        if 0 <= at < hours:
            found[row, at] += amount
    return found


def _lines(path: Path, columns: Sequence[str]) -> Iterator[_Line]:
    if path.stat().st_size > MAX_BYTES:
        raise CohabitError(f"{path}: has {path.stat().st_size:,} bytes, {MAX_BYTES:,} are the most")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CohabitError(f"{path}: is not UTF-8 at byte {error.start}: save it as UTF-8") from error
    rows = csv.DictReader(StringIO(text, newline=""))
    try:
        if missing := [name for name in columns if name not in (rows.fieldnames or ())]:
            raise CohabitError(f"{path}:1: no column {', '.join(missing)}: the header is {','.join(columns)}")
        for row in rows:
            yield _Line(path, rows.line_num, row)
    except csv.Error as error:
        raise CohabitError(f"{path}:{rows.line_num}: {error}") from error


def _hour(text: str) -> int:
    time = datetime.fromisoformat(text)
    return hour_of(time if time.tzinfo else time.replace(tzinfo=UTC))


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value <= MAX_FACTOR:
        raise ValueError(text)
    return value


def _amount(text: str) -> float:
    value = float(text)
    if not (isfinite(value) and value >= 0):
        raise ValueError(text)
    return value
