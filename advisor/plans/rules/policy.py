"""Rules: when changes are allowed, and how much may be proposed. Light enough to be read with the settings."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from advisor.remediation.action_costs import Prices

HOUR_US = 3600 * 1_000_000
DAY_US = 24 * HOUR_US
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60


@dataclass(frozen=True, slots=True)
class Freeze:
    """A time in which nothing is changed, microseconds since 1970, its end not included."""

    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class Window:
    """A time of the week in which changes are allowed: days, 0 for Monday, and minutes of the day, UTC."""

    days: frozenset[int]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rules:
    """What may be proposed.

    Args:
        max_daily_share: of a cluster's containers that something may be done to within 24 hours; one at least.
        cooldown_us: for how long nothing more is done to a container that something was done to, or was held back.
        holdout_share: share of held-out steps, the control group for the effect of the others.
        valid_us: how long a plan may be approved and exported.
        max_steps: of one plan.
        max_search_moves: moves that the search of the whole cluster tries, without a diagnosed victim; 0 does not
            search.
        prices: what acting costs.
        freezes: when nothing is changed.
        windows: when changes are allowed; always where there are none.
    """

    max_daily_share: float = 0.005
    cooldown_us: int = DAY_US
    holdout_share: float = 0.15
    valid_us: int = 4 * HOUR_US
    max_steps: int = 20
    max_search_moves: int = 0
    prices: Prices = field(default_factory=Prices)
    freezes: tuple[Freeze, ...] = ()
    windows: tuple[Window, ...] = ()

    def closed(self, at_us: int) -> str:
        """Why nothing may be changed at a time; empty where it may."""
        for freeze in self.freezes:
            if freeze.start_us <= at_us < freeze.end_us:
                return f"changes are frozen until {utc(freeze.end_us)} (COHABIT_PLANS__CHANGE_FREEZES)"
        if self.windows and not any(_within(window, at_us) for window in self.windows):
            return "no change window is open (COHABIT_PLANS__CHANGE_WINDOWS)"
        return ""


def _within(window: Window, at_us: int) -> bool:
    at = datetime.fromtimestamp(at_us / 1e6, UTC)
    minute = 60 * at.hour + at.minute
    if window.start < window.end:
        return at.weekday() in window.days and window.start <= minute < window.end
    yesterday = (at.weekday() - 1) % 7
    return (at.weekday() in window.days and minute >= window.start) or (
        yesterday in window.days and minute < window.end
    )


def utc(at_us: int) -> str:
    """A time for people, to the minute."""
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M} UTC"
