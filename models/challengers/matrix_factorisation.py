"""Challenger tables: apps by what presses on them, filled in by few hidden factors. All say log slowdown."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.schema.catalog import DEMANDS, NAMES, SENSITIVITIES
from models.challengers.pair_model import Cells, PairConfig, describe, fit_pairs
from models.data.dataset import Dataset
from models.training.fit import TrainConfig

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Says = Callable[[Dataset], Floats]
PRESSED = tuple(f"pressure_{name}" for name in NAMES)
PROFILE = (*SENSITIVITIES, *DEMANDS)
LEVELS = 4
"""Number of levels of total pressure."""
SAMPLING = PairConfig(ways=4, warm_up=150, draws=150)
RANK = 2
PULL = 0.02
"""How strongly an app's row is drawn to the common one, as a share of all rows' evidence."""
SMALLEST_RATIO = 0.1


@dataclass(frozen=True)
class Classes:
    """Classes of neighbours: the resource they press on most compared with the median row, and total pressure.

    Args:
        typical: (resources,) median pressure, 1 where there is none.
        edges: (LEVELS - 1,) quantiles of total pressure.
    """

    typical: Floats
    edges: Floats

    def of(self, pressure: Floats) -> Ints:
        """(n, resources) pressures -> (n,) class, below `count`."""
        foremost = (pressure / self.typical).argmax(axis=1)
        found: Ints = foremost * LEVELS + np.searchsorted(self.edges, pressure.sum(axis=1), side="right")
        return found

    @property
    def count(self) -> int:
        """How many classes there can be."""
        return len(self.typical) * LEVELS


def matrix_completion(seen: Dataset, config: TrainConfig) -> Says:
    """Apps by classes of neighbours; apps that were not seen are placed by their profiles.

    The table is filled in at prediction time, since a predicted app must be described together with the others. An app
    that was not seen has one profile for all rows asked about, their mean: early ones profit from later ones.

    Source: Salakhutdinov and Mnih, ICML 2008; with profiles, docs/decisions/0018-pairs.md.
    """
    pressure = _columns(seen, PRESSED)
    middle = np.median(pressure, axis=0)
    edges = np.quantile(pressure.sum(axis=1), np.arange(1, LEVELS) / LEVELS)
    classes = Classes(np.where(middle > 0, middle, 1.0), edges)

    def says(rows: Dataset) -> Floats:
        apps, place = np.unique(np.concatenate([seen.group, rows.group]), return_inverse=True)
        known, asked = place[: len(seen.group)], place[len(seen.group) :]
        cells = _cells(known, len(apps) + classes.of(pressure), seen.log_slowdown, seen.weight)
        profiles = np.full((len(apps) + classes.count, len(PROFILE)), np.nan)
        profiles[: len(apps)] = _profiles(known, asked, seen, rows)
        rng, entity = np.random.default_rng(config.seed), np.arange(len(profiles))
        described = describe(entity, np.zeros(len(profiles), np.int64), profiles)
        model = fit_pairs(cells, described, SAMPLING, rng)
        table, cell = _once(asked, len(apps) + classes.of(_columns(rows, PRESSED)))
        return model.predict(*table, rng).log_mean[cell]

    return says


def low_rank(seen: Dataset) -> Says:
    """Excess slowdown as an app's row of weights times the pressures, all rows of one low rank; new apps are average.

    Source: Delimitrou and Kozyrakis, "Quasar", ASPLOS 2014 (singular values of an app by resource table); Eckart and
        Young, Psychometrika 1936.
    """
    pressure, excess = _columns(seen, PRESSED), np.expm1(seen.log_slowdown)
    share = seen.weight / seen.weight.sum()
    size = np.sqrt(share @ pressure**2)
    standard = pressure / np.where(size > 0, size, 1.0)
    common = _pulled(standard, excess, share, toward=np.zeros(standard.shape[1]))
    apps, place = np.unique(seen.group, return_inverse=True)
    own = np.stack(
        [_pulled(standard[place == a], excess[place == a], share[place == a], common) for a in range(len(apps))]
    )
    left, strength, right = np.linalg.svd(own - common, full_matrices=False)
    rows_of = common + (left[:, :RANK] * strength[:RANK]) @ right[:RANK]

    def says(rows: Dataset) -> Floats:
        at = np.searchsorted(apps, rows.group).clip(max=len(apps) - 1)
        weights = np.where((apps[at] == rows.group)[:, None], rows_of[at], common)
        found = (_columns(rows, PRESSED) / np.where(size > 0, size, 1.0) * weights).sum(axis=1)
        return np.asarray(np.log(np.maximum(1 + found, SMALLEST_RATIO)), np.float64)

    return says


def _pulled(x: Floats, y: Floats, share: Floats, toward: Floats) -> Floats:
    """Weighted ridge regression through zero, drawn to given weights."""
    gram = x.T @ (x * share[:, None]) + PULL * np.eye(x.shape[1])
    found: Floats = toward + np.linalg.solve(gram, x.T @ (share * (y - x @ toward)))
    return found


def _columns(data: Dataset, names: tuple[str, ...]) -> Floats:
    return data.features[:, [data.names.index(name) for name in names]]


def _cells(victim: Ints, aggressor: Ints, label: Floats, weight: Floats) -> Cells:
    """One cell for each pair that was seen: the weighted mean of its rows."""
    (rows, columns), cell = _once(victim, aggressor)
    totals = np.bincount(cell, label * weight) / np.maximum(np.bincount(cell, weight), np.finfo(np.float64).tiny)
    return Cells(rows, columns, totals)


def _once(victim: Ints, aggressor: Ints) -> tuple[tuple[Ints, Ints], Ints]:
    """The pairs that occur, and (n,) which of them each row is."""
    pairs, cell = np.unique(np.column_stack([victim, aggressor]), axis=0, return_inverse=True)
    return (pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)), cell.reshape(-1)


def _profiles(known: Ints, asked: Ints, seen: Dataset, rows: Dataset) -> Floats:
    """(apps, p) mean profiles: of apps that were seen as they were then, of others as in the rows asked about."""
    count = int(max(known.max(), asked.max())) + 1
    then, later = (_means(at, _columns(of, PROFILE), count) for at, of in ((known, seen), (asked, rows)))
    return np.where(np.isin(np.arange(count), known)[:, None], then, later)


def _means(place: Ints, values: Floats, count: int) -> Floats:
    """(count, p) means of (n, p) finite values by entity, 0 where there are none."""
    total = np.zeros((count, values.shape[1]))
    np.add.at(total, place, values)
    means: Floats = total / np.maximum(np.bincount(place, minlength=count), 1)[:, None]
    return means
