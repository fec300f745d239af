"""Doctor: against a real advisor it finds what a scheduler would meet, and in a configuration what would go wrong."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from cohabit.doctor.reply import (
    Reply,
    Unreadable,
    header_findings,
    latency_finding,
    reply_findings,
    scores_in,
    spread_finding,
    unknown_node_finding,
)
from cohabit.doctor.scheduler_config import ADVISED_MS, DEFAULT_MS, configured, duration_ms, read_config
from tests.advisor.running import fill, served, until_ready

GOOD = {
    "urlPrefix": "http://127.0.0.1:8081/extender",
    "prioritizeVerb": "prioritize",
    "weight": 1,
    "nodeCacheCapable": True,
    "ignorable": True,
    "httpTimeout": "100ms",
}
ABSENT = "absent"
Doctor = Callable[..., tuple[int, dict[str, str]]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Runs `cohabit doctor scheduler`; exit code, and the level and text of each subject."""
    for name in [name for name in os.environ if name.startswith("COHABIT_")]:
        monkeypatch.delenv(name)

    def run(*words: str) -> tuple[int, dict[str, str]]:
        ran = CliRunner().invoke(app, ["doctor", "scheduler", "--requests", "20", *words], catch_exceptions=False)
        lines = [line for line in ran.stdout.splitlines() if line.startswith(("ok ", "warning ", "problem "))]
        told = {
            line[8:].partition(": ")[0].strip(): f"{line.split()[0]} {line[8:].partition(': ')[2]}" for line in lines
        }
        assert len(told) == len(lines), "two findings on one subject"
        return ran.exit_code, told

    return run


def entry(**changed: object) -> dict[str, object]:
    """The advised extender with some settings changed, or left out where ABSENT."""
    return {key: value for key, value in {**GOOD, **changed}.items() if value != ABSENT}


def config(*entries: dict[str, object]) -> dict[str, object]:
    kind = "KubeSchedulerConfiguration"
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": kind, "extenders": list(entries)}


def levels(of: object) -> dict[str, str]:
    return {finding.subject: finding.level for finding in configured(of).findings}


def test_the_advised_configuration_is_well() -> None:
    assert set(levels(config(entry())).values()) == {"ok"}
    assert configured(config(entry())).url == "http://127.0.0.1:8081/extender/prioritize"
    assert configured(config(entry())).timeout_ms == 100


@pytest.mark.parametrize(
    ("changed", "subject", "level"),
    [
        ({"urlPrefix": ABSENT}, "urlPrefix", "problem"),
        ({"urlPrefix": "http://127.0.0.1:8081"}, "urlPrefix", "problem"),
        ({"urlPrefix": "https://127.0.0.1:8081/extender"}, "urlPrefix", "problem"),
        ({"urlPrefix": "127.0.0.1:8081/extender"}, "urlPrefix", "problem"),
        ({"urlPrefix": "http://[/extender"}, "urlPrefix", "problem"),
        ({"enableHTTPS": True}, "urlPrefix", "problem"),
        ({"urlPrefix": "http://127.0.0.1:8081/extender/"}, "urlPrefix", "ok"),
        ({"prioritizeVerb": ABSENT}, "prioritizeVerb", "problem"),
        ({"prioritizeVerb": "score"}, "prioritizeVerb", "problem"),
        ({"filterVerb": "filter"}, "filterVerb", "warning"),
        ({"filterVerb": "predicate"}, "filterVerb", "problem"),
        ({"bindVerb": "bind"}, "bindVerb", "problem"),
        ({"preemptVerb": "preempt"}, "preemptVerb", "problem"),
        ({"nodeCacheCapable": ABSENT}, "nodeCacheCapable", "problem"),
        ({"nodeCacheCapable": "true"}, "nodeCacheCapable", "problem"),
        ({"httpTimeout": ABSENT}, "httpTimeout", "warning"),
        ({"httpTimeout": "0s"}, "httpTimeout", "warning"),
        ({"httpTimeout": "101ms"}, "httpTimeout", "warning"),
        ({"httpTimeout": "24ms"}, "httpTimeout", "warning"),
        ({"httpTimeout": "25ms"}, "httpTimeout", "ok"),
        ({"httpTimeout": 100}, "httpTimeout", "problem"),
        ({"httpTimeout": "100"}, "httpTimeout", "problem"),
        ({"httpTimeout": ["100ms"]}, "httpTimeout", "problem"),
        ({"ignorable": ABSENT}, "ignorable", "warning"),
        ({"weight": ABSENT}, "weight", "problem"),
        ({"weight": 0}, "weight", "problem"),
        ({"weight": 1.5}, "weight", "problem"),
        ({"weight": True}, "weight", "problem"),
        ({"weight": 10}, "weight", "ok"),
        ({"weight": 11}, "weight", "warning"),
        ({"managedResources": [{"name": "nvidia.com/gpu"}]}, "managedResources", "warning"),
        ({"nodeCacheCapabel": True}, "configuration", "problem"),
    ],
)
def test_what_would_go_wrong_is_told(changed: dict[str, object], subject: str, level: str) -> None:
    found = levels(config(entry(**changed)))

    assert found.pop(subject) == level
    assert set(found.values()) == {"ok"}


