"""The table process: compiled trees where they can be had, ONNX Runtime where not, and the same scores by both."""

import os
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest
from structlog.testing import capture_logs

from advisor.cluster.pending_pod import PodClass
from advisor.scoring.score_table import begun, score_columns
from cohabit.server.compiled_model import NOT_COMPILED, use_compiled_trees
from cohabit.server.score_table_process import NICENESS, Tabling
from models.estimator.compiled_ensemble import CompiledEnsemble
from models.estimator.onnx_session import Graph
from models.estimator.predictor import Predictor
from tests.advisor.clusters import snapshot, trained, write, write_mixed_up
from tests.advisor.processes import Process, new_process
from tests.advisor.running import fill, running

WEB = PodClass("web", False)
WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
from pathlib import Path
from prometheus_client import CollectorRegistry
from advisor.placement.model_state import Serving
from cohabit.server.compiled_model import use_compiled_trees
from models.registry.registry import Registry
use_compiled_trees(Serving(Path(), Registry(Path()), 1.0, lambda: 0, CollectorRegistry()))
assert "models.estimator.compiled_trees" not in sys.modules
"""


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return new_process(write(trained(), tmp_path / "bundle"), tmp_path).made_ready()


def mean_of(process: Process) -> object:
    assert process.serving.scorer is not None
    assert isinstance(process.serving.scorer.predictor, Predictor)
    return process.serving.scorer.predictor.mean


def test_a_table_goes_on_with_the_same_scores_by_compiled_trees(process: Process, tmp_path: Path) -> None:
    tabling = Tabling(process.serving, tmp_path / "table")
    tabling.ask(WEB, 0.0)
    tabling.step(0.0)
    by_graph = tabling.table
    assert isinstance(mean_of(process), Graph)

    use_compiled_trees(process.serving)

    assert not tabling.step(1.0), "nothing changed, so nothing is written"
    assert isinstance(mean_of(process), CompiledEnsemble)
    assert process.serving.scorer is not None
    assert by_graph is not None
    again = begun(process.serving.scorer, process.serving.bundle, by_graph.classes)
    assert (again.points == by_graph.points).all()
    assert (again.cost.view(np.int32) == by_graph.cost.view(np.int32)).all()


def test_snapshots_and_bundles_after_that_are_scored_by_compiled_trees(process: Process) -> None:
    use_compiled_trees(process.serving)

    process.publish(snapshot(11, version=2))
    process.promote("second")
    process.serving.reload()

    assert process.serving.bundle == "second"
    assert isinstance(mean_of(process), CompiledEnsemble)
    assert process.serving.scorer is not None
    assert process.serving.scorer.snapshot.version == 2
    assert np.isfinite(score_columns(process.serving.scorer, [WEB], np.arange(3, dtype=np.int32)).cost).all()


def test_a_bundle_whose_trees_differ_from_its_graph_is_scored_by_the_graph(process: Process, tmp_path: Path) -> None:
    use_compiled_trees(process.serving)

    process.promote("second", write_mixed_up(trained(), tmp_path / "mixed"))
    with capture_logs() as logs:
        process.serving.reload()

    assert [(line["event"], line["bundle"]) for line in logs] == [(NOT_COMPILED, "second")]
    assert "differ from their ONNX graph" in logs[0]["reason"]
    assert process.serving.bundle == "second"
    assert isinstance(mean_of(process), Graph)


def test_without_numba_the_log_says_that_onnx_runtime_computes() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, check=False, text=True)

    assert done.returncode == 0, done.stderr
    assert NOT_COMPILED in done.stdout
    assert "serve-fast" in done.stdout


@pytest.mark.slow
def test_only_the_table_process_loads_the_compiler(tmp_path: Path) -> None:
    fill(tmp_path)
    with running(tmp_path, "--workers", "2") as server:
        deadline = monotonic() + 120
        while len(loading := compiling(server.process.pid)) != 1:
            assert monotonic() < deadline
            sleep(0.1)
        assert os.getpriority(os.PRIO_PROCESS, loading[0]) == NICENESS


def compiling(parent: int) -> list[int]:
    """Processes of a server that have the compiler's library."""
    children = [int(c) for t in Path(f"/proc/{parent}/task").glob("*/children") for c in t.read_text().split()]
    return [pid for pid in (parent, *children) if "llvmlite" in Path(f"/proc/{pid}/maps").read_text()]
