"""Predictor: rows in, slowdown out: imputation, the two graphs and the link, in the order of training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.bundle.bundle import Bundle
from models.bundle.manifest import ModelEntry
from models.bundle.tree_file import ROLE, read_trees
from models.calibration import log_link as link
from models.data.impute import impute
from models.errors import BundleCorrupt, InconsistentDataset
from models.estimator.fitted_model import Placement
from models.estimator.onnx_session import load_graph
from models.forms.co_runner_choice import Choice
from models.forms.novelty import Novelty, Widths, distance, widening
from models.forms.power_law import Trend, trend_inputs
from models.forms.pressure_base import BaseTerms, base_sum

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
FAMILIAR = "familiar"
"""Role of the graph of apps learnt from."""


@dataclass(frozen=True)
class Prediction:
    """What a model says of n rows."""

    base_sum: Floats
    """(n,) excess ratio that the trees start from: of the base, or of the trend."""
    log_mean: Floats
    """(n,) expected log slowdown."""
    spread: Floats
    """(n,) typical size of its error, log ratio, > 0; already wider where a row is far."""
    distance: Floats
    """(n,) how far from the rows learnt from, in limits: above 1 a row is like none of them; 0 where it is unknown."""

    def ratio(self) -> Floats:
        """(n,) expected slowdown ratio."""
        return np.exp(self.log_mean)

    def upper(self, multiplier: float) -> Floats:
        """(n,) slowdown ratio bounded with a multiplier of the model's calibration."""
        return link.upper_ratio(self.log_mean, self.spread, multiplier)


class Ensemble(Protocol):
    """Trees that predict: an exported graph, or the same trees compiled."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what it predicts."""

    def predict(self, features: Floats) -> dict[str, Floats]:
        """One (n,) array per output for (n, d) features, see models.estimator.onnx_session.Graph."""

    def refuse_other_widths(self, features: Floats) -> None:
        """Raise ModelsError unless features are (n, d)."""


@dataclass(frozen=True)
class Predictor:
    """A model ready to predict."""

    medians: Floats
    mean: Ensemble
    spread: Ensemble
    trend: Trend | None = None
    """Where the trees start from a trend."""
    far: "Far | None" = None
    """Where rows far from those learnt from are predicted separately."""
    familiar: "Own | None" = None
    """Where apps learnt from have trees of their own."""
    terms: BaseTerms | None = None
    """Of the base; None where trees start from a trend, and of bundles that do not record them."""
    choice: Choice | None = None
    """What nodes are compared by; None where the base does it."""

    def predict(self, features: Floats, known: Flags | None = None) -> Prediction:
        """Expected slowdown of each row and the size of its error.

        Args:
            features: (n, d) raw feature values in catalogue order; NaN is missing.
            known: (n,) whether the row's app has an own margin, see models.bundle.margins; None where none has.

        Returns:
            Four (n,) arrays. A missing pressure counts as its training median, another missing value goes where the
            trees send it. Each row's result is independent of the other rows.

        Raises:
            ModelsError: features are not (n, d).
            InconsistentDataset: known is not one flag a row.

        Source: ours, docs/decisions/0008-model-form.md.
        """
        self.spread.refuse_other_widths(features)
        if known is not None and (known.shape != (len(features),) or known.dtype != np.bool_):
            raise InconsistentDataset(f"known has shape {known.shape} of {known.dtype}", "give one flag a row")
        rows = impute(features, self.medians)
        spread = link.spread(self.spread.predict(rows)["tree_raw"])
        if self.trend is None:
            base_sum, log_mean = self._on_base(rows, known)
            return Prediction(base_sum, log_mean, spread, np.zeros(len(rows)))
        base_sum, log_mean = on_trend(self.mean, self.trend, rows)
        if self.far is None:
            return Prediction(base_sum, log_mean, spread, np.zeros(len(rows)))
        apart = distance(rows, self.far.limit)
        beyond = on_trend(self.far.mean, self.far.trend, rows)
        far = apart > self.far.widths.reach
        base_sum, log_mean = np.where(far, beyond[0], base_sum), np.where(far, beyond[1], log_mean)
        return Prediction(base_sum, log_mean, spread * widening(apart, self.far.widths), apart)

    def log_choice(self, together: Floats, features: Callable[[Ints], Floats]) -> Floats:
        """Log slowdown that nodes are compared by.

        Args:
            together: (n, len(TOGETHER)) what all neighbours do together, see features.contention.co_runner_effects;
            NaN where not known.
            features: gives the (k, d) raw feature values of the rows that it is asked for.

        Returns:
            (n,) by how neighbours add up, where that was learnt and is known of the row; else by the base alone, and by
            all that is expected where trees start from a trend.

        Raises:
            ModelsError: features are not (k, d).

        Source: ours, docs/decisions/0034-choice-by-base.md and 0039-what-neighbours-do-together.md.
        """
        found = np.full(len(together), np.nan) if self.choice is None else self.choice.log_slowdown(together)
        lacking = np.flatnonzero(np.isnan(found))
        if len(lacking):
            found[lacking] = self._log_base(features(lacking))
        return found

    def _log_base(self, features: Floats) -> Floats:
        """(n,) of the base alone, without the trees where its terms are known; the graph has the same bits."""
        if self.trend is not None:
            return self.predict(features).log_mean
        if self.terms is None:
            return np.asarray(np.log1p(self.predict(features).base_sum), np.float64)
        self.spread.refuse_other_widths(features)
        return np.asarray(np.log1p(base_sum(impute(features, self.medians), self.terms)), np.float64)

    def _on_base(self, rows: Floats, known: Flags | None) -> tuple[Floats, Floats]:
        """(n,) base_sum and log_mean of imputed rows, each by the graph that is for its app."""
        if self.familiar is None or known is None or not known.any():
            return on_base(self.mean, rows)
        found = np.empty((2, len(rows)))
        found[:, known] = on_base(self.familiar.mean, rows[known], self.familiar.share)
        if not known.all():
            found[:, ~known] = on_base(self.mean, rows[~known])
        return found[0], found[1]


