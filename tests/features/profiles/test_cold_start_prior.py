"""Kin: what is expected of an app of which little is known, on numbers small enough to check by hand, and its laws."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from features.profiles.cold_start_prior import ENOUGH, expected, expected_of_new
from features.schema.catalog import EXPECTED
from features.schema.tables import PROFILES
from features.training.residents import described
from tests.features.rows import at

Floats = NDArray[np.float64]
CPU, DEMAND = EXPECTED.index("sensitivity_cpu"), EXPECTED.index("demand_cpu")
LATER = 100


@dataclass(frozen=True)
class Told:
    """A profile: log(1 + sensitivity to CPU) of an app on a platform, and what it uses of it."""

    app: str
    team: str | None = None
    cpu: float | None = 1.0
    platform: str = "p"
    demand: float | None = 0.1
    second: int = 0
    cluster: str = "c"
    kind: str | None = "latency"


def profiles(told: Sequence[Told]) -> pa.Table:
    rows = [
        {
            "cluster": one.cluster,
            "app": one.app,
            "team": one.team,
            "platform": one.platform,
            "as_of": at(one.second),
            "windows": 50.0,
            "sensitivity_cpu": None if one.cpu is None else np.expm1(one.cpu),
            "demand_cpu": one.demand,
            "kind": one.kind,
        }
        for one in told
    ]
    return pa.Table.from_pylist(rows, schema=PROFILES.schema)


def keys(*asked: tuple[str | None, str | None, str | None]) -> pa.Table:
    """Apps with their teams and platforms."""
    text = pa.string()
    columns = [pa.array(column, text) for column in zip(*asked, strict=True)]
    return pa.table([pa.array(["c"] * len(asked), text), *columns], ["cluster", "app", "team", "platform"])


def micros(seconds: Sequence[int]) -> NDArray[np.int64]:
    return np.array([round(at(s).timestamp() * 1e6) for s in seconds], np.int64)


def of(
    told: Sequence[Told],
    app: str | None = None,
    team: str | None = None,
    platform: str | None = "p",
    *,
    second: int = LATER,
) -> float:
    """log(1 + expected sensitivity to CPU) of one app."""
    return float(np.log1p(expected(keys((app, team, platform)), micros([second]), profiles(told))[0, CPU]))


ALIKE = [Told(f"a{i}", "red", 1.0) for i in range(4)] + [Told(f"b{i}", "blue", 3.0) for i in range(4)]
"""Two teams whose apps are the same: everything is said by the team."""


def test_teams_that_tell_everything_are_believed() -> None:
    assert of(ALIKE, team="red") == pytest.approx(1.0)
    assert of(ALIKE, team="blue") == pytest.approx(3.0)


def test_of_an_unknown_team_the_mean_of_all_apps_is_expected() -> None:
    assert of(ALIKE, team="new") == of(ALIKE, team=None) == pytest.approx(2.0)


def test_teams_that_differ_no_more_than_their_apps_do_are_not_listened_to() -> None:
    mixed = [Told(f"{team}{i}", team, value) for team in ("red", "blue") for i, value in enumerate((1.0, 3.0))]

    assert of(mixed, team="red") == pytest.approx(2.0)


def test_a_team_is_believed_by_the_variances_between_and_within() -> None:
    told = [Told("a", "red", 1.0), Told("b", "red", 2.0), Told("c", "blue", 5.0), Told("d", "blue", 6.0)]

    within, between = 0.5, (16.0 - 0.5) / 2  # (MSB - MSW) / apps of a team
    weight = between / (between + within / 2)

    assert of(told, team="red") == pytest.approx(3.5 + weight * (1.5 - 3.5))


def test_a_team_with_few_apps_is_believed_less() -> None:
    told = [Told(f"a{i}", "red", 1.0 + 0.5 * (i % 2)) for i in range(8)]
    told += [Told(f"b{i}", "blue", 3.0 + 0.5 * (i % 2)) for i in range(8)]
    small = [*told, Told("c", "green", 4.0)]
    whole = float(np.mean([one.cpu or 0.0 for one in small]))

    few, many = ((of(small, team=t) - whole) / (own - whole) for t, own in (("green", 4.0), ("blue", 3.25)))

    assert 0 < few < many < 1


def test_where_one_team_is_all_there_is_nothing_tells_it_from_others() -> None:
    assert of([Told("a", "red", 1.0), Told("b", "red", 3.0), Told("c", None, 5.0)], team="red") == pytest.approx(3.0)


def test_what_is_known_by_waiting_counts_only_where_few_apps_are_known_better() -> None:
    """Waiting knows no harm through caches: sensitivities by it are lower than those of apps with latency."""
    waiting = [Told(f"w{i}", None, 0.2, kind="waiting", demand=0.5) for i in range(4)]
    known = [Told(f"a{i}", None, 2.0) for i in range(ENOUGH)]
    elsewhere = [replace(one, cluster="d") for one in known]

    assert of(waiting) == of([*waiting, *elsewhere]) == pytest.approx(0.2)
    assert of([*waiting, *known]) == pytest.approx(2.0)
    assert of([*waiting, *known[1:]]) == pytest.approx((4 * 0.2 + (ENOUGH - 1) * 2.0) / (ENOUGH + 3))
    assert of([*waiting, *(replace(one, cpu=None) for one in known)]) == pytest.approx(0.2)


def test_an_app_on_many_platforms_is_one_app() -> None:
    waiting = [Told(f"w{i}", None, 0.2, kind="waiting") for i in range(20)]
    known = [Told("a", None, 2.0, platform) for platform in ("p", *(f"q{i}" for i in range(ENOUGH)))]

    assert of([*waiting, *known]) == pytest.approx((20 * 0.2 + 2.0) / 21)


def test_what_is_used_is_known_of_apps_that_only_wait() -> None:
    told = [Told("w", None, 0.2, kind="waiting", demand=0.5), Told("a", None, 2.0, demand=0.1)]

    found = expected(keys((None, None, "p")), micros([LATER]), profiles(told))[0, DEMAND]

    assert found == pytest.approx(np.expm1(np.log1p([0.5, 0.1]).mean()))


def test_a_better_label_counts_from_when_it_is_there() -> None:
    known = [Told(f"a{i}", None, 2.0, second=LATER) for i in range(ENOUGH)]
    told = [Told("w", None, 0.2, kind="waiting"), *known]

    assert of(told, second=LATER - 1) == pytest.approx(0.2)
    assert of(told, second=LATER) == pytest.approx(2.0)


def test_an_app_that_ran_elsewhere_is_expected_to_be_as_it_is_there() -> None:
    elsewhere = [Told(f"a{i}", None, float(i), platform) for i in range(5) for platform in ("p", "q")]

    assert of([*elsewhere, Told("x", None, 4.0, "q")], app="x") == pytest.approx(4.0, abs=0.1)


def test_an_app_that_differs_from_platform_to_platform_tells_little() -> None:
    """Sensitivities on one platform say nothing of those on the other."""
    rng = np.random.default_rng(3)
    told = [Told(f"a{i}", None, float(rng.uniform(0, 4)), platform) for i in range(40) for platform in ("p", "q")]
    whole = np.mean([one.cpu for one in told if one.platform == "p"])

    assert of([*told, Told("x", None, 4.0, "q")], app="x") == pytest.approx(whole, abs=0.5)


def test_on_a_platform_where_nobody_ran_an_app_is_as_elsewhere_and_others_as_everybody_there() -> None:
    told = [Told("a", None, 1.0), Told("b", None, 2.0), Told("c", None, 6.0)]

    assert of(told, app="c", platform="new") == pytest.approx(6.0)
    assert of(told, platform="new") == pytest.approx(3.0)


def test_platforms_have_means_of_their_own() -> None:
    told = [Told("a", None, 1.0, "p"), Told("a", None, 4.0, "q"), Told("b", None, 3.0, "p"), Told("b", None, 8.0, "q")]

    assert of(told, platform="p") == pytest.approx(2.0)
    assert of(told, platform="q") == pytest.approx(6.0)


def test_where_nobody_is_known_nothing_is_expected() -> None:
    assert np.isnan(of([]))
    assert np.isnan(of([Told("a", cpu=None)]))
    assert np.isnan(of(ALIKE, platform=None))
    assert np.isnan(of([replace(one, cluster="other") for one in ALIKE], team="red"))


def test_an_apps_own_team_is_the_one_its_newest_profile_tells() -> None:
    told = [*ALIKE, Told("x", "red", None), Told("x", "blue", None, second=10)]

    assert of(told, app="x", team="red", second=5) == pytest.approx(1.0)
    assert of(told, app="x", team="red") == pytest.approx(3.0)


def row(app: str, team: str | None, told: Sequence[Told]) -> Floats:
    """A whole profile, of the sensitivity to CPU log(1 + value)."""
    found = described(keys((app, team, "p")), micros([LATER]), profiles(told))[0]
    found[CPU] = np.log1p(found[CPU])
    return np.asarray(found, np.float64)


def test_an_app_keeps_what_is_known_of_it() -> None:
    told = [*ALIKE, Told("x", "red", 9.0, demand=0.7)]

    assert row("x", "red", told)[[CPU, DEMAND]] == pytest.approx([9.0, 0.7])
    assert row("x", "red", told)[-1] == 50.0


def test_a_sensitivity_that_is_not_known_yet_is_expected_and_a_demand_nobody_could_measure_is_not() -> None:
    found = row("x", "red", [*ALIKE, Told("x", "red", cpu=None, demand=None)])

    assert found[CPU] == pytest.approx(1.0)
    assert np.isnan(found[DEMAND])


def test_an_app_that_never_ran_there_still_counts_as_one_without_windows() -> None:
    found = row("new", "red", ALIKE)

    assert found[CPU] == pytest.approx(1.0)
    assert found[DEMAND] == pytest.approx(0.1)
    assert found[-1] == 0.0


@pytest.mark.parametrize("apps", [12, 60])
def test_teams_given_at_random_get_little_weight(apps: int) -> None:
    """Five teams that tell nothing: how far their means are believed, in the mean of many draws."""
    rng, believed = np.random.default_rng(1), []
    for _ in range(60):
        values = np.log1p(rng.gamma(1.2, 1.0, apps))
        told = [Told(f"a{i:02}", f"t{i % 5}", float(v)) for i, v in enumerate(values)]
        whole, own = values.mean(), values[np.arange(apps) % 5 == 0].mean()
        believed.append((of(told, team="t0") - whole) / (own - whole))

    assert np.mean(believed) < 0.2
    assert np.median(believed) < 0.05


def test_teams_given_at_random_do_no_harm() -> None:
    """Squared error of expectations of left out apps beside that of the plain mean, in the mean of many draws."""
    rng = np.random.default_rng(2)
    lost = np.zeros((60, 2))
    for draw in range(len(lost)):
        values = np.log1p(rng.gamma(1.2, 1.0, 24))
        told = profiles([Told(f"a{i:02}", f"t{i % 5}", float(v)) for i, v in enumerate(values)])
        asked = keys(*((f"a{i:02}", f"t{i % 5}", "p") for i in range(24)))
        kin = np.log1p(expected_of_new(asked, micros([LATER] * 24), told)[:, CPU])
        plain = (values.sum() - values) / 23
        lost[draw] = ((kin - values) ** 2).mean(), ((plain - values) ** 2).mean()

    assert lost[:, 0].mean() < 1.05 * lost[:, 1].mean()


values = st.one_of(st.none(), st.floats(0, 5))
profile = st.builds(
    Told,
    app=st.sampled_from(["a", "b", "c", "d", "e", "f"]),
    team=st.sampled_from([None, "red", "blue", "green"]),
    cpu=values,
    platform=st.sampled_from(["p", "q", "r"]),
    demand=values,
    second=st.integers(0, 5),
    cluster=st.sampled_from(["c", "c", "d"]),
    kind=st.sampled_from(["latency", "latency", "waiting", None]),
)
some_profiles = st.lists(profile, max_size=25, unique_by=lambda one: (one.cluster, one.app, one.platform, one.second))
asked = st.tuples(
    st.sampled_from(["a", "b", "c", "new", None]),
    st.sampled_from([None, "red", "blue", "new"]),
    st.sampled_from(["p", "q", "new", None]),
)
several = st.lists(asked, min_size=1, max_size=6)


@settings(deadline=None, max_examples=40)
@given(told=some_profiles, who=several, order=st.randoms(use_true_random=False), second=st.integers(-1, 6))
def test_the_order_of_profiles_changes_no_bit(told: list[Told], who: list[tuple[str, str, str]], order, second) -> None:  # type: ignore[no-untyped-def]
    mixed = list(told)
    order.shuffle(mixed)

    for ask in (expected, expected_of_new):
        one, two = (ask(keys(*who), micros([second] * len(who)), profiles(rows)) for rows in (told, mixed))
        assert one.tobytes() == two.tobytes()


@settings(deadline=None, max_examples=40)
@given(told=some_profiles, who=several)
def test_what_is_expected_lies_within_what_is_known(told: list[Told], who: list[tuple[str, str, str]]) -> None:
    known = [one.cpu for one in told if one.cpu is not None and one.cluster == "c"]

    for ask in (expected, expected_of_new):
        found = np.log1p(ask(keys(*who), micros([LATER] * len(who)), profiles(told))[:, CPU])
        found = found[np.isfinite(found)]
        assert not len(found) or (min(known) - 1e-9 <= found.min() <= found.max() <= max(known) + 1e-9)


@settings(deadline=None, max_examples=40)
@given(told=some_profiles, who=several, second=st.integers(-1, 6))
def test_later_profiles_change_nothing_earlier(told: list[Told], who: list[tuple[str, str, str]], second: int) -> None:
    known = [one for one in told if one.second <= second]

    for ask in (expected, expected_of_new):
        one, two = (ask(keys(*who), micros([second] * len(who)), profiles(rows)) for rows in (told, known))
        assert one.tobytes() == two.tobytes()


@settings(deadline=None, max_examples=40)
@given(told=some_profiles, who=several)
def test_others_who_ask_and_other_clusters_change_no_bit(told: list[Told], who: list[tuple[str, str, str]]) -> None:
    here = [one for one in told if one.cluster == "c"]
    times = micros([LATER] * len(who))

    together = expected(keys(*who), times, profiles(told))

    for number, one in enumerate(who):
        assert expected(keys(one), times[:1], profiles(here))[0].tobytes() == together[number].tobytes()


@settings(deadline=None, max_examples=40)
@given(told=some_profiles, who=several)
def test_an_app_taken_for_new_is_expected_as_if_its_profiles_were_not_there(
    told: list[Told], who: list[tuple[str, str, str]]
) -> None:
    found = expected_of_new(keys(*who), micros([LATER] * len(who)), profiles(told))

    for number, (app, team, platform) in enumerate(who):
        others = profiles([one for one in told if one.app != app])
        own = [one for one in told if (one.app, one.cluster) == (app, "c") and one.team]
        told_team = max(own, key=lambda one: (one.second, one.platform)).team if own else team
        without = expected(keys((app, told_team, platform)), micros([LATER]), others)[0]
        assert found[number] == pytest.approx(without, abs=1e-6, nan_ok=True)
