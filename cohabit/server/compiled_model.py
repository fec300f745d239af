"""Compiled model: how the table process comes to compute by compiled trees, or why ONNX Runtime goes on. An edge."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import structlog

from advisor.errors import Contained
from advisor.placement.model_state import Serving
from advisor.scoring.loaded_model import Model, open_model
from models.bundle.signing import Trust
from models.errors import ModelsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from models.bundle.bundle import Bundle
    from models.estimator.predictor import Predictor

log = structlog.get_logger()
NOT_COMPILED = "ONNX Runtime computes the score table"


def use_compiled_trees(serving: Serving) -> None:
    """Open bundles with compiled trees from now on, the loaded one too, where numba is installed and works here.

    Takes a second of CPU time, or some where the user's cache has no machine code yet. Logs once what computes.
    """
    if find_spec("numba") is None:
        log.info(NOT_COMPILED, reason="numba is not installed; it comes with the extra serve-fast")
        return
    started = perf_counter()
    with Contained(log, NOT_COMPILED):
        try:
            from models.estimator.compiled_ensemble import open_compiled

            serving.open_by(partial(open_compiled_model, open_compiled))
        except ModelsError as error:
            log.warning(NOT_COMPILED, reason=str(error))
            return
        log.info("compiled trees compute the score table", ready_s=round(perf_counter() - started, 1))


def open_compiled_model(opener: "Callable[[Bundle, str], Predictor]", bundle: Path, trust: Trust) -> Model:
    """The placement model of a bundle with compiled trees; by ONNX Runtime, with a warning, where they are refused.

    Raises:
        ModelsError, AdvisorError: see advisor.scoring.loaded_model.open_model.
    """
    try:
        return open_model(bundle, trust, opener)
    except ModelsError as error:
        model = open_model(bundle, trust)
        log.warning(NOT_COMPILED, bundle=bundle.name, reason=str(error))
        return model
