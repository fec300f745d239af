"""One small trained bundle for all tests of the advisor, and a serving process over temporary folders."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.cluster.snapshot import Snapshot
from advisor.database.engine import open_store
from advisor.placement.prioritizer import Prioritizer
from advisor.scoring.scorer import ModelScorer
from advisor.scoring.served_margins import served_margins
from features.schema.catalog import catalogue_hash
from models.bundle.bundle import load_bundle
from models.estimator.fitted_model import Placement
from models.estimator.predictor import open_predictor
from tests.advisor.clusters import trained, write
from tests.advisor.plans.offices import Bureau, mixed
from tests.advisor.processes import STATES, Process, new_process, process_in
from tests.advisor.stores import migrated_store


@pytest.fixture
def store(store_address: str) -> Iterator[Engine]:
    """A migrated store on each database."""
    with open_store(store_address) as engine:
        yield engine


@pytest.fixture(scope="session")
def placement() -> Placement:
    return trained()


@pytest.fixture(scope="session")
def bundle(placement: Placement, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(placement, tmp_path_factory.mktemp("bundles") / "small")


@pytest.fixture(scope="session")
def scorer_of(bundle: Path) -> Callable[[Snapshot], ModelScorer]:
    loaded = load_bundle(bundle, catalogue_hash())
    predictor = open_predictor(loaded, "placement")
    entry = loaded.manifest.models["placement"]

    def scorer(snapshot: Snapshot) -> ModelScorer:
        margins = served_margins(entry, snapshot.cluster, snapshot.apps, snapshot.platforms)
        return ModelScorer(snapshot, predictor, margins, entry.calibration.node)

    return scorer


@pytest.fixture
def process(bundle: Path, tmp_path: Path) -> Process:
    """Nothing published and nothing promoted yet."""
    return new_process(bundle, tmp_path)


@pytest.fixture(scope="session")
def states(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TestClient]:
    """One listener for schedulers in every state that serving can be in."""
    made = {state: process_in(state, bundle, tmp_path_factory.mktemp(state)) for state in STATES}
    assert made["last_good"].serving.refused
    return {state: TestClient(create_scheduler_app(Prioritizer(of.serving))) for state, of in made.items()}


@pytest.fixture
def bureau(tmp_path: Path) -> Iterator[Bureau]:
    """Where one plan is drafted."""
    with migrated_store(tmp_path / "proposals.sqlite") as store:
        made = Bureau(store)
        made.put(mixed())
        yield made
