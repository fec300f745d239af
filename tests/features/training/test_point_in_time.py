"""Point in time: no feature of a decision knows anything that arrived after it, and no order of rows matters."""

from collections.abc import Callable
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from features.contention.node_state import Facts, node_state
from features.profiles.per_app import labels_of, profiles_of
from features.schema.catalog import RAW, RAW_NAMES
from features.schema.tables import DERIVED
from features.training.diagnosis_rows import SIGNS, diagnosis_rows
from features.training.five_minute import contention
from features.training.residents import Sources
from features.training.rows import training_rows
from tests.features.hours import (
    KEPT,
    PROFILE_TIMES_US,
    WEB,
    Derived,
    Hour,
    Record,
    derived,
    hour,
    in_order,
    records,
    shuffled,
)
from tests.features.rows import at

KEY = ("container", "as_of")


@pytest.fixture(scope="module")
def seen() -> Hour:
    return hour(records(np.random.default_rng(11)))


@pytest.fixture(scope="module")
def made(seen: Hour) -> Derived:
    return derived(seen)


def features(rows: pa.Table, until: datetime) -> dict[tuple[object, ...], tuple[object, ...]]:
    """Features of each decision up to a time, by container and time of decision."""
    known = [row for row in rows.to_pylist() if row["as_of"] <= until]
    return {tuple(row[c] for c in KEY): tuple(row[c] for c in RAW_NAMES) for row in known}


def test_the_hour_is_worth_testing(made: Derived) -> None:
    rows = made.training.to_pylist()

    assert len(rows) > 40
    assert {row["app"] for row in rows} == {"web"}
    assert sum(row["sensitivity_cpu"] is not None for row in rows) > 5
    assert len({row["pressure_cpu"] for row in rows}) > 30


def wild(row: Record, rng: np.random.Generator) -> Record:
    """The same record with other values; the load stays, or there would be no normal to compare with."""
    kept = (*KEPT, "qps")
    return {name: v if name in kept else float(str(v)) * rng.uniform(0.1, 10) for name, v in row.items()}


def changed(row: Record, rng: np.random.Generator) -> list[Record]:
    return [wild(row, rng)]


def delayed(row: Record, rng: np.random.Generator) -> list[Record]:
    """Later still, so that it belongs to other minutes and windows; but for the minute in flight, as below."""
    if in_flight(row):
        return [row]
    late_s = float(rng.uniform(0, 600))
    return [row | {"ts": float(str(row["ts"])) + late_s, "arrived_at": at(float(str(row["ts"])) + late_s + 3)}]


def gone(row: Record, _rng: np.random.Generator) -> list[Record]:
    """Nothing, but for the minute in flight: a window counts once all of it has arrived."""
    return [row] if in_flight(row) else []


def in_flight(row: Record) -> bool:
    """Whether it may belong to a minute that has ended and not quite arrived at a decision."""
    return bool(row["arrived_at"] < at(float(str(row["ts"])) // 60 * 60 + 4))  # type: ignore[operator]


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 99), minute=st.integers(20, 55))
@pytest.mark.parametrize("later", [changed, delayed, gone])
def test_what_arrives_after_a_decision_changes_no_feature_of_it(
    later: Callable[[Record, np.random.Generator], list[Record]], seed: int, minute: int
) -> None:
    rng = np.random.default_rng(seed)
    rows, now = records(rng), at(60 * minute)
    other = [new for row in rows for new in ([row] if row["arrived_at"] <= now else later(row, rng))]  # type: ignore[operator]

    before, after = (features(derived(hour(r)).training, now) for r in (rows, other))

    both = before.keys() & after.keys()
    assert len(both) >= WEB * (minute // 5 - 2)
    assert {key: before[key] for key in both} == {key: after[key] for key in both}


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 99), minute=st.integers(20, 54))
def test_facts_that_arrive_after_a_decision_change_no_feature_of_it(seed: int, minute: int) -> None:
    rng, now = np.random.default_rng(seed), at(60 * minute)
    seen = hour(records(rng))
    when = {"ts": at(60 * minute - 300), "arrived_at": at(60 * minute + 1)}
    nodes = [row | when | {"cores": 3.0, "frequency_ghz": 1.0, "platform": "q"} for row in seen.facts.nodes.to_pylist()]
    events = [
        row | when | {"event": "delete" if rng.random() < 0.5 else "change", "node": "n0"}
        for row in seen.facts.placements.to_pylist()
    ]
    told = Facts(more(seen.facts.nodes, nodes), more(seen.facts.placements, events))
    made = derived(seen)

    then = training_rows(made.labels, Sources(made.state, told.nodes, told.placements, made.profiles))

    before, after = features(made.training, now), features(then, now)
    assert before == after
    assert features(made.training, at(3600)) != features(then, at(3600))


