"""Workers and servers: real processes that know of each other's newcomers, count together, and end together."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry

from advisor.api.scheduler.peers import LONGEST_US, booking_message
from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass
from advisor.database.engine import writing
from advisor.errors import NoTable
from advisor.placement.reservation_store import add_reservations
from advisor.scoring.score_table_file import read_table
from cohabit.config.errors import BadSettings
from cohabit.config.settings import read_settings
from cohabit.server.peer_discovery import Peers, others
from cohabit.server.saved_table import NAME
from cohabit.server.score_table_process import NICENESS
from cohabit.server.sockets import free_socket
from tests.advisor.clusters import APPS
from tests.advisor.running import fill, until_ready
from tests.advisor.steered import reservation
from tests.advisor.stores import migrated_store

pytestmark = pytest.mark.slow

NODES = ["n0", "n1", "n2", "n3"]
STEERED = [0, 0, 10, 0]
"""Points where a reservation names n2."""


@dataclass(frozen=True)
class Served:
    """A running server."""

    main: str
    scheduler: str
    process: "subprocess.Popen[str]"

    def points(self, uid: str = "", app: str = "web") -> list[int]:
        """Of one pod, by a connection of its own: whichever worker is the quickest answers."""
        body = {"Pod": {"metadata": {"uid": uid, "labels": {"app": app}}}, "NodeNames": NODES}
        connection = http.client.HTTPConnection(urlsplit(self.scheduler).netloc, timeout=10)
        connection.request("POST", "/extender/prioritize", json.dumps(body))
        reply = connection.getresponse()
        told = json.loads(reply.read())
        assert (reply.status, [entry["Host"] for entry in told]) == (200, NODES)
        connection.close()
        return [entry["Score"] for entry in told]

    def ask(self, uid: str = "", app: str = "web") -> int:
        """One pod; the status."""
        self.points(uid, app)
        return 200

    def metric(self, name: str) -> float:
        """Sum over all labels."""
        with urlopen(f"{self.main}/metrics", timeout=10) as reply:  # noqa: S310
            lines = reply.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{re.escape(name)}[ {{]", line))

    def table(self) -> int:
        """The process of the table: the one that is less urgent."""
        [found] = [pid for pid in children_of(self.process.pid) if os.getpriority(os.PRIO_PROCESS, pid) == NICENESS]
        return found

    def workers(self) -> list[int]:
        """Processes that listen for schedulers, but for the first."""
        listens = f":{urlsplit(self.scheduler).port:04X} 00000000:0000 0A"
        inodes = [line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines() if listens in line]
        sockets = {f"socket:[{inode}]" for inode in inodes}
        return [pid for pid in children_of(self.process.pid) if sockets & open_files(pid)]


def children_of(pid: int) -> list[int]:
    return [int(c) for t in Path(f"/proc/{pid}/task").glob("*/children") for c in t.read_text().split()]


def open_files(pid: int) -> set[str]:
    with suppress(OSError):
        return {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
    return set()


def is_running(pid: int) -> bool:
    with suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


@contextmanager
def serve(folder: Path, *words: str, peers: str = "", log: Path = Path("/dev/stderr")) -> Iterator[Served]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COHABIT_")}
    wished = {f"COHABIT_{name.upper()}": str(folder / name) for name in ("registry", "snapshots")}
    wished |= {"COHABIT_ADVISOR__MAX_FEATURE_AGE_S": "1e9", "COHABIT_ADVISOR__PEERS": peers, "COLUMNS": "200"}
    command = [sys.executable, "-m", "cohabit", "serve", "--port", "0", *words]
    with (
        log.open("a") as errors,
        subprocess.Popen(command, env=kept | wished, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            main, scheduler = re.findall(r"http://[\d.:]+", process.stdout.readline())
            yield Served(main, scheduler, process)
        finally:
            process.terminate()


def until(true: Callable[[], bool], what: str) -> None:
    deadline = monotonic() + 120
    while not true():
        assert monotonic() < deadline, what
        sleep(0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    fill(made)
    return made


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[tuple[Served, Served]]:
    """Two servers of three workers each, that know of each other."""
    with free_socket(0) as one, free_socket(0) as other:
        ports = [bound.getsockname()[1] for bound in (one, other)]
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                serve(folder, "--scheduler-port", str(own), "--workers", "3", peers=f"http://127.0.0.1:{their}")
            )
            for own, their in (ports, reversed(ports))
        ]
        for server in servers:
            until(lambda server=server: len(server.workers()) == 2, "workers listen")  # type: ignore[misc]
            until_ready(server.main, server.scheduler)
        yield servers[0], servers[1]


def test_all_workers_of_all_servers_count_every_newcomer_and_metrics_are_of_all(pair: tuple[Served, Served]) -> None:
    sleep(2.5)  # counts are left once a second, also those of becoming ready
    before = [server.metric("cohabit_score_requests_total") for server in pair]
    for number in range(60):
        assert pair[number % 2].ask(f"pod-{number}") == 200

    for server, counted in zip(pair, before, strict=True):
        until(lambda: server.metric("cohabit_assumed_pods") == 60, "60 on their way")  # noqa: B023
        until(lambda: server.metric("cohabit_score_requests_total") == counted + 30, "30 answers")  # noqa: B023
        assert server.metric("cohabit_prioritize_duration_seconds_count") >= 30
        assert server.metric("cohabit_assumed_pods_lost_total") == 0


def test_a_worker_that_dies_is_started_again_and_no_count_is_lost(pair: tuple[Served, Served]) -> None:
    server, other = pair
    for _ in range(20):
        server.ask()
    sleep(2.5)  # counts are left once a second
    counted, first = server.metric("cohabit_score_requests_total"), server.workers()
    os.kill(first[0], signal.SIGKILL)
    until(lambda: len(server.workers()) == 2 and first[0] not in server.workers(), "another one")

    for _ in range(20):
        assert server.ask() == 200
    until(lambda: server.metric("cohabit_score_requests_total") == counted + 20, "all counted")
    assert other.ask() == 200


def test_all_workers_steer_a_reservation_serves_one_pod_and_all_end_when_the_first_is_killed(tmp_path: Path) -> None:
    fill(tmp_path)
    with (
        migrated_store(tmp_path / "store.sqlite") as store,
        serve(tmp_path, "--scheduler-port", "0", "--workers", "2") as served,
    ):
        until_ready(served.main, served.scheduler)
        until(lambda: len(served.workers()) == 1, "the other worker does not listen")
        with writing(store) as connection:
            add_reservations(connection, [reservation("p-1", "n2", namespace="default")])
        until(lambda: served.metric("cohabit_reservations_open") == 1, "the reservation was not read")
        firsts = [f"first-{number}" for number in range(4)]
        until(lambda: any(steers_always(served, uid) for uid in firsts), "not all workers steer one pod")
        others = [served.points(f"second-{i}") for i in range(20)]
        family = children_of(served.process.pid)
        served.process.kill()
        assert served.process.wait(10) == -signal.SIGKILL
        until(lambda: not any(map(is_running, family)), "all have ended")

    assert STEERED not in others


def steers_always(served: Served, uid: str) -> bool:
    """Whoever answers, of as many answers that no worker gives none."""
    return all(served.points(uid) == STEERED for _ in range(20))


def test_a_peer_whose_host_no_name_can_be_is_away() -> None:
    metrics = CollectorRegistry()
    with closing(Peers(["http://a..b:8081"], lambda: 0, metrics)) as peers:
        peers(Booked("u", "n0", PodClass("web", False), 0))
        until(
            lambda: metrics.get_sample_value("cohabit_assumed_pods_lost_total", {"peer": "http://a..b:8081"}) == 1,
            "lost",
        )


def test_a_booking_as_old_as_a_clock_that_was_set_makes_it_is_understood() -> None:
    booked = Booked("u", "n0", PodClass("web", False), 0)
    for now_us in (-(10**12), 0, 10**15):
        assert 0 <= booking_message(booked, now_us).age_us <= LONGEST_US


def test_a_peer_that_is_away_costs_no_answer_and_what_it_was_not_told_is_counted(folder: Path) -> None:
    with free_socket(0) as nobody:
        away = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    with serve(folder, "--scheduler-port", "0", peers=away) as server:
        until_ready(server.main, server.scheduler)
        for number in range(10):
            assert server.ask(f"pod-{number}") == 200
        until(lambda: server.metric("cohabit_assumed_pods_lost_total") >= 1, "the loss is counted")
        assert server.metric("cohabit_assumed_pods") >= 10


def test_a_table_process_that_was_killed_hears_of_new_classes_when_it_is_back(pair: tuple[Served, Served]) -> None:
    server, _ = pair
    before, killed = server.metric("cohabit_score_table_pod_classes"), server.table()
    os.kill(killed, signal.SIGKILL)

    until(
        lambda: server.ask(app="cache") == 200 and server.metric("cohabit_score_table_pod_classes") > before,
        "one more class",
    )

    assert server.table() != killed


def test_a_restarted_server_answers_all_requests_from_the_table_that_it_had(folder: Path) -> None:
    words, classes = ("--scheduler-port", "0", "--workers", "2"), set(APPS)
    saved = folder / "snapshots" / NAME

    def all_saved() -> bool:
        with suppress(NoTable):
            return classes <= {of.app for of in read_table(saved).classes}
        return False

    with serve(folder, *words) as server:
        until_ready(server.main, server.scheduler)
        until(lambda: bool([server.ask(app=app) for app in classes]) and all_saved(), "the table is saved")
        server.process.kill()

    with serve(folder, *words) as server:
        until(lambda: len(server.workers()) == 1, "the other worker listens")
        for number in range(60):
            server.ask(f"back-{number}", app=APPS[number % len(APPS)])
        until(lambda: server.metric("cohabit_score_requests_total") == 60, "all counted")
        assert server.metric('cohabit_score_requests_total{reason="",source="table"}') == 60


def test_all_processes_of_a_server_log_in_one_form_to_standard_error_and_end_with_the_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serve(tmp_path, "--scheduler-port", "0", "--workers", "2", log=log) as server:
        until(lambda: log.read_text().count('"no_bundle"') == 3, "the first process, the worker and the table say it")
        until(lambda: len(server.workers()) == 1, "a worker listens")
        family = children_of(server.process.pid)
        server.process.terminate()
        told, _ = server.process.communicate(timeout=10)
        assert server.process.returncode == 0
        until(lambda: not any(map(is_running, family)), "all have ended")

    assert told.splitlines() == ["all scores are 0 for now: no_bundle"]
    assert {json.loads(line)["event"] for line in log.read_text().splitlines()} == {
        "reload failed; the loaded version stays"
    }


@pytest.mark.parametrize("peers", ["localhost", "ftp://h:1", "http://h", "http://h:1/path", "https://h:8081"])
def test_a_peer_that_cannot_be_one_is_named(peers: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(peers)):
        read_settings({"COHABIT_ADVISOR__PEERS": f"http://good:8081,{peers}"})


def test_a_server_that_is_named_among_its_peers_leaves_itself_out() -> None:
    peers = (
        "https://advisor-0.peers:8081",
        "https://advisor-1.peers:8081",
        "http://advisor-0:9081",
        "http://advisor-01:8081",
    )

    assert others(peers, "advisor-0", 8081) == peers[1:]
    assert others(peers, "Advisor-1", 8081) == (peers[0], *peers[2:])
    assert others(peers, "advisor", 8081) == peers
