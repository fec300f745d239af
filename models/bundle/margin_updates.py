"""Follow: margins of a bundle that move with the labels that come true, by tier and platform. Kernel.

The labels of a cluster are those of containers where they were put: bounds that follow them hold on the node that was
chosen, which is where bounds of a prediction fail first.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.bundle.manifest import EntryMargins, Stretch, Tier
from models.bundle.margins import Margins
from models.calibration.adaptive_conformal import Tracked, replay

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NAMES: tuple[Tier, ...] = ("cold", "unseen", "started", "own")
"""Of Margins.COLD, UNSEEN, STARTED and OWN."""
TIERS = Margins.OWN + 1


def tracking_key(tier: NDArray[np.int8], platform: Ints) -> Ints:
    """(n,) one key for each tier and platform, platforms being 0..p-1."""
    return platform.astype(np.int64) * TIERS + tier


def needed(error: Floats, margin: Floats) -> Floats:
    """(n,) log slowdown beyond what was expected, over the margin; NaN where there was no margin to miss."""
    found: Floats = np.divide(error, margin, out=np.full(len(margin), np.nan), where=margin > 0)
    return found


def where_stretches_stand(margins: EntryMargins, platforms: Sequence[str]) -> Tracked:
    """The state that a bundle records, for platforms by name; 0 where it records none."""
    state = np.zeros((len(platforms), TIERS))
    at = {name: row for row, name in enumerate(platforms)}
    for stretch in margins.followed.stretches if margins.followed is not None else ():
        if stretch.platform in at:
            state[at[stretch.platform], NAMES.index(stretch.tier)] = stretch.log_stretch
    return Tracked(state.ravel(), margins.level)


def follow(
    margins: EntryMargins, platforms: Sequence[str], key: Ints, scores: Floats, time: Ints
) -> tuple[Stretch, ...]:
    """Stretches after more labels came true.

    Args:
        margins: of the bundle, with the stretches so far.
        platforms: (p,) names: every platform that the bundle or a label has.
        key: (n,) from `tracking_key`, of labels that were not followed before.
        scores: (n,) from `needed`, of the margins before any stretch.
        time: (n,) end of each label's window, microseconds.

    Returns:
        One for each tier and platform that ever had a label, in the order of platforms.

    Raises:
        Nothing.

    Source: see models.calibration.adaptive_conformal; ours, docs/decisions/0024-following-labels.md.
    """
    state, _ = replay(where_stretches_stand(margins, platforms), key, scores, time=time)
    labels = np.bincount(key[np.isfinite(scores)], minlength=len(state.log_stretch)) + _labels(margins, platforms)
    return tuple(
        Stretch(
            platform=platforms[number // TIERS],
            tier=NAMES[number % TIERS],
            log_stretch=float(state.log_stretch[number]),
            labels=int(labels[number]),
        )
        for number in np.flatnonzero(labels).tolist()
    )


def _labels(margins: EntryMargins, platforms: Sequence[str]) -> Ints:
    """(p x TIERS,) labels followed so far."""
    stretches = margins.followed.stretches if margins.followed is not None else ()
    count = np.zeros(len(platforms) * TIERS, np.int64)
    for one in stretches:
        count[platforms.index(one.platform) * TIERS + NAMES.index(one.tier)] = one.labels
    return count
