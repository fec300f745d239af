"""Impact: what following the advice avoids, estimated from pods that were advised or held out by chance. Kernel.

Nothing is assumed of any model: what differs between the arms beyond chance was caused by the advice. Covariates that
were known before the draw take noise away; with many pods they cannot bias, however wrong their regression is.
"""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from models.errors import ModelsError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
LEVEL, POWER = 0.9, 0.8
FEWEST, FEWEST_PER_COVARIATE = 20, 3
"""Pods in either arm."""
LEAST_SPREAD = 1e-9
"""A covariate that varies less, relative to its size, says nothing."""
MAX_GROUPS, FEWEST_IN_GROUP = 10, 50
"""Groups of pods that are alike, and pods of either arm in each."""


@dataclass(frozen=True, slots=True)
class Trial:
    """n pods with an outcome.

    Args:
        advised: (n,) the arm: advised, or held out.
        advised_chance: (n,) with which a pod is advised, within (0, 1).
        kept_chance: (n,) with which such a pod is among these, in (0, 1]: it stands for 1 / kept_chance of its arm.
        outcome: (n,) violation-minutes.
        complied: (n,) whether it landed on the node that was rated best.
        covariates: (n, k) known before the arm was drawn; k may be 0.
        at_us: (n,) when it was decided, microseconds.
    """

    advised: Flags
    advised_chance: Floats
    kept_chance: Floats
    outcome: Floats
    complied: Flags
    covariates: Floats
    at_us: Ints

    @property
    def weight(self) -> Floats:
        """(n,) inverse chance of a pod to be in its arm and among these."""
        arm = np.where(self.advised, self.advised_chance, 1.0 - self.advised_chance)
        return 1.0 / (arm * self.kept_chance)


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its 90 % interval, whose bounds may be infinite."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "Interval":
        """All of it so many times, the factor above 0."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class Worth:
    """What the advice avoided.

    Args:
        per_pod: violation-minutes avoided for each pod that is advised, whether it went there or not.
        error: standard error of that.
        serial_error: the same, were what chance brings into pods less than a horizon apart related.
        advised: pods that were advised, those included that others stand for.
        moved: share of pods that land on the node that is rated best because they are advised.
        per_mover: violation-minutes avoided for each of those; without bounds where the advice is not shown to move
            any pod, NaN where it moved none.
        more: pods to come, in the same shares, until an effect of that size is detected four times in five; 0 where
            there are enough, infinite where the estimate is 0.
    """

    per_pod: Interval
    error: float
    serial_error: float
    advised: float
    moved: float
    per_mover: Interval
    more: float

    @property
    def total(self) -> Interval:
        """Violation-minutes avoided for all that were advised."""
        return self.per_pod.times(self.advised)


def worth(trial: Trial, horizon_us: int) -> Worth:
    """The effect of being advised, and of going where the advice says because it was given.

    Args:
        trial: n pods, in any order; none may miss a value.
        horizon_us: for how long after its decision a pod's outcome is counted, microseconds, > 0.

    Returns:
        Effects in violation-minutes, above 0 where the advice avoids them, each with its 90 % interval.

    Raises:
        ModelsError: an arm has too few pods, or a value is not finite or out of its range.

    Source: regression with interactions, Lin, "Agnostic notes on regression adjustments", Annals of Applied Statistics
    2013, weighted by inverse chances; effects given what happened before, Bojinov & Shephard, JASA 2019, where pods
    act on each other, Saevje, Aronow & Hudgens, Annals of Statistics 2021; the ratio, Angrist, Imbens & Rubin, JASA
    1996. Of which error the intervals are made: docs/decisions/0037-worth.md.
    """
    _check(trial)
    effects, scores = adjusted_effects(trial)
    variance, serial = scores.T @ scores, serial_variance(scores, trial.at_us, horizon_us)
    left = left_of_variance(scores[:, 0], trial)
    free = len(scores) - 2 * (1 + trial.covariates.shape[1])
    times = float(student.ppf(0.5 + LEVEL / 2, free))
    avoided, moved, error = float(effects[0]), float(effects[1]), float(np.sqrt(left * variance[0, 0]))
    of_mover = left_of_variance(scores @ np.array([1.0, -avoided / moved]), trial) if moved else 1.0
    return Worth(
        per_pod=Interval(avoided, avoided - times * error, avoided + times * error),
        error=error,
        serial_error=float(np.sqrt(left * serial[0, 0])),
        advised=float((1.0 / trial.kept_chance[trial.advised]).sum()),
        moved=moved,
        per_mover=ratio_interval(effects, of_mover * variance, times),
        more=_more(len(trial.outcome), avoided, error, times),
    )


def adjusted_effects(trial: Trial) -> tuple[Floats, Floats]:
    """Effects of being advised: minutes avoided, and the share of pods that moved.

    Args:
        trial: n pods, checked.

    Returns:
        (2,) effects, and (n, 2) what chance each pod brings into them: HC2 scores, whose sum of squares is a variance.

    Raises:
        Nothing.

    Source: Lin 2013, with each arm regressed alone on covariates less their mean, which is the same as interactions;
    HC2, MacKinnon & White, Journal of Econometrics 1985.
    """
    columns = np.column_stack([-trial.outcome, trial.complied.astype(np.float64)])
    weight, design = trial.weight, _design(trial.covariates, trial.weight)
    effects, scores = np.zeros(2), np.zeros(columns.shape)
    for arm, sign in ((trial.advised, 1.0), (~trial.advised, -1.0)):
        level, score = _level(columns[arm], design[arm], weight[arm])
        effects += sign * level
        scores[arm] = sign * score
    return effects, scores


def _design(covariates: Floats, weight: Floats) -> Floats:
    """(n, 1 + k') ones, and those covariates that vary, less their weighted mean, in their own spread."""
    mean = np.average(covariates, axis=0, weights=weight) if covariates.shape[1] else np.zeros(0)
    spread = covariates.std(axis=0)
    varies = spread > LEAST_SPREAD * np.maximum(np.abs(mean), 1.0)
    return np.column_stack([np.ones(len(covariates)), (covariates - mean)[:, varies] / spread[varies]])


def _level(values: Floats, design: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """(2,) values of one arm at the mean of the covariates, and (m, 2) HC2 scores."""
    inverse = np.linalg.pinv((design * weight[:, None]).T @ design, hermitian=True)
    part = weight[:, None] * (design @ inverse)
    coefficients = part.T @ values
    leverage = np.clip((part * design).sum(axis=1), 0.0, 1.0 - LEAST_SPREAD)
    residual = (values - design @ coefficients) / np.sqrt(1.0 - leverage)[:, None]
    return coefficients[0], part[:, :1] * residual


def left_of_variance(scores: Floats, trial: Trial) -> float:
    """Share of a variance that is left when what cannot be chance is taken off.

    The sum of squares of scores holds the variance of effects between pods as well, which is no error of their mean.
    Its size cannot be observed, as no pod is in both arms. But where the arms' residuals are not spread alike, it is at
    least what pairing them by rank leaves, among pods of which as much is expected.

    Args:
        scores: (n,) of one effect.
        trial: n pods, checked.

    Returns:
        In [0, 1]; 1 where both arms are spread alike, and nearly so where pods stand for many others.

    Raises:
        Nothing.

    Source: Aronow, Green & Lee, "Sharp bounds on the variance in randomized experiments", Annals of Statistics 2014;
    given covariates, Fan & Park, "Sharp bounds on the distribution of treatment effects", Econometric Theory 2010.
    """
    variance, weight, residual = float(scores @ scores), trial.weight, np.zeros(len(scores))
    for arm, sign in ((trial.advised, 1.0), (~trial.advised, -1.0)):
        residual[arm] = sign * scores[arm] * weight[arm].sum() / weight[arm]
    group, least = _alike(trial), 0.0
    for number in np.unique(group):
        arms = [np.flatnonzero((group == number) & arm) for arm in (trial.advised, ~trial.advised)]
        shares = [weight[rows] / weight[rows].sum() for rows in arms]
        pods = weight[group == number].sum() / weight.sum()
        least += pods * _spread_by_rank(residual[arms[0]], shares[0], residual[arms[1]], shares[1])
    return max(0.0, 1.0 - 2.0 * least / float(weight.sum()) / variance) if variance > 0 else 1.0


def _alike(trial: Trial) -> Ints:
    """(n,) group of each pod: of those in one the covariates make about as much be expected."""
    design = _design(trial.covariates, trial.weight)
    root = np.sqrt(trial.weight)
    coefficients = np.linalg.lstsq(design * root[:, None], trial.outcome * root, rcond=None)[0]
    expected = design @ coefficients
    fewest = int(min(trial.advised.sum(), (~trial.advised).sum()))
    wanted = max(1, min(MAX_GROUPS, fewest // FEWEST_IN_GROUP))
    edges = np.quantile(expected, np.arange(1, wanted) / wanted)
    found = np.searchsorted(edges, expected, side="right").astype(np.int64)
    counts = [np.bincount(found[arm], minlength=wanted) for arm in (trial.advised, ~trial.advised)]
    there = counts[0] + counts[1] > 0
    return found if min(count[there].min() for count in counts) > 1 else np.zeros_like(found)


def _spread_by_rank(one: Floats, share: Floats, other: Floats, other_share: Floats) -> float:
    """Variance of the difference of two weighted samples that are paired by rank."""
    orders = np.argsort(one, kind="stable"), np.argsort(other, kind="stable")
    ranks = [np.cumsum(s[order]) for s, order in zip((share, other_share), orders, strict=True)]
    edges = np.unique(np.concatenate([np.minimum(rank, 1.0) for rank in ranks]))
    width = np.diff(edges, prepend=0.0)
    at = [np.minimum(np.searchsorted(rank, edges - width / 2), len(rank) - 1) for rank in ranks]
    apart = one[orders[0]][at[0]] - other[orders[1]][at[1]]
    return float((width * apart**2).sum() - (width * apart).sum() ** 2)


def serial_variance(scores: Floats, at_us: Ints, horizon_us: int) -> Floats:
    """Variance of sums of scores that go along with each other while less than a horizon apart.

    Args:
        scores: (n, 2).
        at_us: (n,) times, in any order.
        horizon_us: > 0.

    Returns:
        (2, 2): the sum over all pairs of the product of their scores, weighted by 1 - distance / horizon. Never
        negative.

    Raises:
        Nothing.

    Source: Newey & West, Econometrica 1987, in time instead of lags, as Conley, Journal of Econometrics 1999; as the
    mean over all positions of a window of one horizon of the square of the sum in it.
    """
    times = np.concatenate([at_us, at_us + horizon_us])
    order = np.argsort(times, kind="stable")
    inside = np.cumsum(np.concatenate([scores, -scores])[order], axis=0)[:-1]
    share = np.diff(times[order]) / horizon_us
    found: Floats = (inside * share[:, None]).T @ inside
    return found


def ratio_interval(effects: Floats, variance: Floats, times: float) -> Interval:
    """The first effect for each unit of the second, with bounds that hold however small the second is.

    Args:
        effects: (2,) minutes avoided, and the share that moved.
        variance: (2, 2) of them.
        times: standard errors on either side.

    Returns:
        The ratio and its interval: all values at which the difference of the first from so many times the second is
        within its error. Unbounded on both sides where the second may be zero; NaN for a second of 0.

    Raises:
        Nothing.

    Source: Fieller, JRSS B 1954; with one instrument the interval of Anderson & Rubin, Annals of Mathematical
    Statistics 1949. Where theirs is all but a gap in the middle, ours is the whole line.
    """
    (top, base), square = effects, times**2
    value = top / base if base else np.nan
    a = base**2 - square * variance[1, 1]
    b = top * base - square * variance[0, 1]
    c = top**2 - square * variance[0, 0]
    if a <= 0:
        return Interval(float(value), -inf, inf)
    root = np.sqrt(max(b**2 - a * c, 0.0))
    return Interval(float(value), float((b - root) / a), float((b + root) / a))


def chance_of_difference(missing: tuple[int, int], pods: tuple[int, int]) -> float:
    """With which chance two arms that miss as much differ by so much or more.

    Args:
        missing: pods without outcome, by arm.
        pods: all pods, by arm.

    Returns:
        A p-value in [0, 1]; 1 where an arm is empty, or all or none are missing.

    Raises:
        Nothing.

    Source: test of two proportions, pooled; Fleiss, "Statistical Methods for Rates and Proportions", 1981.
    """
    share = sum(missing) / max(1, sum(pods))
    if min(pods) == 0 or share in {0.0, 1.0}:
        return 1.0
    error = np.sqrt(share * (1.0 - share) * (1.0 / pods[0] + 1.0 / pods[1]))
    return float(2.0 * norm.sf(abs(missing[0] / pods[0] - missing[1] / pods[1]) / error))


def _more(pods: int, avoided: float, error: float, times: float) -> float:
    """Pods until an effect of that size is detected with POWER; errors fall with the root of pods."""
    if avoided == 0.0:
        return inf if error > 0 else 0.0
    needed = pods * ((times + float(norm.ppf(POWER))) * error / avoided) ** 2
    return max(0.0, float(np.ceil(needed - pods)))


def _check(trial: Trial) -> None:
    columns = trial.outcome, trial.advised_chance, trial.kept_chance, trial.covariates
    if not all(np.isfinite(column).all() for column in columns):
        raise _not_comparable("a value of a pod is not finite", "leave pods without outcome out, and count them")
    if ((trial.advised_chance <= 0) | (trial.advised_chance >= 1)).any():
        raise _not_comparable("some pod could be in one arm only", "leave out what was decided without a holdout share")
    if ((trial.kept_chance <= 0) | (trial.kept_chance > 1)).any():
        raise _not_comparable("the chance to be kept is not in (0, 1] for some pod", "look at the lines of the log")
    fewest = max(FEWEST, FEWEST_PER_COVARIATE * (1 + trial.covariates.shape[1]))
    advised, held_out = int(trial.advised.sum()), int((~trial.advised).sum())
    if min(advised, held_out) < fewest:
        raise _not_comparable(
            f"{advised:,} advised and {held_out:,} held-out pods have an outcome, {fewest} of each are the least",
            "let more pods come, or raise COHABIT_ADVISOR__HOLDOUT_SHARE",
        )


def _not_comparable(reason: str, remedy: str) -> ModelsError:
    return ModelsError(f"the impact of advice cannot be estimated: {reason}; {remedy}")
