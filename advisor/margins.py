"""Margins of what is served: one multiplier for each app of a snapshot. Kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.manifest import ModelEntry
from models.margins import margins_of

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
    """

    floor: float
    profiled: Floats
    cold: Floats
    own: NDArray[np.bool_]

    def multipliers(self, app: Ints, windows: Floats) -> Floats:
        """(n,) multiplier of containers by app, -1 where not known, and by windows behind their profile."""
        return np.where(windows > 0, self.profiled[app], self.cold[app])


def served_margins(entry: ModelEntry, cluster: str, apps: Sequence[str]) -> ServedMargins:
    """Look up every app of a snapshot once.

    Args:
        entry: the model; one without margins bounds every app as one never seen.
        cluster: the snapshot's.
        apps: (a,) names in the snapshot's order.

    Returns:
        Own multipliers of apps that earned them, those of unseen and cold apps else.
    """
    margins, app = margins_of(entry, cluster, apps), np.append(np.arange(len(apps)), -1)
    known = np.ones(len(app), np.bool_)
    profiled, cold = margins.multipliers(app, known), margins.multipliers(app, ~known)
    return ServedMargins(margins.floor, profiled, cold, margins.known(app))
