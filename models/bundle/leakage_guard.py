"""Leakage guard: a placement model may read only what is known when the decision is taken."""

from collections.abc import Iterable

from features.training.diagnosis_rows import AFTER_DECISION
from models.data.dataset import Dataset
from models.errors import ModelsError

PLACEMENT, DIAGNOSIS = "placement", "diagnosis"
"""The models of a bundle."""


def refuse_leakage(names: Iterable[str]) -> None:
    """Refuse columns of a placement model that the catalogue declares as known only while the container runs.

    Raises:
        ModelsError: some are.
    """
    late = tuple(sorted(AFTER_DECISION & set(names)))
    if late:
        raise ModelsError(
            f"a placement model may not read {', '.join(late)}: known only after the decision; leave it out, or give "
            "it to the diagnosis model"
        )


def known_at_decision(data: Dataset) -> Dataset:
    """The same rows, which describe decisions.

    Raises:
        ModelsError: a column is known only after the decision.
    """
    refuse_leakage(data.names)
    return data
