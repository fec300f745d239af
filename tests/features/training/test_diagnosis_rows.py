"""Diagnosis rows: what was measured in the very window of a label, and never the label itself."""

import numpy as np
import pyarrow as pa
import pytest

from features.labels.slowdown import SIGNALS as LABEL_SIGNALS
from features.schema.catalog import FEATURES, RAW, RAW_NAMES
from features.schema.tables import CONTENTION, NODE_STATE, TRAINING
from features.training.diagnosis_rows import (
    AFTER_DECISION,
    DIAGNOSIS,
    DIAGNOSIS_NAMES,
    LABEL_PARTS,
    OWN,
    SIGNS,
    STATE_COLUMNS,
    cause_of,
    diagnosis_rows,
)
from ingest.schema.tables import SIGNALS
from tests.features.rows import at

KEY = {"cluster": "c", "node": "n", "container": "a"}
COLUMN = {name: i for i, name in enumerate((*RAW_NAMES, *(f.name for f in SIGNS)))}


def table(schema: pa.Schema, *rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist([{**KEY, **row} for row in rows], schema=schema)


def decided(end_minute: int = 10, **more: object) -> dict[str, object]:
    return {"window_end": at(60 * end_minute), "pressure_cpu": 0.1, "neighbours": 2.0, "sensitivity_cpu": 0.5, **more}


def minute(end: int, samples: int = 2, **more: object) -> dict[str, object]:
    return {"window_end": at(60 * end), "samples": samples, **more}


def beside(end_minute: int = 10, **more: object) -> dict[str, object]:
    return {"window_end": at(60 * end_minute), **more}


def found(training: pa.Table, contention: pa.Table, state: pa.Table, name: str) -> list[float]:
    return [float(v) for v in diagnosis_rows(training, contention, state)[:, COLUMN[name]]]


def test_pressures_are_those_of_the_window_and_the_profile_that_of_before() -> None:
    rows = (
        table(TRAINING.schema, decided()),
        table(CONTENTION.schema, beside(pressure_cpu=0.7, neighbours=5.0, load_of_peak=0.4), beside(15)),
        table(NODE_STATE.schema),
    )

    assert found(*rows, "pressure_cpu") == [0.7]
    assert found(*rows, "neighbours") == [5.0]
    assert found(*rows, "load_of_peak") == [0.4]
    assert found(*rows, "sensitivity_cpu") == [0.5]


def test_own_signs_are_means_of_the_windows_minutes_weighted_by_samples() -> None:
    state = table(
        NODE_STATE.schema,
        minute(5, run_delay_frac=9.0),
        minute(6, 1, run_delay_frac=0.2),
        minute(10, 3, run_delay_frac=0.4),
        minute(8, 3),
        minute(11, run_delay_frac=9.0),
        {**minute(7, run_delay_frac=9.0), "container": "b"},
    )

    said = found(table(TRAINING.schema, decided()), table(CONTENTION.schema), state, "own_run_delay_frac")

    assert said == [pytest.approx((0.2 + 3 * 0.4) / 4)]


def test_cache_misses_count_beside_those_of_the_profile() -> None:
    state = table(NODE_STATE.schema, minute(6, llc_mpki=6.0))
    training = table(TRAINING.schema, decided(profile_llc_mpki=4.0), decided(15, profile_llc_mpki=0.0))

    said = found(training, table(CONTENTION.schema), state, "own_llc_mpki")

    assert said[0] == 1.5
    assert np.isnan(said[1])


def test_what_was_not_measured_is_missing_and_not_zero() -> None:
    said = diagnosis_rows(table(TRAINING.schema, decided()), table(CONTENTION.schema), table(NODE_STATE.schema))

    during = [f.known in {"residents", "during"} for f in (*RAW, *SIGNS)]
    assert np.isnan(said[:, during]).all()


def test_what_the_label_is_made_of_is_neither_read_nor_a_feature() -> None:
    assert set(LABEL_SIGNALS.values()) <= set(LABEL_PARTS)
    assert not set(LABEL_PARTS) & {*STATE_COLUMNS, *OWN}
    assert not {f"own_{name}" for name in LABEL_PARTS} & set(DIAGNOSIS_NAMES)


def test_the_order_of_minutes_changes_no_bit() -> None:
    rng = np.random.default_rng(0)
    state = table(NODE_STATE.schema, *(minute(m, m, run_delay_frac=float(rng.random())) for m in range(6, 11)))
    rows = table(TRAINING.schema, decided()), table(CONTENTION.schema)

    first = found(*rows, state, "own_run_delay_frac")

    assert all(found(*rows, state.take(rng.permutation(5)), "own_run_delay_frac") == first for _ in range(5))


def test_every_feature_of_a_placement_is_declared_as_known_at_the_decision() -> None:
    assert {f.known for f in FEATURES} == {"profile", "residents", "node"}
    assert not AFTER_DECISION & {f.name for f in FEATURES}


def test_every_signal_of_the_container_itself_is_declared_as_known_too_late() -> None:
    assert {c.name for c in SIGNALS} <= AFTER_DECISION
    assert {f.name for f in SIGNS} <= AFTER_DECISION
    assert {f.name for f in DIAGNOSIS if f.known == "during"} <= AFTER_DECISION
    assert len(set(DIAGNOSIS_NAMES)) == len(DIAGNOSIS) == len(FEATURES) + len(SIGNS)


@pytest.mark.parametrize(
    ("feature", "cause"),
    [
        ("during_pressure_disk_ios", "disk_ios"),
        ("during_sensitive_late_disk", "disk"),
        ("during_pressure_cpu_elsewhere", "cpu"),
        ("during_missing_pressure_net", "net"),
        ("during_max_neighbour_cpu", "cpu"),
        ("during_neighbours_be", "neighbours"),
        ("own_psi_memory_full_frac", "memory"),
        ("own_cpu_throttled_frac", "own limit"),
        ("neighbour_run_delay_frac", "cpu"),
        ("load_of_peak", "app"),
        ("sensitivity_llc", "app"),
        ("node_cores", "node"),
    ],
)
def test_every_contribution_has_a_cause(feature: str, cause: str) -> None:
    assert feature in DIAGNOSIS_NAMES
    assert cause_of(feature) == cause
