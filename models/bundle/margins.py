"""Margins: how far the bound of one container lies above its expectation, by what is known of its app. Kernel.

A bound is expectation + multiplier x (spread + floor), in log slowdown. Spread is how unsure a model is of an app it
never saw, and nearly zero without pressure. The floor is what remains there, so that bounds also hold on the calm node
that is chosen. Multipliers are calibrated on residuals that look like what they are served for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import AppMargin, EntryMargins, ModelEntry
from models.calibration.conformal import Calibration

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]
Flags = NDArray[np.bool_]

FEW_WINDOWS, ENOUGH_WINDOWS = 20.0, 100.0
"""Effective windows from which an app's own margin counts at all, and from which it counts alone."""


@dataclass(frozen=True)
class Margins:
    """Multipliers of one model, by what is known of an app.

    Args:
        level: share of cases a bound should cover, in (0, 1).
        floor: added to every spread, log ratio, >= 0.
        seen: of apps learnt from.
        unseen: of apps with a profile that were not learnt from.
        cold: of apps without a profile.
        group: (a,) apps with an own margin, sorted.
        own: (a,) their multipliers, by the rule of `earned`.
        windows: (a,) effective windows behind each.
    """

    level: float
    floor: float
    seen: float
    unseen: float
    cold: float
    group: NDArray[np.int64]
    own: Floats
    windows: Floats

    COLD: ClassVar[int] = 0
    UNSEEN: ClassVar[int] = 1
    STARTED: ClassVar[int] = 2
    OWN: ClassVar[int] = 3

    def tier(self, group: Ints, profiled: Flags) -> NDArray[np.int8]:
        """(n,) how much is known of each row's app: COLD, UNSEEN, STARTED or OWN."""
        at, windows = self._found(group), np.append(self.windows, 0.0)
        known = np.where(at < 0, self.UNSEEN, np.where(windows[at] >= ENOUGH_WINDOWS, self.OWN, self.STARTED))
        return np.where(profiled, known, self.COLD).astype(np.int8)

    def known(self, group: Ints) -> Flags:
        """(n,) whether each row's app has an own margin: it was learnt from, and long enough to say so."""
        return self._found(group) >= 0

    def multipliers(self, group: Ints, profiled: Flags) -> Floats:
        """Multiplier of each row.

        Args:
            group: (n,) app, as in training; an unknown one is an app never seen.
            profiled: (n,) whether the app has a profile there.

        Returns:
            (n,) own where the app has one, else that of apps never seen; without a profile that of cold apps, or the
            own one where it is larger.

        Raises:
            Nothing.

        Source: ours, docs/decisions/0019-own-margins.md.
        """
        known = np.append(self.own, self.unseen)[self._found(group)]
        own = np.append(self.own, 0.0)[self._found(group)]
        return np.where(profiled, known, np.maximum(own, self.cold))

    def _found(self, group: Ints) -> NDArray[np.int64]:
        """(n,) row of each app, -1 where it has none: the appended last one."""
        if not len(self.group):
            return np.full(len(group), -1)
        at = np.minimum(np.searchsorted(self.group, group), len(self.group) - 1)
        return np.where(self.group[at] == group, at, -1).astype(np.int64)


def margins_of(entry: ModelEntry, cluster: str, apps: Sequence[str]) -> Margins:
    """Margins of a model of a bundle for a cluster's apps, named by their place among them."""
    if entry.margins is None:
        return without_apps(entry.calibration)
    fitted, at = entry.margins, {app: i for i, app in enumerate(apps)}
    known = sorted(((at[m.app], m) for m in fitted.apps if m.cluster == cluster and m.app in at), key=itemgetter(0))
    return Margins(
        level=fitted.level,
        floor=fitted.floor,
        seen=fitted.seen,
        unseen=fitted.unseen,
        cold=fitted.cold,
        group=np.array([row for row, _ in known], np.int64),
        own=np.array([margin.multiplier for _, margin in known], np.float64),
        windows=np.array([margin.windows for _, margin in known], np.float64),
    )


def margins_entry(margins: Margins, names: Sequence[tuple[str, str]]) -> EntryMargins:
    """Margins as a bundle holds them; (cluster, app) by number of the group."""
    own = zip(margins.group.tolist(), margins.own.tolist(), margins.windows.tolist(), strict=True)
    return EntryMargins(
        level=margins.level,
        floor=margins.floor,
        seen=margins.seen,
        unseen=margins.unseen,
        cold=margins.cold,
        apps=tuple(
            AppMargin(cluster=names[group][0], app=names[group][1], multiplier=multiplier, windows=windows)
            for group, multiplier, windows in own
        ),
    )


def without_apps(calibration: Calibration) -> Margins:
    """Margins of a model that was calibrated without knowing apps: nothing is seen before, and there is no floor."""
    new, none = calibration.hierarchical, np.zeros(0)
    return Margins(calibration.level, 0.0, calibration.pooled, new, new, np.zeros(0, np.int64), none, none)


def earned(own: Floats, windows: Floats, *, seen: float, unseen: float) -> Floats:
    """What an app is served with, by how much its own windows can say.

    Args:
        own: (a,) multipliers of the apps' own residuals.
        windows: (a,) effective windows.
        seen: multiplier of all apps learnt from.
        unseen: multiplier of apps never seen.

    Returns:
        (a,) unseen below FEW_WINDOWS, the larger of own and seen below ENOUGH_WINDOWS, own from there on.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0019-own-margins.md.
    """
    return np.where(windows >= ENOUGH_WINDOWS, own, np.where(windows >= FEW_WINDOWS, np.maximum(own, seen), unseen))
