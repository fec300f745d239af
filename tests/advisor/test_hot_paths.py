"""The path that a scheduler waits for can be followed by eye: few modules, hardly any return to one that was left."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import starlette.routing
from starlette.testclient import TestClient
from starlette.types import Message

from advisor.api.scheduler.extender import Prioritize
from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.cluster.pending_pod import PodClass
from advisor.placement.prioritizer import Prioritizer
from cohabit.server.score_table_process import Tabling
from tests.advisor.clusters import snapshot
from tests.advisor.processes import Process

ROUTING = Path(starlette.routing.__file__)
ROOT = Path(__file__).parents[2]
PACKAGES = ("ingest", "features", "models", "advisor", "cohabit")
MAX_MODULES, MAX_RETURNS = 8, 3
BODY = b'{"Pod": {"metadata": {"uid": "u%d", "labels": {"app": "web"}}}, "NodeNames": ["n0", "n1"]}'


@contextmanager
def stays() -> Iterator[list[str]]:
    """Our files in the order in which their functions are called, each once for a stay in it."""
    found: list[str] = []

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "call" or not path.is_relative_to(ROOT):
            return
        name = str(path.relative_to(ROOT))
        if name.partition("/")[0] in PACKAGES and found[-1:] != [name]:
            found.append(name)

    sys.setprofile(profile)
    try:
        yield found
    finally:
        sys.setprofile(None)


def test_a_warm_request_goes_down_and_comes_back(process: Process, tmp_path: Path) -> None:
    process.promote("first")
    process.publish(snapshot(11, version=1))
    process.serving.reload()
    tabling = Tabling(process.serving, tmp_path / "table")
    tabling.ask(PodClass("web", False), 0.0)
    tabling.step(0.0)
    prioritizer = Prioritizer(process.serving, tabling.path)
    prioritizer.take(prioritizer.newer())
    app, sent = Prioritize(prioritizer), list[Message]()

    async def ask(number: int) -> None:
        async def receive() -> Message:
            return {"type": "http.request", "body": BODY % number, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await app({}, receive, send)

    async def warm() -> list[str]:
        await ask(1)
        with stays() as found:
            await ask(2)
        return found

    found = asyncio.run(warm())

    print(*found, sep="\n")  # noqa: T201 - for who changes the path
    assert (b"cohabit-source", b"table") in sent[2]["headers"]
    assert len(prioritizer.assumed.bookings) == 2
    assert len(set(found)) <= MAX_MODULES
    assert len(found) - len(set(found)) <= MAX_RETURNS


def test_a_good_request_is_answered_before_the_framework_looks_for_a_route(process: Process) -> None:
    prioritizer, routed = Prioritizer(process.serving), list[str]()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and Path(frame.f_code.co_filename) == ROUTING:
            routed.append(frame.f_code.co_name)

    threading.setprofile(profile)  # of threads that begin from now on: the application runs in one of the client's
    try:
        with TestClient(create_scheduler_app(prioritizer)) as client:
            routed.clear()  # of the start of the application
            good = client.post("/extender/prioritize", content=BODY % 1)
            after_good = len(routed)
            bad = client.post("/extender/prioritize", content=b"{")
    finally:
        threading.setprofile(None)

    assert (good.status_code, bad.status_code) == (200, 400)
    assert after_good == 0
    assert len(routed) > after_good
