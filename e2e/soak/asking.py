"""Asking: a scheduler that asks for a node again and again, and how long each answer took."""

import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event
from time import monotonic, sleep

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class Asked:
    """What came of it: times since the beginning, how long answers took, and what went wrong."""

    at_s: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def p99_ms(self, begin_s: float, end_s: float) -> float:
        """The 99th percentile of answers to questions of a stretch of time; NaN without any."""
        at, took = np.array(self.at_s), np.array(self.took_s)
        inside = took[(at >= begin_s) & (at < end_s)]
        return float(np.quantile(inside, 0.99) * 1000) if len(inside) else float("nan")


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Who asks: where, for which nodes, of pods of which apps in turn, and how many times a second."""

    port: int
    nodes: Sequence[str]
    apps: Sequence[str]
    rate: float


def ask(who: Scheduler, stop: Event, asked: Asked) -> None:
    """Send requests until the stop event."""
    connection, began, number = http.client.HTTPConnection("127.0.0.1", who.port, timeout=10), monotonic(), 0
    while not stop.is_set():
        due = began + number / who.rate
        sleep(max(0.0, due - monotonic()))
        sent = monotonic()
        try:
            _exchange(connection, who.nodes, who.apps[number % len(who.apps)], number)
            asked.at_s.append(sent - began)
            asked.took_s.append(monotonic() - sent)
        except (OSError, http.client.HTTPException, ValueError) as error:
            asked.errors.append(repr(error))
            connection.close()
        number += 1


def _exchange(connection: http.client.HTTPConnection, nodes: Sequence[str], app: str, number: int) -> None:
    """One question.

    Raises:
        ValueError: the answer is not one score for each node.
    """
    pod = {"metadata": {"name": f"p{number}", "uid": f"soak-{number}", "labels": {"app": app}}}
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})
    connection.request("POST", "/extender/prioritize", body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    content = reply.read()
    if reply.status != 200 or len(json.loads(content)) != len(nodes):
        raise ValueError(f"{reply.status}: {content[:200]!r}")
