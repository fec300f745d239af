"""Offer report: work and violations of each method over seeds, and what ours does more, with intervals. Kernel."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from benchmarks.best_effort.best_effort_loop import Outcome
from benchmarks.best_effort.compared_offers import BATCH_USAGE, N_SIGMA, OURS
from benchmarks.best_effort.offer_study import NONE, OFFERS_ALONE, SCALES, Filled, Key
from ingest.simulator.law import Floats, Ints

DRAWS = 1000
LEVEL = 0.95
"""Of intervals: a paired bootstrap over seeds."""
OTHERS = (BATCH_USAGE, N_SIGMA)
TINY = float(np.finfo(np.float64).tiny)
Table = dict[Key, Floats]


def figures(done: Sequence[Filled]) -> dict[str, float]:
    """Figures of one law, means over seeds; ratios with their interval in `_lo` and `_hi`.

    Args:
        done: at least one seed.

    Returns:
        By name. `be_ratio` is our work over the better of the two others as they are, which may have more violations:
        `violation_ratio` has ours over those of the better one. `be_ratio_equal` is our work over the most that
        either of the two does with offers cut until it has no more violations than ours. Names with `in_turn`
        are of the queue that lets pods of all apps run about as often.

    Raises:
        Nothing.

    Source: bootstrap, Efron and Tibshirani 1993; ours, docs/backtest.md.
    """
    found = _means(done)
    for suffix, runs in {"": [one.outcomes for one in done], "_in_turn": [one.in_turn for one in done]}.items():
        found |= {f"{name}{suffix}": value for name, value in _of_methods(runs).items()}
        for name, ratio in _ratios(runs).items():
            low, high = _interval(ratio, len(done))
            values = {"": ratio(np.arange(len(done))), "_lo": low, "_hi": high}
            found |= {f"{name}{suffix}{end}": value for end, value in values.items()}
    return found


def _ratios(runs: Sequence[Mapping[Key, Outcome]]) -> dict[str, Callable[[Ints], float]]:
    """What ours does more, as functions of the seeds that are looked at."""
    work = {key: np.array([one[key].core_hours for one in runs]) for key in runs[0]}
    harm = {key: np.array([one[key].violation_minutes for one in runs]) for key in runs[0]}
    return {
        "be_ratio": partial(_as_offered, work, work),
        "violation_ratio": partial(_as_offered, harm, work),
        "be_ratio_equal": partial(_equal, work, harm),
    }


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
    return float(work[OURS, 1.0][rows].sum() / max(*others, TINY))


def _interval(ratio: Callable[[Ints], float], seeds: int) -> tuple[float, float]:
    """Of a ratio of sums over seeds."""
    rng = np.random.default_rng(0)
    drawn = [ratio(rng.integers(seeds, size=seeds)) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _of_methods(runs: Sequence[Mapping[Key, Outcome]]) -> dict[str, float]:
    """Means over seeds of ours under plain names, of others under their own."""
    found: dict[str, float] = {}
    for name in (OURS, *OTHERS, OFFERS_ALONE, NONE):
        of, before = [one[name, 1.0] for one in runs], "" if name == OURS else f"{name}_"
        found[f"{before}be_core_hours"] = float(np.mean([one.core_hours for one in of]))
        found[f"{before}ls_violation_minutes"] = float(np.mean([one.violation_minutes for one in of]))
        found[f"{before}evictions"] = float(np.mean([one.evictions for one in of]))
        found[f"{before}booked_share"] = float(np.mean([one.booked / one.intervals for one in of]))
    ours = [one[OURS, 1.0] for one in runs]
    found["largest_app_share"] = float(np.mean([one.by_app.max() / max(one.core_hours, TINY) for one in ours]))
    return found


def _means(done: Sequence[Filled]) -> dict[str, float]:
    """What the queue does not change."""
    above, all_of = np.sum([one.beyond for one in done], axis=0)
    found = {
        "use_to_request": float(np.mean([one.ratio.mean() for one in done])),
        "ls_used_share": float(np.mean([one.used for one in done])),
        "beyond_requests_share": float(above / all_of),
    }
    return found | {
        f"exceeded_{name}": float(np.mean([one.exceeded[name] for one in done])) for name in (OURS, *OTHERS)
    }
