"""Scoring: the vectorised scorer against a plain loop, and the laws it must keep."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot, nothing_expected
from advisor.scoring.candidates import home_of, seats_of
from advisor.scoring.scorer import ModelScorer, Scores
from advisor.scoring.served_margins import served_margins
from features.schema.catalog import EXPECTED, NAMES, RAW_NAMES, catalogue_hash
from features.training.model_input import complete
from features.training.residents import DEMAND
from models.bundle.bundle import load_bundle
from models.estimator.predictor import Prediction, Predictor
from models.forms.co_runner_choice import Choice
from tests.advisor.clusters import APPS, MARGINS, NOW_US, busier, emptied, snapshot

Floats = NDArray[np.float64]
ScorerOf = Callable[[Snapshot], ModelScorer]


def model_of(scorer: ModelScorer) -> Predictor:
    assert isinstance(scorer.predictor, Predictor)
    return scorer.predictor


def every(snapshot: Snapshot) -> NDArray[np.int32]:
    return np.arange(len(snapshot.nodes), dtype=np.int32)


def score(scorer: ModelScorer, nodes: NDArray[np.int32], app: str = "web", team: str | None = None) -> Scores:
    return scorer.score(PendingPod(app, team), nodes, now_us=NOW_US)


def by_the_worst(scorer: ModelScorer) -> ModelScorer:
    """The same, comparing nodes by what neighbours do together, mostly the worst of them."""
    return replace(scorer, predictor=replace(scorer.predictor, choice=Choice(4, 0.7)))


def ratios(scores: Scores, node: int) -> list[float]:
    return list(scores.harm.ratio[scores.harm.offsets[node] : scores.harm.offsets[node + 1]])


def plain_use(snapshot: Snapshot, app: int, node: int, own: Floats | None, team: str = "") -> list[float]:
    """What one container uses of each resource, its profile filling what was not measured."""
    typical = plain_profile(snapshot, app, node, team)[DEMAND] * snapshot.node_capacity[node]
    measured = typical if own is None else own
    return [float(m) if np.isfinite(m) else float(t) for m, t in zip(measured, typical, strict=True)]


def plain_profile(snapshot: Snapshot, app: int, node: int, team: str = "") -> Floats:
    """The app's profile; of an app that is not known what is expected of its team, or of any team."""
    profile: Floats = np.full(snapshot.profile.shape[2], np.nan)
    profile[-1] = 0.0
    platform = snapshot.node_platform[node]
    if app >= 0 and platform >= 0:
        profile = snapshot.profile[app, platform].copy()
    elif platform >= 0:
        of = snapshot.teams.index(team) if team in snapshot.teams else len(snapshot.teams)
        profile[: len(EXPECTED)] = snapshot.cold_start_prior[of, platform]
    return profile


def plain_pressure(others: list[list[float]], capacity: Floats, best_effort: list[bool]) -> list[float]:
    """Pressure of the others on one container, resource by resource; what is not known counts as the others' mean."""

    def total(values: list[float]) -> float:
        known = [v for v in values if np.isfinite(v)]
        if not values:
            return 0.0
        return sum(known) / len(known) * len(values) if known else np.nan

    shares = [total([o[r] for o in others]) / capacity[r] for r in range(len(NAMES))]
    cpu = [o[0] for o in others if np.isfinite(o[0])]
    busiest = (max(cpu) if cpu else (np.nan if others else 0.0)) / capacity[0]
    return [*shares, 0.0, float(len(others)), float(sum(best_effort)), busiest]


def plain_said(scorer: ModelScorer, pressure: list[float], app: int, node: int, team: str = "") -> Prediction:
    """By the trees for apps learnt from where the app has an own margin."""
    raw = np.concatenate([pressure, plain_profile(scorer.snapshot, app, node, team), scorer.snapshot.node_facts[node]])
    own = app >= 0 and scorer.snapshot.apps[app] in {margin.app for margin in MARGINS.apps}
    features = complete(raw[None, :], scorer.predictor.medians[: len(RAW_NAMES)])
    return scorer.predictor.predict(features, np.array([own]))


def plain_multiplier(app: str, profile: Floats) -> float:
    """Own where earned; an app without a profile is cold whatever it earned elsewhere, at least as wide as its own."""
    own = {margin.app: margin.multiplier for margin in MARGINS.apps}
    return own.get(app, MARGINS.unseen) if profile[-1] > 0 else max(own.get(app, 0.0), MARGINS.cold)


