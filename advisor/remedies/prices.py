"""Prices: what acting costs, in the cost of advisor.decision times hours. Facts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """What acting costs.

    Args:
        hours: for how long a remedy is meant to hold.
        restart: of a latency-sensitive container, in the cost of advisor.decision times hours: minutes without answers
            and the warming up after them.
        restart_best_effort: of a best-effort one: two hours of work done again.
    """

    hours: float = 2.0
    restart: float = 0.5
    restart_best_effort: float = 0.4

    def of(self, *, best_effort: bool) -> float:
        """Of moving a container."""
        return self.restart_best_effort if best_effort else self.restart
