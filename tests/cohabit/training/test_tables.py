"""Figures in words: whether a model is good enough, and where it is not."""

import pytest

from cohabit.training.tables import enough_words
from models.metrics.errors_and_ranks import Estimate
from models.training.trainer import Metrics

CALLED = {"time_forward": "tomorrow: what came after", "leave_app_out": "unseen apps: never trained on"}


def metrics(ours: float, baseline: float, held: tuple[float, float]) -> Metrics:
    coverage = {"coverage90": Estimate(held[0], held[0], held[1])}
    return {
        "ours": {"mae_log": Estimate(ours, ours, ours), **coverage},
        "group_mean": {"mae_log": Estimate(baseline, baseline, baseline)},
        "constant": {"mae_log": Estimate(9.0, 9.0, 9.0)},
    }


@pytest.mark.parametrize(
    ("unseen", "said"),
    [
        (metrics(0.1, 0.2, (0.8, 0.9)), "good enough for tomorrow, unseen apps"),
        (
            metrics(0.2, 0.2, (0.9, 0.95)),
            "good enough for tomorrow; not good enough for unseen apps (no better than group_mean)",
        ),
        (
            metrics(0.3, 0.2, (0.7, 0.85)),
            "good enough for tomorrow; not good enough for unseen apps "
            "(no better than group_mean; bounds hold in 0.70 of cases, 0.9 is promised)",
        ),
    ],
)
def test_training_ends_with_whether_the_model_is_good_enough_and_where_it_is_not(unseen: Metrics, said: str) -> None:
    found = enough_words({"time_forward": metrics(0.1, 0.2, (0.92, 0.95)), "leave_app_out": unseen}, CALLED)

    assert found == said
