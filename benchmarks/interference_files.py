"""Interference files: measured windows or pairs of any source as arrays, or a word about what is wrong with them."""

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
LARGEST = 1e30
"""Squares of larger numbers overflow."""


class UnusableFile(SystemExit):
    """A file that cannot be judged; its text says why and what to do."""


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
        UnusableFile: a column is missing, the label is not positive, or there is too little to learn from.
    """
    table = _read(arguments.file)
    named = [arguments.label, arguments.group, *([arguments.time] if arguments.time else [])]
    _need(table, [*named, *arguments.drop], arguments.file)
    label = _positive(table[arguments.label], arguments.label)
    if arguments.time:
        order = np.argsort(_numbers(table[arguments.time], arguments.time), kind="stable")
        table, label = table.iloc[order].reset_index(drop=True), label[order]
    left = table.drop(columns=[*{*named, *arguments.drop}, *(["split"] if "split" in table else [])])
    numbers = left.select_dtypes(["number", "bool"]).replace([np.inf, -np.inf], np.nan)
    if not numbers.shape[1]:
        raise UnusableFile(f"{arguments.file}: no numeric column is left to learn from; drop fewer columns")
    _refuse_huge(numbers)
    group, names = pd.factorize(_filled(table[arguments.group], arguments.group), sort=True)
    held = _split(table, arguments.file)
    if held is None and arguments.time:
        held = np.arange(len(table)) >= round(len(table) * (1 - TEST_SHARE))
    return Windows(
        features=numbers.to_numpy(np.float64),
        names=tuple(map(str, numbers.columns)),
        log_label=np.log(label),
        group=group.astype(np.int64),
        group_names=tuple(map(str, names)),
        held=held,
        in_time=bool(arguments.time),
    )


def read_pairs(arguments: Namespace) -> PairTable:
    """Rows of --file: victim, aggressor, slowdown, perhaps platform and split; --alone gives workloads' own numbers.

    Raises:
        UnusableFile: a column is missing, a slowdown is not positive, or there is too little to learn from.
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


def _read(path: Path, at_least: int = FEWEST_ROWS) -> pd.DataFrame:
    try:
        table = pd.read_csv(path)
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
    return table.set_index(table["workload"].astype(str)).select_dtypes("number")


def _need(table: pd.DataFrame, columns: list[str], path: Path) -> None:
    missing = [name for name in columns if name not in table]
    if missing:
        raise UnusableFile(f"{path} has no column {missing[0]!r}; it has {', '.join(map(str, table.columns[:12]))}")


def _positive(column: pd.Series, name: str) -> Floats:
    values: Floats = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
    _refuse(column, name, ~(np.isfinite(values) & (values > 0)), "is not a number above zero")
    return values


def _numbers(column: pd.Series, name: str) -> Floats:
    values: Floats = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
    _refuse(column, name, ~np.isfinite(values), "is not a number to sort by")
    return values


def _filled(column: pd.Series, name: str) -> pd.Series:
    _refuse(column, name, column.isna().to_numpy(), "is empty; every row needs one")
    return column.astype(str)


def _refuse_huge(numbers: pd.DataFrame) -> None:
    for name in numbers:
        _refuse(numbers[name], str(name), (numbers[name].abs() > LARGEST).to_numpy(), "is too large to be measured")


def _refuse(column: pd.Series, name: str, bad: Flags, why: str) -> None:
    """Refuse the file by its first bad row, counted from 1 below the heading."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise UnusableFile(f"column {name!r}, row {row + 1}: {column.iloc[row]} {why}")


def _split(table: pd.DataFrame, path: Path) -> Flags | None:
    if "split" not in table:
        return None
    held: Flags = (table["split"] == "test").to_numpy()
    if not (held | (table["split"] == "train").to_numpy()).all():
        raise UnusableFile(f"{path}: column 'split' holds something other than 'train' and 'test'")
    if held.all() or not held.any() or (~held).sum() < FEWEST_ROWS:
        raise UnusableFile(f"{path}: 'split' leaves nothing to judge, or fewer than {FEWEST_ROWS} rows to learn from")
    return held
