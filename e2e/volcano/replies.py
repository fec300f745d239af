"""Replies: those of a running advisor to requests of all sorts, and broken ones that no advisor should send."""

import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from benchmarks.serving import CLASSES
from e2e.kube.errors import Refused
from e2e.kube.processes import HOST
from e2e.volcano.clients import Reply, Understood
from e2e.volcano.twin import NotDecoded, Passed, filter_result, host_priorities, node_scores

PATHS = {
    "kube": "/extender/prioritize",
    "volcano": "/volcano/prioritize",
    "filter": "/extender/filter",
    "filter-nodes": "/extender/filter",
}
AWKWARD = ('"', "\\", "\n", "\x00", "\x7f", "<&>", "\u2028", "é", "名", "\U0001f980", "%d", " ", "", "Score", "}],")
"""Pieces of names that no cluster has, to see that none of them breaks a reply."""
MAX_OFFERED, MAX_PIECES = 12, 4
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
    "filter": (
        '{"NodeNames":["a"],"FailedNodes":{"b":"full"},"FailedAndUnresolvableNodes":{"c":"gone"},"Error":""}',
        '{"NodeNames":["a"],"Nodes":{"items":[{"metadata":{"name":"b"}}]}}',
        '{"NodeNames":["a","a"]}',
        '{"NodeNames":["stranger"]}',
        '{"NodeNames":[]}',
        '{"nodenames":[null,"b"],"failednodes":{"b":null}}',
        '{"NodeNames":["a"],"Error":"no"}',
        '{"NodeNames":"a"}',
        '{"FailedNodes":["a"]}',
        "{}",
        "null",
        "[]",
        "",
    ),
    "filter-nodes": (
        '{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"stranger"}}]}}',
        '{"NodeNames":["a"]}',
        '{"Nodes":{"items":[{"metadata":{"name":"a"}}]},"FailedNodes":null}',
        '{"Nodes":{"items":null}}',
        '{"Nodes":{"items":[{}]}}',
        '{"Nodes":{"items":["a"]}}',
        '{"Nodes":[]}',
    ),
}
OFFERED = ("a", "b", "c", "")
"""What was asked about, where a broken reply of a filter comes."""
TWINS: dict[str, Callable[[bytes, Sequence[str]], object]] = {
    "kube": lambda body, _: host_priorities(body),
    "volcano": lambda body, _: node_scores(body),
    "filter": filter_result,
    "filter-nodes": partial(filter_result, whole=True),
}


def names(rng: np.random.Generator, known: Sequence[str]) -> list[str]:
    """Offered names: nodes, some twice, and texts that no node is called."""
    found = []
    for _ in range(rng.integers(0, MAX_OFFERED, endpoint=True)):
        pieces = [AWKWARD[i] for i in rng.integers(0, len(AWKWARD), rng.integers(0, MAX_PIECES, endpoint=True))]
        found.append(known[int(rng.integers(len(known)))] if rng.random() < 0.5 else "".join(pieces))
    return found


def request(client: str, offered: Sequence[str], app: str) -> bytes:
    """A request of a client for a pod of an app that is not to be booked."""
    pod = {"metadata": {"name": app, "labels": {"app": app}}}
    if client in ("kube", "filter"):
        return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": offered}).encode()
    if client == "filter-nodes":
        nodes = [{"metadata": {"name": name, "creationTimestamp": None}, "spec": {}, "status": {}} for name in offered]
        return json.dumps({"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}).encode()
    return json.dumps({"task": {"Pod": pod}, "nodes": [{"Name": name} for name in offered]}).encode()


def gathered(port: int, known: Sequence[str], count: int, rng: np.random.Generator) -> list[Reply]:
    """The advisor's reply to each of so many requests.

    Raises:
        Refused: one was not answered with 200.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    found = []
    for number in range(count):
        client, offered = list(PATHS)[number % len(PATHS)], names(rng, known)
        connection.request("POST", PATHS[client], request(client, offered, CLASSES[number % len(CLASSES)]))
        reply = connection.getresponse()
        body = reply.read()
        if reply.status != 200:
            raise Refused(f"{client}'s request", reply.status, body)
        found.append(Reply(client, offered, body))
    return found


def holds(client: str, offered: Sequence[str], said: Understood) -> bool:
    """Whether a client got a score within bounds, or a yes or no, for all that it offered, and nothing else."""
    if client.startswith("filter"):
        return not said.failed and said.passed is not None and _parted(offered, said.passed)
    if client == "kube":
        hosts = said.hosts or []
        return not said.failed and [host for host, _ in hosts] == list(offered) and _within(dict(hosts), 10)
    scores = said.scores or {}
    return not said.failed and scores.keys() == {name for name in offered if name} and _within(scores, 100)


def _parted(offered: Sequence[str], said: Passed) -> bool:
    """Whether every node passes or has a reason, none both, and not all are refused."""
    left = [name for name in offered if name not in said.refused]
    somewhere = bool(left) or not offered
    return list(said.nodes) == left and set(said.refused) <= set(offered) and not said.unresolvable and somewhere


def _within(scores: Mapping[str, float], highest: float) -> bool:
    return all(0 <= score <= highest for score in scores.values())


def twin_agrees(reply: Reply, said: Understood) -> bool:
    """Whether the twin makes of a body what the client made of it; an empty score of Volcano's counts as none."""
    try:
        expected = TWINS[reply.client](reply.body, reply.offered)
    except NotDecoded:
        return said.failed
    heard = {"kube": list(said.hosts or []), "volcano": dict(said.scores or {})}.get(reply.client, said.passed)
    return not said.failed and expected == heard
