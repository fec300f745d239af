"""Doctor of replies: what kube-scheduler would read in one, and what it would lose in silence."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cohabit.doctor.finding import Finding, ok, problem, warning

HIGHEST = 10
KEYS = {"Host", "Score"}
VERSION, AGE = "cohabit-version", "cohabit-age-ms"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer over HTTP; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    took_ms: float


class Unreadable(ValueError):
    """kube-scheduler would drop this reply; the message says why."""


def scores_in(reply: Reply, offered: Sequence[str]) -> list[int]:
    """The scores of a reply, read as strictly as Go's encoding/json reads a HostPriorityList, and more.

    Raises:
        Unreadable: it is not one integer of 0 to 10 for each offered node, in their order.
    """
    if reply.status != 200:
        raise Unreadable(f"status {reply.status}: {reply.body[:200].decode(errors='replace')}")
    try:
        entries = json.loads(reply.body)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"no JSON ({error})") from error
    if not isinstance(entries, list) or not all(isinstance(e, dict) and e.keys() == KEYS for e in entries):
        raise Unreadable(f"not a list of {{Host, Score}}: {reply.body[:200].decode(errors='replace')}")
    hosts, scores = [e["Host"] for e in entries], [e["Score"] for e in entries]
    if bad := [score for score in scores if type(score) is not int or not 0 <= score <= HIGHEST]:
        raise Unreadable(f"score {bad[0]!r} is no integer of 0 to {HIGHEST}")
    if hosts != list(offered):
        raise Unreadable(f"{len(hosts)} hosts that are not the {len(offered)} offered ones in their order")
    return scores


def reply_findings(reply: Reply, offered: Sequence[str]) -> Iterator[Finding]:
    """Whether a reply can be read, and what it says of itself."""
    try:
        scores = scores_in(reply, offered)
    except Unreadable as error:
        yield problem(
            "answer", f"{error}; kube-scheduler drops such a reply in silence: is this the advisor's listener?"
        )
        return
    yield ok("answer", f"200, one integer of 0 to {HIGHEST} for each of {len(scores)} nodes, in their order")
    kind = reply.headers.get("content-type", "")
    yield (ok if kind.startswith("application/json") else warning)(
        "content type", kind or "none, application/json is meant"
    )


def header_findings(reply: Reply, max_age_s: float) -> Iterator[Finding]:
    """How old the snapshot behind a reply is."""
    version, age = reply.headers.get(VERSION, ""), reply.headers.get(AGE, "")
    if not (version.isdecimal() and age.isdecimal()):
        yield problem(
            "snapshot", f"the answer has no {VERSION} and {AGE}: nothing is loaded; is `cohabit refresh` running?"
        )
        return
    age_s = int(age) / 1000
    said = f"version {version}, {age_s:,.1f} s old (limit {max_age_s:,.0f} s, COHABIT_ADVISOR__MAX_FEATURE_AGE_S)"
    if age_s > max_age_s / 2:
        yield warning("snapshot", f"{said}: look at `cohabit refresh` and at the lag of its topics")
    else:
        yield ok("snapshot", said)


def spread_finding(scores: Sequence[int]) -> Finding:
    """Whether the scores differ between nodes."""
    if len(scores) < 2:
        return warning("spread", "one node was offered, so scores cannot differ: name more with --nodes")
    if any(score != scores[0] for score in scores):
        return ok("spread", f"scores from {min(scores)} to {max(scores)}, {len(set(scores))} different ones")
    if scores[0] == 0:
        return problem(
            "spread", "every node got 0: the answer is neutral, or no node is fit; see `readiness` and `source`"
        )
    return warning(
        "spread", f"every node got {scores[0]}: this pod has no say; try --app with one that the model knows"
    )


def latency_finding(took_ms: Sequence[float], timeout_ms: float, nodes: int) -> Finding:
    """Whether a scheduler would have waited for the answers.

    Args:
        took_ms: of each request, infinite where none came.
        timeout_ms: the scheduler's.
        nodes: how many were offered.
    """
    p50, p99 = np.quantile(np.array(took_ms), [0.5, 0.99], method="inverted_cdf").tolist()
    said = (
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms of {len(took_ms)} requests with {nodes} nodes, timeout {timeout_ms:g} ms"
    )
    if not math.isfinite(p99) or p99 > timeout_ms:
        return problem(
            "latency", f"{said}: late answers are lost in silence; give the advisor a core, or raise httpTimeout"
        )
    if p99 > timeout_ms / 2:
        return warning("latency", f"{said}: close to it; look at the machine's load")
    return ok("latency", said)


def unknown_node_finding(reply: Reply, offered: Sequence[str]) -> Finding:
    """What a node that the advisor does not know gets, the last of the offered ones."""
    try:
        *known, unknown = scores_in(reply, offered)
    except Unreadable as error:
        return problem("unknown node", f"{error}; a new node must not cost the others their scores")
    if not known or min(known) <= unknown <= max(known):
        return ok("unknown node", f"gets {unknown}, neither better nor worse than the known ones")
    return problem(
        "unknown node", f"gets {unknown}, and known ones {min(known)} to {max(known)}: it is favoured or shunned"
    )


def unknown_app_finding(reply: Reply, offered: Sequence[str]) -> Finding:
    """What a pod of an app that never ran gets."""
    try:
        scores = scores_in(reply, offered)
    except Unreadable as error:
        return problem("unknown app", f"{error}; an app's first pod must get an answer too")
    return ok("unknown app", f"an app that never ran gets {min(scores)} to {max(scores)}")
