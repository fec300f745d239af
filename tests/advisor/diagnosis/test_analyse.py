"""Evidence: on a cluster whose law says who slows whom, through real messages, a real lake and its features."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree, ignore_patterns

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from advisor.diagnosis.analyse import DEMANDS, RESOURCES, Evidence, Pins, diagnose
from advisor.diagnosis.coverage import Coverage
from advisor.diagnosis.report_file import read_report
from benchmarks.antagonists import ARRIVE_S, EVERY_S, START_S, STAY_S, Cast, Scene
from benchmarks.diagnosis import Case, Tables, cases_of, judged, late_of, tables_of
from benchmarks.diagnosis_measured import LOUD, measured
from cohabit.cli.main import app
from cohabit.cli.operate.victims import bars
from cohabit.config.errors import CohabitError
from cohabit.diagnosis.diagnose import diagnosed, nodes_in_doubt
from features.columnar.arrow_columns import micros
from features.columnar.windows import LABEL_US
from features.contention.neighbour_sums import core_pressure
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.schema.cpuset import membership
from ingest.simulator.messages import node_name
from tests.advisor.diagnosis.conftest import HOURS

TIMES = [START_S + hour * EVERY_S + ARRIVE_S + STAY_S - LABEL_US / 1e6 for hour in range(2, HOURS)]


@pytest.fixture(scope="module")
def tables(stage: tuple[Cast, Lake, list[Scene]]) -> Tables:
    return tables_of(stage[1])


def cases(stage: tuple[Cast, Lake, list[Scene]], time_s: float) -> list[Case]:
    return cases_of(stage[0], late_of(stage[2], time_s))


def test_who_is_named_did_it_and_who_is_throttled_is_nobodys_victim(
    stage: tuple[Cast, Lake, list[Scene]], tables: Tables
) -> None:
    count = Counter[str]()
    for time_s in TIMES:
        said = tables.at(time_s)
        for case in cases(stage, time_s):
            one = said.get(case.container)
            if case.alone == "held":
                assert one is None or one.verdict != "antagonist"
            elif case.antagonist is not None:
                count += judged(case, one)

    assert count["cases"] >= 10
    assert count["right"] >= 0.8 * (count["right"] + count["wrong"])
    assert count["right"] + count["wrong"] >= 0.6 * count["cases"]


def test_only_latency_sensitive_containers_are_victims_and_the_worst_come_first(
    stage: tuple[Cast, Lake, list[Scene]], tables: Tables
) -> None:
    found = diagnose(tables.evidence, round(TIMES[-1] * 1e6))
    best_effort = {c.uid for scene in stage[2] for c in scene.containers if stage[0].best_effort[c.app]}

    assert not {one.container for one in found} & best_effort
    slow = [one.slowdown for one in found if np.isfinite(one.slowdown)]
    assert slow == sorted(slow, reverse=True)
    for one in found:
        assert list(one.ends_us) == sorted(set(one.ends_us))
        assert {len(one.slowdowns), *(len(s.used) for s in one.suspects)} == {len(one.ends_us)}
    assert all(one.suspects[0].low <= one.suspects[0].added <= one.suspects[0].high for one in found if one.suspects)


def test_order_of_rows_and_what_came_later_make_no_difference(tables: Tables) -> None:
    rng, at_us = np.random.default_rng(1), round(TIMES[0] * 1e6)

    def mixed(rows: pa.Table, time: str) -> pa.Table:
        rows = rows.take(pa.array(rng.permutation(rows.num_rows)))
        return rows.filter(pa.array(micros(rows[time]) <= at_us))

    given = tables.evidence
    other = Evidence(
        mixed(given.state, "window_end"), mixed(given.labels, "window_end"), mixed(given.profiles, "as_of"), given.facts
    )

    one, again = diagnose(given, at_us), diagnose(other, at_us)

    assert [(d.container, d.verdict) for d in one] == [(d.container, d.verdict) for d in again]
    for d, e in zip(one, again, strict=True):
        assert [s.added for s in d.suspects[:1]] == pytest.approx([s.added for s in e.suspects[:1]])


def test_where_nothing_was_measured_nobody_suffers(tables: Tables) -> None:
    given = tables.evidence

    assert diagnose(given, round((START_S - 3600) * 1e6)) == []
    assert diagnose(replace(given, labels=given.labels.slice(0, 0)), round(TIMES[0] * 1e6)) == []


def raised(given: Evidence, rows: pa.ChunkedArray, by: float, **columns: str) -> pa.Table:
    """Labels of which some say slower, in the hour before the last time."""
    late = pa.array(micros(given.labels["window_end"]) > (TIMES[-1] - 1500) * 1e6)
    chosen = pc.and_(rows, late)
    raised = pc.if_else(chosen, by, given.labels["log_slowdown"])
    labels = given.labels.set_column(
        given.labels.schema.get_field_index("log_slowdown"), given.labels.schema.field("log_slowdown"), raised
    )
    for name, value in columns.items():
        index = labels.schema.get_field_index(name)
        labels = labels.set_column(index, labels.schema.field(name), pc.if_else(chosen, value, labels[name]))
    return labels


def slower(state: pa.Table, rows: pa.ChunkedArray, by: float) -> pa.Table:
    """Minutes of which some tell that work took longer, since the last windows before the last time began."""
    chosen = pc.and_(rows, pa.array(micros(state["window_end"]) > (TIMES[-1] - 1500) * 1e6))
    for name in ("cpi", "rt_mean_ms", "cpu_us_per_request"):
        column = pc.if_else(chosen, pc.multiply(state[name], by), state[name])
        state = state.set_column(state.schema.get_field_index(name), state.schema.field(name), column)
    return state


@pytest.fixture(scope="module")
def calm(stage: tuple[Cast, Lake, list[Scene]], tables: Tables) -> pa.Table:
    """Labels of latency-sensitive containers in the last window, on nodes without loud ones."""
    (scene,) = [one for one in stage[2] if one.time_s == TIMES[-1]]
    loud = [node_name(c.node) for c in scene.containers if c.app >= stage[0].quiet]
    labels = tables.evidence.labels
    last = labels.filter(pa.array(micros(labels["window_end"]) == TIMES[-1] * 1e6))
    told = last.filter(pc.and_(pc.is_valid(last["log_slowdown"]), pc.equal(last["qos"], "LS")))
    return told.filter(pc.invert(pc.is_in(told["node"], pa.array(loud))))


def test_where_everybody_on_a_node_is_slow_it_is_the_host(calm: pa.Table, tables: Tables) -> None:
    given, ((node, count), *_) = tables.evidence, Counter(calm["node"].to_pylist()).most_common()
    here = pc.and_(pc.equal(given.labels["node"], node), pc.is_valid(given.labels["log_slowdown"]))
    state = slower(given.state, pc.equal(given.state["node"], node), 3.0)

    found = diagnose(replace(given, state=state, labels=raised(given, here, np.log(3.0))), round(TIMES[-1] * 1e6))

    verdicts = Counter(one.verdict for one in found if one.node == node)
    assert count >= 3
    assert verdicts["host"] >= 2
    assert not verdicts["antagonist"]


def test_where_answers_alone_are_late_everywhere_it_is_downstream(calm: pa.Table, tables: Tables) -> None:
    given, ((app, count), *_) = tables.evidence, Counter(calm["app"].to_pylist()).most_common()
    of_app = pc.and_(pc.equal(given.labels["app"], app), pc.is_valid(given.labels["log_slowdown"]))

    of_its, state = pc.equal(given.state["app"], app), given.state
    for name in ("cpi", "cpu_us_per_request"):
        silent = pc.if_else(of_its, pa.scalar(None, pa.float64()), state[name])
        state = state.set_column(state.schema.get_field_index(name), state.schema.field(name), silent)
    labels = raised(given, of_app, np.log(1.5), kind="latency")

    found = diagnose(replace(given, state=state, labels=labels), round(TIMES[-1] * 1e6))

    mine = calm.filter(pc.equal(calm["app"], app))["container"].to_pylist()
    verdicts = [one.verdict for one in found if one.container in mine]
    assert count >= 3
    assert verdicts == ["downstream"] * count


@pytest.mark.parametrize(("cpi", "through"), [(None, {"disk", "disk_ios"}), (1.0, set(RESOURCES))])
def test_where_waiting_is_all_that_is_known_a_neighbour_counts_through_what_is_waited_for(
    calm: pa.Table, tables: Tables, cpi: float | None, through: set[str]
) -> None:
    given, uid = tables.evidence, calm["container"][0].as_py()
    (mine, labelled), state = (pc.equal(of["container"], uid) for of in (given.state, given.labels)), given.state
    for name, value in (("cpi", cpi), ("rt_mean_ms", None), ("psi_io_full_frac", 0.3)):
        put = pc.if_else(mine, pa.scalar(value, pa.float64()), state[name])
        state = state.set_column(state.schema.get_field_index(name), state.schema.field(name), put)
    labels = raised(given, labelled, np.log(1.4), kind="waiting")

    found = diagnose(replace(given, state=state, labels=labels), round(TIMES[-1] * 1e6))

    (one,) = (one for one in found if one.container == uid)
    assert (one.kind, "judged by waiting alone" in one.reason) == ("waiting", True)
    assert one.suspects
    assert {suspect.resource for suspect in one.suspects} <= through


@given(seed=st.integers(0, 300))
@settings(max_examples=40, deadline=None)
def test_what_neighbours_use_of_own_cores_adds_up_to_what_features_say(seed: int) -> None:
    rng, cores = np.random.default_rng(seed), 8
    pins = [None if rng.random() < 0.3 else ",".join(map(str, rng.choice(cores, 3, replace=False))) for _ in range(5)]
    use = rng.random(5)
    overlap = Pins(np.array(pins, object), np.full(5, float(cores)))

    on_own, elsewhere = overlap.overlap(0, np.arange(1, 5))

    own, other = core_pressure(use, membership(pins, cores))
    assert (use[1:] / cores) @ on_own == pytest.approx(own[0])
    assert (use[1:] / cores) @ elsewhere == pytest.approx(other[0])


def test_a_lake_is_looked_at_node_by_node_where_there_is_no_room_for_more(
    stage: tuple[Cast, Lake, list[Scene]], tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = datetime.fromtimestamp(TIMES[-1], UTC)
    whole = diagnosed(stage[1], at)
    monkeypatch.setattr("cohabit.diagnosis.diagnose.AT_ONCE", 1)
    alone = diagnosed(stage[1], at)

    assert [one.container for one in whole] == [
        one.container for one in diagnose(tables.evidence, round(TIMES[-1] * 1e6))
    ]
    assert {one.container for one in alone} <= {one.container for one in whole}
    assert [one.slowdown for one in alone] == sorted([one.slowdown for one in alone], reverse=True)


@pytest.mark.parametrize(
    ("row", "looked_at"),
    [
        ({"kind": "waiting", "log_slowdown": np.log(1.07)}, True),
        ({"kind": "waiting", "log_slowdown": np.log(1.05)}, False),
        ({"kind": "latency", "log_slowdown": np.log(1.15)}, False),
        ({"kind": "latency", "log_slowdown": np.log(1.3)}, True),
        ({"kind": "latency", "log_slowdown": np.log(1.3), "qos": "BE"}, False),
        ({"kind": "latency", "reason": "own_limit"}, True),
        ({"kind": "none", "reason": "own_limit"}, True),
        ({"kind": "none", "reason": "not_reported"}, False),
    ],
)
def test_nodes_are_looked_at_on_which_a_container_may_be_slowed_or_throttled(
    row: dict[str, object], *, looked_at: bool
) -> None:
    names = {name: pa.string() for name in ("node", "qos", "kind", "reason")} | {"log_slowdown": pa.float64()}
    labels = pa.Table.from_pylist([{"node": "n1", "qos": "LS"} | row], pa.schema(list(names.items())))

    assert nodes_in_doubt(labels) == ["n1"] * looked_at


def test_where_minutes_are_gone_nobody_is_said_to_be_well(
    stage: tuple[Cast, Lake, list[Scene]], tmp_path: Path
) -> None:
    rest = ignore_patterns("node_state")
    lake = Lake.open(copytree(stage[1].root, tmp_path / "lake", ignore=rest), TABLES)

    with pytest.raises(CohabitError, match="no rows of node_state"):
        diagnosed(lake, datetime.fromtimestamp(TIMES[-1], UTC))


def test_the_command_tells_people_and_programs_the_same(
    stage: tuple[Cast, Lake, list[Scene]], tables: Tables, tmp_path: Path
) -> None:
    found = diagnose(tables.evidence, round(TIMES[-1] * 1e6))
    out, lake = tmp_path / "victims.json", str(stage[1].root)
    at = np.datetime64(int(TIMES[-1]), "s").astype(str)

    ran = CliRunner().invoke(app, ["victims", "--lake", lake, "--at", at, "--json", str(out)], catch_exceptions=False)
    worst = CliRunner().invoke(app, ["victims", "--lake", lake, "--at", at, "--container", found[0].container])

    assert ran.exit_code == worst.exit_code == 1
    written = json.loads(out.read_text())
    assert [one["container"] for one in written["victims"]] == [one.container for one in found]
    assert (
        f"looked at {100 * written['coverage']['looked']['labelled'] // written['coverage']['looked']['windows']}%"
        in (ran.stdout)
    )
    assert found[0].verdict in ran.stdout
    assert found[0].reason in " ".join(worst.stdout.split())


def test_the_command_shows_what_it_found_in_serve(stage: tuple[Cast, Lake, list[Scene]], tmp_path: Path) -> None:
    at = np.datetime64(int(TIMES[-1]), "s").astype(str)
    words = ["victims", "--lake", str(stage[1].root), "--at", at, "--publish", "--snapshots", str(tmp_path)]

    found = diagnosed(stage[1], datetime.fromtimestamp(TIMES[-1], UTC))
    here = CliRunner().invoke(app, words, env={"COHABIT_CLUSTER": found[0].cluster, "COLUMNS": "300"})
    published = read_report(tmp_path)
    elsewhere = CliRunner().invoke(app, words, env={"COHABIT_CLUSTER": "elsewhere", "COLUMNS": "300"})
    nobody = read_report(tmp_path)

    assert (here.exit_code, elsewhere.exit_code) == (1, 1)
    assert published is not None
    assert published.coverage is not None
    assert 0 < published.coverage.share <= 1
    assert [one.container for one in published.diagnoses] == [one.container for one in found]
    assert published.at_us == found[0].window_end_us
    assert nobody is not None
    assert (nobody.cluster, nobody.diagnoses) == ("elsewhere", ())
    assert nobody.coverage == Coverage()
    assert f"not published: {found[0].cluster}" in elsewhere.stdout


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([], ""), ([0.0, 0.5, 1.0], "▁▅█"), ([0.0, 0.0], "▁▁"), ([-0.2, float("nan"), 0.3], "▁·█"), ([float("nan")], "·")],
)
def test_numbers_are_drawn_as_bars(values: list[float], drawn: str) -> None:
    assert bars(values) == drawn


@pytest.mark.parametrize("at", ["2030-01-01T00:00", "1970-01-01T00:00", "0001-01-01T00:00", "9999-12-31T23:59"])
def test_a_time_without_labels_is_no_time_at_which_nobody_suffers(
    stage: tuple[Cast, Lake, list[Scene]], at: str
) -> None:
    ran = CliRunner().invoke(app, ["victims", "--lake", str(stage[1].root), "--at", at])

    assert ran.exit_code == 3
    assert "the newest window ends at 2026-03-02T05:0" in " ".join(ran.stderr.split())


def test_where_no_sensitivity_is_known_no_host_is_blamed(tables: Tables) -> None:
    found = diagnose(replace(tables.evidence, profiles=tables.evidence.profiles.slice(0, 0)), round(TIMES[-1] * 1e6))

    assert found
    assert "host" not in {one.verdict for one in found}


@pytest.mark.parametrize("use", [0.1, -1.0, 1e12, np.inf])
def test_use_that_makes_no_sense_breaks_nothing(tables: Tables, use: float) -> None:
    given, state = tables.evidence, tables.evidence.state
    for name in DEMANDS:
        column = pa.array(np.full(state.num_rows, use))
        state = state.set_column(state.schema.get_field_index(name), state.schema.field(name), column)

    found = diagnose(replace(given, state=state), round(TIMES[-1] * 1e6))

    assert found
    assert all(0.0 <= s.surely <= 1.0 and s.low <= s.added <= s.high for one in found for s in one.suspects)


def test_a_lake_without_labels_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()

    ran = CliRunner().invoke(app, ["victims", "--lake", str(tmp_path / "lake")])

    assert ran.exit_code == 3
    assert "cohabit features" in " ".join(ran.stderr.split())


def test_loud_antagonists_of_our_measured_windows_are_named() -> None:
    figures = measured()

    assert figures["measured_windows"] > figures["measured_cases"] >= 20
    assert figures["measured_top1"] >= 0.8
    assert figures["measured_abstained_frac"] <= 0.3
    assert LOUD == 1.5


def ended(given: Evidence, *containers: str) -> Evidence:
    """The evidence, with deletions of some containers a minute before its end."""
    rows = given.facts.placements
    last = {row["container"]: row for row in rows.to_pylist() if row["container"] in containers}
    at = pa.scalar(round(TIMES[-1] * 1e6) - 60_000_000, rows.schema.field("ts").type).as_py()
    gone = [{**row, "event": "delete", "ts": at, "arrived_at": at} for row in last.values()]
    placements = pa.concat_tables([rows, pa.Table.from_pylist(gone, rows.schema)])
    return replace(given, facts=replace(given.facts, placements=placements))


def test_what_has_ended_is_neither_a_victim_nor_a_suspect(tables: Tables) -> None:
    at_us = round(TIMES[-1] * 1e6)
    found = diagnose(tables.evidence, at_us)
    victim = next(one for one in found if one.suspects)
    suspect = victim.suspects[0].container

    without_victim = diagnose(ended(tables.evidence, victim.container), at_us)
    without_suspect = diagnose(ended(tables.evidence, suspect), at_us)

    assert {one.container for one in found} - {one.container for one in without_victim} == {victim.container}
    assert suspect not in {s.container for one in without_suspect for s in one.suspects}


def test_a_suspect_used_something_in_half_of_the_slow_windows(tables: Tables) -> None:
    for one in diagnose(tables.evidence, round(TIMES[-1] * 1e6)):
        slow = [k for k, value in enumerate(one.slowdowns) if value >= 1.25]
        for suspect in one.suspects if len(one.suspects[0].used) == len(one.slowdowns) else ():
            assert len(slow) == 0 or any(suspect.used[k] > 0 for k in slow)


def test_a_container_that_was_not_measured_is_an_error_and_no_all_clear(
    stage: tuple[Cast, Lake, list[Scene]],
) -> None:
    ran = CliRunner().invoke(app, ["victims", "--lake", str(stage[1].root), "--container", "nope"])

    assert ran.exit_code == 3
    assert "none of the" in " ".join(ran.stderr.split())
