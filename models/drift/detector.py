"""Drift: whether a model still says what comes true, and how far it is believed from now on. Kernel.

Bounds that labels miss are widened. The model is left where newer labels still miss the bounds, or where nodes were
better chosen without it. It stays where labels show that it still ranks nodes better than the load does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil

import numpy as np
from numpy.typing import NDArray

from models.drift.drift_status import KEPT, WIDEST, Change, DriftStatus, Signal, State
from models.evaluation.served_replay import AsServed
from models.metrics.errors_and_ranks import Estimate, covered, resamples_of
from models.metrics.ranking import candidate_sets, regret_at_1

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

COVERAGE_SLACK = 0.03
"""Share of labels that may lie above a bound beyond those that are promised to."""
MAX_BIAS = 0.05
"""Log slowdown by which labels may lie off on the whole."""
MAX_REGRET = 0.005
"""Slowdown that choosing by the model may cost more than choosing by load."""
UNSTABLE = 0.25
"""Stability index from which a feature has moved."""
LEAST_EQUAL, UNUSABLE = 0.999, 0.9
"""Share of served values that are the same when computed again: below the first something is wrong, below the other
scores are made of something else than the model learnt from."""
BLIND_WIDENING = 1.5
"""Where no labels show how much wider bounds would have to be."""
CALM = 3
"""Checks of newer labels in a row that find nothing before a model is believed again."""
FEWEST_LABELS, FEWEST_GROUPS = 100, 5
"""From so many labels, of so many apps on nodes, coverage and residuals are judged."""
SLACK, SUM_LIMIT = 0.01, 0.5
"""Page and Hinkley: log slowdown per window that is borne, and the sum of what is beyond at which there is a change."""


@dataclass(frozen=True)
class Labels:
    """What ties labelled rows to each other, (n,) each.

    Args:
        time: end of the window, microseconds.
        group: app and node: what is independent of the rest.
        app: app.
        decision: app and window.
        node: node.
    """

    time: Ints
    group: Ints
    app: Ints
    decision: Ints
    node: Ints

    @property
    def enough(self) -> bool:
        """Whether there are enough labels and groups to judge by."""
        return len(self.time) >= FEWEST_LABELS and len(np.unique(self.group)) >= FEWEST_GROUPS


@dataclass(frozen=True)
class Evidence:
    """What was found since the last check, and what follows.

    Args:
        signals: all that is watched.
        until: end of the newest window with a label; None without any.
        judged: whether labels were enough to judge by.
        widening: factor of margins by which the promise would have been kept; above WIDEST where none is enough.
        holds: whether bounds as they are served now keep the promise.
        orders: whether the model ranks nodes better than the load does, beyond luck.
    """

    signals: tuple[Signal, ...]
    until: datetime | None
    judged: bool
    widening: float
    holds: bool
    orders: bool

    def alarm(self, *names: str) -> bool:
        """Whether any of these signals is an alarm."""
        return any(signal.alarm for signal in self.signals if signal.name in names)


@dataclass(frozen=True)
class DriftContext:
    """What is known in addition to labels.

    Args:
        stability: stability index by feature; empty where the bundle does not record how features lay.
        age: of the newest row that was learnt from.
        max_age: at which a model is old.
        equal: share of served values that came out the same when computed again; None where nothing was compared.
    """

    stability: Mapping[str, float]
    age: timedelta
    max_age: timedelta
    equal: float | None


def evidence(
    said: AsServed,
    by_load: Floats,
    of: Labels,
    context: DriftContext,
    *,
    level: float,
    widening: float,
    rng: np.random.Generator,
) -> Evidence:
    """Everything that is watched.

    Args:
        said: what is said of n labelled rows, bounds as they would be without widening.
        by_load: (n,) what nodes would be compared by without the model.
        of: what ties the rows to each other.
        context: what is known in addition to labels.
        level: share of labels that bounds promise to lie above.
        widening: what margins are served multiplied by now.
        rng: source of resamples.

    Returns:
        Without enough labels, those of coverage, residual and ranking are not known, which is no alarm.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0054-life-cycle.md; cluster bootstrap, Cameron et al., REStat 2008.
    """
    unlabelled = (_stability(context.stability), _age(context), _skew(context.equal))
    until = datetime.fromtimestamp(int(of.time.max()) / 1e6, tz=UTC) if len(of.time) else None
    if not of.enough:
        unknown = (_unknown("coverage", level), _unknown("residual", MAX_BIAS), _unknown("ranking", MAX_REGRET))
        return Evidence((*unknown, *unlabelled), until, judged=False, widening=1.0, holds=True, orders=False)
    again = resamples_of(of.group, rng)
    held = again.mean(covered(said.truth, said.upper))
    served = again.mean(covered(said.truth, said.mean + widening * (said.upper - said.mean)))
    bias = again.mean(said.truth - said.mean)
    ranking = _ranking(said, by_load, of, rng)
    signals = (_coverage(held, level), _residual(bias, said, of), _ranked(ranking), *unlabelled)
    return Evidence(
        signals,
        until,
        judged=True,
        widening=widening_for(said, level),
        holds=served.high >= level - COVERAGE_SLACK,
        orders=ranking is not None and ranking.high < 0,
    )


def widening_for(said: AsServed, level: float) -> float:
    """The least factor of margins, 1 at least, by which a share of labels would have lain below their bounds.

    Args:
        said: of n rows.
        level: that share, in (0, 1).

    Returns:
        Rounded up to 0.01; infinite where rows without any margin are too many. Missing values are not allowed.

    Raises:
        Nothing.

    Source: conformal quantile, Vovk et al., "Algorithmic Learning in a Random World", 2005.
    """
    margin, above = said.upper - said.mean, said.truth - said.mean
    needed = np.where(above <= 0, 0.0, np.divide(above, margin, out=np.full(len(above), np.inf), where=margin > 0))
    rank = ceil(level * (len(needed) + 1))
    if rank > len(needed):
        return float("inf")
    found = float(np.sort(needed)[rank - 1])
    return max(1.0, ceil(found * 100) / 100) if np.isfinite(found) else found


def next_status(before: DriftStatus, found: Evidence, now: datetime) -> DriftStatus:
    """How far a model is believed after a check.

    Args:
        before: the status so far, of the same models.
        found: evidence.
        now: time of the check.

    Returns:
        One step further at most: fine, widened, fallen back, and back to fine after CALM checks of newer labels that
        found nothing. Looking at the same labels again changes nothing: a model of which no newer labels come is not
        watched, and its check stays the one of the newest.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0054-life-cycle.md.
    """
    newer = found.until is not None and (before.labels_until is None or found.until > before.labels_until)
    trouble = _trouble(found)
    calm = 0 if trouble else before.calm + int(newer and found.judged)
    state, widening = before.state, before.widening
    if found.judged and not newer:
        calm = before.calm
    elif trouble and state == "fine":
        state, widening = "widened", _served_widening(found)
    elif trouble and state == "widened":
        state, widening = _after_widening(before, found)
    elif not trouble and state != "fine" and calm >= CALM:
        state, widening = "fine", 1.0
    looked = newer or (state, widening) != (before.state, before.widening)
    status = before.model_copy(
        update={"state": state, "widening": widening, "calm": calm, "signals": found.signals}
        | ({"checked_at": now} if looked else {})
        | ({"labels_until": found.until} if newer else {})
    )
    return with_change(before, status, trouble or "labels agree with it again")


def with_change(before: DriftStatus, after: DriftStatus, why: str) -> DriftStatus:
    """The status, with a line on what changed, where anything did."""
    if (before.bundle, before.state, before.widening) == (after.bundle, after.state, after.widening):
        return after
    change = Change(at=after.checked_at, bundle=after.bundle, state=after.state, widening=after.widening, why=why)
    return after.model_copy(update={"changes": (*before.changes, change)[-KEPT:]})


def first_change(residual: Floats) -> int | None:
    """The window since which residuals are off.

    Args:
        residual: (w,) mean residual of each window, in order of time.

    Returns:
        Its number; None where the sums of what is beyond SLACK never exceed SUM_LIMIT. Missing values are not allowed.

    Raises:
        Nothing.

    Source: Page, "Continuous Inspection Schemes", Biometrika 1954; Hinkley 1971.
    """
    found = []
    for sign in (1.0, -1.0):
        total = np.concatenate([[0.0], np.cumsum(sign * residual - SLACK)])
        lowest = np.minimum.accumulate(total)
        beyond = np.flatnonzero(total - lowest > SUM_LIMIT)
        if len(beyond):
            found.append(int(np.argmin(total[: beyond[0] + 1])))
    return min(found, default=None)


def _trouble(found: Evidence) -> str:
    """Why the model is believed less; empty for no reason. Labels vouch for old models and moved features."""
    counted = ("coverage", "residual", "ranking", "skew") if found.judged else ("stability", "age", "skew")
    return "; ".join(signal.message for signal in found.signals if signal.alarm and signal.name in counted)


def _served_widening(found: Evidence) -> float:
    return min(max(found.widening, 1.0), WIDEST) if found.judged and found.widening > 1 else BLIND_WIDENING


def _after_widening(before: DriftStatus, found: Evidence) -> tuple[State, float]:
    """What follows where there is trouble although bounds are widened."""
    enough = found.holds and found.widening <= WIDEST and not found.alarm("ranking")
    unusable = any(s.name == "skew" and s.value is not None and s.value < UNUSABLE for s in found.signals)
    if unusable or (found.judged and not enough and not found.orders):
        return "fallen_back", before.widening
    return "widened", max(before.widening, _served_widening(found)) if found.judged else before.widening


def _coverage(held: Estimate, level: float) -> Signal:
    alarm = held.high < level - COVERAGE_SLACK
    message = f"{held.value:.3f} of labels lie below their bounds, {level:g} is promised"
    return _signal("coverage", held, level - COVERAGE_SLACK, message, alarm=alarm)


def _residual(bias: Estimate, said: AsServed, of: Labels) -> Signal:
    alarm = abs(bias.value) > MAX_BIAS and (bias.low > 0 or bias.high < 0)
    message = f"labels are {abs(np.expm1(bias.value)):.1%} {'slower' if bias.value > 0 else 'faster'} than expected"
    windows, place = np.unique(of.time, return_inverse=True)
    at = first_change(np.bincount(place, said.truth - said.mean) / np.bincount(place)) if alarm else None
    if at is not None and at < len(windows):
        since = datetime.fromtimestamp(int(windows[at]) / 1e6, tz=UTC)
        message = f"{message}, since the window that ended {since:%Y-%m-%d %H:%M} UTC"
    return _signal("residual", bias, MAX_BIAS, message, alarm=alarm)


def _ranking(said: AsServed, by_load: Floats, of: Labels, rng: np.random.Generator) -> Estimate | None:
    """Regret of choosing by the model minus that of choosing by load; None where no app was on two nodes at once."""
    sets = candidate_sets(of.decision, of.node)
    if not sets.count:
        return None
    more = regret_at_1(sets, said.truth, said.choice) - regret_at_1(sets, said.truth, by_load)
    return resamples_of(of.app[sets.first_rows()], rng).mean(more)


def _ranked(regret: Estimate | None) -> Signal:
    if regret is None:
        return _unknown("ranking", MAX_REGRET)
    word = "more" if regret.value > 0 else "less"
    message = f"choosing by it costs {abs(regret.value):.2%} {word} slowdown than choosing by load"
    return _signal("ranking", regret, MAX_REGRET, message, alarm=regret.low > 0 and regret.value > MAX_REGRET)


def _stability(index: Mapping[str, float]) -> Signal:
    if not index:
        return _unknown("stability", UNSTABLE)
    moved = sorted((name for name in index if index[name] > UNSTABLE), key=lambda name: -index[name])
    worst = max(index, key=lambda name: index[name])
    message = f"most moved: {worst} ({index[worst]:.2f})" if not moved else f"moved: {', '.join(_some(moved, index))}"
    return Signal(name="stability", value=index[worst], limit=UNSTABLE, alarm=bool(moved), message=message)


def _some(names: Sequence[str], index: Mapping[str, float], most: int = 5) -> list[str]:
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return [f"{name} ({index[name]:.2f})" for name in names[:most]] + more


def _age(context: DriftContext) -> Signal:
    days, most = context.age / timedelta(days=1), context.max_age / timedelta(days=1)
    said = f"the newest row it learnt from is {days:.1f} days old"
    return Signal(name="age", value=days, limit=most, alarm=days > most, message=said)


def _skew(equal: float | None) -> Signal:
    if equal is None:
        return _unknown("skew", LEAST_EQUAL)
    message = f"{equal:.4%} of served values are equal when computed again"
    return Signal(name="skew", value=equal, limit=LEAST_EQUAL, alarm=equal < LEAST_EQUAL, message=message)


def _signal(name: str, found: Estimate, limit: float, message: str, *, alarm: bool) -> Signal:
    known = {"value": found.value, "low": found.low, "high": found.high}
    return Signal.model_validate({"name": name, **known, "limit": limit, "alarm": bool(alarm), "message": message})


def _unknown(name: str, limit: float) -> Signal:
    message = "not known" if name in {"stability", "skew"} else "too few labels"
    return Signal.model_validate({"name": name, "value": None, "limit": limit, "alarm": False, "message": message})
