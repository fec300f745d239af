"""Model: the placement model of a bundle, opened and run once as a check. An edge."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from advisor.cluster.snapshot import Snapshot
from advisor.errors import AdvisorError
from advisor.scoring.scorer import ModelScorer
from advisor.scoring.served_margins import served_margins
from features.schema.catalog import FEATURE_NAMES, RAW_NAMES, catalogue_hash
from features.training.model_input import complete
from models.bundle.bundle import Bundle, load_bundle
from models.bundle.manifest import ModelEntry
from models.bundle.signing import ANYBODY, Trust
from models.drift.drift_status import DriftStatus
from models.estimator.load_fallback import LoadAware
from models.estimator.predictor import Predictor, open_predictor

MODEL = "placement"


@dataclass(frozen=True, slots=True)
class Model:
    """A placement model ready to score with.

    Args:
        bundle: where it came from.
        predictor: rows in, slowdown out.
        entry: what the bundle says of it, such as margins.
        node: multiplier of spread for the bound over all containers of a node.
        widening: what margins are multiplied by.
    """

    bundle: Path
    predictor: Predictor | LoadAware
    entry: ModelEntry
    node: float
    widening: float = 1.0

    @property
    def name(self) -> str:
        """Bundle and serving mode: cached results under another name are computed again."""
        if isinstance(self.predictor, LoadAware):
            return f"{self.bundle.name}, by load"
        return f"{self.bundle.name}, margins x {self.widening:g}" if self.widening > 1 else self.bundle.name


def believed(model: Model, status: DriftStatus | None) -> Model:
    """The model in the serving mode of the drift status; None leaves it unchanged."""
    if status is None or status.state == "fine":
        return model
    if status.state == "fallen_back":
        return replace(model, predictor=LoadAware(model.predictor.medians), node=0.0)
    return replace(model, node=model.node * status.widening, widening=status.widening)


def open_model(
    bundle: Path, trust: Trust = ANYBODY, opener: Callable[[Bundle, str], Predictor] = open_predictor
) -> Model:
    """Open the placement model of a bundle and try it on a row of which nothing is known.

    Args:
        bundle: its folder.
        trust: who may have signed it.
        opener: makes the predictor of one model of a verified bundle.

    Raises:
        ModelsError: the bundle is corrupt, of another catalogue, or not signed by anybody who is trusted.
        AdvisorError: it holds no placement model, or one that says nothing of such a row.
    """
    verified = load_bundle(bundle, catalogue_hash(), trust)
    entry = verified.manifest.models.get(MODEL)
    if entry is None:
        raise _unusable_bundle(bundle, f"it has no model {MODEL!r}")
    if entry.features != FEATURE_NAMES:
        raise _unusable_bundle(bundle, "its columns are not the catalogue's")
    predictor = opener(verified, MODEL)
    unknown = complete(np.full((1, len(RAW_NAMES)), np.nan), predictor.medians[: len(RAW_NAMES)])
    said = predictor.predict(unknown)
    if not (np.isfinite(said.log_mean).all() and np.isfinite(said.spread).all()):
        raise _unusable_bundle(bundle, "it lacks medians for what is not measured")
    return Model(bundle, predictor, entry, entry.calibration.node)


def scorer_over(snapshot: Snapshot, model: Model) -> ModelScorer:
    """A model over a snapshot, with the margins of its apps."""
    margins = served_margins(model.entry, snapshot.cluster, snapshot.apps, snapshot.platforms)
    return ModelScorer(snapshot, model.predictor, margins, model.node)


def _unusable_bundle(bundle: Path, reason: str) -> AdvisorError:
    return AdvisorError(
        f"bundle {bundle} cannot score placements: {reason}; run `cohabit model rollback` or `cohabit model train`"
    )
