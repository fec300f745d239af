"""Model input of the placement model: raw features in, complete rows in the catalogue's order out. Kernel.

The training job, the evaluation and the live scorer call these, so that training and serving share one arithmetic.
"""

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Floats, floats
from features.schema.catalog import DEMANDS, EXPECTED, FEATURE_NAMES, KNEE, NAMES, PRESSURES, RAW_NAMES, SENSITIVITIES
from features.schema.errors import refuse_other_lengths

PROFILE_COLUMNS = (*EXPECTED, "cpi", "llc_mpki", "qps", "windows")
NODE_COLUMNS = ("cores", "frequency_ghz", "llc_bytes", "memory_bandwidth_bytes_s")

_R = len(NAMES)
_PRESSURE = slice(0, len(PRESSURES))
_SENSITIVITY = slice(RAW_NAMES.index(SENSITIVITIES[0]), RAW_NAMES.index(SENSITIVITIES[0]) + _R)
_DEMAND = slice(RAW_NAMES.index(DEMANDS[0]), RAW_NAMES.index(DEMANDS[0]) + _R)
_INTERACTIONS = [slice(len(RAW_NAMES) + i * _R, len(RAW_NAMES) + (i + 1) * _R) for i in range(4)]

FILLED = np.r_[_PRESSURE, _SENSITIVITY, _DEMAND]
"""Raw columns that `complete` fills; the others keep what is missing."""


def profile_matrix(profiles: pa.Table) -> Floats:
    """(n, len(PROFILE_COLUMNS)) profile rows; NaN where not known, 0 windows where there is no profile."""
    matrix = np.column_stack([floats(profiles[c]) for c in PROFILE_COLUMNS])
    matrix[:, -1] = np.nan_to_num(matrix[:, -1])
    return matrix


def node_matrix(nodes: pa.Table) -> Floats:
    """(n, 4) cores, GHz, and cache and bandwidth per core of each node; NaN where not known."""
    cores, frequency, llc, bandwidth = (floats(nodes[c]) for c in NODE_COLUMNS)
    return np.column_stack([cores, frequency, llc / cores, bandwidth / cores])


def raw_features(pressure: Floats, profile: Floats, node: Floats) -> Floats:
    """Raw rows of the catalogue from their three parts.

    Args:
        pressure: (n, len(PRESSURE_COLUMNS)) from features.contention.pressure.
        profile: (n, len(PROFILE_COLUMNS)) from profile_matrix.
        node: (n, 4) from node_matrix.

    Returns:
        (n, len(RAW)) in the catalogue's order; NaN where missing.

    Raises:
        FeaturesError: the parts differ in length.
    """
    refuse_other_lengths(pressure=pressure, profile=profile, node=node)
    return np.concatenate([pressure, profile, node], axis=1)


def complete(raw: Floats, fills: Floats) -> Floats:
    """Model input from raw features: fill pressures, sensitivities and demands, add interactions and missing marks.

    Args:
        raw: (n, len(RAW)); NaN where missing.
        fills: (len(RAW),) from training_fills.

    Returns:
        (n, len(FEATURES)). Filled columns are finite; the other profile and node columns keep NaN.

    Raises:
        FeaturesError: raw or fills have another width than the catalogue.

    Source: ours; a missing pressure takes its training median and sets its mark.
    """
    refuse_other_lengths(raw=raw.T, fills=fills, catalogue=RAW_NAMES)
    result = np.empty((len(raw), len(FEATURE_NAMES)))
    own = result[:, : len(RAW_NAMES)]
    own[:] = raw
    for part in (_PRESSURE, _SENSITIVITY, _DEMAND):
        np.copyto(own[:, part], fills[part], where=~np.isfinite(raw[:, part]))
    shared, sensitivity = own[:, :_R], own[:, _SENSITIVITY]
    whole, intense, early, late = (result[:, part] for part in _INTERACTIONS)  # filled in place: two thirds of the time
    np.multiply(sensitivity, shared, out=whole)
    np.multiply(own[:, _DEMAND], shared, out=intense)
    np.multiply(sensitivity, np.minimum(shared, KNEE), out=early)
    np.multiply(sensitivity, np.maximum(shared - KNEE, 0.0), out=late)
    result[:, _INTERACTIONS[-1].stop :] = ~np.isfinite(raw[:, _PRESSURE])
    return result


def training_fills(raw: Floats) -> Floats:
    """What stands in for a missing raw feature in training and serving.

    Args:
        raw: (n, len(RAW)) training rows; NaN where missing.

    Returns:
        (len(RAW),) the median of a column; of a sensitivity or demand the mean, since an unknown app's expected harm
        is the mean sensitivity times the pressure; 0 for a column that was never measured.

    Source: ours, docs/decisions/0006-profiles.md.
    """
    known = np.isfinite(raw)
    ever = np.asarray(known.any(axis=0))
    fills = np.zeros(raw.shape[1])
    fills[ever] = np.nanmedian(np.where(known, raw, np.nan)[:, ever], axis=0)
    for part in (_SENSITIVITY, _DEMAND):
        fills[part] = np.where(
            ever[part], np.nansum(raw[:, part], axis=0) / np.maximum(np.count_nonzero(known[:, part], axis=0), 1), 0.0
        )
    return fills
