"""Margins of what is served: one multiplier for each app of a snapshot. Kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import ModelEntry
from models.bundle.margin_updates import TIERS, where_stretches_stand
from models.bundle.margins import margins_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ServedMargins:
    """Multipliers of spread + floor.

    Args:
        floor: log ratio.
        profiled: (a + 1,) by app where it has a profile; the last is that of an app that is not known.
        cold: (a + 1,) by app where it has none.
        own: (a + 1,) whether the app has an own margin: its rows are predicted as those of an app learnt from.
        tier: (2, a + 1) by app how much is known of it without and with a profile, see models.bundle.margins.
        stretch: (p + 1, tiers) by platform and tier the factor of followed labels; the last platform is not known.
    """

    floor: float
    profiled: Floats
    cold: Floats
    own: NDArray[np.bool_]
    tier: NDArray[np.int8]
    stretch: Floats

    def multipliers(self, app: Ints, windows: Floats, platform: Ints) -> Floats:
        """(n,) multiplier by app and by platform, -1 where not known, and by the windows behind the app's profile."""
        profiled = windows > 0
        calibrated = np.where(profiled, self.profiled[app], self.cold[app])
        stretched: Floats = calibrated * self.stretch[platform, self.tier[profiled.astype(np.int64), app]]
        return stretched


def served_margins(
    entry: ModelEntry, cluster: str, apps: Sequence[str], platforms: Sequence[str], *, widening: float = 1.0
) -> ServedMargins:
    """Look up every app and platform of a snapshot once.

    Args:
        entry: the model; one without margins bounds every app as one never seen.
        cluster: the snapshot's.
        apps: (a,) names in the snapshot's order.
        platforms: (p,) names in the snapshot's order.
        widening: what all multipliers are multiplied by, >= 1.

    Returns:
        Own multipliers of apps that earned them, those of unseen and cold apps else; no stretch where no label was
        followed.
    """
    margins, app = margins_of(entry, cluster, apps), np.append(np.arange(len(apps)), -1)
    known = np.ones(len(app), np.bool_)
    profiled, cold = margins.multipliers(app, known), margins.multipliers(app, ~known)
    tier = np.stack([margins.tier(app, ~known), margins.tier(app, known)])
    stretch = np.ones((len(platforms) + 1, TIERS))
    if entry.margins is not None:
        stretch[:-1] = np.exp(where_stretches_stand(entry.margins, platforms).log_stretch).reshape(-1, TIERS)
    return ServedMargins(margins.floor, profiled, cold, margins.known(app), tier, stretch * widening)
