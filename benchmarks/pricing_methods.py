"""Pricing methods: what ours and each baseline say of all pairs of a file after having seen some."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.interference import cell_errors
from benchmarks.pair_baselines import PAIR_BASELINES, Seen
from benchmarks.pair_blend import fit_pair_blend
from benchmarks.runner import OURS
from models.calibration.conformal import conformal_quantile
from models.challengers.pair_model import Cells, PairConfig

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
UNADJUSTED = "unadjusted"
BASELINES: Mapping[str, str] = {"additive": "additive", "rank_1": "rank_1", "one_slowdown": "constant"}
"""By their names here; with numbers measured alone also the nearest profile."""


@dataclass(frozen=True)
class Foretold:
    """(m,) log slowdowns of pairs: what is expected, and the bound that measurements lie above."""

    log_mean: Floats
    lower: Floats

    def at(self, chosen: Flags) -> "Foretold":
        """The chosen pairs, (m,) flags."""
        return Foretold(self.log_mean[chosen], self.lower[chosen])


def foretell(
    seen: Seen, described: Floats, asked: Cells, config: PairConfig, rng: np.random.Generator
) -> dict[str, Foretold]:
    """What every method says.

    Args:
        seen: pairs to learn from, and numbers measured alone.
        described: (e, q) from models.challengers.pair_model.describe, for ours.
        asked: (m,) pairs; their slowdowns are not looked at.
        config: how long ours samples, and which share of measurements all bounds must hold for.
        rng: of everything drawn.

    Returns:
        By method: ours, baselines, and nobody slowed down.
    """
    blend = fit_pair_blend(seen.cells, described, config, rng)
    ours = blend.predict(asked.victim, asked.aggressor, rng)
    found = {OURS: Foretold(ours.log_mean, ours.lower)}
    names = dict(BASELINES) | ({"nearest_profile": "nearest_profile"} if seen.profiles.shape[1] else {})
    for name, baseline in names.items():
        fit = PAIR_BASELINES[baseline]
        log_mean = fit(seen)(asked.victim, asked.aggressor)
        margin = max(0.0, conformal_quantile(-cell_errors(fit, seen), config.level))
        found[name] = Foretold(log_mean, log_mean - margin)
    nobody = np.zeros(len(asked.victim))
    return found | {UNADJUSTED: Foretold(nobody, nobody)}