def test_a_filter_that_may_fail_pods_is_a_problem() -> None:
    assert levels(config(entry(filterVerb="filter", ignorable=False)))["filterVerb"] == "problem"


@pytest.mark.parametrize("of", [None, [], "x", {}, {"kind": "Pod"}, config(), {**config(), "extenders": 5}])
def test_a_file_without_our_extender_is_a_problem(of: object) -> None:
    assert levels(of) == {"configuration": "problem"}


def test_our_extender_is_found_among_others() -> None:
    other = entry(urlPrefix="http://gpu-share:9999/scheduler", filterVerb="filter")

    assert set(levels(config(other, entry())).values()) == {"ok"}
    assert levels(config(other, other)) == {"configuration": "problem"}


@given(of=st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists))
def test_whatever_a_setting_holds_is_judged(of: object) -> None:
    for key in GOOD:
        assert levels(config(entry(**{key: of})))


@pytest.mark.parametrize(
    ("said", "ms"),
    [("100ms", 100), ("1s", 1000), ("1m0.5s", 60_500), ("1.5s", 1500), (".5s", 500), ("250us", 0.25), ("0", 0)],
)
def test_durations_are_read_as_go_reads_them(said: str, ms: float) -> None:
    assert duration_ms(said) == pytest.approx(ms)


@pytest.mark.parametrize("said", ["", "5", "ms", "-1s", "1 s", "1d", 100, None, True, []])
def test_what_go_refuses_is_no_duration(said: object) -> None:
    assert duration_ms(said) is None


def test_what_is_not_yaml_is_told_in_a_sentence(tmp_path: Path) -> None:
    broken_ones = (
        *(b"a: [", b"\xff\xfe\x00", b"a: !!python/object:os.system {}", b"a: 2026-13-45", b"a: " + b"9" * 5000),
        *(b"!!bool x", b"!!timestamp x", b"!!int ''", b"[" * 5000),
    )
    for broken in broken_ones:
        (tmp_path / "file").write_bytes(broken)

        with pytest.raises(CohabitError, match="is not YAML"):
            read_config(tmp_path / "file")


def reply(entries: object, **of: Any) -> Reply:
    return Reply(**{"status": 200, "headers": {}, "body": json.dumps(entries).encode(), "took_ms": 1.0, **of})


