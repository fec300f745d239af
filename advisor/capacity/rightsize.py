"""Right-sizing: requests of CPU and memory per app, from demand at undisturbed speed and with a stated risk. Kernel.

A recommendation is advice for review. It may be a raise: an app that its own limit or a CPU queue held back needs more
than it used.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from math import ceil, fsum, isfinite, nan

import numpy as np

from advisor.capacity.undisturbed_demand import SLOWED, Measured, undisturbed
from features.columnar.arrow_columns import Floats, Ints
from features.schema.errors import refuse_other_lengths

MIB = 2.0**20
MIN_BEYOND = 20
"""Windows that must lie beyond a quantile for it to be known; at a risk of 5 % that takes 400 windows."""
MIN_DAY = 200
"""Windows of a day, from which it counts on its own."""
OF_DAYS = 0.8
"""Share of days on which the risk is kept."""
QUANTILE, DAYS, FLOOR, PEAK, NONE = "quantile", "quantile of days", "floor", "peak", ""
"""Rules that bind, see Amount."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How requests are derived.

    Args:
        risk: share of container-minutes in which demand may exceed the CPU request, in (0, 0.5].
        memory_margin: added to the largest memory use, as a share of it; VPA's 15 % by default.
        cpu_floor_cores: VPA's 25 millicores by default.
        memory_floor_bytes: VPA's 250 MiB by default.
    """

    risk: float = 0.05
    memory_margin: float = 0.15
    cpu_floor_cores: float = 0.025
    memory_floor_bytes: float = 250 * MIB

    @property
    def min_windows(self) -> int:
        """Windows an app needs."""
        return ceil(MIN_BEYOND / self.risk)


@dataclass(frozen=True, slots=True)
class Windows:
    """n one-minute windows of containers, any order.

    Args:
        app: (n,) position of the app in the names.
        day: (n,) number of the day.
        memory_bytes: (n,) largest memory use in the window, page cache excluded where the exporter does; NaN: unknown.
        measured: (n,) what CPU demand is made of.
    """

    app: Ints
    day: Ints
    memory_bytes: Floats
    measured: Measured


@dataclass(frozen=True, slots=True)
class Present:
    """Requests and limits of the m containers that run now; NaN where none is set or known.

    Args:
        app: (m,) position of the app in the names.
        request_cores: (m,).
        request_bytes: (m,).
        limit_cores: (m,).
        limit_bytes: (m,).
    """

    app: Ints
    request_cores: Floats
    request_bytes: Floats
    limit_cores: Floats
    limit_bytes: Floats


@dataclass(frozen=True, slots=True)
class Amount:
    """One resource of one app, cores or bytes a container; NaN where it is not known.

    Args:
        request: now, median over its containers.
        recommended: request to review.
        low: median demand.
        high: largest demand.
        limit: now, smallest over its containers that have one.
        freed: sum over its containers of the present request minus the recommended one; below 0 where it is a raise.
        requested: sum of the present requests.
        requesting: containers whose present request is known.
        rule: what binds: the quantile, the quantile of days, the peak, or the floor; empty without a recommendation.
        windows: in which use was measured.
    """

    request: float
    recommended: float
    low: float
    high: float
    limit: float
    freed: float
    requested: float
    requesting: int
    rule: str
    windows: int

    @property
    def saved_share(self) -> float:
        """Of the present requests, below 0 where it is a raise."""
        return self.freed / self.requested if self.requested > 0.0 else nan


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What one app should request.

    Args:
        app: its name.
        containers: that run now.
        cpu: cores.
        memory: bytes.
        quantile: of demand that the CPU request covers.
        risk: 1 - quantile.
        exceeded: share of the observed windows whose demand is above the recommendation; NaN without one.
        days: with windows.
        slowed: windows with a slowdown of 1.1 and more.
        raised: windows whose use was raised to demand, as throttling or a queue hid some.
        lowered: windows whose use was lowered to demand, as neighbours added CPU time.
        reason: why there is no recommendation; empty where there is one.
    """

    app: str
    containers: int
    cpu: Amount
    memory: Amount
    quantile: float
    risk: float
    exceeded: float
    days: int
    slowed: int
    raised: int
    lowered: int
    reason: str


