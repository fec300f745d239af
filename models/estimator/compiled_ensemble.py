"""Compiled ensemble: the trees of a bundle as machine code in place of ONNX graphs, checked against them. An edge."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.bundle.bundle import Bundle
from models.bundle.tree_file import FAMILIAR_ROLE, ROLE, SPREAD_ROLE, read_trees
from models.data.dataset import refuse_other_widths
from models.errors import ModelsError
from models.estimator.compiled_trees import tree_sum, weighted_sum
from models.estimator.predictor import Ensemble, Predictor, open_predictor
from models.forms.pressure_base import BaseTerms
from models.forms.tree_arrays import ZERO_BAND, Forest
from models.forms.tree_bitvectors import Bitvectors, bitvectors

Floats = NDArray[np.float64]
CHECKED_ROWS = 400
ODD = (np.nan, np.inf, -np.inf, 0.0, -0.0, ZERO_BAND, -ZERO_BAND, 1e-36, 5e-324, 1e300)
"""Values that comparisons stumble over."""


@dataclass(frozen=True)
class CompiledEnsemble:
    """Trees and base as machine code: answers as the exported graph of the same model, to the bit."""

    width: int
    trees: Bitvectors
    terms: BaseTerms | None = None
    """None predicts no `base_sum`."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of what it predicts."""
        return ("tree_raw",) if self.terms is None else ("tree_raw", "base_sum")

    def predict(self, features: Floats) -> dict[str, Floats]:
        """Every output, by name.

        Args:
            features: (n, width) float64, any memory order; NaN follows the trees.

        Returns:
            One (n,) float64 array per output; its values do not depend on n.

        Raises:
            ModelsError: features are not (n, width).

        Source: ours, see docs/decisions/0069-compiled-trees.md.
        """
        self.refuse_other_widths(features)
        rows = np.ascontiguousarray(features, dtype=np.float64)
        if not rows.flags.writeable:
            rows = rows.copy()  # read-only arrays are another type, for which the kernel would be compiled again
        found = {"tree_raw": tree_sum(rows, self.trees)}
        if self.terms is not None:
            found["base_sum"] = weighted_sum(rows, self.terms.columns, self.terms.weights)
        return found

    def refuse_other_widths(self, features: Floats) -> None:
        """Raise ModelsError unless features are (n, width)."""
        refuse_other_widths(features, self.width)


def compiled_ensemble(forest: Forest, terms: BaseTerms | None = None) -> CompiledEnsemble:
    """The compiled trees of a forest, with the base where terms are given.

    Raises:
        ModelsError: a tree has too many leaves.
    """
    copied = None if terms is None else BaseTerms(np.array(terms.columns, np.int64), np.array(terms.weights))
    return CompiledEnsemble(forest.width, bitvectors(forest), copied)


def open_compiled(bundle: Bundle, model: str) -> Predictor:
    """The predictor of one model of a verified bundle, compiled where the bundle has trees.

    Raises:
        ModelsError: the bundle has no model of that name; a tree has too many leaves, or compiled trees differ from
            their graph.
        BundleCorrupt: a graph has other inputs or outputs than its model, or a tree file describes no trees.
    """
    plain = open_predictor(bundle, model)
    mean, spread = _compiled(bundle, model, ROLE, plain.mean), _compiled(bundle, model, SPREAD_ROLE, plain.spread)
    found = replace(plain, mean=mean, spread=spread)
    if plain.familiar is None:
        return found
    return replace(
        found, familiar=replace(plain.familiar, mean=_compiled(bundle, model, FAMILIAR_ROLE, plain.familiar.mean))
    )


def _compiled(bundle: Bundle, model: str, role: str, graph: Ensemble) -> Ensemble:
    """The trees of a role in place of their graph; the graph of a bundle without them."""
    if role not in bundle.entry_of(model).files:
        return graph
    forest, terms = read_trees(bundle, model, role)
    found = compiled_ensemble(forest, terms if "base_sum" in graph.outputs else None)
    refuse_difference(found, graph, awkward_rows(forest))
    return found


def refuse_difference(ours: Ensemble, graph: Ensemble, rows: Floats) -> None:
    """Raise ModelsError where an output differs from the graph's in any bit of any row; every NaN counts as one."""
    got, expected = ours.predict(rows), graph.predict(rows)
    for name, values in expected.items():
        differing = (got[name].view(np.int64) != values.view(np.int64)) & ~(np.isnan(got[name]) & np.isnan(values))
        if differing.any():
            raise ModelsError(
                f"compiled trees differ from their ONNX graph in {name} on {differing.sum()} of {len(rows)} rows: "
                "use ONNX Runtime, and report this"
            )


def awkward_rows(forest: Forest) -> Floats:
    """(CHECKED_ROWS, width) values on thresholds, their neighbours, and odd ones; the same for the same forest."""
    rng = np.random.default_rng(0)
    rows = np.empty((CHECKED_ROWS, forest.width))
    for column in range(forest.width):
        on = forest.threshold[forest.feature == column]
        near = [on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf)]
        rows[:, column] = rng.choice(np.concatenate([*near, ODD]), len(rows))
    return rows
