"""Months: the periods that are closed, and the hours in them. Kernel."""

import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from advisor.errors import Invalid

NAME = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])")
"""Of plain digits alone: another way to write a month would be a second month of the same hours."""


def bounds(period: str) -> tuple[datetime, datetime]:
    """The half-open range of a month, UTC.

    Args:
        period: as in 2026-11.

    Raises:
        Invalid: it is no month.
    """
    found = NAME.fullmatch(period)
    if found is None:
        raise Invalid(f"{period[:40]!r} is not a month: write it as 2026-11")
    start = datetime(int(found[1]), int(found[2]), 1, tzinfo=UTC)
    return start, start + timedelta(days=monthrange(start.year, start.month)[1])


def days(period: str) -> Sequence[tuple[datetime, datetime]]:
    """The half-open ranges of its days.

    Raises:
        Invalid: it is no month.
    """
    start, end = bounds(period)
    count = (end - start).days
    return [(start + timedelta(days=n), start + timedelta(days=n + 1)) for n in range(count)]


def month_of(at: datetime) -> str:
    """The month that a time lies in, UTC."""
    return f"{at.astimezone(UTC):%Y-%m}"
