"""How records travel: when an exporter is asked, and when what it sent arrives. Late, held up and doubled ones too."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tests.life.truth import END_S, START_S, Floats, Node, Rng, Timeline

HOUSEKEEPING_S = 10.0
"""cAdvisor reads cgroups so often; what is scraped in between is what it last read."""


class Sent(NamedTuple):
    """One record on a topic."""

    arrived_ms: int
    value: bytes


def scrapes(timeline: Timeline, node: Node, phase_s: float) -> Floats:
    """(n,) when a node's exporter is asked: while the node is there and the exporter runs."""
    at = np.arange(timeline.begin + phase_s, END_S, timeline.interval_s)
    at = at[(at >= node.start) & (at < node.end)]
    return at[timeline.up(node.name, at)]


def read_at(at: Floats, phase_s: float = 0.0) -> Floats:
    """(n,) when cAdvisor last read what is reported at each time."""
    return np.floor((at - phase_s) / HOUSEKEEPING_S) * HOUSEKEEPING_S + phase_s


def nanos(at: Floats) -> list[int]:
    """Times as nanoseconds since 1970."""
    return [START_S * 1_000_000_000 + round(second * 1_000_000) * 1000 for second in at.tolist()]


def stamps(at: Floats) -> list[str]:
    """Times as RFC 3339 in whole seconds, cut."""
    whole = (np.floor(at) + START_S).astype("datetime64[s]")
    return [f"{text}Z" for text in np.datetime_as_string(whole).tolist()]


def sent(timeline: Timeline, rng: Rng, at: Floats, values: Sequence[bytes]) -> list[Sent]:
    """Records in the order of their arrival.

    Args:
        timeline: whose.
        rng: how long each is on its way.
        at: (n,) when each was made.
        values: (n,) their bytes.
    """
    arrives = at + rng.uniform(0.1, 2.0, len(at))
    for held in timeline.held:
        inside = (at >= held.start) & (at < held.end)
        arrives = np.where(inside, held.end + rng.uniform(0.0, 1.0, len(at)), arrives)
    again = np.flatnonzero(rng.random(len(at)) < timeline.doubled)
    arrives = np.append(arrives, arrives[again] + rng.uniform(0.0, 20.0, len(again)))
    which = np.append(np.arange(len(at)), again)
    order = np.argsort(arrives, kind="stable")
    times = np.round((arrives[order] + START_S) * 1000).astype(np.int64).tolist()
    return [Sent(time, values[row]) for time, row in zip(times, which[order].tolist(), strict=True)]
