"""Outcome: what steps that were carried out saved, by difference in differences against those held back. Kernel.

Who is helped is picked at its worst and would mostly have got better anyway: a plain before and after flatters. So the
change of those that were held back by chance, picked in the same way, is taken off.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.plans.rules.policy import HOUR_US
from advisor.remediation.benefit import degradation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BEFORE_US = HOUR_US // 2
"""How long before a plan was made is compared with."""
SETTLE_US = HOUR_US // 6
"""After the export of a step: restarts and warm-up do not count."""
AFTER_US = HOUR_US
"""Until when what follows counts."""
LEAST_WINDOWS = 2
"""Minimum windows of a container before and after, for an estimate of its change."""
LEAST_CONTROLS = 5
"""Steps held back, with fewer of which nothing is taken off."""
PRIOR = 20.0
"""Measured cost an hour at which the calibration moves half of the way."""
LEAST_FACTOR, MAX_FACTOR = 0.5, 1.5


@dataclass(frozen=True, slots=True)
class Seen:
    """Windows of latency-sensitive containers, by uid: (w,) ends rising, (w,) slowdown, (w,) where it was."""

    ends_us: Ints
    slowdown: Floats
    node: NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class Trial:
    """A step that was done, or held back.

    Args:
        gain: cost an hour that it was to save.
        created_us: when it was proposed.
        start_us: when it was exported; of a held-out step when it was proposed.
        victims: whom it was to help.
        heirs: uid after the step of who has another one then, by uid before.
        source: node that it is done on.
        target: node that it moves a container to; None without.
    """

    gain: float
    created_us: int
    start_us: int
    victims: tuple[str, ...]
    heirs: Mapping[str, str]
    source: str
    target: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a plan saved.

    Args:
        predicted: by the steps with an estimate of their change.
        realised: by these, what those held back changed by taken off.
        measured: how many they are.
        controls: how many held back they are compared with; 0 where there were too few.
    """

    predicted: float
    realised: float
    measured: int
    controls: int


def outcome(done: Sequence[Trial], holdout: Sequence[Trial], seen: Mapping[str, Seen]) -> Outcome:
    """What steps saved.

    Args:
        done: steps of a plan that were carried out.
        holdout: steps of this and earlier plans that were not.
        seen: windows of containers, by uid.

    Returns:
        See Outcome; of containers of which too little was measured nothing counts.

    Raises:
        Nothing.

    Source: difference in differences, Angrist and Pischke, "Mostly harmless econometrics", 2009, section 5.2.
    """
    pairs = zip(done, changes_of(done, seen), strict=True)
    changes = [(one.gain, change) for one, change in pairs if change is not None]
    apart = [one for one in holdout if not any(_share_node(one, other) for other in done)]
    others = [change for change in changes_of(apart, seen) if change is not None]
    usual = float(np.mean(others)) if len(others) >= LEAST_CONTROLS else 0.0
    return Outcome(
        predicted=sum(gain for gain, _ in changes),
        realised=sum(change - usual for _, change in changes),
        measured=len(changes),
        controls=len(others) if len(others) >= LEAST_CONTROLS else 0,
    )


def changes_of(trials: Sequence[Trial], seen: Mapping[str, Seen]) -> list[float | None]:
    """Cost an hour saved for the victims of steps and their neighbours on source or target; None if unknown.

    No container counts twice among steps proposed at the same time. A step's own containers count with it; a
    neighbour of several counts with the first.
    """
    counted = {(uid, one.created_us) for one in trials for uid in _about(one)}
    return [_change(one, seen, counted) for one in trials]


def _share_node(one: Trial, done: Trial) -> bool:
    """Whether a held-out step is on a node of a step executed at that time, and shares its effect."""
    return one.created_us == done.created_us and one.source in (done.source, done.target)


def _about(one: Trial) -> set[str]:
    return {*one.victims, *one.heirs, *one.heirs.values()}


def _change(one: Trial, seen: Mapping[str, Seen], counted: set[tuple[str, int]]) -> float | None:
    """Change of one step; adds its neighbours to `counted`."""
    helped = [_spared(uid, one.heirs.get(uid, uid), one, seen) for uid in one.victims]
    known = [value for value in helped if value is not None]
    if not known:
        return None
    co_located = [uid for uid in seen if (uid, one.created_us) not in counted and _was_at(seen[uid], one)]
    counted.update((uid, one.created_us) for uid in co_located)
    others = [_spared(uid, uid, one, seen) for uid in co_located]
    return sum(known) + sum(value for value in others if value is not None)


def factor_of(predicted: float, realised: float) -> float:
    """By what gains are multiplied, so that what is predicted is what is realised; 1 while little is known."""
    return float(np.clip((realised + PRIOR) / (predicted + PRIOR), LEAST_FACTOR, MAX_FACTOR))


def _spared(before: str, after: str, one: Trial, seen: Mapping[str, Seen]) -> float | None:
    first = _cost(seen.get(before), one.created_us - BEFORE_US, one.created_us)
    then = _cost(seen.get(after), one.start_us + SETTLE_US, one.start_us + AFTER_US)
    return None if first is None or then is None else first - then


def _cost(of: Seen | None, start_us: int, end_us: int) -> float | None:
    """Mean cost an hour in the windows that end in (start, end]; None where too few are known."""
    if of is None:
        return None
    inside = (of.ends_us > start_us) & (of.ends_us <= end_us) & np.isfinite(of.slowdown)
    return float(degradation(of.slowdown[inside]).mean()) if inside.sum() >= LEAST_WINDOWS else None


def _was_at(of: Seen, one: Trial) -> bool:
    """Whether a container was where a step was to be done, or on its target, before it."""
    last = np.searchsorted(of.ends_us, one.created_us, side="right") - 1
    return bool(last >= 0 and of.node[last] in (one.source, one.target))
