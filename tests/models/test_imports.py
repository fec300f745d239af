"""Serving stays light: what the advisor imports brings no trainer with it."""

import subprocess
import sys

import pytest

SERVING = [
    "explain.shap",
    "forms.pressure_base",
    "bundle.bundle",
    "calibration.conformal",
    "explain.explainer",
    "data.impute",
    "calibration.log_link",
    "bundle.manifest",
    "explain.tree_paths",
    "estimator.predictor",
    "registry.registry",
    "estimator.onnx_session",
    "bundle.tree_file",
    "forms.tree_arrays",
]
HEAVY = {"lightgbm", "onnx", "scipy", "pandas", "sklearn"}


@pytest.mark.parametrize("together", [SERVING], ids=["all serving modules"])
def test_serving_modules_import_nothing_that_trains(together: list[str]) -> None:
    imports = "; ".join(f"import models.{name}" for name in together)

    found = subprocess.run(
        [sys.executable, "-c", f"import sys; {imports}; print(*sys.modules)"],
        capture_output=True,
        check=True,
        text=True,
    )

    assert HEAVY.isdisjoint(found.stdout.split())