def rightsize(windows: Windows, present: Present, apps: Sequence[str], rule: Rule) -> tuple[Recommendation, ...]:
    """Requests for every app, the largest saving of CPU first.

    Args:
        windows: of the days looked at.
        present: containers that run now.
        apps: names, by position.
        rule: risk, margins and floors.

    Returns:
        One recommendation for each name. CPU is the larger of the 1 - risk quantile of all container-minutes and the
        value that the days' own quantiles stay below on OF_DAYS of the days, in whole millicores, at least the floor.
        Memory is the largest use and a margin, in whole MiB, at least the floor: it cannot be compressed.

    Raises:
        FeaturesError: the arrays differ in length.

    Source: ours, docs/rightsizing.md; floors and the margin of memory are VPA's.
    """
    refuse_other_lengths(app=windows.app, day=windows.day, memory_bytes=windows.memory_bytes)
    parts = zip(_groups(windows.app, len(apps)), _groups(present.app, len(apps)), apps, strict=True)
    found = [_of_app(_rows(windows, rows), _running(present, here), name, rule) for rows, here, name in parts]
    return tuple(sorted(found, key=lambda one: (-(one.cpu.freed if isfinite(one.cpu.freed) else -1e-9), one.app)))


def _groups(codes: Ints, count: int) -> Iterator[Ints]:
    """Rows of each code."""
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(count + 1))
    return (order[begin:end] for begin, end in pairwise(edges))


def _rows(windows: Windows, rows: Ints) -> Windows:
    of = windows.measured.where(rows)
    return Windows(windows.app[rows], windows.day[rows], windows.memory_bytes[rows], of)


def _running(present: Present, rows: Ints) -> Present:
    return Present(*(getattr(present, field.name)[rows] for field in fields(present)))


def _of_app(windows: Windows, present: Present, name: str, rule: Rule) -> Recommendation:
    demand = undisturbed(windows.measured)
    cpu = _cpu(demand.cores, windows.day, present, rule)
    known = demand.cores[np.isfinite(demand.cores)]
    return Recommendation(
        app=name,
        containers=len(present.app),
        cpu=cpu,
        memory=_memory(windows.memory_bytes, present, rule),
        quantile=1.0 - rule.risk,
        risk=rule.risk,
        exceeded=float((known > cpu.recommended).mean()) if cpu.rule else nan,
        days=len(np.unique(windows.day)),
        slowed=int((windows.measured.slowdown_ratio >= SLOWED).sum()),
        raised=int(demand.raised.sum()),
        lowered=int(demand.lowered.sum()),
        reason="" if cpu.rule else _too_few(len(known), rule),
    )


def _too_few(windows: int, rule: Rule) -> str:
    return (
        f"{windows:,} of the {rule.min_windows:,} minutes with CPU use that a quantile of {1.0 - rule.risk:.1%} needs: "
        "look at more days, or take a larger risk"
    )


def _cpu(demand: Floats, day: Ints, present: Present, rule: Rule) -> Amount:
    known = np.isfinite(demand)
    cores, days = demand[known], day[known]
    if len(cores) < rule.min_windows:
        return _amount(nan, NONE, cores, present.request_cores, present.limit_cores)
    pooled = _high(cores, 1.0 - rule.risk)
    own = [_high(part, 1.0 - rule.risk) for rows in _by_day(days) if len(part := cores[rows]) >= MIN_DAY]
    of_days = _high(np.array(own), OF_DAYS) if own else pooled
    value, name = max((pooled, QUANTILE), (of_days, DAYS), (rule.cpu_floor_cores, FLOOR), key=lambda one: one[0])
    return _amount(ceil(round(value * 1000, 6)) / 1000, name, cores, present.request_cores, present.limit_cores)


def _by_day(day: Ints) -> Iterator[Ints]:
    names, codes = np.unique(day, return_inverse=True)
    return _groups(codes.astype(np.int64), len(names))


def _memory(used: Floats, present: Present, rule: Rule) -> Amount:
    known = used[np.isfinite(used)]
    if len(known) < rule.min_windows:
        return _amount(nan, NONE, known, present.request_bytes, present.limit_bytes)
    peak = float(known.max()) * (1.0 + rule.memory_margin)
    value, name = max((peak, PEAK), (rule.memory_floor_bytes, FLOOR), key=lambda one: one[0])
    return _amount(ceil(value / MIB) * MIB, name, known, present.request_bytes, present.limit_bytes)


def _high(values: Floats, share: float) -> float:
    """The smallest value that at least a share of (n,) values, n >= 1, do not exceed."""
    return float(np.quantile(values, share, method="higher"))


def _amount(recommended: float, rule: str, known: Floats, requests: Floats, limits: Floats) -> Amount:
    set_requests, set_limits = requests[np.isfinite(requests)], limits[np.isfinite(limits)]
    requested = fsum(set_requests.tolist())
    return Amount(
        request=float(np.median(set_requests)) if len(set_requests) else nan,
        recommended=recommended,
        low=float(np.median(known)) if len(known) else nan,
        high=float(known.max()) if len(known) else nan,
        limit=float(set_limits.min()) if len(set_limits) else nan,
        freed=requested - recommended * len(set_requests) if len(set_requests) else nan,
        requested=requested,
        requesting=len(set_requests),
        rule=rule,
        windows=len(known),
    )
