"""Training rows: what was known when the decision was taken, and nothing later."""

import numpy as np
import pyarrow as pa
import pytest

from features.contention.node_state import Facts, node_state
from features.profiles.app_profile import profile_app
from features.schema.tables import LABELS, PROFILES
from features.training.residents import Sources
from features.training.rows import training_rows
from tests.features.rows import at, nodes, placements, usage


def label(container: str, minute: int = 5, **more: object) -> dict[str, object]:
    """A label whose decision is taken at the minute given."""
    times = {"window_start": at(60 * minute), "window_end": at(60 * minute + 300), "arrived_at": at(60 * minute + 301)}
    own = {"cluster": "c", "node": "n", "container": container, "app": "web", "platform": "p", "kind": "cpi"}
    return {**own, **times, "log_slowdown": 0.1, "weight": 10.0, **more}


def labels(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=LABELS.schema)


def profiles(*rows: dict[str, object]) -> pa.Table:
    known = {"cluster": "c", "platform": "p", "as_of": at(0), "windows": 10.0}
    return pa.Table.from_pylist([{**known, **row} for row in rows], schema=PROFILES.schema)


def sources(usage_rows: pa.Table, *placed: dict[str, object], known: pa.Table | None = None) -> Sources:
    facts = Facts(nodes({}), placements(*placed))
    return Sources(
        node_state(usage_rows, facts), facts.nodes, facts.placements, known if known is not None else profiles()
    )


def test_a_neighbours_own_signal_of_the_last_minutes_presses_on_the_newcomer() -> None:
    rows = training_rows(labels(label("a")), sources(usage({"container": "b", "ts": 240, "cpu_cores": 4.0})))

    assert rows["pressure_cpu"].to_pylist() == [0.5]
    assert rows["as_of"].to_pylist() == [at(300)]


def test_the_newcomer_itself_does_not_press() -> None:
    seen = usage({"container": "a", "ts": 240, "cpu_cores": 4.0}, {"container": "b", "ts": 240, "cpu_cores": 2.0})

    assert training_rows(labels(label("a"), label("b")), sources(seen))["pressure_cpu"].to_pylist() == [0.25, 0.5]


def test_what_arrived_after_the_decision_is_not_used() -> None:
    seen = usage(
        {"container": "b", "ts": 180, "cpu_cores": 2.0},
        {"container": "b", "ts": 240, "cpu_cores": 4.0, "arrived_at": at(301)},
        {"container": "b", "ts": 300, "cpu_cores": 8.0},
    )

    assert training_rows(labels(label("a")), sources(seen))["pressure_cpu"].to_pylist() == [0.25]


def test_signals_older_than_three_minutes_are_stale() -> None:
    rows = training_rows(labels(label("a")), sources(usage({"container": "b", "ts": 120, "cpu_cores": 4.0})))

    assert rows["pressure_cpu"].to_pylist() == [0.0]


def test_placements_say_who_is_there_and_profiles_what_they_use_when_nothing_was_measured() -> None:
    placed: list[dict[str, object]] = [
        {"container": "b", "app": "batch"},
        {"container": "gone", "app": "batch"},
        {"container": "gone", "ts": 100, "event": "delete"},
    ]
    known = profiles({"app": "batch", "demand_cpu": 0.25})

    rows = training_rows(
        labels(label("a")), sources(usage({"container": "ghost", "ts": 240, "cpu_cores": 8.0}), *placed, known=known)
    )

    assert rows["pressure_cpu"].to_pylist() == [0.25]
    assert rows["neighbours"].to_pylist() == [1.0]


def test_the_newcomer_is_described_by_the_newest_profile_before_the_decision() -> None:
    known = profiles(
        {"app": "web", "demand_cpu": 0.1, "sensitivity_cpu": 0.5},
        {"app": "web", "demand_cpu": 0.2, "as_of": at(299)},
        {"app": "web", "demand_cpu": 0.9, "as_of": at(301)},
    )

    rows = training_rows(labels(label("a")), sources(usage(), known=known))

    assert rows["demand_cpu"].to_pylist() == [0.2]
    assert rows["sensitivity_cpu"].to_pylist() == [None]


def test_an_app_without_profile_keeps_its_gaps() -> None:
    rows = training_rows(labels(label("a")), sources(usage()))

    assert rows["demand_cpu"].to_pylist() == [None]
    assert rows["profile_windows"].to_pylist() == [0.0]


def test_an_app_without_profile_is_described_by_its_team_and_keeps_no_windows() -> None:
    known = profiles(*({"app": f"a{i}", "team": "red", "demand_cpu": 0.1, "sensitivity_cpu": 0.5} for i in range(3)))
    other = profiles(*({"app": f"b{i}", "team": "blue", "demand_cpu": 0.3, "sensitivity_cpu": 2.0} for i in range(3)))

    rows = training_rows(
        labels(label("a", team="blue")), sources(usage(), known=pa.concat_tables([known, other]))
    ).to_pylist()

    assert [rows[0]["demand_cpu"], rows[0]["sensitivity_cpu"]] == pytest.approx([0.3, 2.0])
    assert rows[0]["profile_windows"] == 0.0


def test_what_would_be_expected_of_an_app_knows_nothing_of_its_own_profile() -> None:
    known = profiles({"app": "web", "sensitivity_cpu": 9.0}, {"app": "a", "sensitivity_cpu": 0.5})

    rows = training_rows(labels(label("a")), sources(usage(), known=known)).to_pylist()

    assert rows[0]["sensitivity_cpu"] == 9.0
    assert rows[0]["expected_sensitivity_cpu"] == pytest.approx(0.5)


def test_what_is_known_after_a_decision_is_not_expected_at_it() -> None:
    known = profiles({"app": "a", "demand_cpu": 0.1}, {"app": "b", "demand_cpu": 0.5, "as_of": at(301)})

    rows = training_rows(labels(label("a")), sources(usage(), known=known)).to_pylist()

    assert rows[0]["demand_cpu"] == pytest.approx(0.1)


def test_a_resident_of_which_nothing_is_known_presses_as_much_as_is_expected() -> None:
    known = profiles({"app": "a", "team": "red", "demand_cpu": 0.1}, {"app": "b", "team": "blue", "demand_cpu": 0.1})
    placed: dict[str, object] = {"container": "r", "app": "new", "team": "red"}

    rows = training_rows(labels(label("a")), sources(usage(), placed, known=known))

    assert rows["pressure_cpu"].to_pylist() == pytest.approx([0.1])


def test_windows_that_are_not_modelled_train_nothing() -> None:
    assert training_rows(labels(label("a", log_slowdown=None)), sources(usage())).num_rows == 0


def test_a_profile_holds_only_what_had_arrived() -> None:
    seen = usage({"container": "a", "ts": 60, "cpu_cores": 2.0}, {"container": "a", "ts": 120, "cpu_cores": 4.0})
    state = node_state(seen, Facts(nodes({}), placements()))
    times = [int(at(s).timestamp() * 1e6) for s in (30, 61, 500)]

    known = profile_app([state], pa.array(times).to_numpy(), np.ones(len(times)))

    assert known["as_of"].to_pylist() == [at(61), at(500)]
    assert known["demand_cpu"].to_pylist() == pytest.approx([0.25, 0.375])
    assert known["sensitivity_cpu"].null_count == 2
