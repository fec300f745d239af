"""`cohabit plan create`, `show`, `export`, `reproduce`, `freeze`: from a lake and a snapshot to what is given out."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from time import time_ns

import pytest
from sqlalchemy import text
from typer.testing import CliRunner

from advisor.database.engine import open_store, writing
from advisor.diagnosis.report_file import read_report
from advisor.plans.plan_service import Actor, Desk
from advisor.plans.rules.did_estimate import Outcome
from advisor.plans.rules.policy import Rules
from cohabit.cli.main import app
from cohabit.diagnosis.diagnose import newest_window
from cohabit.plans.create import PLANS, Sources
from cohabit.refresh.live_state import LiveState
from cohabit.refresh.main import Refresh, refresh_from_files
from cohabit.refresh.plan_loop import Drafting
from cohabit.terminal.locations import TOPICS
from ingest.lake.tables import Lake
from ingest.simulator.simulate import Plan
from models.drift.drift_status import STATUS, DriftStatus, write_status
from models.registry.registry import Registry
from tests.advisor.stores import migrated_file
from tests.models.lakes import derived_lake

PLAN = Plan(nodes=6, apps=12, per_node=14, hours=1.5, seed=5)


@dataclass(frozen=True)
class Place:
    """Everything that plans are made from, and commands that run there."""

    folder: Path
    lake: Lake
    settings: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, code: int = 0, **more: str) -> str:
        """What a command prints."""
        done = CliRunner().invoke(app, [*words], env={**self.settings, **more, "COLUMNS": "200"})
        assert done.exit_code == code, done.output
        return done.output

    def create(self, *words: str, code: int = 1, **more: str) -> str:
        """What `plan create` prints, which finds slowed containers here."""
        return self.run("plan", "create", *words, code=code, **more)

    def plan(self) -> str:
        """Name of the newest plan."""
        return self.run("plan", "list").split()[0]


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Place:
    folder = tmp_path_factory.mktemp("learnt")
    lake = derived_lake(folder, PLAN)
    state = LiveState(PLAN.cluster, lambda: time_ns() // 1000)
    how = Refresh(folder / "snapshots", 0.0, 1)
    refresh_from_files(folder / "stream", TOPICS, state, lake, how, published=lambda *_: None)
    registry = folder / "registry"
    registry.mkdir()
    os.symlink(bundle, registry / bundle.name, target_is_directory=True)
    Registry(registry).promote(bundle.name)
    return Place(folder, lake)


@pytest.fixture
def place(learnt: Place, tmp_path: Path) -> Place:
    """With a store of its own, in which nothing was proposed yet."""
    store = migrated_file(tmp_path / "store.sqlite")
    settings = {
        "COHABIT_LAKE": str(learnt.lake.root),
        "COHABIT_SNAPSHOTS": str(learnt.folder / "snapshots"),
        "COHABIT_REGISTRY": str(learnt.folder / "registry"),
        "COHABIT_DATABASE": str(store),
        "COHABIT_CLUSTER": PLAN.cluster,
        "COHABIT_PLANS__MAX_DAILY_SHARE": "1",
        "COHABIT_PLANS__MAX_SNAPSHOT_AGE_HOURS": "1e6",
        "COHABIT_PLANS__HOLDOUT_SHARE": "0",
    }
    return Place(learnt.folder, learnt.lake, settings)


def test_a_plan_is_drafted_read_approved_and_given_out(place: Place) -> None:
    assert "there are no plans yet" in place.run("plan", "list")
    created = place.create()
    plan = place.plan()

    assert "% of the time of" in created.splitlines()[0]
    assert ": drafted, version 1" in created
    assert "approve it first" in str(CliRunner().invoke(app, ["plan", "export", plan], env=place.settings).output)
    assert ", version 2" in place.run("plan", "approve", plan)
    first = place.run("plan", "export", plan)
    told = json.loads(first)
    assert (told["format"], told["plan"], told["as"]) == ("cohabit.export/2", plan, "plain")
    assert place.run("plan", "export", plan) == first
    assert ": exported" in place.run("plan", "show", plan)


def test_a_past_plan_is_made_again_the_same_to_the_byte(place: Place) -> None:
    place.create()
    plan = place.plan()
    place.run("plan", "reject", plan, "release tonight")

    assert "the same to the byte" in place.run("plan", "reproduce", plan)
    assert "release tonight" in place.run("plan", "show", plan)


def test_nothing_is_proposed_twice_while_it_waits(place: Place) -> None:
    place.create()
    first = place.run("plan", "show", place.plan())
    again = place.create("--all")

    containers = {line.split(": ")[1].split(", ")[1] for line in first.splitlines() if line.startswith("step")}
    assert containers
    assert not any(name in line for line in again.splitlines() if line.startswith("step") for name in containers)


def test_a_part_is_approved_and_somebody_who_read_an_older_version_is_told(place: Place) -> None:
    place.create()
    plan = place.plan()
    place.run("plan", "approve", plan, "--steps", "1", "--seen", "1")

    done = place.run("plan", "reject", plan, "too late", "--seen", "1", code=1)

    assert "changed since version 1" in done


def test_a_freeze_stops_and_a_unfreeze_goes_on(place: Place) -> None:
    place.run("plan", "freeze", "incident 17")
    assert "incident 17" in place.create(code=3)
    assert "1 freezes lifted" in place.run("plan", "unfreeze")
    assert "drafted" in place.create()


def test_a_freeze_and_decisions_need_no_lake(place: Place) -> None:
    place.create()
    plan, gone = place.plan(), str(place.folder / "gone")

    assert f"changes of cluster {PLAN.cluster} are frozen" in place.run(
        "plan", "freeze", "incident 17", COHABIT_LAKE=gone
    )
    assert "incident 17" in place.create(code=3)
    assert "1 freezes lifted" in place.run("plan", "unfreeze", COHABIT_LAKE=gone)
    assert plan in place.run("plan", "list", COHABIT_LAKE=gone)
    assert "no lake in" in place.run("plan", "approve", plan, code=1, COHABIT_LAKE=gone)
    assert ": rejected" in place.run("plan", "reject", plan, "release tonight", COHABIT_LAKE=gone)


def test_what_is_said_of_no_plan_and_no_freeze_names_the_cluster(place: Place) -> None:
    place.create()

    assert "no plans yet for cluster prod" in place.run("plan", "list", COHABIT_CLUSTER="prod")
    assert "no change freeze in cluster prod" in place.run("plan", "unfreeze", COHABIT_CLUSTER="prod")


def test_what_cannot_be_told_to_kubernetes_says_so_and_stays_approved(place: Place) -> None:
    place.create()
    plan = place.plan()
    place.run("plan", "approve", plan)

    assert "namespace and name of container" in place.run("plan", "export", plan, "--as", "evictions", code=1)
    assert ", version 2" in place.run("plan", "show", plan)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("plan", "show", "p0"), "no proposal 'p0'"),
        (("plan", "export", "p0"), "no proposal 'p0'"),
        (("plan", "reproduce", "p0"), "no proposal 'p0'"),
        (("plan", "freeze", "x"), "the reason is missing"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(place: Place, words: tuple[str, ...], told: str) -> None:
    assert told in place.run(*words, code=1)


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "list", "p0", "--approve", "one"),
        ("plan", "list", "p0", "--approve", "1", "--reject", "no"),
        ("export", "p0", "--as", "x"),
    ],
)
def test_options_of_no_sense_are_refused(place: Place, words: tuple[str, ...]) -> None:
    place.run(*words, code=2)


def test_snapshots_of_another_cluster_are_not_taken(place: Place) -> None:
    assert "COHABIT_CLUSTER is 'prod'" in place.create(code=3, COHABIT_CLUSTER="prod")


def test_nothing_is_proposed_or_approved_by_what_was_true_long_ago(place: Place) -> None:
    place.create()
    plan = place.plan()
    told = place.create(code=3, COHABIT_PLANS__MAX_SNAPSHOT_AGE_HOURS="2")
    also = place.run("plan", "approve", plan, code=1, COHABIT_PLANS__MAX_SNAPSHOT_AGE_HOURS="2")

    assert "hours old (limit 2)" in told
    assert "hours old (limit 2)" in also
    assert ": drafted, version 1" in place.run("plan", "show", plan)


def test_nothing_is_proposed_or_approved_by_a_model_that_is_not_believed(place: Place, bundle: Path) -> None:
    place.create()
    plan, registry = place.plan(), Registry(Path(place.settings["COHABIT_REGISTRY"]))
    fallen = DriftStatus(bundle=bundle.name, state="fallen_back", checked_at=datetime(2026, 3, 1, tzinfo=UTC))
    write_status(registry, fallen)
    try:
        told = place.create(code=3), place.run("plan", "approve", plan, code=1)
    finally:
        (registry.root / STATUS).unlink()

    assert ["failed its drift check" in one for one in told] == [True, True]
    assert ": drafted, version 1" in place.run("plan", "show", plan)


def test_nothing_is_proposed_or_approved_by_a_snapshot_of_a_time_to_come(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create()
    plan = place.plan()
    monkeypatch.setattr("cohabit.cli.operate.plan.time_ns", lambda: 10**18)

    assert "ahead of this machine's clock" in place.create(code=3)
    assert "ahead of this machine's clock" in place.run("plan", "approve", plan, code=1)


def test_what_was_given_out_in_one_form_is_not_given_in_another(place: Place) -> None:
    place.create()
    plan = place.plan()
    assert "no moves of it are approved" in place.run("plan", "export", plan, "--dry-run", "http://127.0.0.1:1")
    place.run("plan", "approve", plan)
    place.run("plan", "export", plan)

    assert "was exported as plain" in place.run("plan", "export", plan, "--as", "evictions", code=1)


def test_ladders_are_kept_while_no_more_steps_are_allowed(place: Place) -> None:
    for _ in range(2):
        place.create(COHABIT_PLANS__MAX_DAILY_SHARE="1e-9")

    told = json.loads((place.folder / "snapshots" / "ladders.json").read_bytes())
    assert len(told["ladders"]) > 1


def test_without_the_extra_plans_come_from_ladders_alone_and_are_made_again_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create()
    searched = place.plan()
    place.run("plan", "reject", searched, "release tonight")
    monkeypatch.setitem(sys.modules, "highspy", None)

    assert "install the extra optimise" in place.run("plan", "reproduce", searched, code=1)
    assert "drafted, version 1" in place.create()
    assert "the same to the byte" in place.run("plan", "reproduce", place.plan())


def test_a_damaged_past_is_told_and_no_crash(place: Place) -> None:
    place.create()
    plan = place.plan()
    (place.folder / PLANS / plan / "rest.msgpack").write_bytes(b"half")

    assert "missing or damaged" in place.run("plan", "reproduce", plan, code=1)


@pytest.mark.parametrize(
    "url", ["https://u:p@h/", "http://127.0.0.1:1/a b", "https://h:99999/", "http://example.org/", "file:///x"]
)
def test_a_webhook_that_is_none_is_refused(place: Place, url: str) -> None:
    assert "WEBHOOK" in place.run("plan", "list", code=1, COHABIT_PLANS__WEBHOOK=url)


def test_what_plans_saved_is_told_with_the_worth_of_advice(place: Place) -> None:
    place.create()
    plan = place.plan()
    place.run("plan", "approve", plan)
    place.run("plan", "export", plan)
    with open_store(place.settings["COHABIT_DATABASE"]) as engine:
        desk = Desk(engine, PLAN.cluster, Rules(), lambda: time_ns() // 1000)
        desk.conclude(desk.one(plan), Outcome(1.5, 1.2, 1, 0), Actor("tester", "sre", "r"))

    told = " ".join(place.run("model", "impact", code=1).split())

    assert "plans: 1 confirmed, 0 refuted; together they save 1.20 an hour of 1.50 that was predicted" in told
    assert "confirmed" in place.run("plan", "list")


def test_who_drafts_by_hand_is_told_what_came_of_earlier_plans(place: Place) -> None:
    place.create()
    plan = place.plan()
    place.run("plan", "approve", plan)
    place.run("plan", "export", plan)
    long_ago = round((newest_window(place.lake).timestamp() - 7200) * 1e6)
    with open_store(place.settings["COHABIT_DATABASE"]) as engine, writing(engine) as connection:
        connection.execute(text("UPDATE plans SET changed_us = :at"), {"at": long_ago})

    told = place.create()

    assert f"{plan}  expired, version 4" in told
    assert "no outcome was measured" in told


def test_what_came_of_plans_is_told_once_without_drafting_another(place: Place) -> None:
    place.create()
    plan = place.plan()
    place.run("plan", "approve", plan)
    place.run("plan", "export", plan)
    assert "0 plans concluded" in place.run("plan", "outcomes")  # it was given out only now
    long_ago = round((newest_window(place.lake).timestamp() - 7200) * 1e6)
    with open_store(place.settings["COHABIT_DATABASE"]) as engine, writing(engine) as connection:
        connection.execute(text("UPDATE plans SET changed_us = :at"), {"at": long_ago})

    told, again = place.run("plan", "outcomes"), place.run("plan", "outcomes")

    assert f"{plan}  expired, version 4" in told
    assert "1 plans concluded" in told
    assert again.split() == ["0", "plans", "concluded"]
    assert place.plan() == plan


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A server that keeps what it is told."""
    told = list[dict[str, object]]()

    class Keeps(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Keeps)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/plans", told
    server.shutdown()
    thread.join()
    server.server_close()


def test_beside_refreshing_victims_are_told_plans_drafted_and_a_webhook_called(
    place: Place, hook: tuple[str, list[dict[str, object]]]
) -> None:
    url, told = hook
    folder = place.folder
    sources = Sources(place.lake, folder / "snapshots", Registry(folder / "registry"), folder / PLANS, 2**62)
    with open_store(place.settings["COHABIT_DATABASE"]) as engine:
        desk = Desk(engine, PLAN.cluster, Rules(holdout_share=0.0), lambda: time_ns() // 1000)
        stop = Event()
        thread = Drafting(sources, desk, 0.1, url, lambda: "r").begin(stop)
        for _ in range(600):
            if told:
                break
            stop.wait(0.1)
        stop.set()
        thread.join()
        plans = [one.plan.plan for one in desk.listed()]

    assert [one["plan"] for one in told] == plans[:1]
    assert set(told[0]) >= {"cluster", "steps", "saves_an_hour", "expires_us"}
    seen = read_report(folder / "snapshots")
    assert seen is not None
    assert seen.cluster == PLAN.cluster
    assert seen.diagnoses
