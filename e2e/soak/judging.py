"""Judging: whether memory grew, by the least each process held in each round of scheduled commands."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cohabit.terminal.console import show_table
from e2e.soak.errors import SoakFailed
from e2e.soak.memory import Floats, Held, Slope, least, slope_of

MAX_GROWTH = 0.2
"""Per cent an hour."""
FEWEST_ROUNDS = 3
"""Of scheduled commands, by the least held in which memory is judged."""
JUDGED = ("ingest", "refresh", "serve")
"""Of which memory is judged. That of a JVM goes up to what it may have; it is told."""
ALL_THE_TIME = 0.9
"""Of the samples of the process that was looked at most often: who has fewer came later or ended."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The least a process held in each round, in bytes, and how fast it grew."""

    lows: Floats
    slope: Slope


def growth(of: Mapping[str, Held], warm_up_s: float, round_s: float) -> dict[str, Growth]:
    """How fast the memory of each process grew that was there all the time after warming up.

    Args:
        of: samples by process.
        warm_up_s: what is not judged, in seconds since the first look.
        round_s: how long a round of scheduled commands is.

    Returns:
        By process, in order of names.

    Raises:
        SoakFailed: a process whose memory is judged was not there for `FEWEST_ROUNDS` rounds.
    """
    later = {name: held.since(warm_up_s) for name, held in sorted(of.items())}
    most = max((len(held.at_s) for held in later.values()), default=0)
    there = {name: held.there() for name, held in later.items()}
    lows = {
        name: least(held.at_s, held.bytes, round_s)
        for name, held in there.items()
        if len(held.at_s) >= max(1.0, ALL_THE_TIME * most)
    }
    known = {name: (at_s, low) for name, (at_s, low) in lows.items() if len(low) >= FEWEST_ROUNDS}
    if missing := set(JUDGED) - {_kind(name) for name in known}:
        raise SoakFailed(
            f"{', '.join(sorted(missing))}: not there for {FEWEST_ROUNDS} rounds of {round_s / 60:g} minutes after "
            f"{warm_up_s / 60:g}; soak for longer, or take a shorter --warm-up or --every"
        )
    return {name: Growth(low, slope_of(at_s, low, np.random.default_rng(0))) for name, (at_s, low) in known.items()}


def grew(found: Mapping[str, Growth]) -> list[str]:
    """Those whose memory is judged and grew by more than it may."""
    return [name for name, one in found.items() if _kind(name) in JUDGED and one.slope.value > MAX_GROWTH]


def tell(found: Mapping[str, Growth], warm_up_s: float, round_s: float) -> None:
    """Show what each process held and how fast that grew."""
    rows = [
        (name, _in_mib(one.lows), f"{one.slope.value:+.2f} ({one.slope.low:+.2f} to {one.slope.high:+.2f})")
        for name, one in found.items()
    ]
    title = f"least held in each {round_s / 60:g} minutes, after {warm_up_s / 60:g}"
    show_table(title, ("process", "MiB, one after another", "% an hour"), rows)


def _kind(name: str) -> str:
    return name.partition(",")[0]


def _in_mib(held: Floats) -> str:
    return " ".join(f"{one / 2**20:.1f}" for one in held)
