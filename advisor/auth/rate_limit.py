"""Rates: how often one caller may ask, a bucket of permits each. Pure: the clock is passed in."""

import math
from collections import OrderedDict
from dataclasses import dataclass, field

MAX_CALLERS = 4096
"""Whose buckets are held; of more the one that asked longest ago starts anew with a full one."""


@dataclass
class Rates:
    """At most `burst` requests at once, and `per_s` a second on the whole.

    Args:
        per_s: permits that a caller gets a second, above 0.
        burst: permits that are kept for one, at least 1.
    """

    per_s: float
    burst: float
    _buckets: OrderedDict[str, tuple[float, int]] = field(default_factory=OrderedDict, init=False)
    """Permits left, and when that was."""

    def wait_s(self, caller: str, now_us: int) -> int:
        """Take a permit.

        Args:
            caller: whose.
            now_us: microseconds since 1970; a clock set back refills no budget.

        Returns:
            0 where there was one; else whole seconds until there is.

        Source: token bucket, RFC 2697 with one rate.
        """
        left, at_us = self._buckets.pop(caller, (self.burst, now_us))
        left = min(self.burst, left + self.per_s * max(0, now_us - at_us) / 10**6)
        while len(self._buckets) >= MAX_CALLERS:
            self._buckets.popitem(last=False)
        self._buckets[caller] = (left - 1 if left >= 1 else left), now_us
        return 0 if left >= 1 else math.ceil((1 - left) / self.per_s)
