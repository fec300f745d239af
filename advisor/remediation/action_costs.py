"""Prices: what acting costs, in the cost of advisor.scoring.score_scale times hours. Facts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """What acting costs.

    Args:
        hours: for how long a remedy is meant to hold.
        restart: of a latency-sensitive container, in the cost of advisor.scoring.score_scale times hours: minutes
        without answers
            and the warming up after them.
        restart_best_effort: of a best-effort one, at most: two hours of work done again. One that has run for less has
            less to do again.
    """

    hours: float = 2.0
    restart: float = 0.5
    restart_best_effort: float = 0.4