@dataclass(frozen=True)
class Far:
    """Which rows are far, the graph and trend that speak of them, and how wide bounds are."""

    limit: Novelty
    widths: Widths
    mean: Ensemble
    trend: Trend


@dataclass(frozen=True)
class Own:
    """The graph of apps learnt from, and the share of the base that it starts from."""

    share: float
    mean: Ensemble


def on_base(mean: Ensemble, rows: Floats, share: float = 1.0) -> tuple[Floats, Floats]:
    """(n,) excess ratio of the base and (n,) log slowdown of a graph, for (n, d) imputed rows."""
    said = mean.predict(rows)
    return said["base_sum"], link.log_mean(said["base_sum"], said["tree_raw"], share)


def on_trend(mean: Ensemble, trend: Trend, rows: Floats) -> tuple[Floats, Floats]:
    """(n,) excess ratio of the trend and (n,) log slowdown of its graph, for (n, d) imputed rows."""
    said = mean.predict(np.hstack([rows, trend_inputs(rows, trend)]))
    return np.expm1(said["trend_sum"]), np.clip(said["trend_sum"] + said["tree_raw"], *trend.within)


def open_predictor(bundle: Bundle, model: str) -> Predictor:
    """The predictor of one model of a verified bundle.

    Raises:
        ModelsError: the bundle has no model of that name.
        BundleCorrupt: a graph has other inputs or outputs than its model.
    """
    entry = bundle.entry_of(model)
    roles = {"mean": {"base_sum", "tree_raw"}, "spread": {"tree_raw"}, FAMILIAR: {"base_sum", "tree_raw"}}
    graphs = {role: _graph(bundle, model, role, outputs) for role, outputs in roles.items() if role in entry.files}
    plain = Predictor(medians_of(entry), graphs["mean"], graphs["spread"])
    if ROLE in entry.files:
        plain = replace(plain, terms=read_trees(bundle, model)[1])
    if entry.choice is not None:
        plain = replace(plain, choice=Choice(**entry.choice.model_dump()))
    if entry.seen_share is None:
        return plain
    return replace(plain, familiar=Own(entry.seen_share, graphs[FAMILIAR]))


def _graph(bundle: Bundle, model: str, role: str, outputs: set[str]) -> Ensemble:
    """The graph of a role; BundleCorrupt unless it reads the model's columns and has the role's outputs."""
    entry = bundle.entry_of(model)
    graph = load_graph(bundle.file_of(model, role))
    if set(graph.outputs) != outputs or graph.width != len(entry.features):
        reason = (
            f"reads {graph.width} columns and returns {', '.join(sorted(graph.outputs))}: it is no graph for {role!r}"
        )
        raise BundleCorrupt(bundle.directory, entry.files[role], reason)
    return graph


def medians_of(entry: ModelEntry) -> Floats:
    """(d,) what stands in for a missing value of each column, NaN where missing stays missing."""
    return np.array([entry.medians.get(name, np.nan) for name in entry.features])


def predictor_of_fitted(placement: Placement, graphs: Mapping[str, bytes]) -> Predictor:
    """The predictor of a model just trained and its exported graphs."""
    trend = placement.terms if isinstance(placement.terms, Trend) else None
    beyond = placement.beyond
    far = None if beyond is None else Far(beyond.limit, beyond.widths, load_graph(graphs["beyond"]), beyond.start)
    own = None if placement.familiar is None else Own(placement.familiar.share, load_graph(graphs[FAMILIAR]))
    terms = placement.terms if isinstance(placement.terms, BaseTerms) else None
    return Predictor(
        placement.medians,
        load_graph(graphs["mean"]),
        load_graph(graphs["spread"]),
        trend,
        far,
        own,
        terms,
        placement.choice,
    )
