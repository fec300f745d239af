"""Scarcity: it moves what each pays, and not what all pay together; and it is forecast from the weeks before."""

import json
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.billing.lines.money import MICROS
from advisor.billing.lines.schema import SCHEMA
from advisor.billing.pricing.billed_quantity import HOUR
from advisor.billing.pricing.price_book import HOUR_US
from advisor.billing.pricing.scarcity_forecast import forecast
from advisor.billing.pricing.surge_weights import (
    LEAST_PPM,
    MAX_PPM,
    factors_ppm,
    scarcity_ppm,
    scarcity_rows,
    true_up_rows,
)
from advisor.errors import AdvisorError
from features.schema.tables import SCARCITY
from tests.advisor.billing.billed import HOURS, STAMP, START_US, TEAMS, Pool, taken

PPM = st.integers(0, MICROS)
PUBLISHED = st.lists(PPM, min_size=len(HOURS), max_size=len(HOURS))
BASES = st.lists(st.tuples(st.sampled_from(HOURS), st.sampled_from(TEAMS), st.integers(0, 10**16)), max_size=20)
Bases = list[tuple[int, str, int]]


def charged(bases: Bases, kind: str = "base") -> pa.Table:
    rows = [
        {"hour": hour, "kind": kind, "account": team, "container": f"c{i}", "resource": "cpu", "amount_micros": amount}
        for i, (hour, team, amount) in enumerate(bases)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def said(published: list[int], mean_ppm: int, resource: str = "cpu") -> pa.Table:
    shared = {"cluster": "c", "pool": STAMP.pool, "resource": resource, "mean_ppm": mean_ppm, "published_at": 0}
    rows = [{**shared, "hour": hour, "scarcity_ppm": ppm} for hour, ppm in zip(HOURS, published, strict=True)]
    return pa.Table.from_pylist(rows, SCARCITY.schema)


def amounts(rows: pa.Table) -> list[int]:
    found: list[int] = rows["amount_micros"].to_pylist()
    return found


@given(bases=BASES, published=PUBLISHED, mean_ppm=PPM, gamma_ppm=st.integers(0, 10 * MICROS))
def test_scarcity_and_true_up_cancel_to_the_last_unit(
    bases: Bases, published: list[int], mean_ppm: int, gamma_ppm: int
) -> None:
    """I16; and I1, since a month's lines stay what the pool cost."""
    lines = charged(bases)
    scarcity = scarcity_rows(lines, said(published, mean_ppm), gamma_ppm)

    assert sum(amounts(scarcity)) + sum(amounts(true_up_rows(lines, scarcity))) == 0


@given(bases=BASES.filter(bool), published=PUBLISHED, mean_ppm=PPM, gamma_ppm=st.integers(0, 10 * MICROS))
def test_each_line_is_its_base_times_the_factor_rounded_towards_zero(
    bases: Bases, published: list[int], mean_ppm: int, gamma_ppm: int
) -> None:
    found = scarcity_rows(charged(bases), said(published, mean_ppm), gamma_ppm).to_pylist()
    factor = dict(zip(HOURS, factors_ppm(np.array(published), np.array(mean_ppm), gamma_ppm).tolist(), strict=True))
    wanted = {}
    for number, (hour, _, base) in enumerate(bases):
        change = base * abs(factor[hour] - MICROS) // MICROS * (1 if factor[hour] > MICROS else -1)
        if change:
            wanted[f"c{number}"] = change

    assert {row["container"]: row["amount_micros"] for row in found} == wanted
    assert all(json.loads(row["evidence"]) == {"factor_ppm": factor[us(row["hour"])]} for row in found)


def us(hour: datetime) -> int:
    return round(hour.timestamp() * 1e6)


@given(bases=BASES.filter(bool), published=PUBLISHED, more=st.integers(1, MICROS))
def test_the_scarcer_its_hour_the_more_a_container_pays(bases: Bases, published: list[int], more: int) -> None:
    """I6, of scarcity."""
    one, at = charged(bases[:1]), HOURS.index(bases[0][0])
    scarcer = [min(MICROS, value + more * (hour == at)) for hour, value in enumerate(published)]

    before, after = (sum(amounts(scarcity_rows(one, said(some, 500_000), MICROS))) for some in (published, scarcer))

    assert after >= before


@given(scarcity=st.lists(PPM, min_size=1, max_size=9), mean_ppm=PPM, gamma_ppm=st.integers(0, 100 * MICROS))
def test_no_price_is_more_than_doubled_or_halved(scarcity: list[int], mean_ppm: int, gamma_ppm: int) -> None:
    found = factors_ppm(np.array(scarcity), np.array(mean_ppm), gamma_ppm)

    assert ((found >= LEAST_PPM) & (found <= MAX_PPM)).all()
    assert (factors_ppm(np.array(scarcity), np.array(mean_ppm), 0) == MICROS).all(), "turned off it changes nothing"


def test_what_is_published_rises_ever_faster_and_nothing_forecast_is_nothing_scarce() -> None:
    found = scarcity_ppm(np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.3, np.nan]))

    steps = np.diff(found[:5])
    assert (np.diff(steps) > 0).all()
    assert found[[0, 4, 5, 6]].tolist() == [0, MICROS, MICROS, 0]


