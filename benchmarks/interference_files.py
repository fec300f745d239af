"""Interference files: measured windows or pairs of any source as arrays, or a word about what is wrong with them."""

import os
import sys
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
TEST_SHARE = 0.3
FEWEST_ROWS = 20
FEWEST_LEARNT = 10
"""Rows before the boundary of time."""
LARGEST = 1e30
"""Squares of larger numbers overflow."""


class UnusableFile(SystemExit):
    """A file that cannot be judged; its text says why and what to do."""


class UnwritableFile(SystemExit):
    """A file for predictions that cannot be made."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"--predictions {path}: {reason}; nothing was run")


@dataclass(frozen=True)
class Windows:
    """n measured windows.

    Args:
        features: (n, d) numbers; NaN where missing.
        names: (d,) their columns.
        log_label: (n,) natural logarithm of the label.
        group: (n,) codes of what is left out together.
        group_names: by code.
        held: (n,) which rows are judged; None for grouped folds.
        in_time: whether rows are in the order of time, and the last ones held.
    """

    features: Floats
    names: tuple[str, ...]
    log_label: Floats
    group: Ints
    group_names: tuple[str, ...]
    held: Flags | None
    in_time: bool


@dataclass(frozen=True)
class PairTable:
    """n measured pairs of workloads, numbered by `workloads`.

    Args:
        victim: (n,) workloads.
        aggressor: (n,) workloads.
        platform: (n,) platforms, numbered by `platforms`.
        log_slowdown: (n,).
        workloads: names.
        platforms: names.
        profiles: (workloads, p) numbers measured alone; NaN where missing, p is 0 without a file.
        held: (n,) which rows are judged; None for folds of cells.
    """

    victim: Ints
    aggressor: Ints
    platform: Ints
    log_slowdown: Floats
    workloads: tuple[str, ...]
    platforms: tuple[str, ...]
    profiles: Floats
    held: Flags | None


def read_windows(arguments: Namespace) -> Windows:
    """Rows of --file: --label in log, --group for folds, every other number a feature.

    Raises:
        UnusableFile: a column is missing, the label is not positive, a column of numbers has a cell that is none, or
            there is too little to learn from.
    """
    table = _read(arguments.file)
    named = [arguments.label, arguments.group, *([arguments.time] if arguments.time else [])]
    _need(table, [*named, *arguments.drop], arguments.file)
    label = _positive(table[arguments.label], arguments.label)
    group, names = pd.factorize(_filled(table[arguments.group], arguments.group), sort=True)
    left = table.drop(columns=[*{*named, *arguments.drop}, *(["split"] if "split" in table else [])])
    numbers = _numbers_of(left, arguments.file).replace([np.inf, -np.inf], np.nan)
    if not numbers.shape[1]:
        raise UnusableFile(f"{arguments.file}: no numeric column is left to learn from; drop fewer columns")
    _refuse_huge(numbers)
    held, order = _split(table, arguments.file), np.arange(len(table))
    if arguments.time:
        when = _times(table[arguments.time], arguments.time)
        order = np.argsort(when, kind="stable")
        held = when >= _first_judged(when, arguments.time) if held is None else held
    return Windows(
        features=numbers.to_numpy(np.float64)[order],
        names=tuple(map(str, numbers.columns)),
        log_label=np.log(label)[order],
        group=group.astype(np.int64)[order],
        group_names=tuple(map(str, names)),
        held=None if held is None else held[order],
        in_time=bool(arguments.time),
    )


def read_pairs(arguments: Namespace) -> PairTable:
    """Rows of --file: victim, aggressor, slowdown, perhaps platform and split; --alone gives workloads' own numbers.

    Raises:
        UnusableFile: a column is missing, a slowdown is not positive, a column measured alone has a cell that is no
            number among numbers, or there is too little to learn from.
    """
    table = _read(arguments.file)
    _need(table, ["victim", "aggressor", "slowdown"], arguments.file)
    label = _positive(table["slowdown"], "slowdown")
    alone = None if arguments.alone is None else _alone(arguments.alone)
    victim, aggressor = (_filled(table[role], role) for role in ("victim", "aggressor"))
    workloads = sorted({*victim, *aggressor})
    if alone is not None and not alone.index.isin(workloads).any():
        raise UnusableFile(f"{arguments.alone} describes none of the workloads of {arguments.file}")
    place = {name: i for i, name in enumerate(workloads)}
    platform = _filled(table["platform"], "platform") if "platform" in table else pd.Series(["any"] * len(table))
    code, platforms = pd.factorize(platform, sort=True)
    return PairTable(
        victim=victim.map(place).to_numpy(np.int64),
        aggressor=aggressor.map(place).to_numpy(np.int64),
        platform=code.astype(np.int64),
        log_slowdown=np.log(label),
        workloads=tuple(workloads),
        platforms=tuple(map(str, platforms)),
        profiles=np.zeros((len(workloads), 0)) if alone is None else alone.reindex(workloads).to_numpy(np.float64),
        held=_split(table, arguments.file),
    )


def refuse_unwritable(path: Path) -> None:
    """Before hours of work: is there a folder for the predictions, and may they be written there?

    Raises:
        UnwritableFile: no.
    """
    folder = path.parent
    if not folder.is_dir():
        raise UnwritableFile(path, f"there is no folder {folder}; make it first")
    if path.is_dir():
        raise UnwritableFile(path, "that is a folder; name a file")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UnwritableFile(path, "it may not be written; name another")


def _read(path: Path, at_least: int = FEWEST_ROWS) -> pd.DataFrame:
    # in one piece, or a mixed column would have mixed types; pandas' own reader of numbers dies of 1e2147483648
    try:
        table = pd.read_csv(path, low_memory=False, float_precision="round_trip")
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise UnusableFile(f"{path} cannot be read as CSV: {error}") from error
    if len(table) < at_least:
        raise UnusableFile(f"{path} has {len(table)} rows; at least {at_least} are needed")
    return table


def _alone(path: Path) -> pd.DataFrame:
    table = _read(path, at_least=1)
    _need(table, ["workload"], path)
    if table["workload"].duplicated().any():
        raise UnusableFile(f"{path} describes a workload twice; give one row each")
    return _numbers_of(table.drop(columns="workload"), path).set_index(table["workload"].astype(str))


def _need(table: pd.DataFrame, columns: list[str], path: Path) -> None:
    missing = [name for name in columns if name not in table]
    if missing:
        raise UnusableFile(f"{path} has no column {missing[0]!r}; it has {', '.join(map(str, table.columns[:12]))}")


def _positive(column: pd.Series, name: str) -> Floats:
    values = _floats(column)
    _refuse(column, name, ~(np.isfinite(values) & (values > 0)), "is not a number above zero")
    return values


def _floats(column: pd.Series) -> Floats:
    """A column as numbers, NaN where a cell is none; pandas.to_numeric dies of 1e2147483648."""
    if column.dtype != object:
        return np.asarray(column.to_numpy(np.float64))
    return np.array([_float(cell) for cell in column], np.float64)


def _float(cell: object) -> float:
    try:
        return float(cell if not isinstance(cell, str) or (cell.isascii() and "_" not in cell) else "nan")  # type: ignore[arg-type]
    except ValueError:
        return np.nan


def _numbers_of(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The columns of numbers; those of words, some of which may look like numbers, are left out and named.

    Raises:
        UnusableFile: a cell of a column that is mostly numbers is none.
    """
    found = {}
    for name, column in table.items():
        values = pd.Series(_floats(column), index=column.index)
        words = (column.notna() & values.isna()).to_numpy()
        if words.sum() > values.notna().sum():
            _tell(f"{path}: column {name!r} holds words and is left out")
            continue
        _refuse(column, str(name), words, "is no number, as most cells are: mend or empty it, or leave the column out")
        found[name] = values
    return pd.DataFrame(found, index=table.index)


