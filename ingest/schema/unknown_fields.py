"""Names of unknown fields: so many, and of such a length, that a sender cannot fill our memory. Kernel."""

from collections import Counter
from collections.abc import Iterable, Mapping

MAX_UNKNOWN_NAMES = 100
MAX_NAME_LENGTH = 100
OTHERS = "…"
"""Unknown fields beyond that many names are counted together under this one."""


def bounded_counts(times: Mapping[str, int]) -> dict[str, int]:
    """How often each name was seen, for the first names in the order of the alphabet; the rest counted as OTHERS."""
    counts: Counter[str] = Counter()
    for name, count in times.items():
        counts[name[:MAX_NAME_LENGTH]] += count
    kept = sorted(counts)[:MAX_UNKNOWN_NAMES]
    rest = counts.total() - sum(counts[name] for name in kept)
    return {name: counts[name] for name in kept} | ({OTHERS: rest} if rest else {})


def total_counts(times: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """How often each name was seen in all of them."""
    counts: Counter[str] = Counter()
    for some in times:
        counts.update(some)
    others = counts.pop(OTHERS, 0)
    bounded = bounded_counts(counts)
    return bounded | ({OTHERS: bounded.get(OTHERS, 0) + others} if others else {})