def test_what_was_not_published_idle_lines_and_credits_are_left_as_they_are() -> None:
    base, hours = [(HOURS[0], "ads", 1000)], [MICROS] * len(HOURS)

    assert scarcity_rows(charged(base), said(hours, 0, "memory"), MICROS).num_rows == 0
    assert scarcity_rows(charged(base, "idle_headroom"), said(hours, 0), MICROS).num_rows == 0
    assert scarcity_rows(charged([(HOURS[0], "ads", -1000)]), said(hours, 0), MICROS).num_rows == 0


def test_scarcity_without_any_base_is_refused() -> None:
    with pytest.raises(AdvisorError, match="micro-units cannot be apportioned, all weights"):
        true_up_rows(charged([]), charged([(HOURS[0], "ads", 5)], "scarcity"))


DAYS = 14
PAST = [START_US + hour * HOUR_US for hour in range(24 * DAYS)]
NEXT = np.arange(START_US + 28 * 24 * HOUR_US, START_US + 30 * 24 * HOUR_US, HOUR_US)


def test_hours_are_as_scarce_as_the_same_hours_of_the_weeks_before_and_a_day_has_one_mean() -> None:
    full = [hour for hour in PAST if hour // HOUR_US % 24 == 12]
    metered = pa.concat_tables([taken(("ads", "a", "prod", "cpu", 8 * HOUR), hour_us=hour) for hour in full])
    pools = Pool(1, {"cpu": 10 * HOUR, "memory": 0}).hours(*PAST)

    found = forecast(metered, pools, NEXT, 7)

    assert set(found["resource"].to_pylist()) == {"cpu"}, "of what there is none nothing is scarce"
    assert found["hour"].cast(pa.int64()).to_pylist() == NEXT.tolist()
    noon, mean = round(0.8**4 * MICROS), round(0.8**4 * MICROS) // 24
    assert found["scarcity_ppm"].to_pylist() == [noon if n % 24 == 12 else 0 for n in range(48)]
    assert set(found["mean_ppm"].to_pylist()) == {mean}


def test_an_hour_of_the_week_that_is_not_known_is_as_scarce_as_that_of_the_day() -> None:
    one_day = PAST[:24]
    metered = pa.concat_tables([taken(("ads", "a", "prod", "cpu", 10 * HOUR), hour_us=hour) for hour in one_day])

    found = forecast(metered, Pool(1, {"cpu": 10 * HOUR}).hours(*one_day), NEXT, 7)

    assert set(found["scarcity_ppm"].to_pylist()) == {MICROS}
