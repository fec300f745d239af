"""Serve: two loopback listeners in a process of their own, on ports that are free, until told to stop."""

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic, time_ns
from urllib.error import HTTPError

import orjson
import pytest

from advisor.cluster.snapshot import publish
from cohabit.config.errors import CohabitError
from cohabit.server.sockets import HOST, LAST_PORT, PORTS_TRIED, free_socket
from models.registry.registry import Registry
from tests.advisor.clusters import snapshot, trained, write
from tests.advisor.running import Running, running

ROOT = Path(__file__).parents[3]


def port_of(bound: socket.socket) -> int:
    return int(bound.getsockname()[1])


def stretch_of_free_ports(count: int) -> int:
    """The first of so many ports in a row that can all be listened on."""
    for first in range(20_000, 60_000, count):
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    bound = stack.enter_context(socket.socket())
                    bound.bind((HOST, port))
            except OSError:
                continue
            return first
    raise AssertionError


def test_a_free_port_is_taken() -> None:
    first = stretch_of_free_ports(1)

    with free_socket(first) as bound:
        assert bound.getsockname() == (HOST, first)


def test_a_busy_port_gives_way_to_the_next() -> None:
    first = stretch_of_free_ports(3)

    with free_socket(first), free_socket(first) as second, free_socket(first) as third:
        assert (port_of(second), port_of(third)) == (first + 1, first + 2)


def test_zero_takes_any_port() -> None:
    with free_socket(0) as one, free_socket(0) as other:
        assert 0 < port_of(one) != port_of(other) > 0


def test_when_the_whole_range_is_busy_the_error_names_it() -> None:
    first = stretch_of_free_ports(PORTS_TRIED)
    with ExitStack() as stack:
        for _ in range(PORTS_TRIED):
            stack.enter_context(free_socket(first))

        with pytest.raises(CohabitError, match=f"no port from {first} to {first + PORTS_TRIED - 1}.*use 0 for any"):
            free_socket(first)


def test_of_one_port_that_is_busy_the_error_says_so() -> None:
    with (
        free_socket(0) as bound,
        pytest.raises(CohabitError, match=f"^port {port_of(bound)} is in use: stop the process"),
    ):
        free_socket(port_of(bound), tries=1)


def test_the_range_ends_at_the_last_port() -> None:
    with ExitStack() as stack:
        for port in (LAST_PORT - 1, LAST_PORT):
            with suppress(CohabitError):
                stack.enter_context(free_socket(port))

        with pytest.raises(CohabitError, match=f"from {LAST_PORT - 1} to {LAST_PORT}"):
            free_socket(LAST_PORT - 1)


def post(url: str, body: object) -> object:
    request = urllib.request.Request(url, orjson.dumps(body), {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310
        return orjson.loads(reply.read())


def publish_now(folder: Path, version: int) -> None:
    """A snapshot of this moment."""
    fresh = replace(snapshot(version, version=version), as_of_us=time_ns() // 1000)
    publish(folder / "snapshots", fresh)


def promote(folder: Path, name: str, weight: float) -> None:
    """A bundle whose base counts pressure so many times over."""
    model = trained()
    terms = replace(model.terms, weights=model.terms.weights * weight)
    write(replace(model, terms=terms), folder / "registry" / name)
    Registry(folder / "registry").promote(name)


def test_serve_answers_the_extender_and_takes_up_what_is_new_while_it_runs(tmp_path: Path) -> None:
    names = list(snapshot().nodes)
    with running(tmp_path) as served:
        asked = {"Pod": {"metadata": {"name": "x", "labels": {"app": "web"}}}, "Nodes": None, "NodeNames": names}
        url = f"{served.scheduler}/extender/prioritize"
        neutral = post(url, asked)

        promote(tmp_path, "one", 1.0)
        publish_now(tmp_path, 1)
        first = until(served, lambda found: found["snapshot_version"] == 1)
        ranked = post(url, asked)
        publish_now(tmp_path, 2)
        second = until(served, lambda found: found["snapshot_version"] == 2)
        promote(tmp_path, "two", 3.0)
        third = until(served, lambda found: found["nodes"] != second["nodes"])
        code = served.stop()

    assert neutral == [{"Host": name, "Score": 0} for name in names]
    assert isinstance(ranked, list)
    assert [entry["Host"] for entry in ranked] == names
    assert any(entry["Score"] > 0 for entry in ranked)
    assert first["source"] == second["source"] == "model"
    assert first["nodes"] != second["nodes"]
    assert slowest(third) > slowest(second)
    assert code == 0


def test_once_ready_the_first_request_has_a_preference(tmp_path: Path) -> None:
    names = list(snapshot().nodes)
    promote(tmp_path, "one", 1.0)
    publish_now(tmp_path, 1)
    with running(tmp_path) as served:
        until_ready(served)
        asked = {"Pod": {"metadata": {"name": "x", "labels": {"app": "never-heard-of"}}}, "NodeNames": names}
        first = post(f"{served.scheduler}/extender/prioritize", asked)
        with urllib.request.urlopen(f"{served.main}/metrics", timeout=10) as reply:  # noqa: S310
            counts = reply.read().decode()

    assert isinstance(first, list)
    assert any(entry["Score"] > 0 for entry in first)
    assert 'cohabit_score_requests_total{reason="",source="table"} 1.0' in counts


def test_a_slow_client_does_not_hold_up_a_restart(tmp_path: Path) -> None:
    with (
        running(tmp_path) as served,
        socket.create_connection((HOST, int(served.scheduler.rpartition(":")[2]))) as slow,
    ):
        slow.sendall(b"POST /extender/prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")

        assert served.stop() == 0


def until_ready(served: Running) -> None:
    """The first 200 of /readyz."""
    deadline = monotonic() + 120
    while monotonic() < deadline:
        with suppress(HTTPError), urllib.request.urlopen(f"{served.main}/readyz", timeout=10):  # noqa: S310
            return
    pytest.fail("it did not become ready")


def until(served: Running, holds: Callable[[dict[str, object]], bool]) -> dict[str, object]:
    """The first scores for which something holds; the reloader has a few seconds."""
    deadline = monotonic() + 120
    while monotonic() < deadline:
        found = post(f"{served.main}/v1/scores", {"app": "web"})
        assert isinstance(found, dict)
        if holds(found):
            return found
    pytest.fail("it did not take up what is new within ten seconds")


def slowest(found: dict[str, object]) -> float:
    assert isinstance(found["nodes"], list)
    return max(float(node["slowdown_ratio"]) for node in found["nodes"])


def test_a_listener_for_people_moves_on_and_one_for_schedulers_never_does(tmp_path: Path) -> None:
    first = stretch_of_free_ports(3)
    kept = str(first + 2)

    with running(tmp_path, "--port", str(first), "--scheduler-port", kept) as one:
        with running(tmp_path, "--port", str(first)) as other:
            mains = [one.main, other.main]
            assert other.stop() == 0
        command = [sys.executable, "-m", "cohabit", "serve", "--port", "0", "--scheduler-port", kept]
        refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
        assert one.stop() == 0

    assert mains == [f"http://{HOST}:{first}", f"http://{HOST}:{first + 1}"]
    assert (refused.returncode, refused.stdout) == (1, "")
    assert kept in refused.stderr