def plain_score(scorer: ModelScorer, app: str, node: int, team: str = "") -> tuple[dict[str, float], list[float]]:
    """What is said of one candidate, and harm, one container after the other; harm and choice by the base alone."""
    view = scorer.snapshot
    residents = range(int(view.first[node]), int(view.first[node + 1]))
    mine = view.apps.index(app) if app in view.apps else -1
    capacity = view.node_capacity[node]
    use = {r: plain_use(view, int(view.resident_app[r]), node, view.resident_use[r]) for r in residents}
    own = plain_use(view, mine, node, None, team)
    kind = {r: bool(view.resident_best_effort[r]) for r in residents}
    pressed = plain_pressure([*use.values()], capacity, [*kind.values()])
    said, harm = plain_said(scorer, pressed, mine, node, team), []
    log_mean, spread, base = float(said.log_mean[0]), float(said.spread[0]), float(said.base_sum[0])
    bounds = [log_mean + scorer.node * spread]
    for r in residents:
        app_of = int(view.resident_app[r])
        others, kinds = [use[o] for o in residents if o != r], [kind[o] for o in residents if o != r]
        before = plain_said(scorer, plain_pressure(others, capacity, kinds), app_of, node)
        after = plain_said(scorer, plain_pressure([*others, own], capacity, [*kinds, False]), app_of, node)
        bounds.append(float(after.log_mean[0] + scorer.node * after.spread[0]))
        harm.append(max(1.0, float((1 + after.base_sum[0]) / (1 + before.base_sum[0]))))
    margin = plain_multiplier(app, plain_profile(view, mine, node)) * (spread + MARGINS.floor)
    bound = float(np.exp(max(bounds)))
    upper = float(np.exp(log_mean + margin))
    return {"mean": float(np.exp(log_mean)), "upper": upper, "node_bound": bound, "choice": 1 + base}, harm


@pytest.mark.parametrize(
    ("app", "team"), [*((app, "red") for app in APPS), ("never-seen", ""), ("never-seen", "red"), ("never-seen", "new")]
)
@pytest.mark.parametrize("seed", range(4))
def test_all_candidates_at_once_score_as_one_after_the_other(
    scorer_of: ScorerOf, seed: int, app: str, team: str
) -> None:
    scorer = scorer_of(snapshot(seed))

    scores = score(scorer, every(scorer.snapshot), app, team)

    for node in range(len(scorer.snapshot.nodes)):
        said, harm = plain_score(scorer, app, node, team)
        assert {name: float(getattr(scores, name)[node]) for name in said} == pytest.approx(said, rel=1e-12)
        assert ratios(scores, node) == pytest.approx(harm, rel=1e-12)


