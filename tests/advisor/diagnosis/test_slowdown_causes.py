"""Verdicts: a neighbour is named only where it may add most of it, surely, and nobody else is to blame."""

import numpy as np
import pytest

from advisor.diagnosis.attribution import Attribution
from advisor.diagnosis.slowdown_causes import Circumstances, Verdict, verdict_of

ENOUGH = 3
NOTHING = float("nan")


def found(
    added: tuple[float, ...] = (0.5, 0.1), *, spread: float = 0.02, surely: float = 0.95, compared: int = 9
) -> Attribution:
    return Attribution(
        added=np.array(added),
        spread=np.full(len(added), spread),
        surely=np.array([surely, *([0.01] * (len(added) - 1))][: len(added)]),
        by_resource=np.array(added)[:, None],
        excess=0.6,
        level=0.0,
        compared=compared,
    )


def alone(
    *, known: int = 5, held: int = 0, others_unexplained: float = NOTHING, downstream: bool = False
) -> Circumstances:
    return Circumstances(known, held, others_unexplained, downstream)


@pytest.mark.parametrize(
    ("of", "attribution", "verdict"),
    [
        (alone(), found(), "antagonist"),
        (alone(), found((0.2, 0.1)), "no offender"),
        (alone(), found((0.2, 0.1), spread=0.1), "antagonist"),
        (alone(), found((0.2, 0.1), compared=0), "antagonist"),
        (alone(), found(surely=0.6), "no offender"),
        (alone(), found(()), "no offender"),
        (alone(held=3), found(), "self-inflicted"),
        (alone(held=2), found(), "antagonist"),
        (alone(held=3, others_unexplained=1.0), None, "self-inflicted"),
        (alone(known=2), found(), "not enough data"),
        (alone(), None, "not enough data"),
        (alone(others_unexplained=0.8), found(), "antagonist"),
        (alone(others_unexplained=0.8), found((0.3, 0.1)), "host"),
        (alone(others_unexplained=0.5), found((0.2, 0.1)), "no offender"),
        (alone(others_unexplained=0.8), found(surely=0.6), "host"),
        (alone(downstream=True), found((0.3, 0.1)), "downstream"),
        (alone(downstream=True), found(), "antagonist"),
        (alone(downstream=True, others_unexplained=0.8), found((0.3, 0.1)), "host"),
    ],
)
def test_a_verdict_goes_no_further_than_what_is_known(
    of: Circumstances, attribution: Attribution | None, verdict: Verdict
) -> None:
    told, reason = verdict_of(of, attribution, ENOUGH)

    assert told == verdict
    assert reason
