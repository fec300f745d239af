"""Budget forecast: what a month will come to by the days of it that were metered. Kernel.

Days to come are taken to be as the last week was, weekday by weekday; with less than a week, as the mean of its days.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from math import ceil, sqrt

from advisor.billing.ledger.drafts import Batch
from advisor.billing.ledger.months import days
from advisor.billing.ledger.postings import owed

WEEK = 7
LEAST_DAYS = 2
"""Of fewer full days nothing is forecast."""
STUDENT_90 = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415)
"""90 % quantiles of Student's t with 1 to 7 degrees of freedom: both ends together leave 20 % out."""


@dataclass(frozen=True, slots=True)
class Day:
    """What an account owes for a day.

    Args:
        date: it, UTC.
        owed_micros: for the hours of it that were metered.
        full: whether that was every hour of it.
    """

    date: date
    owed_micros: int
    full: bool


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a month will come to, micro-units, and where it lies four times in five."""

    micros: int
    low_micros: int
    high_micros: int


def settled(micros: int) -> Forecast:
    """Of a month that is over: just that."""
    return Forecast(micros, micros, micros)


def daily(batches: Iterable[Batch], full: Collection[date], accounts: Iterable[str]) -> dict[str, list[Day]]:
    """What accounts owe, day by day.

    Args:
        batches: of a month, any order; several may be of one day.
        full: the days of which every hour was metered.
        accounts: whose days are wanted.

    Returns:
        By account, micro-units for each day that a batch is of, by time; 0 where it owes nothing.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0049-billing.md.
    """
    sums: dict[date, dict[str, int]] = {}
    for batch in batches:
        of_day = sums.setdefault(_date(batch.start_us), {})
        for account, amount in owed(batch.postings).items():
            of_day[account] = of_day.get(account, 0) + amount
    return {
        account: [Day(at, of_day.get(account, 0), at in full) for at, of_day in sorted(sums.items())]
        for account in accounts
    }


def forecast_of(known: Sequence[Day], period: str) -> Forecast | None:
    """What an account will owe for a month.

    Args:
        known: the days of the month that something was metered of, any order, each once, micro-units.
        period: month, as in 2026-12.

    Returns:
        What it owes so far and, for each day to come, what the same weekday of the last seven full days came to, or
        their mean where these are not a whole week. A last day that is not full yet counts as such a day, or as what it
        has come to if that is more; an earlier gap counts as nothing. The interval is +- t s sqrt(sum of n + n^2 / m
        over groups of days): m known days predict n days to come. s^2 is half the mean square of what weekdays
        changed by from one week to the next where the last fourteen full days are two weeks, else the variance of the
        last seven or fewer; t is Student's, 80 %. It does not go below what is owed if no day is negative.
        Nothing to come: what is owed. None: something is, and fewer than LEAST_DAYS full days are known.

    Raises:
        Invalid: it is no month.

    Source: Hyndman and Athanasopoulos, "Forecasting: principles and practice", 3rd ed. 2021, 5.2 (mean, seasonal
        naive) and 5.5 (their intervals), summed over days whose errors are independent.
    """
    by_time = sorted(known, key=lambda one: one.date)
    spent = sum(one.owed_micros for one in by_time)
    ahead = _ahead(by_time, period)
    full = [one for one in by_time if one.full]
    if not ahead:
        return settled(spent)
    if len(full) < LEAST_DAYS:
        return None
    samples = _samples(full[-WEEK:])
    expected, last = [_mean(_sample_for(samples, at)) for at in ahead], by_time[-1]
    found = spent + sum(expected)
    if not last.full:
        found -= min(last.owed_micros, expected[0])
    half = _half_width(full, samples, ahead)
    floor = spent if min(one.owed_micros for one in by_time) >= 0 else found - half
    return Forecast(found, max(found - half, floor), found + half)


def _ahead(by_time: Sequence[Day], period: str) -> list[date]:
    """Days of the month that are not over yet."""
    month = [start.date() for start, _ in days(period)]
    if not by_time:
        return month
    last = by_time[-1]
    first = last.date + timedelta(days=1) if last.full else last.date
    return [at for at in month if at >= first]


def _samples(week: Sequence[Day]) -> Mapping[int | None, Sequence[int]]:
    """Amounts by weekday where all are there, else all of them together."""
    if len({one.date.weekday() for one in week}) == WEEK:
        return {one.date.weekday(): (one.owed_micros,) for one in week}
    return {None: [one.owed_micros for one in week]}


def _sample_for(samples: Mapping[int | None, Sequence[int]], at: date) -> Sequence[int]:
    return samples.get(at.weekday()) or samples[None]


def _mean(amounts: Sequence[int]) -> int:
    """Rounded to whole micro-units, halves up."""
    return (2 * sum(amounts) + len(amounts)) // (2 * len(amounts))


def _half_width(full: Sequence[Day], samples: Mapping[int | None, Sequence[int]], ahead: Sequence[date]) -> int:
    counts = {key: sum(key in (None, at.weekday()) for at in ahead) for key in samples}
    doubt = sum(n + n * n / len(samples[key]) for key, n in counts.items())
    variance, freedom = _spread(full)
    return ceil(STUDENT_90[freedom - 1] * sqrt(variance * doubt))


def _spread(full: Sequence[Day]) -> tuple[float, int]:
    """Variance of a day about what its weekday, or the mean, says; and its degrees of freedom."""
    amounts, weekdays = [one.owed_micros for one in full], [one.date.weekday() for one in full[-2 * WEEK :]]
    last = amounts[-WEEK:]
    if weekdays[:WEEK] == weekdays[WEEK:] and len(set(weekdays)) == WEEK:
        changes = [a - b for a, b in zip(amounts[-2 * WEEK : -WEEK], last, strict=True)]
        return sum(change * change for change in changes) / (2 * WEEK), WEEK
    n, total = len(last), sum(last)
    return (n * sum(a * a for a in last) - total * total) / (n * (n - 1)), n - 1


def _date(start_us: int) -> date:
    return datetime.fromtimestamp(start_us / 1e6, UTC).date()