BROKEN: dict[str, Any] = {
    "float": [{"Host": "n0", "Score": 7.0}],
    "zero as a float": [{"Host": "n0", "Score": 0.0}],
    "bool": [{"Host": "n0", "Score": True}],
    "eleven": [{"Host": "n0", "Score": 11}],
    "below zero": [{"Host": "n0", "Score": -1}],
    "small keys": [{"host": "n0", "score": 7}],
    "one key more": [{"Host": "n0", "Score": 7, "Why": ""}],
    "a node missing": [],
    "another node": [{"Host": "n1", "Score": 7}],
    "a map": {"n0": 7},
    "null": None,
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_what_kube_scheduler_would_drop_is_a_problem(body: object) -> None:
    assert [finding.level for finding in reply_findings(reply(body), ["n0"])] == ["problem"]


def test_a_reply_that_is_an_error_or_no_json_is_a_problem() -> None:
    for broken in (reply([], status=404), reply([], body=b"<html>"), reply([], body=b"[" * 5000)):
        assert [finding.level for finding in reply_findings(broken, [])] == ["problem"]


@given(
    body=st.recursive(
        st.none() | st.integers() | st.floats() | st.text(), lambda i: st.lists(i) | st.dictionaries(st.text(), i)
    )
)
def test_scores_are_read_strictly_whatever_comes(body: object) -> None:
    try:
        assert scores_in(reply(body), []) == []
    except Unreadable:
        assert body != []


def test_order_counts() -> None:
    entries = [{"Host": "n1", "Score": 3}, {"Host": "n0", "Score": 0}]

    assert scores_in(reply(entries), ["n1", "n0"]) == [3, 0]
    with pytest.raises(Unreadable, match="in their order"):
        scores_in(reply(entries), ["n0", "n1"])


@pytest.mark.parametrize(
    ("headers", "level"),
    [
        ({}, "problem"),
        ({"cohabit-version": "3", "cohabit-age-ms": "many"}, "problem"),
        ({"cohabit-version": "3", "cohabit-age-ms": "60000"}, "ok"),
        ({"cohabit-version": "3", "cohabit-age-ms": "60001"}, "warning"),
        ({"cohabit-version": "3", "cohabit-age-ms": "120001"}, "warning"),
    ],
)
def test_an_old_snapshot_is_told(headers: dict[str, str], level: str) -> None:
    assert [finding.level for finding in header_findings(reply([], headers=headers), 120.0)] == [level]


@pytest.mark.parametrize(
    ("scores", "level"), [([], "warning"), ([4], "warning"), ([0, 0], "problem"), ([4, 4], "warning"), ([4, 5], "ok")]
)
def test_scores_that_tell_nothing_apart_are_told(scores: list[int], level: str) -> None:
    assert spread_finding(scores).level == level


@pytest.mark.parametrize(
    ("took_ms", "level"),
    [([50.0], "ok"), ([50.1], "warning"), ([100.1], "problem"), ([1.0, inf], "problem"), ([1.0] * 99 + [500.0], "ok")],
)
def test_latency_is_held_against_the_timeout(took_ms: list[float], level: str) -> None:
    assert latency_finding(took_ms, 100.0, 3).level == level


def test_an_unknown_node_that_is_favoured_is_a_problem() -> None:
    def level(unknown: int) -> str:
        scores = {"n0": 2, "n1": 4, "new": unknown}
        return unknown_node_finding(reply([{"Host": n, "Score": s} for n, s in scores.items()]), list(scores)).level

    assert [level(score) for score in (1, 2, 4, 5)] == ["problem", "ok", "ok", "problem"]


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A real advisor with a bundle and a snapshot of this moment."""
    folder = tmp_path_factory.mktemp("served")
    fill(folder)
    with served(folder) as (main, scheduler):
        until_ready(main, scheduler)
        yield main, scheduler


def test_a_healthy_advisor_has_no_problem(doctor: Doctor, listening: tuple[str, str]) -> None:
    main, scheduler = listening

    _, told = doctor("--url", scheduler, "--people-url", main)

    unwell = {subject for subject, said in told.items() if not said.startswith("ok")}
    assert unwell <= {"latency", "source"}, "these alone depend on how busy this machine is"
    assert told["nodes"] == "ok 6 known, of which 6 are offered"
    assert told.keys() == {
        "readiness", "nodes", "answer", "content type", "snapshot", "spread", "unknown node", "unknown app", "latency",
        "source",
    }  # fmt: skip


def test_the_scheduler_configuration_says_where_and_how_long(
    doctor: Doctor, listening: tuple[str, str], tmp_path: Path
) -> None:
    main, scheduler = listening
    wished = entry(urlPrefix=f"{scheduler}/extender", httpTimeout="1s")
    (tmp_path / "scheduler.yaml").write_text(yaml.safe_dump(config(wished)))

    code, told = doctor("--config", str(tmp_path / "scheduler.yaml"), "--people-url", main)

    assert code == 0
    assert told["latency"].endswith("timeout 1000 ms")
    assert told["httpTimeout"].startswith("warning 1s for each pod")
    assert "weight" in told


def test_a_configuration_that_asks_another_advisor_is_told(
    doctor: Doctor, listening: tuple[str, str], tmp_path: Path
) -> None:
    main, scheduler = listening
    (tmp_path / "scheduler.yaml").write_text(
        yaml.safe_dump(config(entry(urlPrefix="http://other:1/extender", httpTimeout="1s")))
    )

    code, told = doctor("--config", str(tmp_path / "scheduler.yaml"), "--url", scheduler, "--people-url", main)

    assert (code, told["configuration"].split()[0]) == (0, "warning")


def test_nodes_that_are_called_otherwise_are_told(doctor: Doctor, listening: tuple[str, str]) -> None:
    main, scheduler = listening

    some = doctor("--url", scheduler, "--people-url", main, "--nodes", "n0, n1,n0.example.com")
    none = doctor("--url", scheduler, "--people-url", main, "--nodes", "a,b")

    assert some[1]["nodes"].startswith("warning 1 of 3 named ones are not known, n0.example.com among them")
    assert (none[0], none[1]["nodes"].split()[0], none[1]["spread"].split()[0]) == (1, "problem", "problem")


def test_an_examination_books_nothing(doctor: Doctor, listening: tuple[str, str]) -> None:
    main, scheduler = listening

    def scores() -> object:
        with urlopen(f"{scheduler}/extender/prioritize", asked, timeout=5) as reply:  # noqa: S310
            return json.load(reply)

    asked = json.dumps({"Pod": {"metadata": {}}, "NodeNames": [f"n{i}" for i in range(6)]}).encode()
    before = scores()
    doctor("--url", scheduler, "--people-url", main)

    assert scores() == before


def test_an_advisor_without_a_model_is_told_with_what_to_do(doctor: Doctor, tmp_path: Path) -> None:
    with served(tmp_path) as (main, scheduler):
        code, told = doctor("--url", f"{scheduler}/extender", "--people-url", main)

    assert code == 1
    assert told["readiness"].startswith("problem all answers are neutral (no_bundle): run `cohabit model train`")
    assert told["source"].startswith("warning neutral no_bundle 23")
    assert told["answer"].startswith("ok")


def test_nobody_there_is_told(doctor: Doctor) -> None:
    code, told = doctor("--url", "http://127.0.0.1:1")

    assert (code, list(told)) == (1, ["listener"])
    assert "`cohabit serve` prints where it listens" in told["listener"]


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8081", "http://", "http://x:port", "http://[", "ftp://x", "http://x/ü", "http://x/a b"],
)
def test_an_address_that_is_none_is_refused_in_a_sentence(url: str, doctor: Doctor) -> None:
    ran = CliRunner().invoke(app, ["doctor", "scheduler", "--url", url])

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "is no address of a listener" in ran.stderr


def test_a_listener_that_hangs_up_may_want_certificates(doctor: Doctor) -> None:
    def hang_up() -> None:
        with listener.accept()[0] as connection:
            connection.recv(1 << 16)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        hanging_up = Thread(target=hang_up)
        hanging_up.start()
        code, told = doctor("--url", f"http://127.0.0.1:{listener.getsockname()[1]}")
        hanging_up.join()

    assert (code, list(told)) == (1, ["listener"])
    assert told["listener"].endswith("where it has certificates, ask by https, with --config")


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that gives everybody the same answer."""

    class Same(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Same)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b'[{"Host": "a", "Score": 7.0}]'), (200, b"\x1b[31mred"), (404, b"{}"), (200, b'{"data": 5}'), (503, b"")],
)
def test_a_server_that_is_no_advisor_is_told(doctor: Doctor, status: int, body: bytes) -> None:
    with answering(status, body) as url:
        code, told = doctor("--url", url, "--people-url", url, "--nodes", "a")

    assert (code, told["answer"].split()[0]) == (1, "problem")
    assert "\x1b" not in "".join(told.values())
    assert "snapshot" not in told, "an answer that is none of ours says nothing of snapshots"


def test_an_answer_that_never_comes_is_not_waited_for_again_and_again() -> None:
    assert latency_finding([inf, inf, inf], ADVISED_MS, 2).level == "problem"
    assert DEFAULT_MS == 5000


def test_help_teaches() -> None:
    told = CliRunner().invoke(app, ["doctor", "scheduler", "--help"], env={"COLUMNS": "300", "TERM": "dumb"}).stdout

    assert all(
        word in told
        for word in ("--config", "--nodes", "--people-url", "silently drops", "Exits 1", "no pod is assumed")
    )