def test_an_app_learnt_from_is_told_by_trees_of_its_own(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(snapshot(1))
    without = replace(scorer, predictor=replace(model_of(scorer), familiar=None))
    nodes = every(scorer.snapshot)

    assert (score(scorer, nodes, "web").mean != score(without, nodes, "web").mean).any()
    assert (score(scorer, nodes, "never-seen").mean == score(without, nodes, "never-seen").mean).all()


def test_an_app_with_an_own_margin_has_another_bound_than_the_same_app_elsewhere(bundle: Path) -> None:
    """Another cluster's app of the same name has earned nothing."""
    entry = load_bundle(bundle, catalogue_hash()).manifest.models["placement"]
    here, elsewhere = (served_margins(entry, cluster, APPS, ("p",)) for cluster in ("c", "other"))
    web, windows, somewhere = np.array([APPS.index("web")]), np.array([60.0]), np.array([-1])

    assert here.multipliers(web, windows, somewhere).tolist() == [0.5]
    assert elsewhere.multipliers(web, windows, somewhere).tolist() == [1.5]
    assert here.multipliers(web, np.zeros(1), somewhere).tolist() == [2.5]


def test_a_bundle_older_than_own_margins_bounds_every_app_as_one_never_seen(bundle: Path) -> None:
    entry = load_bundle(bundle, catalogue_hash()).manifest.models["placement"].model_copy(update={"margins": None})

    old = served_margins(entry, "c", APPS, ())

    assert old.floor == 0.0
    assert set(old.profiled.tolist()) == set(old.cold.tolist()) == {entry.calibration.hierarchical}


@given(order=st.permutations(range(6)), seed=st.integers(0, 20))
@settings(max_examples=25, deadline=None)
def test_the_order_of_candidates_changes_no_bit(scorer_of: ScorerOf, order: list[int], seed: int) -> None:
    scorer = scorer_of(snapshot(seed, pinned=0.3))
    straight, mixed = score(scorer, every(scorer.snapshot)), score(scorer, np.array(order, np.int32))

    for name in ("mean", "choice", "upper", "node_bound"):
        assert getattr(mixed, name).tolist() == getattr(straight, name)[order].tolist()
    assert [ratios(mixed, i) for i in range(6)] == [ratios(straight, node) for node in order]


@given(seed=st.integers(0, 20), resource=st.integers(0, len(NAMES) - 1), factor=st.floats(1, 50))
@settings(max_examples=40, deadline=None)
def test_a_busier_resident_never_makes_a_node_look_better(
    scorer_of: ScorerOf, seed: int, resource: int, factor: float
) -> None:
    calm = snapshot(seed, nodes=3, residents=(1, 5), pinned=0.2)
    resident = seed % len(calm.containers)

    before = score(scorer_of(calm), every(calm))
    after = score(scorer_of(busier(calm, resident, resource, factor)), every(calm))

    for name in ("mean", "choice", "upper", "node_bound"):
        assert (getattr(after, name) >= getattr(before, name) * (1 - 1e-12)).all()


@given(
    seed=st.integers(0, 400), pinned=st.sampled_from([0.0, 0.4]), missing=st.sampled_from([0.0, 0.3, 0.9]),
    limit=st.floats(0.9, 6.0),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_what_nodes_are_compared_by_is_what_scores_say_however_few_trees_are_asked(
    scorer_of: ScorerOf, seed: int, pinned: float, missing: float, limit: float
) -> None:
    scorer = scorer_of(snapshot(seed, pinned=pinned, missing=missing))
    if seed % 2:
        scorer = by_the_worst(scorer)
    nodes = every(scorer.snapshot)
    pending_pods = [PendingPod(app, "red", best_effort=be) for app in (*APPS, "never-seen") for be in (False, True)]
    some = pending_pods[seed % len(pending_pods) :]

    found = list(scorer.compare_each(some, nodes, limit=limit))

    assert model_of(scorer).terms is not None
    for pending_pod, compared in zip(some, found, strict=True):
        scores = scorer.score(pending_pod, nodes, now_us=NOW_US)
        assert compared.choice.tolist() == scores.choice.tolist()
        assert compared.mean.tolist() == scores.mean.tolist()
        assert compared.harm.before.tolist() == scores.harm.before.tolist()
        assert compared.harm.ratio.tolist() == scores.harm.ratio.tolist()
        assert compared.harm.offsets.tolist() == scores.harm.offsets.tolist()
        assert compared.exceeds.tolist() == (scores.node_bound > limit).tolist()


class Counted(Predictor):
    """Counts the rows that trees are asked about."""

    def __init__(self, of: Predictor) -> None:
        super().__init__(**vars(of))
        object.__setattr__(self, "asked", [])

    def predict(self, features: Floats, known: NDArray[np.bool_] | None = None) -> Prediction:
        asked: list[int] = vars(self)["asked"]
        asked.append(len(features))
        return super().predict(features, known)


def test_trees_are_asked_of_residents_once_before_and_once_for_all_newcomers_where_nobody_may_exceed_the_limit(
    scorer_of: ScorerOf,
) -> None:
    scorer = scorer_of(snapshot(3, missing=0.0))
    counted = Counted(model_of(scorer))
    counting = replace(scorer, predictor=counted)

    found = list(counting.compare_each([PendingPod("web"), PendingPod("db")], every(scorer.snapshot), limit=1e6))

    assert not any(compared.exceeds.any() for compared in found)
    assert vars(counted)["asked"] == [*[len(scorer.snapshot.containers)] * 2, 6, 6]


def test_of_a_single_newcomer_trees_are_asked_about_everybody_at_once(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(snapshot(3, missing=0.0))
    counted = Counted(model_of(scorer))

    list(replace(scorer, predictor=counted).compare_each([PendingPod("web")], every(scorer.snapshot), limit=1e6))

    residents = len(scorer.snapshot.containers)
    assert vars(counted)["asked"] == [residents, 6 + residents]


def test_a_bundle_that_tells_no_terms_compares_the_same(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(snapshot(2))
    older = replace(scorer, predictor=replace(model_of(scorer), terms=None))

    [one], [other] = (s.compare_each([PendingPod("web")], every(s.snapshot), limit=2.0) for s in (scorer, older))

    assert one.choice.tolist() == other.choice.tolist()
    assert one.harm.ratio.tolist() == other.harm.ratio.tolist()


def test_beside_somebody_louder_a_newcomer_of_the_same_use_harms_less_where_only_the_worst_counts(
    scorer_of: ScorerOf,
) -> None:
    calm = snapshot(3, nodes=1, residents=(4, 4), missing=0.0)
    loud = busier(busier(calm, 0, 0, 20.0), 0, 1, 20.0)
    [before], [after] = ([ratios(score(by_the_worst(scorer_of(of)), every(of)), 0)] for of in (calm, loud))

    assert max(after[1:]) < max(before[1:])


def test_a_resident_of_no_known_app_is_no_sibling_of_any_newcomer() -> None:
    made = snapshot(3, nodes=1, residents=(4, 4), missing=0.0)
    of = replace(made, resident_app=np.array([0, -1, 0, -1]))
    nodes = every(of)
    home = home_of(of, nodes)
    company = home.company(1)

    for app in of.apps:
        seats = seats_of(of, PendingPod(app), nodes)
        there = company.find(seats.members.group, seats.app)
        assert (there[0] >= 0) == (app == of.apps[0])


def test_where_nothing_is_known_of_sensitivities_the_base_compares_nodes(scorer_of: ScorerOf) -> None:
    known = snapshot(4)
    nothing = known.profile.copy()
    nothing[:, :, [i for i, name in enumerate(EXPECTED) if name.startswith("sensitivity")]] = np.nan
    unknown = replace(known, profile=nothing, cold_start_prior=np.full_like(known.cold_start_prior, np.nan))

    base, worst = (score(made(scorer_of(unknown)), every(unknown)) for made in (lambda s: s, by_the_worst))

    assert worst.choice.tolist() == base.choice.tolist()
    assert worst.harm.ratio.tolist() == base.harm.ratio.tolist()


def test_a_much_busier_resident_raises_the_newcomers_slowdown(scorer_of: ScorerOf) -> None:
    calm = snapshot(3, nodes=1, residents=(5, 5), missing=0.0)
    busy = busier(calm, 0, NAMES.index("llc"), 30.0)

    assert score(scorer_of(busy), every(busy)).mean[0] > score(scorer_of(calm), every(calm)).mean[0] + 0.1


@given(seed=st.integers(0, 50), app=st.sampled_from([*APPS, "never-seen"]))
@settings(max_examples=30, deadline=None)
def test_nobody_is_better_off_for_the_newcomer_and_bounds_lie_above_means(
    scorer_of: ScorerOf, seed: int, app: str
) -> None:
    scores = score(scorer_of(snapshot(seed, pinned=0.3)), np.arange(6, dtype=np.int32), app)

    assert (scores.harm.ratio >= 1.0).all()
    assert (scores.upper >= scores.mean).all()
    assert np.isfinite(scores.node_bound).all()


def test_a_newcomer_that_lowers_the_guess_for_an_unmeasured_neighbour_does_nobody_good(scorer_of: ScorerOf) -> None:
    """The unmeasured resident counts as the mean of the measured ones, which a light newcomer brings down."""
    view = snapshot(1, nodes=1, residents=(3, 3))
    use = np.array([[0.1], [np.nan], [0.5]]) * view.node_capacity[0]
    light = view.profile.copy()
    light[:, :, DEMAND] = 1e-6
    none = {"resident_app": np.full(3, -1), "teams": (), "cold_start_prior": nothing_expected()}
    guessed = Snapshot(**{**vars(view), **none, "resident_use": use, "profile": light})

    assert ratios(score(scorer_of(guessed), every(guessed)), 0)[0] == 1.0


def test_an_empty_node_harms_nobody(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(emptied(snapshot(1)))

    scores = score(scorer, every(scorer.snapshot))

    assert scores.harm.offsets.tolist() == [0] * 7
    assert np.isfinite(scores.mean).all()


def test_empty_nodes_among_full_ones_keep_their_place(scorer_of: ScorerOf) -> None:
    full = snapshot(0)
    counts = np.diff(full.first)
    assert 0 in counts.tolist()

    scores = score(scorer_of(full), every(full))

    assert np.diff(scores.harm.offsets).tolist() == counts.tolist()
    assert scores.harm.resident.tolist() == list(range(len(full.containers)))


def test_no_candidates_give_no_scores(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(snapshot(0))

    scores = score(scorer, np.zeros(0, np.int32))

    assert len(scores.mean) == len(scores.node_bound) == len(scores.harm.ratio) == 0
    assert scores.harm.offsets.tolist() == [0]
    assert scorer.factors(PendingPod("web"), np.zeros(0, np.int32)).shape == (0, len(NAMES))


def test_a_candidate_named_twice_is_answered_twice(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(snapshot(2))

    once, twice = score(scorer, np.array([4], np.int32)), score(scorer, np.array([4, 1, 4], np.int32))

    assert twice.mean[[0, 2]].tolist() == [once.mean[0]] * 2
    assert ratios(twice, 0) == ratios(twice, 2) == ratios(once, 0)


def test_an_unknown_app_is_scored_by_its_team_and_an_unknown_team_as_nobody(scorer_of: ScorerOf) -> None:
    view = snapshot(1, nodes=1, residents=(3, 3), missing=0.0)
    scorer = scorer_of(view)
    at = np.array([0], np.int32)

    of = {team: scorer.pending_features(PendingPod("never-seen", team), at) for team in ("blue", "red", "new", None)}

    first = RAW_NAMES.index(EXPECTED[0])
    for row, team in enumerate(("blue", "red", "new")):
        assert (
            of[team][0, first : first + len(EXPECTED)].tolist()
            == view.cold_start_prior[row, view.node_platform[0]].tolist()
        )
    assert np.array_equal(of["new"], of[None], equal_nan=True)
    assert np.array_equal(
        scorer.pending_features(PendingPod("web", "red"), at),
        scorer.pending_features(PendingPod("web"), at),
        equal_nan=True,
    )


def test_without_expectations_an_unknown_app_keeps_its_gaps(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(replace(snapshot(1), teams=(), cold_start_prior=nothing_expected()))

    found = scorer.pending_features(PendingPod("never-seen", "red"), every(scorer.snapshot))

    first = RAW_NAMES.index(EXPECTED[0])
    assert np.isnan(found[:, first : first + len(EXPECTED)]).all()


def test_nodes_of_an_unknown_platform_are_scored_as_nodes_without_profiles(scorer_of: ScorerOf) -> None:
    view = snapshot(1)
    unknown = Snapshot(**{**vars(view), "node_platform": np.full(6, -1)})

    scores = score(scorer_of(unknown), every(unknown))

    assert np.isfinite(scores.mean).all()
    assert np.isfinite(scores.node_bound).all()


def test_a_node_of_unknown_size_is_scored_with_typical_pressure(scorer_of: ScorerOf) -> None:
    view = snapshot(1)
    unknown = Snapshot(**{**vars(view), "node_capacity": np.full_like(view.node_capacity, np.nan)})

    assert np.isfinite(score(scorer_of(unknown), every(unknown)).mean).all()


def test_a_resident_pinned_to_other_cores_presses_on_a_pinned_one_less(scorer_of: ScorerOf) -> None:
    view = Snapshot(**{**vars(snapshot(9, nodes=1, residents=(2, 2), missing=0.0)), "cpusets": ("0-1", "0-1")})
    apart = Snapshot(**{**vars(view), "cpusets": ("0-1", "2-3")})

    together, alone = score(scorer_of(view), every(view)), score(scorer_of(apart), every(view))

    assert alone.node_bound[0] <= together.node_bound[0]
    assert alone.mean[0] == together.mean[0]


def test_factors_name_the_resource_that_hurts(scorer_of: ScorerOf) -> None:
    calm = snapshot(3, nodes=1, residents=(5, 5), missing=0.0)
    busy = scorer_of(busier(calm, 0, NAMES.index("llc"), 40.0))

    factors = busy.factors(PendingPod("web"), np.array([0], np.int32))

    assert (factors >= -1e-12).all()
    assert NAMES[int(factors[0].argmax())] == "llc"


def test_an_empty_node_has_no_factors(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(emptied(snapshot(1)))

    assert (scorer.factors(PendingPod("web"), every(scorer.snapshot)) == 0).all()


def test_age_is_that_of_the_newest_message_and_never_negative(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(snapshot(0))
    nobody = np.zeros(0, np.int32)

    assert scorer.score(PendingPod("web"), nobody, now_us=NOW_US + 2_500_000).age_s == 2.5
    assert scorer.score(PendingPod("web"), nobody, now_us=NOW_US - 1).age_s == 0.0