def _first_judged(when: Floats, name: str) -> float:
    """The time from which rows are judged: the change of time that is nearest to the last TEST_SHARE of the rows.

    Raises:
        UnusableFile: the time does not change once there is enough to learn from.
    """
    ordered, wanted = np.sort(when), round(len(when) * (1 - TEST_SHARE))
    changes = np.flatnonzero(np.diff(ordered) > 0) + 1
    changes = changes[changes >= FEWEST_LEARNT]
    if not len(changes):
        raise UnusableFile(f"column {name!r} does not change after its first {FEWEST_LEARNT} rows: nothing is later")
    cut = int(changes[np.argmin(np.abs(changes - wanted))])
    if cut != wanted:
        _tell(f"rows of equal {name!r} stay together: the last {len(when) - cut} of {len(when)} are judged")
    return float(ordered[cut])


def _times(column: pd.Series, name: str) -> Floats:
    values = _floats(column)
    _refuse(column, name, ~np.isfinite(values), "is not a number to sort by")
    return values


def _filled(column: pd.Series, name: str) -> pd.Series:
    _refuse(column, name, column.isna().to_numpy(), "is empty; every row needs one")
    return column.astype(str)


def _refuse_huge(numbers: pd.DataFrame) -> None:
    for name in numbers:
        _refuse(numbers[name], str(name), (numbers[name].abs() > LARGEST).to_numpy(), "is too large to be measured")


def _refuse(column: pd.Series, name: str, bad: Flags, why: str) -> None:
    """Refuse the file by its first bad row; the heading is line 1, blank lines do not count."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise UnusableFile(f"line {row + 2}, column {name!r}: {column.iloc[row]} {why}")


def _split(table: pd.DataFrame, path: Path) -> Flags | None:
    if "split" not in table:
        return None
    held: Flags = (table["split"] == "test").to_numpy()
    if not (held | (table["split"] == "train").to_numpy()).all():
        raise UnusableFile(f"{path}: column 'split' holds something other than 'train' and 'test'")
    if held.all() or not held.any() or (~held).sum() < FEWEST_ROWS:
        raise UnusableFile(f"{path}: 'split' leaves nothing to judge, or fewer than {FEWEST_ROWS} rows to learn from")
    return held


def _tell(what: str) -> None:
    print(what, file=sys.stderr)
