"""Explainer: which features make a prediction what it is, from the files of a bundle alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.bundle.bundle import Bundle
from models.bundle.tree_file import FAMILIAR_ROLE, read_trees
from models.data.dataset import refuse_other_widths
from models.data.impute import impute
from models.estimator.predictor import medians_of
from models.explain.shap import Attribution, base_attribution, path_attribution, tree_shap
from models.explain.tree_paths import Paths, paths_of
from models.forms.pressure_base import BaseTerms
from models.forms.tree_arrays import Forest

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Explainer:
    """A mean model ready to explain."""

    names: tuple[str, ...]
    """(d,) what the contributions are called, in their order."""
    medians: Floats
    terms: BaseTerms
    paths: Paths
    share: float = 1.0
    """Of the base's log that the trees start from."""

    def explain(self, features: Floats) -> Attribution:
        """Contributions to the log_mean that `Predictor.predict` returns for each row: exact, a few milliseconds a row.

        Args:
            features: (n, d) raw feature values in catalogue order; NaN is missing.

        Returns:
            log_mean minus `expected`, by feature, in log ratio: Shapley values of the trees plus the feature's part of
            the base. `expected` is what the trees expect of a row they know nothing of, without any pressure. A missing
            pressure contributes as its training median would.

        Raises:
            ModelsError: features are not (n, d).

        Source: ours, docs/decisions/0014-attribution.md.
        """
        rows = self._complete(features)
        return self._with_base(rows, tree_shap(rows, self.paths))

    def explain_many(self, features: Floats) -> Attribution:
        """The same sums a hundred times faster, divided among the features by the splits on each row's way."""
        rows = self._complete(features)
        return self._with_base(rows, path_attribution(rows, self.paths))

    def _complete(self, features: Floats) -> Floats:
        refuse_other_widths(features, len(self.names))
        return impute(features, self.medians)

    def _with_base(self, rows: Floats, trees: Attribution) -> Attribution:
        return Attribution(trees.expected, trees.by_feature + self.share * base_attribution(rows, self.terms))


def open_explainer(bundle: Bundle, model: str, *, known: bool = False) -> Explainer:
    """The explainer of one model of a verified bundle.

    Args:
        bundle: where the model is.
        model: its name.
        known: whether rows are of apps with an own margin, which may have trees of their own, see `Predictor.predict`.

    Raises:
        ModelsError: the bundle has no model of that name; the bundle was written before it held what explains.
        BundleCorrupt: what explains is not what `write_trees` writes.
    """
    entry = bundle.entry_of(model)
    if known and entry.seen_share is not None:
        forest, terms = read_trees(bundle, model, FAMILIAR_ROLE)
        return Explainer(entry.features, medians_of(entry), terms, paths_of(forest), entry.seen_share)
    return explainer_of(entry.features, medians_of(entry), *read_trees(bundle, model))


def explainer_of(names: tuple[str, ...], medians: Floats, forest: Forest, terms: BaseTerms) -> Explainer:
    """An explainer from its parts: d names, (d,) medians, the trees and the base of the mean model."""
    return Explainer(names, medians, terms, paths_of(forest))
