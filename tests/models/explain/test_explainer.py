"""Explainer: contributions add up to what is served, from the files of a bundle and nothing else."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
from numpy.typing import NDArray

from cohabit.training.train_model import MODEL, Effort, train_bundle
from features.schema.tables import TABLES
from ingest.lake.row_filter import EPOCH, FOREVER
from ingest.lake.tables import Lake
from models.bundle.bundle import Bundle, read_bundle
from models.errors import BundleCorrupt, ModelsError
from models.estimator.fitted_model import Placement
from models.estimator.onnx_session import load_graph
from models.estimator.predictor import Predictor, open_predictor
from models.explain.explainer import Explainer, explainer_of, open_explainer
from models.forms.tree_arrays import ZERO_BAND, parse_forest
from models.onnx_export.exporter import export_spread
from models.registry.registry import Registry
from tests.advisor.clusters import CONFIG as TINY
from tests.advisor.clusters import trained, training_table, write_older
from tests.models.simulated import Simulated

Floats = NDArray[np.float64]
PAGE = Path(__file__).parents[3] / "docs" / "onnx.md"
AWKWARD = (np.nan, np.nan, 0.0, 1e-36, ZERO_BAND, 1e-34, 1e9)


@pytest.fixture(scope="module")
def explainer(placement: Placement) -> Explainer:
    return explainer_of(placement.names, placement.medians, placement.residual, placement.base())


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle as `cohabit model train` writes it, read again."""
    registry = Registry(tmp_path_factory.mktemp("registry"))
    train_bundle(training_table(), registry, datetime(2026, 3, 1, tzinfo=UTC), {}, Effort(config=TINY))
    current = registry.current()
    assert current is not None
    return read_bundle(current)


def awkward(rows: Floats) -> Floats:
    """The rows with a fifth of their values missing, near zero or far away."""
    rng = np.random.default_rng(2)
    return np.where(rng.random(rows.shape) < 0.2, rng.choice(AWKWARD, rows.shape), rows)


def test_contributions_add_up_to_the_log_mean_that_is_served(
    learnt: Simulated, placement: Placement, served: Predictor, explainer: Explainer
) -> None:
    whole = learnt.rows.dataset(placement.medians[: learnt.rows.raw.shape[1]]).features
    rows = np.concatenate([whole[:300], awkward(whole[:300])])

    exact, by_path = explainer.explain(rows), explainer.explain_many(rows)

    log_mean = served.predict(rows).log_mean
    for found in (exact, by_path):
        assert found.by_feature.shape == (len(rows), len(explainer.names))
        np.testing.assert_allclose(found.by_feature.sum(axis=1), log_mean - found.expected, rtol=1e-9, atol=1e-9)


def test_more_pressure_is_what_adds(learnt: Simulated, placement: Placement, explainer: Explainer) -> None:
    rows = learnt.rows.dataset(placement.medians[: learnt.rows.raw.shape[1]]).features[:20]
    column = int(placement.base().columns[np.argmax(placement.base().weights)])
    harder = rows.copy()
    harder[:, column] = 10 + 10 * np.nan_to_num(rows[:, column])

    before, after = explainer.explain(rows).by_feature, explainer.explain(harder).by_feature

    assert (after[:, column] > before[:, column]).all()


def test_the_files_of_a_bundle_are_enough(bundle: Bundle) -> None:
    explainer, predictor = open_explainer(bundle, MODEL), open_predictor(bundle, MODEL)
    rows = awkward(np.random.default_rng(1).gamma(1.5, 0.2, (200, len(explainer.names))))

    found = explainer.explain(rows)

    assert explainer.names == bundle.manifest.models[MODEL].features
    log_mean = predictor.predict(rows).log_mean
    np.testing.assert_allclose(found.expected + found.by_feature.sum(axis=1), log_mean, rtol=1e-9, atol=1e-9)


def test_the_tree_file_is_verified_like_every_other(bundle: Bundle) -> None:
    name = bundle.manifest.models[MODEL].files["trees"]
    assert name in bundle.manifest.sha256
    path = bundle.directory / name
    content = path.read_bytes()
    path.write_bytes(content[:-1])

    with pytest.raises(BundleCorrupt, match=name):
        read_bundle(bundle.directory)
    path.write_bytes(content)


def test_an_older_bundle_predicts_and_says_that_it_cannot_explain(tmp_path: Path) -> None:
    older = read_bundle(write_older(trained(), tmp_path / "older"))

    rows = np.zeros((1, len(older.manifest.models["placement"].features)))
    assert np.isfinite(open_predictor(older, "placement").predict(rows).log_mean).all()
    with pytest.raises(ModelsError, match=r"older.*train again"):
        open_explainer(older, "placement")


def test_rows_of_another_width_are_refused(explainer: Explainer) -> None:
    for explain in (explainer.explain, explainer.explain_many):
        with pytest.raises(ModelsError, match="features have shape"):
            explain(np.zeros((1, 3)))


def test_an_unknown_model_is_named_with_those_there_are(bundle: Bundle) -> None:
    for opened in (open_explainer, open_predictor):
        with pytest.raises(ModelsError, match=r"no model 'placment'; it has placement"):
            opened(bundle, "placment")


def test_the_check_of_the_page_can_be_typed(train: Callable[..., lgb.Booster]) -> None:
    [checking] = re.findall(r"```python\n(graph = .*?)```", PAGE.read_text(), flags=re.DOTALL)
    names = {"load_graph": load_graph, "export_spread": export_spread, "parse_forest": parse_forest}

    exec(checking, {**names, "booster": train(rounds=5), "rows": np.random.default_rng(0).normal(size=(50, 6))})  # noqa: S102


def test_the_script_of_the_page_runs_as_it_stands(bundle: Bundle, tmp_path: Path) -> None:
    [script] = re.findall(r"<!-- runs as a test -->\n```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    (tmp_path / "try").mkdir()
    (tmp_path / "try" / "registry").symlink_to(bundle.directory.parent)
    lake = Lake.open(tmp_path / "try" / "lake", TABLES)
    lake.replace("training", EPOCH, FOREVER, "features", training_table())
    (tmp_path / "explain.py").write_text(script)

    said = subprocess.run(
        [sys.executable, "explain.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(PAGE.parents[1])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert said.returncode == 0, said.stderr
    slowdown, exact, by_path = said.stdout.strip().split("\n\n")
    expected = float(slowdown.split()[-1])
    for part in (exact, by_path):
        factors = [float(factor) for factor in re.findall(r"\d+\.\d{3}", part)]
        assert len(factors) == 7
        assert np.prod(factors) == pytest.approx(expected, rel=0.01)