def test_columns_are_declared_as_known_when_they_are(seen: Hour, made: Derived) -> None:
    now, rng = at(60 * 30), np.random.default_rng(5)
    rows = records(np.random.default_rng(11))
    other = [new for row in rows for new in ([row] if row["arrived_at"] <= now else changed(row, rng))]  # type: ignore[operator]

    before, after = (measured(derived(hour(r)), now) for r in (rows, other))

    moved = {name for name, a, b in zip(COLUMNS, before.T, after.T, strict=True) if not np.array_equal(a, b, True)}
    assert {"pressure_cpu", "pressure_memory", "max_neighbour_cpu"} <= moved
    assert moved <= MEASURED_DURING
    assert len(before) >= WEB


COLUMNS = (*RAW_NAMES, *(f.name for f in SIGNS))
MEASURED_DURING = {f.name for f in (*RAW, *SIGNS) if f.known in {"residents", "during"}}
"""Of a diagnosis, whose pressures are those of the window itself."""


def measured(of: Derived, decided: datetime) -> NDArray[np.float64]:
    """What the diagnosis model reads of the windows that begin at a time."""
    of_decision = of.training.filter(pc.equal(of.training["as_of"], pa.scalar(decided, of.training["as_of"].type)))
    return diagnosis_rows(of_decision, contention(of.state, of.profiles), of.state)


def more(table: pa.Table, rows: list[dict[str, object]]) -> pa.Table:
    """The table with further rows, landed after the others."""
    later = [row | {"offset": 1000 + i} for i, row in enumerate(rows)]
    return pa.concat_tables([table, pa.Table.from_pylist(later, schema=table.schema)])


def test_a_fact_about_a_node_that_arrives_after_a_decision_is_not_known_to_it(seen: Hour, made: Derived) -> None:
    late = seen.facts.nodes.slice(0, 1).to_pylist()[0] | {"cores": 4.0, "ts": at(-60), "arrived_at": at(1801)}
    facts = Facts(
        pa.concat_tables([seen.facts.nodes, pa.Table.from_pylist([late], schema=seen.facts.nodes.schema)]),
        seen.facts.placements,
    )

    rows = training_rows(made.labels, Sources(made.state, facts.nodes, facts.placements, made.profiles)).to_pylist()

    assert {row["node_cores"] for row in rows if row["node"] == "n0" and row["as_of"] <= at(1800)} == {8.0}
    assert {row["node_cores"] for row in rows if row["node"] == "n0" and row["as_of"] > at(1801)} == {4.0}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_order_of_rows_changes_no_bit_of_any_table(seen: Hour, made: Derived, seed: int) -> None:
    rng = np.random.default_rng(seed)
    facts = Facts(shuffled(seen.facts.nodes, rng), shuffled(seen.facts.placements, rng))

    state = node_state(shuffled(seen.usage, rng), facts)
    labels = labels_of(shuffled(made.state, rng), facts.placements)
    profiles = profiles_of(shuffled(made.state, rng), PROFILE_TIMES_US)
    sources = Sources(shuffled(made.state, rng), facts.nodes, facts.placements, shuffled(made.profiles, rng))
    training = training_rows(shuffled(made.labels, rng), sources)

    for name, found in (("node_state", state), ("labels", labels), ("profiles", profiles), ("training", training)):
        expected = {"node_state": made.state, "labels": made.labels, "profiles": made.profiles}.get(name, made.training)
        assert in_order(found, DERIVED[name].key).equals(in_order(expected, DERIVED[name].key)), name


def test_a_further_app_changes_no_label_of_the_others(seen: Hour, made: Derived) -> None:
    web = [row for row in made.state.to_pylist() if row["app"] == "web"]
    other = [{**row, "app": "third", "rt_mean_ms": 9.0, "pressure_cpu": 0.0} for row in web[: len(web) // 2]]
    more = pa.Table.from_pylist(made.state.to_pylist() + other, schema=made.state.schema)

    labels = labels_of(more, seen.facts.placements)

    assert [row for row in labels.to_pylist() if row["app"] != "third"] == made.labels.to_pylist()
    assert len({row["container"] for row in web}) == WEB


def test_profiles_never_look_ahead(seen: Hour, made: Derived) -> None:
    for time_us in PROFILE_TIMES_US.tolist():
        known = made.state.filter(pc.less_equal(micros_of(made.state, "arrived_at"), time_us))
        known = known.filter(pc.less_equal(micros_of(known, "window_end"), time_us))

        then = in_order(profiles_of(known, np.array([time_us])), ("app",))

        now = made.profiles.filter(pc.equal(micros_of(made.profiles, "as_of"), time_us))
        assert in_order(now, ("app",)).equals(then)


def micros_of(rows: pa.Table, column: str) -> pa.ChunkedArray:
    return rows[column].cast(pa.int64())
