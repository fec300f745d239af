"""Problem: what does not fit together is refused by name, before anything reads beyond an array's end."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from advisor.errors import UnusableProblem
from advisor.optimizer.problem import Problem
from tests.advisor.optimizer.drawn_problems import NODES, drawn

Spoil = Callable[[Problem], object]


def limited(of: Problem, **parts: object) -> Problem:
    return replace(of, limits=replace(of.limits, **parts))  # type: ignore[arg-type]  # whatever is spoilt


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda of: replace(of, capacity=of.capacity[:, 1:]), "capacity has shape"),
        (lambda of: replace(of, start=of.start + NODES), "start has a code outside"),
        (lambda of: replace(of, use=-of.use - 1), "use has what is no number of at least 0"),
        (lambda of: replace(of, excess=replace(of.excess, weight=of.excess.weight[:1])), "excess.weight has shape"),
        (lambda of: replace(of, excess=replace(of.excess, weight=-of.excess.weight)), "excess.weight has what is no"),
        (
            lambda of: replace(of, excess=replace(of.excess, safe=of.excess.safe * np.nan)),
            "excess.safe has what is no number",
        ),
        (lambda of: replace(of, balance=replace(of.balance, weight=np.ones(3))), "balance.weight has shape"),
        (lambda of: replace(of, harm=replace(of.harm, weight=of.harm.weight[:, :1])), "harm.weight has shape"),
        (lambda of: replace(of, harm=replace(of.harm, own=of.harm.own + 9)), "has a code outside"),
        (lambda of: limited(of, location=of.limits.location[:0]), "limits.spread asks for limits.location"),
        (
            lambda of: limited(of, neighbourhood=of.limits.location[:0], needs=np.array([[0, 1]])),
            "limits.needs asks for",
        ),
        (lambda of: replace(of, moves=replace(of.moves, site=of.moves.site[:0])), "moves.trip asks for moves.site"),
        (lambda of: replace(of, moves=replace(of.moves, trip=of.moves.trip[:2])), "moves.trip has shape"),
        (lambda of: replace(of, curve=replace(of.curve, column=np.array([2, 2]))), "in the profile twice"),
        (lambda of: replace(of, use=of.use[:, 0]), "use is no array of numbers in 2 dimensions"),
        (lambda of: replace(of, app=of.app.astype(float)), "app is no array of whole numbers in 1 dimensions"),
        (lambda of: replace(of, held=of.held.astype(int)), "held is no array of flags"),
        (lambda of: replace(of, start=of.start.tolist()), "start is no array of whole numbers"),
        (lambda of: replace(of, use=of.use[:, :0]), "6 nodes and 0 columns"),
        (lambda of: replace(of, capacity=of.capacity[:0]), "0 nodes and 12 columns"),
        (lambda of: replace(of, capacity=-of.capacity), "capacity has what is no number of at least 0"),
        (lambda of: replace(of, capacity=of.capacity * np.inf), "a column that is balanced has no limit"),
        (lambda of: replace(of, use=of.use + 1e308), "so large that their sum is none"),
        (lambda of: replace(of, homeless=np.nan), "homeless has what is no number of at least 0"),
        (lambda of: replace(of, curve=replace(of.curve, fixed=-1.0)), "curve.fixed has what is no number"),
        (lambda of: replace(of, moves=replace(of.moves, most_of_app=np.nan)), "moves.most_of_app has what is no"),
        (lambda of: replace(of, moves=replace(of.moves, most=-1)), "moves.most has what is no number of at least 0"),
        (lambda of: replace(of, moves=replace(of.moves, most=10**30)), "moves.most is no whole number below"),
        (lambda of: replace(of, moves=replace(of.moves, most=1.5)), "moves.most is no whole number"),
        (lambda of: replace(of, excess=replace(of.excess, safe=of.excess.safe - np.inf)), "excess.safe has what is no"),
        (lambda of: limited(of, pair=np.zeros((len(of.limits.most), 3), np.int64)), "limits.pair has shape"),
        (lambda of: limited(of, location=of.limits.location + 2**30), "limits.location has a code outside 0 to 5"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(spoil: Spoil, told: str) -> None:
    with pytest.raises(UnusableProblem, match=told):
        spoil(drawn(1))
