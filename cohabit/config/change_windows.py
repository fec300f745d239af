"""Calendar: freezes and windows for changes, as settings spell them."""

import re
from datetime import UTC, datetime

from advisor.plans.rules.policy import DAY_MINUTES, DAYS, Freeze, Window

_WINDOW = re.compile(r"([a-z]{3})(?:-([a-z]{3}))? (\d{2}):(\d{2})-(\d{2}):(\d{2})")


def freezes_of(value: object) -> object:
    """Freezes from START/END by commas.

    Raises:
        ValueError: a part is none.
    """
    return tuple(map(_freeze, _parts(value))) if isinstance(value, str) else value


def windows_of(value: object) -> object:
    """Windows from DAYS HH:MM-HH:MM by commas.

    Raises:
        ValueError: a part is none.
    """
    return tuple(map(_window, _parts(value))) if isinstance(value, str) else value


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _freeze(part: str) -> Freeze:
    try:
        start, end = (_micros(each) for each in part.split("/"))
    except ValueError as error:
        raise ValueError(f"{part!r}: give START/END, as in 2026-12-20T00:00Z/2027-01-03T00:00Z") from error
    if start >= end:
        raise ValueError(f"{part!r} ends before it starts")
    return Freeze(start, end)


def _micros(text: str) -> int:
    at = datetime.fromisoformat(text.strip())
    return round(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1e6)


def _window(part: str) -> Window:
    found = _WINDOW.fullmatch(part.lower())
    if found is None or any(day not in DAYS for day in found.group(1, 2) if day):
        raise ValueError(f"{part!r}: give DAYS HH:MM-HH:MM in UTC, as in mon-thu 09:00-16:00")
    first, last = DAYS.index(found[1]), DAYS.index(found[2] or found[1])
    days = frozenset((first + k) % len(DAYS) for k in range((last - first) % len(DAYS) + 1))
    start, end = 60 * int(found[3]) + int(found[4]), 60 * int(found[5]) + int(found[6])
    if start == end or start >= DAY_MINUTES or end > DAY_MINUTES or int(found[4]) > 59 or int(found[6]) > 59:
        raise ValueError(f"{part!r}: there is no such time of the day, or it ends where it starts")
    return Window(days, start, end)
