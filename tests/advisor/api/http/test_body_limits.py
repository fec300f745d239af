"""Limits of our own: one caller asks so often, large questions are worked on one by one, schedulers do not notice."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import time_ns
from urllib.error import HTTPError
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client import Counter as Counted
from sqlalchemy import Engine
from starlette.requests import Request
from starlette.types import Message

from advisor.api.app import create_app
from advisor.api.http.auth_middleware import SAID, Guard
from advisor.api.http.concurrency_limit import ConcurrencyLimit
from advisor.api.v1.scores import MANY_WAITING, MAX_FEW
from advisor.auth.audit_log import entries
from advisor.auth.authenticator import Access
from advisor.auth.denials import Refusals
from advisor.auth.rate_limit import MAX_CALLERS, Rates
from advisor.auth.token_store import Doer, create_token
from advisor.cluster.snapshot import publish
from advisor.errors import Unavailable
from tests.advisor.clusters import snapshot
from tests.advisor.processes import Process
from tests.advisor.running import ASKED, fill, served, until_ready
from tests.advisor.stores import migrated_store

S = 10**6


def test_a_caller_may_ask_at_once_and_then_as_often_as_permits_come() -> None:
    rates = Rates(2.0, 3)

    assert [rates.wait_s("a", 0) for _ in range(5)] == [0, 0, 0, 1, 1]
    assert [rates.wait_s("a", S // 2) for _ in range(2)] == [0, 1]
    assert [rates.wait_s("b", S // 2) for _ in range(4)] == [0, 0, 0, 1]  # another one has permits of its own
    assert [rates.wait_s("a", 100 * S) for _ in range(4)] == [0, 0, 0, 1]  # no more are kept


def test_who_waits_as_told_is_let_in() -> None:
    rates = Rates(0.1, 1)

    assert [rates.wait_s("a", at * S) for at in (0, 0, 9, 10)] == [0, 10, 1, 0]


def test_buckets_are_bounded_and_a_clock_put_back_gives_nothing() -> None:
    rates = Rates(1.0, 1)
    for number in range(MAX_CALLERS + 10):
        rates.wait_s(str(number), 0)

    assert len(rates._buckets) == MAX_CALLERS
    assert rates.wait_s(str(MAX_CALLERS), -10 * S) == 1
    assert rates.wait_s(str(MAX_CALLERS), -10 * S) == 1


@given(
    per_s=st.floats(0.01, 1000),
    burst=st.integers(1, 50),
    gaps=st.lists(st.integers(0, 3 * S), min_size=1, max_size=60),
)
def test_in_no_span_of_time_more_are_let_in_than_burst_and_rate_allow(
    per_s: float, burst: int, gaps: list[int]
) -> None:
    rates, now, let_in = Rates(per_s, burst), 0, []
    for gap in gaps:
        now += gap
        if rates.wait_s("a", now) == 0:
            let_in.append(now)

    for first in range(len(let_in)):
        for last in range(first, len(let_in)):
            span_s = (let_in[last] - let_in[first]) / S
            assert last - first + 1 <= burst + per_s * span_s + 1e-6


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Engine]:
    with migrated_store(tmp_path / "store.sqlite") as engine:
        yield engine


def test_who_asks_too_often_is_told_when_to_come_again_and_counted(store: Engine, process: Process) -> None:
    now, metrics = [10**15], CollectorRegistry()
    doer = Doer("local:me", now[0], "made")
    make = {"expires_us": now[0] * 2, "doer": doer, "random_bytes": lambda n: bytes(n - 1) + bytes([len(made)])}
    made: dict[str, str] = {}
    for name, role in {"fast": "sre", "slow": "sre"}.items():
        made[name] = create_token(store, name, role, **make)  # type: ignore[arg-type]
    refusals = Refusals(store, lambda: now[0], metrics, lambda: "r")
    guard = Guard(Access(store, lambda: now[0]), refusals, Rates(1.0, 3))
    client = TestClient(create_app(process.made_ready().serving, guard))

    def ask(name: str, path: str = "/v1/scores") -> int:
        reply = client.post(path, headers={"Authorization": f"Bearer {made[name]}"})
        if reply.status_code == 429:
            assert (reply.headers["retry-after"], reply.json()) == ("1", {"error": SAID[429]})
        return reply.status_code

    assert [ask("fast") for _ in range(3)] + [ask("fast", "/no")] == [422, 422, 422, 429]
    assert ask("slow") == 422
    assert client.get("/healthz").status_code == 200
    now[0] += S
    assert [ask("fast"), ask("fast")] == [422, 429]
    assert metrics.get_sample_value("cohabit_requests_rejected_total", {"status": "429"}) == 2
    assert [row.action for row in entries(store)] == ["token create"] * 2
    now[0] += S
    assert client.post("/v1/scores").status_code == 401
    told = [row.outcome for row in entries(store) if row.action == "request"]
    assert told == ["2 earlier refusals have no row of their own", "401 no token"]


def request(*, gone: bool = False) -> Request:
    async def receive() -> Message:
        if gone:
            return {"type": "http.disconnect"}
        return await asyncio.Future()  # nothing comes: it still waits for its answer

    return Request({"type": "http"}, receive)


def test_a_few_work_some_wait_and_the_others_are_turned_away() -> None:
    counted = Counted("turned", "", registry=None)
    limit, go, begun = ConcurrencyLimit(2, 3, counted), Event(), []

    def work() -> str:
        begun.append(1)
        go.wait(20)
        return "done"

    async def many() -> list[object]:
        tasks = [asyncio.create_task(limit.run(request(), work)) for _ in range(9)]
        while len(begun) < 2 or sum(task.done() for task in tasks) < 4:
            await asyncio.sleep(0.001)
        assert len(begun) == 2
        go.set()
        return [type(found).__name__ for found in await asyncio.gather(*tasks, return_exceptions=True)]

    assert Counter(asyncio.run(many())) == {"str": 5, "TooBusy": 4}
    assert counted._value.get() == 4


def test_for_those_who_hung_up_nothing_is_done_and_the_next_one_has_its_turn() -> None:
    limit, done = ConcurrencyLimit(1, 5, Counted("turned", "", registry=None)), []

    async def both() -> None:
        with pytest.raises(Unavailable, match="the client has disconnected"):
            await limit.run(request(gone=True), lambda: done.append("gone"))
        await limit.run(request(), lambda: done.append("here"))

    asyncio.run(both())

    assert done == ["here"]


def test_what_fails_gives_its_turn_back() -> None:
    limit = ConcurrencyLimit(1, 0, Counted("turned", "", registry=None))

    async def both() -> int:
        with pytest.raises(ZeroDivisionError):
            await limit.run(request(), lambda: 1 // 0)
        return await limit.run(request(), lambda: 1)

    assert asyncio.run(both()) == 1


def asked(main: str, body: dict[str, object]) -> int:
    """Status of a question for scores; 0 of a refusal that does not say when to ask again."""
    told = HttpRequest(f"{main}/v1/scores", json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310
    try:
        with urlopen(told, timeout=120) as reply:  # noqa: S310
            reply.read()
            return int(reply.status)
    except HTTPError as error:
        with error:
            return error.code if error.headers["retry-after"] and "retry in" in json.load(error)["error"] else 0


def test_while_all_nodes_are_asked_for_over_and_over_schedulers_get_their_answers(tmp_path: Path) -> None:
    fill(tmp_path)
    crowd = snapshot(11, nodes=400, residents=(10, 20), missing=0.0, version=2)
    publish(tmp_path / "snapshots", replace(crowd, as_of_us=time_ns() // 1000))
    with served(tmp_path) as (main, scheduler), ThreadPoolExecutor(24) as flood:
        until_ready(main, scheduler)
        questions = [flood.submit(asked, main, {"app": "web"}) for _ in range(60)]
        small = [flood.submit(asked, main, {"app": "web", "nodes": ["n1"] * MAX_FEW}) for _ in range(3)]
        answered = 0
        while not all(question.done() for question in questions):
            with urlopen(f"{scheduler}/extender/prioritize", ASKED, timeout=20) as reply:  # noqa: S310
                assert {entry["Host"] for entry in json.load(reply)} == {"n0", "n1"}
                answered += 1
        statuses = Counter(question.result() for question in questions)
        with urlopen(f"{main}/metrics", timeout=20) as reply:  # noqa: S310
            metrics = reply.read().decode()

    assert answered
    assert set(statuses) == {200, 503}
    assert statuses[200] > MANY_WAITING
    assert f'cohabit_node_score_requests_rejected_total{{nodes="many"}} {float(statuses[503])}' in metrics
    assert {question.result() for question in small} == {200}
    assert 'source="neutral",reason="error"' not in metrics
