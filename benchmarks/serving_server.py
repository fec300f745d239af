"""Serving server: the advisor's own listener for schedulers, and one of uvicorn's own for the baselines.

One process and event loop serve both, so that both wait for the same work in the background.

`python -m benchmarks.serving_server FOLDER` serves the snapshots and the registry in the folder until its input ends.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import time_ns
from typing import Literal

import msgspec
import numpy as np
import uvicorn
import uvloop
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from advisor.api.scheduler.raw_http import whole_body
from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.worker_bus import Journal
from advisor.placement.feature_log import ServedLog
from advisor.placement.model_state import Serving
from advisor.placement.prioritizer import Prioritizer
from cohabit.server.http_limits import BoundedProtocol
from cohabit.server.reload import keep_fresh
from cohabit.server.score_table_process import Asking, TableProcess
from cohabit.server.sockets import free_socket
from models.registry.registry import Registry

Answer = Callable[[bytes], Awaitable[bytes] | bytes]


class Names(msgspec.Struct):
    """All that the baselines read of a request."""

    NodeNames: list[str]


class TwinMetadata(BaseModel):
    """As everybody would write it."""

    name: str
    uid: str
    labels: dict[str, str]


class TwinPod(BaseModel):
    """As everybody would write it."""

    metadata: TwinMetadata


class TwinRequest(BaseModel):
    """As everybody would write it."""

    Pod: TwinPod
    NodeNames: list[str]


class TwinScore(BaseModel):
    """As everybody would write it."""

    Host: str
    Score: int


class Plain:
    """An application around a function of the body."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.answer = answer

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = self.answer(await whole_body(receive))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})


def with_baselines(app: FastAPI, prioritizer: Prioritizer) -> FastAPI:
    """The application with /echo, /memo, /fragments and /twin."""
    memo: dict[bytes, bytes] = {}
    pieces: dict[str, bytes] = {}
    hits = [0, 0]
    decode = msgspec.json.Decoder(Names).decode

    def fragments(body: bytes) -> bytes:
        assert prioritizer.replies is not None  # noqa: S101 - asked only once it is there
        nodes = prioritizer.replies.spelled.nodes
        if not pieces:
            pieces.update({name: b'{"Host":"%b","Score":7}' % name.encode() for name in nodes})
        return b"[" + b",".join([pieces[name] for name in decode(body).NodeNames]) + b"]"

    def memoised(body: bytes) -> bytes:
        hits[0] += body in memo
        hits[1] += 1
        if body not in memo:
            memo[body] = fragments(body)
        return memo[body]

    app.router.routes += [
        Route("/echo", Plain(bytes), methods=["POST"]),
        Route("/memo", Plain(memoised), methods=["POST"]),
        Route("/fragments", Plain(fragments), methods=["POST"]),
        Route("/hits", Plain(lambda _: json.dumps(hits).encode()), methods=["POST"]),
    ]

    @app.post("/twin")
    async def twin(request: TwinRequest) -> list[TwinScore]:
        replies = prioritizer.replies
        assert replies is not None  # noqa: S101 - asked only once it is there
        of = PodClass(request.Pod.metadata.labels["app"], False)
        asked = of if of in replies.row_of else PodClass("", False)
        points = replies.points(asked, replies.rows(request.NodeNames)).tolist()
        return [TwinScore(Host=name, Score=score) for name, score in zip(request.NodeNames, points, strict=True)]

    return app


async def _serve(folder: Path) -> None:
    served = ServedLog(folder / "served", 0.001, np.random.default_rng(0))
    registry, snapshots = Registry(folder / "registry"), folder / "snapshots"
    serving = Serving(snapshots, registry, float("inf"), lambda: time_ns() // 1000, CollectorRegistry(), served)
    table = TableProcess(registry, snapshots, folder / "table")
    prioritizer = Prioritizer(serving, table.path, Asking(table.asked), Journal(folder, 0, 2))
    ours = _server(create_scheduler_app(prioritizer), BoundedProtocol)
    plain = _server(with_baselines(create_scheduler_app(prioritizer), prioritizer), "httptools")
    with free_socket(0) as bound, free_socket(0) as other:
        fresh = asyncio.create_task(keep_fresh(prioritizer, table.ensure))
        serving_both = asyncio.gather(ours.serve(sockets=[bound]), plain.serve(sockets=[other]))
        while table.pid is None:
            await asyncio.sleep(0.01)
        ports = {"port": bound.getsockname()[1], "baselines": other.getsockname()[1]}
        print(json.dumps({**ports, "pid": os.getpid(), "table": table.pid}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        ours.should_exit = plain.should_exit = True
        fresh.cancel()
        await serving_both
        table.close()


def _server(app: FastAPI, protocol: type[asyncio.Protocol] | Literal["httptools"]) -> uvicorn.Server:
    return uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", http=protocol))


if __name__ == "__main__":
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_serve(Path(sys.argv[1])))
