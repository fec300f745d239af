"""Model input: the catalogue's columns in its order, what is missing filled and marked, and products on top."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from features.contention.pressure import PRESSURE_COLUMNS
from features.schema.catalog import (
    DEMANDS,
    FEATURE_NAMES,
    INTERACTIONS,
    KNEE,
    MISSING,
    NAMES,
    PRESSURES,
    RAW_NAMES,
    SENSITIVITIES,
)
from features.schema.errors import FeaturesError
from features.schema.tables import PROFILES
from features.training.model_input import FILLED, complete, node_matrix, profile_matrix, raw_features, training_fills
from ingest.schema.tables import NODES

WIDTH = len(RAW_NAMES)
values = st.one_of(st.just(np.nan), st.floats(0, 100))
raws = st.integers(1, 5).flatmap(lambda n: arrays(np.float64, (n, WIDTH), elements=values))
fillings = arrays(np.float64, WIDTH, elements=st.floats(0, 100))
FILLED_NAMES = {*PRESSURES, *SENSITIVITIES, *DEMANDS}


def test_the_catalogue_is_raw_then_products_then_marks() -> None:
    assert (*RAW_NAMES, *(f.name for f in INTERACTIONS), *(f.name for f in MISSING)) == FEATURE_NAMES
    assert RAW_NAMES[: len(PRESSURE_COLUMNS)] == PRESSURE_COLUMNS
    assert {RAW_NAMES[i] for i in FILLED} == FILLED_NAMES
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES)


def test_the_catalogue_holds_no_signal_of_the_victim_on_the_candidate_node() -> None:
    own = ("cpi", "rt_", "psi", "run_delay", "throttled", "qps", "slowdown")

    named = {name for name in FEATURE_NAMES if any(part in name for part in own)}

    assert named == {"profile_cpi", "profile_qps"}


@given(raw=raws, fills=fillings)
def test_every_column_is_what_a_loop_by_name_says(raw: np.ndarray, fills: np.ndarray) -> None:
    made = complete(raw, fills)

    assert made.shape == (len(raw), len(FEATURE_NAMES))
    for row, out in zip(raw, made, strict=True):
        given_, fill = dict(zip(RAW_NAMES, row, strict=True)), dict(zip(RAW_NAMES, fills, strict=True))
        found = dict(zip(FEATURE_NAMES, out, strict=True))
        own = {n: fill[n] if n in FILLED_NAMES and np.isnan(v) else v for n, v in given_.items()}
        expected = {
            **own,
            **{f"sensitive_{n}": own[f"sensitivity_{n}"] * own[f"pressure_{n}"] for n in NAMES},
            **{f"intense_{n}": own[f"demand_{n}"] * own[f"pressure_{n}"] for n in NAMES},
            **{f"sensitive_early_{n}": own[f"sensitivity_{n}"] * min(own[f"pressure_{n}"], KNEE) for n in NAMES},
            **{f"sensitive_late_{n}": own[f"sensitivity_{n}"] * max(own[f"pressure_{n}"] - KNEE, 0) for n in NAMES},
            **{f"missing_{n}": float(np.isnan(given_[n])) for n in PRESSURES},
        }
        np.testing.assert_equal(found, expected)


@given(raw=raws)
def test_fills_are_medians_but_for_the_profile_whose_mean_counts(raw: np.ndarray) -> None:
    fills = dict(zip(RAW_NAMES, training_fills(raw), strict=True))

    for name, column in zip(RAW_NAMES, raw.T, strict=True):
        known = column[~np.isnan(column)]
        mean = name in SENSITIVITIES or name in DEMANDS
        expected = (np.mean(known) if mean else np.median(known)) if len(known) else 0.0
        assert fills[name] == pytest.approx(expected)


@given(raw=raws, fills=fillings, seed=st.integers(0, 99))
def test_a_row_does_not_depend_on_the_rows_beside_it(raw: np.ndarray, fills: np.ndarray, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(raw))

    np.testing.assert_array_equal(complete(raw[order], fills), complete(raw, fills)[order])


def test_widths_and_lengths_must_agree() -> None:
    with pytest.raises(FeaturesError, match="differ in length"):
        complete(np.zeros((1, WIDTH + 1)), np.zeros(WIDTH))
    with pytest.raises(FeaturesError, match="differ in length"):
        complete(np.zeros((1, WIDTH)), np.zeros(WIDTH - 1))
    with pytest.raises(FeaturesError, match="differ in length"):
        raw_features(np.zeros((2, len(PRESSURE_COLUMNS))), np.zeros((1, 18)), np.zeros((2, 4)))


def test_nothing_known_of_an_app_is_no_windows_and_nothing_known_of_a_node_is_missing() -> None:
    nobody = pa.array([None], pa.int64())

    app = profile_matrix(PROFILES.schema.empty_table().take(nobody))[0]
    node = node_matrix(NODES.schema.empty_table().take(nobody))[0]

    assert np.isnan(app[:-1]).all()
    assert app[-1] == 0.0
    assert np.isnan(node).all()
