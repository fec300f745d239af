"""Pairs: hidden properties are found, newcomers are placed by their other role or profile, bounds hold."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.pair_blend import fit_pair_blend
from benchmarks.pair_product import fit_own_product, fit_product
from models.challengers.pair_model import Cells, PairConfig, Scale, describe, fit_pairs
from models.errors import InconsistentDataset

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
QUICK = PairConfig(warm_up=150, draws=200)
SIZE = 14
NOTHING = np.zeros((SIZE, 0))


def world(rng: np.random.Generator, noise: float = 0.02) -> tuple[Cells, Floats]:
    """Every ordered pair of workloads that hurt each other in two ways, and the numbers they show alone."""
    greed, pain = rng.gamma(2.0, 0.25, (2, SIZE, 2))
    pain = 0.5 * pain + 0.5 * greed
    victim, aggressor = (part.ravel() for part in np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij"))
    log = np.log1p((pain[victim] * greed[aggressor]).sum(axis=1)) + rng.normal(0, noise, SIZE * SIZE)
    return Cells(victim, aggressor, log), greed * np.array([1e9, 30.0])


def mae(said: Floats, truth: Floats) -> float:
    return float(np.abs(said - truth).mean())


def test_cells_left_out_are_predicted_far_better_than_by_the_mean() -> None:
    rng = np.random.default_rng(1)
    cells, _ = world(rng)
    held = rng.random(len(cells.victim)) < 0.2
    left = cells.take(held)

    said = fit_pairs(cells.take(~held), NOTHING, QUICK, rng).predict(left.victim, left.aggressor, rng)

    assert mae(said.log_mean, left.log_slowdown) < 0.3 * mae(
        np.full(held.sum(), left.log_slowdown.mean()), left.log_slowdown
    )
    assert (said.upper >= said.log_mean).all()
    assert (left.log_slowdown <= said.upper).mean() > 0.8


def test_an_aggressor_never_seen_beside_anybody_is_placed_by_its_own_suffering() -> None:
    errors, means = [], []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        cells, _ = world(rng)
        left = cells.take(cells.aggressor == 0)

        said = fit_pairs(cells.take(cells.aggressor != 0), NOTHING, QUICK, rng).predict(
            left.victim, left.aggressor, rng
        )

        kept = cells.take(cells.aggressor != 0)
        table = np.bincount(kept.victim, kept.log_slowdown) / (SIZE - 1)
        errors.append(mae(said.log_mean, left.log_slowdown))
        means.append(mae(table[left.victim], left.log_slowdown))
    assert np.mean(errors) < np.mean(means)


def test_a_workload_without_any_pair_is_placed_by_its_profile() -> None:
    def error(described: Callable[[Floats], Floats]) -> float:
        found = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            cells, alone = world(rng)
            out = (cells.victim == 0) | (cells.aggressor == 0)
            left = cells.take(cells.aggressor == 0)
            model = fit_pairs(cells.take(~out), described(alone), QUICK, rng)
            found.append(mae(model.predict(left.victim, left.aggressor, rng).log_mean, left.log_slowdown))
        return float(np.mean(found))

    names = np.arange(SIZE)

    assert error(lambda alone: describe(names, np.zeros(SIZE, np.int64), alone)) < error(lambda _: NOTHING)


def test_values_cut_off_at_the_smallest_are_not_taken_for_measurements() -> None:
    rng = np.random.default_rng(2)
    cells, _ = world(rng)
    capped = Cells(cells.victim, cells.aggressor, np.maximum(cells.log_slowdown, np.quantile(cells.log_slowdown, 0.3)))

    said = fit_pairs(capped, NOTHING, QUICK, rng).predict(cells.victim, cells.aggressor, rng)

    assert (said.log_mean >= capped.log_slowdown.min() - 1e-12).all()
    assert mae(said.log_mean, capped.log_slowdown) < 0.1 * capped.log_slowdown.std()


def test_platforms_learn_from_each_other() -> None:
    rng = np.random.default_rng(4)
    cells, _ = world(rng)
    second = Cells(cells.victim + SIZE, cells.aggressor + SIZE, 0.8 * cells.log_slowdown)
    few = second.take(rng.random(SIZE * SIZE) < 0.15)
    both = Cells(*(np.concatenate([getattr(c, n) for c in (cells, few)]) for n in Cells.__dataclass_fields__))
    workload, platform = np.tile(np.arange(SIZE), 2), np.repeat([0, 1], SIZE)

    def error(learnt: Cells, described: Floats) -> float:
        model = fit_pairs(learnt, described, QUICK, np.random.default_rng(0))
        said = model.predict(second.victim, second.aggressor, np.random.default_rng(0))
        return mae(said.log_mean, second.log_slowdown)

    empty = np.zeros((2 * SIZE, 0))
    assert error(both, describe(workload, platform, np.zeros((SIZE, 0)))) < error(few, empty)


def test_sensitivity_times_pressure_is_found_exactly_where_it_is_the_truth() -> None:
    rng = np.random.default_rng(0)
    sensitivity, pressure = rng.gamma(2.0, 0.5, (2, SIZE))
    victim, aggressor = np.divmod(rng.permutation(SIZE * SIZE)[: 3 * SIZE * SIZE // 4], SIZE)
    cells = Cells(victim, aggressor, np.log1p(sensitivity[victim] * pressure[aggressor]))
    every = np.divmod(np.arange(SIZE * SIZE), SIZE)

    said = fit_product(cells, SIZE).predict(*every)

    assert said == pytest.approx(np.log1p(sensitivity[every[0]] * pressure[every[1]]), abs=1e-6)


def test_the_blend_leans_on_the_product_where_it_is_the_truth_and_its_bound_holds() -> None:
    rng = np.random.default_rng(6)
    sensitivity, pressure = rng.gamma(1.0, 0.8, (2, SIZE))
    victim, aggressor = np.divmod(np.arange(SIZE * SIZE), SIZE)
    cells = Cells(victim, aggressor, np.log1p(sensitivity[victim] * pressure[aggressor]) + rng.normal(0, 0.05, SIZE**2))
    held = rng.random(SIZE * SIZE) < 0.25
    left = cells.take(held)

    blend = fit_pair_blend(cells.take(~held), NOTHING, QUICK, rng)
    said = blend.predict(left.victim, left.aggressor, rng)

    assert blend.share >= 0.3
    assert 0.8 <= (left.log_slowdown <= said.upper).mean() <= 1.0


def beside_themselves(rng: np.random.Generator) -> Cells:
    """Every ordered pair, where copies of a workload hurt each other a third more than what the two roles say."""
    pain, press = rng.uniform(0.1, 0.5, (2, SIZE))
    victim, aggressor = np.divmod(np.arange(SIZE * SIZE), SIZE)
    log = pain[victim] + press[aggressor] + 0.3 * (victim == aggressor) + rng.normal(0, 0.02, SIZE * SIZE)
    return Cells(victim, aggressor, log)


@pytest.mark.parametrize("scale", ["log", "speed"])
def test_what_workloads_add_to_themselves_is_learnt_from_others_that_do(scale: Scale) -> None:
    cells = beside_themselves(np.random.default_rng(3))
    held = (cells.victim == cells.aggressor) & (cells.victim < 5)
    left, rng = cells.take(held), np.random.default_rng(0)

    model = fit_pairs(cells.take(~held), NOTHING, replace(QUICK, scale=scale), rng)
    said = model.predict(left.victim, left.aggressor, rng)

    assert mae(said.log_mean, left.log_slowdown) < 0.08
    assert (said.lower <= said.log_mean).all()


def test_a_product_with_a_factor_for_copies_finds_it_and_is_the_product_where_there_is_none() -> None:
    rng = np.random.default_rng(0)
    sensitivity, pressure = rng.gamma(2.0, 0.5, (2, SIZE))
    victim, aggressor = np.divmod(np.arange(SIZE * SIZE), SIZE)
    excess = sensitivity[victim] * pressure[aggressor]

    same = fit_own_product(Cells(victim, aggressor, np.log1p(excess)), SIZE)
    more = fit_own_product(Cells(victim, aggressor, np.log1p(excess * np.where(victim == aggressor, 1.5, 1))), SIZE)

    assert same.itself == pytest.approx(1.0, abs=1e-6)
    assert 1.3 < more.itself <= 1.5


def test_slowdowns_are_minus_the_speed_that_is_left_in_the_other_scale() -> None:
    cells = Cells(np.array([0, 1]), np.array([1, 0]), np.log([2.0, 4.0]))

    assert cells.labels("speed") == pytest.approx([-0.5, -0.25])
    assert (cells.labels("log") == cells.log_slowdown).all()


def test_the_blend_s_lower_bound_holds_as_its_upper_one_does() -> None:
    cells, _ = world(np.random.default_rng(7), noise=0.05)
    held = np.random.default_rng(8).random(SIZE * SIZE) < 0.3
    left, rng = cells.take(held), np.random.default_rng(0)

    said = fit_pair_blend(cells.take(~held), NOTHING, QUICK, rng).predict(left.victim, left.aggressor, rng)

    assert (said.lower < said.log_mean).all()
    assert 0.8 <= (left.log_slowdown >= said.lower).mean() < 1.0


def test_what_is_known_beforehand_has_the_only_say_about_newcomers() -> None:
    cells, alone = world(np.random.default_rng(0))
    described = describe(np.arange(SIZE), np.zeros(SIZE, np.int64), alone)
    out, rng = (cells.victim == 0) | (cells.aggressor == 0), np.random.default_rng(0)

    hidden = fit_pair_blend(cells.take(~out), described, QUICK, rng).hidden
    unseen, other = np.array([0]), np.array([3])

    def said(seed: int, victim: Ints) -> tuple[Floats, Floats]:
        rng = np.random.default_rng(seed)
        return hidden.predict(victim, other, rng).log_mean, hidden.described.predict(victim, other, rng).log_mean

    assert np.equal(*said(0, unseen)).all()
    assert not np.equal(*said(0, np.array([4]))).any()


def test_the_same_seed_gives_the_same_model() -> None:
    cells, _ = world(np.random.default_rng(0))

    def said() -> Floats:
        rng = np.random.default_rng(9)
        return fit_pairs(cells, NOTHING, QUICK, rng).predict(cells.victim, cells.aggressor, rng).upper

    assert (said() == said()).all()


def test_fewer_pairs_than_folds_are_refused() -> None:
    cells = Cells(np.array([0, 1]), np.array([1, 0]), np.array([0.1, 0.2]))

    with pytest.raises(InconsistentDataset, match="2 rows for 5 folds"):
        fit_pair_blend(cells, np.zeros((2, 0)), QUICK, np.random.default_rng(0))
