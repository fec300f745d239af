"""Replies: those of a running advisor to requests of all sorts, and broken ones that no advisor should send."""

import http.client
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.serving import CLASSES
from e2e.kube.errors import Refused
from e2e.kube.processes import HOST
from e2e.volcano.clients import Understood
from e2e.volcano.twin import NotDecoded, host_priorities, node_scores

PATHS = {"kube": "/extender/prioritize", "volcano": "/volcano/prioritize"}
AWKWARD = ('"', "\\", "\n", "\x00", "\x7f", "<&>", "\u2028", "é", "名", "\U0001f980", "%d", " ", "", "Score", "}],")
"""Pieces of names that no cluster has, to see that none of them breaks a reply."""
MOST_OFFERED, MOST_PIECES = 12, 4
BROKEN = {
    "kube": (
        '[{"Host":"a","Score":7.0}]',
        '[{"Host":"a","Score":1e1}]',
        '[{"Host":"a","Score":9223372036854775808}]',
        '[{"Host":"a","Score":"7"}]',
        '[{"Host":7,"Score":7}]',
        '[{"Host":"a","Score":NaN}]',
        '[{"host":"a","SCORE":7}]',
        '[{"ho\u017ft":"a","Score":1,"score":2}]',
        '[{"Host":null,"Score":null},null]',
        '[{"Host":"a","Score":7}] and more',
        '[{"Host":"a","Score":7}',
        '{"Host":"a","Score":7}',
        "null",
        "",
        "[[]]",
    ),
    "volcano": (
        '{"nodeScore":{"a":7},"errorMessage":"no"}',
        '{"nodeScore":null,"errorMessage":""}',
        '{"errorMessage":""}',
        '{"nodeScore":{},"errorMessage":null}',
        '{"NODESCORE":{"a":1},"nodeScore":{"b":2,"a":null}}',
        '{"nodeScore":{"a":1},"nodescore":null}',
        '{"nodeScore":{"a":1e400}}',
        '{"nodeScore":{"a":"1"}}',
        '{"nodeScore":[1]}',
        '{"nodeScore":{"":0.5}} and more',
        "null",
        "[]",
        "",
    ),
}
TWINS: dict[str, Callable[[bytes], object]] = {"kube": host_priorities, "volcano": node_scores}


def names(rng: np.random.Generator, known: Sequence[str]) -> list[str]:
    """Offered names: nodes, some twice, and texts that no node is called."""
    found = []
    for _ in range(rng.integers(0, MOST_OFFERED, endpoint=True)):
        pieces = [AWKWARD[i] for i in rng.integers(0, len(AWKWARD), rng.integers(0, MOST_PIECES, endpoint=True))]
        found.append(known[int(rng.integers(len(known)))] if rng.random() < 0.5 else "".join(pieces))
    return found


def request(client: str, offered: Sequence[str], app: str) -> bytes:
    """A request of a client for a pod of an app that is not to be booked."""
    pod = {"metadata": {"name": app, "labels": {"app": app}}}
    if client == "kube":
        return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": offered}).encode()
    return json.dumps({"task": {"Pod": pod}, "nodes": [{"Name": name} for name in offered]}).encode()


def gathered(
    port: int, known: Sequence[str], count: int, rng: np.random.Generator
) -> list[tuple[str, list[str], bytes]]:
    """Client, offered names and the advisor's reply to each of so many requests.

    Raises:
        Refused: one was not answered with 200.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    found = []
    for number in range(count):
        client, offered = ("kube", "volcano")[number % 2], names(rng, known)
        connection.request("POST", PATHS[client], request(client, offered, CLASSES[number % len(CLASSES)]))
        reply = connection.getresponse()
        body = reply.read()
        if reply.status != 200:
            raise Refused(f"{client}'s request", reply.status, body)
        found.append((client, offered, body))
    return found


def holds(client: str, offered: Sequence[str], said: Understood) -> bool:
    """Whether a client got a score within bounds for all that it offered, and nothing else."""
    if client == "kube":
        hosts = said.hosts or []
        return not said.failed and [host for host, _ in hosts] == list(offered) and _within(dict(hosts), 10)
    scores = said.scores or {}
    return not said.failed and scores.keys() == {name for name in offered if name} and _within(scores, 100)


def _within(scores: Mapping[str, float], highest: float) -> bool:
    return all(0 <= score <= highest for score in scores.values())


def twin_agrees(client: str, body: bytes, said: Understood) -> bool:
    """Whether the twin makes of a body what the client made of it; an empty score of Volcano's counts as none."""
    try:
        expected = TWINS[client](body)
    except NotDecoded:
        return said.failed
    return not said.failed and expected == (list(said.hosts or []) if client == "kube" else dict(said.scores or {}))
