"""Pair files: measured slowdowns of victims co-located with aggressors, and use of workloads alone. An edge."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from cohabit.config.errors import CohabitError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
COLUMNS = ("victim", "aggressor", "slowdown")
MAX_WORKLOADS, MAX_PLATFORMS = 400, 50
SLOWEST = 1e3
"""A larger ratio is no measurement."""
METRIC_WORDS = {
    "llc": ("l3", "llc", "cache occupancy"),
    "memory_bandwidth": ("bandwidth", "bw"),
    "disk": ("disk",),
    "net": ("network", "net"),
}
"""Words by which a column measured alone is known, by resource. Of columns with `mean` only these count."""


@dataclass(frozen=True)
class Pairs:
    """A measured matrix.

    Args:
        name: of the file.
        workloads: (a) names, sorted.
        slowdown: (p, a, a) ratio of victim (row) co-located with aggressor, by platform; NaN where not measured.
        alone: (a, 4) cache, memory bandwidth, disk and network used alone, in units of the file, NaN where missing;
            None without such a file.
    """

    name: str
    workloads: tuple[str, ...]
    slowdown: Floats
    alone: Floats | None

    def measured(self) -> Flags:
        """(a, a) whether a victim was measured co-located with an aggressor, on any platform."""
        return np.asarray(np.isfinite(self.slowdown).max(axis=0), np.bool_)


def read_pairs(path: Path, alone: Path | None = None) -> Pairs:
    """Read victim, aggressor, slowdown and perhaps platform; `alone` has a column workload and numbers.

    Raises:
        CohabitError: a column is missing, a name empty, a slowdown no number above 0, a pair repeated, there is no
            victim, or `alone` has no known column or no workload of the pairs.
    """
    table = _read(path, COLUMNS)
    names = [_words(table, column, path) for column in COLUMNS[:2]]
    slowdown = _numbers(table["slowdown"], path, "slowdown")
    _refuse(path, ~((slowdown > 0) & (slowdown < SLOWEST)), f"slowdown is not a number above 0 and below {SLOWEST:g}")
    platform = _words(table, "platform", path) if "platform" in table.column_names else ["any"] * len(slowdown)
    workloads, platforms = sorted({*names[0], *names[1]}), sorted(set(platform))
    if len(workloads) > MAX_WORKLOADS:
        raise _unusable_law(path, f"it has {len(workloads)} workloads (limit {MAX_WORKLOADS})")
    if len(platforms) > MAX_PLATFORMS:
        raise _unusable_law(path, f"it has {len(platforms)} platforms (limit {MAX_PLATFORMS})")
    place = {name: i for i, name in enumerate(workloads)}
    victim, aggressor = ([place[name] for name in column] for column in names)
    at = ([platforms.index(name) for name in platform], victim, aggressor)
    matrix = np.full((len(platforms), len(workloads), len(workloads)), np.nan)
    keys = np.ravel_multi_index(at, matrix.shape)
    _, first = np.unique(keys, return_index=True)
    _refuse(path, ~np.isin(np.arange(len(keys)), first), "this pair is repeated")
    matrix[at] = slowdown
    return Pairs(path.stem, tuple(workloads), matrix, None if alone is None else _alone(alone, workloads))


def _alone(path: Path, workloads: list[str]) -> Floats:
    table = _read(path, ("workload",))
    names = _words(table, "workload", path)
    _refuse(path, np.array([name in names[:i] for i, name in enumerate(names)]), "this workload is repeated")
    row = {name: i for i, name in enumerate(names)}
    if not row.keys() & set(workloads):
        raise _unusable_law(path, "it contains none of the workloads")
    found = np.full((len(workloads), len(METRIC_WORDS)), np.nan)
    at = np.array([row.get(name, -1) for name in workloads])
    for column, words in enumerate(METRIC_WORDS.values()):
        matches = [name for name in table.column_names if any(word in name.lower() for word in words)]
        chosen = [name for name in matches if "mean" in name.lower()] or matches
        if chosen:
            total = np.sum([_numbers(table[name], path, name) for name in chosen], axis=0)
            found[:, column] = np.append(total, np.nan)[at]
    if not np.isfinite(found).any():
        heard = ", ".join(word for words in METRIC_WORDS.values() for word in words)
        raise _unusable_law(path, f"no column has the use of a shared resource: name one with {heard}")
    return found


def _read(path: Path, needed: tuple[str, ...]) -> pa.Table:
    try:
        table = csv.read_csv(path)
        names = table.column_names  # are decoded only here
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _unusable_law(path, f"invalid CSV: {error}") from error
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise _unusable_law(path, f"it has column {twice[0]!r} twice")
    missing = [name for name in needed if name not in table.column_names]
    if missing:
        raise _unusable_law(path, f"it has no column {missing[0]!r}; it has {', '.join(table.column_names[:12])}")
    if not table.num_rows:
        raise _unusable_law(path, "it has no rows")
    return table


def _words(table: pa.Table, column: str, path: Path) -> list[str]:
    try:
        words: list[str | None] = table[column].cast(pa.string()).to_pylist()
    except pa.ArrowInvalid as error:
        raise _unusable_law(path, f"column {column!r} is not UTF-8: save the file as UTF-8") from error
    _refuse(path, np.array([not word for word in words]), f"{column} is empty")
    return [str(word) for word in words]


def _numbers(column: pa.ChunkedArray, path: Path, name: str) -> Floats:
    try:
        numbers = pc.cast(column.cast(pa.string()) if pa.types.is_boolean(column.type) else column, pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _unusable_law(path, f"column {name!r} contains a value that is not a number ({error})") from error
    return np.asarray(numbers.to_numpy(), np.float64)


def _refuse(path: Path, bad: NDArray[np.bool_], why: str) -> None:
    if bad.any():
        raise _unusable_law(path, f"line {int(np.flatnonzero(bad)[0]) + 2}: {why}")


def _unusable_law(path: Path, reason: str) -> CohabitError:
    return CohabitError(
        f"{path} cannot drive a backtest: {reason}; --law reads a CSV of victim, aggressor, slowdown and optionally "
        "platform, one row per measured pair; --alone reads a CSV of workload and numbers"
    )
