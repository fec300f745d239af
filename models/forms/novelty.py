"""Novelty: how far a row lies from all rows learnt from, measured where groups differ and not where they vary.

Counters that jump about within every group say little when they jump again; a counter that differs between groups and
is steady within each says much.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.forms.power_law import signed_log

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHUNK = 256
"""Rows at a time, so that distances stay in the processor's cache."""
WIDEST = 3.0
"""Margins of rows at any distance grow no more than this, unless errors of far rows ask for it."""


@dataclass(frozen=True)
class Novelty:
    """The limit of what was learnt.

    Args:
        columns: (k,) which features are looked at.
        scales: (k,) > 0, of their signed logs.
        fills: (k,) what stands in for a missing value.
        axes: (k, r) discriminants: one unit is one standard deviation within a group.
        points: (m, r) rows learnt from, on these axes.
        limit: distance to the nearest point, in those units, that hardly any row learnt from exceeds, > 0.
    """

    columns: Ints
    scales: Floats
    fills: Floats
    axes: Floats
    points: Floats
    limit: float


def distance(features: Floats, novelty: Novelty) -> Floats:
    """How far rows lie from what was learnt.

    Args:
        features: (n, d) raw values; NaN is missing and counts as the median learnt from.
        novelty: k columns below d.

    Returns:
        (n,) distance to the nearest row learnt from over the limit, >= 0: above 1 a row is like none of them. Each
        row's value does not depend on the other rows, to the bit. An infinite feature counts as missing.

    Raises:
        IndexError: a column lies outside features.

    Source: ours, docs/decisions/0021-novelty.md; discriminants: Fisher, Annals of Eugenics 1936.
    """
    placed = on_axes(features, novelty)
    found = np.empty(len(placed))
    for i in range(0, len(placed), CHUNK):
        apart = ((placed[i : i + CHUNK, None] - novelty.points) ** 2).sum(axis=2)
        found[i : i + CHUNK] = apart.min(axis=1)
    return np.sqrt(found) / novelty.limit


def on_axes(features: Floats, novelty: Novelty) -> Floats:
    """(n, d) rows on the discriminants, (n, r); added up one column at a time, in one order for any n."""
    values = features[:, novelty.columns]
    logs = signed_log(np.where(np.isfinite(values), values, novelty.fills), novelty.scales)
    placed = np.zeros((len(logs), novelty.axes.shape[1]))
    for column, axis in zip(logs.T, novelty.axes, strict=True):
        placed += column[:, None] * axis
    return placed


@dataclass(frozen=True)
class Widths:
    """How bounds widen with distance, all in limits, >= 1.

    Args:
        usual: distance that half the rows of groups left out had: up to it errors are those calibrated on.
        reach: distance that few of them had: farther rows are far.
        far: what margins of far rows are multiplied with at least, as their errors were larger than those of others.
    """

    usual: float
    reach: float
    far: float


def widening(apart: Floats, widths: Widths) -> Floats:
    """What a bound's margin is multiplied with.

    Args:
        apart: (n,) distances, in limits.
        widths: of the model.

    Returns:
        (n,) the distance over the usual one, from 1 to WIDEST; of far rows no less than `widths.far`.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0073-far-rows.md.
    """
    return np.maximum(np.clip(apart / widths.usual, 1.0, WIDEST), np.where(apart > widths.reach, widths.far, 1.0))
