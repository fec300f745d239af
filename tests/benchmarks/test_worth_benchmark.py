"""The benchmark of worth: its truth is true, its site is the simulator's, its outcomes are those of the product."""

from argparse import Namespace

import numpy as np
import pytest

from benchmarks import worth
from benchmarks.worth import judged, met
from benchmarks.worth_site import HORIZON, RING, STEP_S, Ground, Kept, Lives, Site, Told, experiment
from features.labels.violation_minutes import Measured, outcomes
from ingest.simulator.simulated_cluster import Container, State, step

GROUND = Ground(decisions=60)


class Flipped(Site):
    """A site in which one pod is in the other arm."""

    def __init__(self, seed: int, pod: int) -> None:
        super().__init__(GROUND, np.random.default_rng(seed))
        self.advised[RING + pod] ^= True


def lived(site: Site) -> Lives:
    lives = Lives(site, Kept(site.ground.decisions))
    for number in range(site.steps):
        lives.pass_step(number)
    return lives


def potential(lives: Lives) -> np.ndarray:
    site = lives.site
    return lives.kept.outcome(site.apps.best_effort[site.app[RING : RING + lives.kept.n]])


@pytest.fixture(scope="module")
def told() -> Told:
    return experiment(GROUND, np.random.default_rng(5000))


@pytest.mark.parametrize("pod", [12, 40])
def test_what_would_become_of_a_pod_does_not_depend_on_its_own_arm(told: Told, pod: int) -> None:
    """What happened in one arm is what the other arm's branch says would have, and the other way round."""
    other = potential(lived(Flipped(5000, pod)))

    assert other[pod].tolist() == told.potential[pod].tolist()
    assert not np.array_equal(other, told.potential), "later pods do depend on it"


def test_what_happened_is_what_the_arm_says(told: Told) -> None:
    arm = told.advised.astype(np.int64)

    assert (told.outcome == told.potential[np.arange(60), arm]).all()
    assert (told.complied == told.landing[np.arange(60), arm]).all()
    assert told.landing[:, 1].mean() > told.landing[:, 0].mean() + 0.3


def test_slowdowns_are_those_of_the_simulator() -> None:
    site = Site(GROUND, np.random.default_rng(5001))
    lives, at = Lives(site, Kept(60)), RING + 20
    for number in range(at + 1):
        lives.pass_step(number)
    pods = site.alive(at)
    node = lives.place[:1, pods % RING]
    containers = tuple(
        Container(str(pod), int(site.app[pod]), int(where), 1, 0.0) for pod, where in zip(pods, node[0], strict=True)
    )
    state = State(at * STEP_S, site.platform, containers, tuple(site.apps.best_effort.tolist()), 0)

    _, _, truth = step(state, [], law=site.law, interval_s=STEP_S, rng=np.random.default_rng(0))

    assert site.slowdown(node, pods, at)[0] == pytest.approx(truth.slowdown)


def test_outcomes_are_those_that_the_product_counts() -> None:
    site = Site(GROUND, np.random.default_rng(5002))
    lives, rows = Lives(site, Kept(60)), []
    for number in range(site.steps):
        lives.pass_step(number)
        for pod in site.alive(number).tolist():
            at, row = pod % RING, number % HORIZON
            tolerant = site.apps.best_effort[site.app[pod]]
            rows.append((lives.place[0, at], pod, number, not tolerant, lives.violated[row, at]))
    node, who, window, sensitive, ill = np.array(rows, np.int64).T
    measured = Measured(node, who, window, sensitive > 0, np.ones(len(node), np.bool_), ill > 0)
    pods = np.arange(RING, RING + 60)
    arm = site.advised[pods].astype(np.int64)
    landed = lives.kept.node[np.arange(60), arm]

    found = outcomes(measured, pods, landed, pods, horizon=HORIZON)

    own = np.where(site.apps.best_effort[site.app[pods]], 0.0, found.own)
    assert (own + found.neighbours).tolist() == pytest.approx(potential(lives)[np.arange(60), arm].tolist())


def test_an_experiment_is_the_same_every_time(told: Told) -> None:
    again = judged(experiment(GROUND, np.random.default_rng(5000)), GROUND.advised_share)

    assert again == judged(told, GROUND.advised_share)
    assert {again[name] for name in ("holds", "mover_holds")} <= {0.0, 1.0}


def test_every_experiment_counts_and_the_targets_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    found = worth.run(Namespace(first=5000, experiments=3, decisions=60), np.random.default_rng(0))

    assert found["ours"]["experiments"] == 3
    assert "targets: " in capsys.readouterr().out
    good = {"coverage90": 0.9, "mover_coverage90": 0.9, "bias": 0.01, "mover_bias": 0.02}
    assert met(good)
    assert not any(met({**good, **bad}) for bad in ({"coverage90": 0.97}, {"mover_coverage90": 0.8}, {"bias": 0.03}))
