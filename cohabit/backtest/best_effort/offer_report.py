"""Offer report: work and violations of each method over seeds, and what ours does more, with intervals. Kernel."""

from collections.abc import Callable, Sequence

import numpy as np

from cohabit.backtest.best_effort.best_effort_loop import Outcome
from cohabit.backtest.best_effort.offer_study import NONE, SCALES, Filled
from cohabit.backtest.best_effort.offers import BATCH_USAGE, N_SIGMA, OURS
from ingest.simulator.law import Floats, Ints

DRAWS = 2000
LEVEL = 0.95
"""Of intervals: a paired bootstrap over seeds."""
OTHERS = (BATCH_USAGE, N_SIGMA)
Table = dict[tuple[str, float], Floats]


def figures(done: Sequence[Filled]) -> dict[str, float]:
    """Figures of one law, means over seeds; ratios with their interval in `_lo` and `_hi`.

    Args:
        done: at least one seed.

    Returns:
        By name. `be_ratio` is our work over the better of the two others as they are, which may have more violations:
        `violation_ratio` has ours over those of the better one. `be_ratio_equal` is our work over the most that
        either of the two does with offers cut until it has no more violations than ours.

    Raises:
        Nothing.

    Source: bootstrap, Efron and Tibshirani 1993; ours, docs/backtest.md.
    """
    work = {key: np.array([one.outcomes[key].core_hours for one in done]) for key in done[0].outcomes}
    harm = {key: np.array([one.outcomes[key].violation_minutes for one in done]) for key in done[0].outcomes}
    ratios: dict[str, Callable[[Ints], float]] = {
        "be_ratio": lambda rows: _as_offered(work, work, rows),
        "violation_ratio": lambda rows: _as_offered(harm, work, rows),
        "be_ratio_equal": lambda rows: _equal(work, harm, rows),
    }
    found = _means(done)
    for name, ratio in ratios.items():
        found |= _interval(name, ratio, len(done))
    return found


def most_at(limit: float, harm: Floats, work: Floats) -> float:
    """Most work at no more harm than a limit.

    Args:
        limit: harm allowed.
        harm: (s,) of offers of rising scales, the first one of no offer; rising.
        work: (s,) done with them.

    Returns:
        Between two scales, what lies on the line between them; beyond the last one its work; 0 below the first.

    Raises:
        Nothing.

    Source: ours.
    """
    return float(np.interp(limit, np.maximum.accumulate(harm), work, left=0.0))


def _as_offered(of: Table, work: Table, rows: Ints) -> float:
    """Ours over the other method that does more work."""
    better = max(OTHERS, key=lambda name: work[name, 1.0][rows].sum())
    return float(of[OURS, 1.0][rows].sum() / of[better, 1.0][rows].sum())


def _equal(work: Table, harm: Table, rows: Ints) -> float:
    """Ours over the most that another method does at no more violations."""

    def sums(of: Table, name: str) -> Floats:
        return np.array([of[key][rows].sum() for key in ((NONE, 1.0), *((name, scale) for scale in SCALES))])

    limit = float(harm[OURS, 1.0][rows].sum())
    others = [most_at(limit, sums(harm, name), sums(work, name)) for name in OTHERS]
    return float(work[OURS, 1.0][rows].sum() / max(*others, np.finfo(np.float64).tiny))


def _interval(name: str, ratio: Callable[[Ints], float], seeds: int) -> dict[str, float]:
    """A ratio of sums over seeds, and its interval."""
    rng = np.random.default_rng(0)
    drawn = [ratio(rng.integers(seeds, size=seeds)) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {name: ratio(np.arange(seeds)), f"{name}_lo": float(low), f"{name}_hi": float(high)}


def _means(done: Sequence[Filled]) -> dict[str, float]:
    """Means over seeds of ours under plain names, of others under their own."""

    def mean(key: tuple[str, float], of: Callable[[Outcome], float]) -> float:
        return float(np.mean([of(one.outcomes[key]) for one in done]))

    found: dict[str, float] = {}
    for name in (OURS, *OTHERS, NONE):
        key, before = (name, 1.0), "" if name == OURS else f"{name}_"
        found[f"{before}be_core_hours"] = mean(key, lambda one: one.core_hours)
        found[f"{before}ls_violation_minutes"] = mean(key, lambda one: one.violation_minutes)
        found[f"{before}evictions"] = mean(key, lambda one: one.evictions)
        found[f"{before}booked_share"] = mean(key, lambda one: one.booked / one.intervals)
    found["largest_app_share"] = mean((OURS, 1.0), lambda one: one.by_app.max() / max(one.core_hours, 1e-9))
    found["use_to_request"] = float(np.mean([one.ratio.mean() for one in done]))
    found["ls_used_share"] = float(np.mean([one.used for one in done]))
    above, all_of = np.sum([one.beyond for one in done], axis=0)
    found["beyond_requests_share"] = float(above / all_of)
    for name in (OURS, *OTHERS):
        found[f"exceeded_{name}"] = float(np.mean([one.exceeded[name] for one in done]))
    return found
