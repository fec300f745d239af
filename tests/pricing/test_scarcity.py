"""Scarcity: it moves what each pays, and not what all pay together."""

from dataclasses import replace

import numpy as np
import pytest
from billed import HOURS, STAMP, TEAMS, accounts, total
from hypothesis import given
from hypothesis import strategies as st

from advisor.pricing.errors import NothingToShareBy
from advisor.pricing.lines import Line, Subject, line_of
from advisor.pricing.money import MICROS
from advisor.pricing.scarcity import LEAST_PPM, MOST_PPM, factors_ppm, scarcity_lines, scarcity_ppm, true_up_lines

MONTH = replace(STAMP, hour_us=None)
PPM = st.integers(0, MICROS)
PUBLISHED = st.lists(PPM, min_size=len(HOURS), max_size=len(HOURS))
BASES = st.lists(st.tuples(st.sampled_from(HOURS), st.sampled_from(TEAMS), st.integers(0, 10**10)), max_size=20)


def charged(bases: list[tuple[int, str, int]]) -> list[Line]:
    return [
        line_of(replace(STAMP, hour_us=hour), Subject(team, f"c{i}", None, "cpu"), "base", amount)
        for i, (hour, team, amount) in enumerate(bases)
    ]


def moved(lines: list[Line], published: list[int], mean_ppm: int, gamma_ppm: int) -> list[Line]:
    """Scarcity lines of all hours, as published."""
    found: list[Line] = []
    for hour, scarcity in zip(HOURS, published, strict=True):
        factor = int(factors_ppm(np.array([scarcity]), mean_ppm, gamma_ppm)[0])
        found += scarcity_lines([line for line in lines if line.stamp.hour_us == hour], {"cpu": factor})
    return found


@given(bases=BASES, published=PUBLISHED, mean_ppm=PPM, gamma_ppm=st.integers(0, 10 * MICROS))
def test_scarcity_and_true_up_cancel_to_the_last_unit(
    bases: list[tuple[int, str, int]], published: list[int], mean_ppm: int, gamma_ppm: int
) -> None:
    """I16; and I1, since a month's lines stay what the pool cost."""
    lines = charged(bases)
    scarcity = moved(lines, published, mean_ppm, gamma_ppm)

    true_up = true_up_lines(lines, scarcity, MONTH)

    assert total(scarcity) + total(true_up) == 0


@given(bases=BASES.filter(bool), published=PUBLISHED, more=st.integers(1, MICROS))
def test_the_scarcer_its_hour_the_more_a_container_pays(
    bases: list[tuple[int, str, int]], published: list[int], more: int
) -> None:
    """I6, of scarcity."""
    lines = charged(bases)
    at = HOURS.index(bases[0][0])
    scarcer = [min(MICROS, value + more * (hour == at)) for hour, value in enumerate(published)]

    before, after = (accounts(moved(lines[:1], some, 500_000, MICROS)) for some in (published, scarcer))

    team = bases[0][1]
    assert after.get(team, 0) >= before.get(team, 0)


@given(scarcity=st.lists(PPM, min_size=1, max_size=9), mean_ppm=PPM, gamma_ppm=st.integers(0, 100 * MICROS))
def test_no_price_is_more_than_doubled_or_halved(scarcity: list[int], mean_ppm: int, gamma_ppm: int) -> None:
    found = factors_ppm(np.array(scarcity), mean_ppm, gamma_ppm)

    assert ((found >= LEAST_PPM) & (found <= MOST_PPM)).all()
    assert (factors_ppm(np.array(scarcity), mean_ppm, 0) == MICROS).all(), "turned off it changes nothing"


def test_what_is_published_rises_ever_faster_and_nothing_forecast_is_nothing_scarce() -> None:
    found = scarcity_ppm(np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.3, np.nan]))

    steps = np.diff(found[:5])
    assert (np.diff(steps) > 0).all()
    assert found[[0, 4, 5, 6]].tolist() == [0, MICROS, MICROS, 0]


def test_a_line_says_what_it_was_worked_out_from() -> None:
    lines = charged([(HOURS[0], "ads", 1001), (HOURS[0], "search", 1000)])

    found = scarcity_lines([*lines, replace(lines[0], kind="idle_headroom")], {"cpu": 1_500_000})
    [ads, search] = true_up_lines(lines, found, MONTH)

    assert [line.amount_micros for line in found] == [500, 500]
    assert [fact.value for fact in found[0].evidence] == [1_500_000, 1001]
    assert (ads.amount_micros, search.amount_micros) == (-500, -500)
    assert (ads.stamp.hour_us, ads.subject.container) == (None, None)


def test_what_was_not_published_changes_nothing() -> None:
    assert scarcity_lines(charged([(HOURS[0], "ads", 1000)]), {"memory": MOST_PPM}) == ()


def test_scarcity_without_any_base_is_refused() -> None:
    stray = line_of(STAMP, Subject("ads"), "scarcity", 5)
    with pytest.raises(NothingToShareBy):
        true_up_lines([], [stray], MONTH)
