"""Kubernetes API: what a server would say to evictions, asked by a server-side dry run. An edge.

Nothing is evicted, and no budget is used up: each answer counts alone, and two pods under one budget may both be
answered that they would go while only one of them could.
"""

import http.client
import json
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from time import monotonic
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from advisor.plans.export import Eviction
from cohabit.config.errors import CohabitError

CONNECT_S = 5.0
ANSWER_S = 20.0
"""A server tries for ten seconds where a pod was replaced."""
LIMIT_S = 120.0
"""For all steps together."""
MAX_BYTES = 64 << 10
DRY_RUN = "?dryRun=All"
"""In the address too, because admission checks look there."""
PATH = re.compile(r"/api/v1/namespaces/[a-z0-9-]+/pods/[a-z0-9.-]+/eviction")
BUDGET_CAUSE = "DisruptionBudget"

Verdict = Literal["would_be_evicted", "blocked_by_budget", "replaced", "not_found", "forbidden", "failed", "unanswered"]
BY_STATUS: Mapping[int, Verdict] = {
    HTTPStatus.CONFLICT: "replaced",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.UNAUTHORIZED: "forbidden",
}


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Where an API server is, and how it is asked.

    Args:
        url: https://host:port, and a path where it has one; http on loopback alone.
        token_file: with a bearer token; None asks without.
        ca_file: PEM of who signed the server's certificate; None takes the system's authorities.
    """

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server would say to a step.

    Args:
        step: of the proposal.
        verdict: `replaced` is a pod of the same name that is another one, `failed` any other answer, and `unanswered`
            none: the server is away, or too busy, or the time was up.
        said: its message; empty where the pod would be evicted.
    """

    step: int
    verdict: Verdict
    said: str = ""


def dry_run(server: ApiServer, steps: Sequence[Eviction], *, limit_s: float = LIMIT_S) -> list[Answer]:
    """What the server would say to each eviction by itself; once it does not answer, the rest is not asked.

    Args:
        server: which.
        steps: as they were exported.
        limit_s: seconds for all of them.

    Raises:
        CohabitError: its address is none to trust with a token, or a file cannot be used.
    """
    parts, headers = _checked(server.url), _headers(server.token_file)
    deadline, answers = monotonic() + limit_s, list[Answer]()
    with closing(_connection(parts, server)) as connection:
        for step in steps:
            if answers and answers[-1].verdict == "unanswered":
                answers.append(Answer(step.step, "unanswered", answers[-1].said))
            elif monotonic() > deadline:
                answers.append(Answer(step.step, "unanswered", f"the {limit_s:.0f} s for all steps were over"))
            else:
                answers.append(_asked(connection, parts.path.rstrip("/"), headers, step))
    return answers


def _asked(connection: http.client.HTTPConnection, prefix: str, headers: Mapping[str, str], step: Eviction) -> Answer:
    if not PATH.fullmatch(step.path):
        return Answer(step.step, "failed", "its path is not that of an eviction")
    try:
        connection.request("POST", prefix + step.path + DRY_RUN, _body(step), dict(headers))
        if connection.sock is not None:
            connection.sock.settimeout(ANSWER_S)
        reply = connection.getresponse()
        content = b"".join(_pieces(reply))
        reply.close()  # `read1` does not, at the end of a body of known length
    except (OSError, http.client.HTTPException) as error:
        return Answer(step.step, "unanswered", str(error) or repr(error))
    if len(content) > MAX_BYTES:
        connection.close()  # the next step begins anew
        return Answer(step.step, "failed", f"an answer of more than {MAX_BYTES:,} bytes")
    return _answer(step.step, reply.status, content)


def _pieces(reply: http.client.HTTPResponse) -> Iterator[bytes]:
    """A body, up to one byte more than is taken.

    Raises:
        TimeoutError: it takes too long altogether.
    """
    deadline, left = monotonic() + ANSWER_S, MAX_BYTES + 1
    while left and (piece := reply.read1(left)):
        yield piece
        left -= len(piece)
        if monotonic() > deadline:
            raise TimeoutError("the answer took too long")


def _body(step: Eviction) -> bytes:
    options = step.body["deleteOptions"]
    given = options if isinstance(options, Mapping) else {}
    return json.dumps({**step.body, "deleteOptions": {**given, "dryRun": ["All"]}}).encode()


def _answer(step: int, status: int, content: bytes) -> Answer:
    if status in {HTTPStatus.OK, HTTPStatus.CREATED}:
        return Answer(step, "would_be_evicted")
    said, causes = _read_review(content)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Answer(step, "blocked_by_budget" if BUDGET_CAUSE in causes else "unanswered", said)
    return Answer(step, BY_STATUS.get(status, "failed"), said or f"status {status}")


def _read_review(content: bytes) -> tuple[str, frozenset[str]]:
    """Message and causes of a Status; what is none has no causes."""
    try:
        status = json.loads(content)
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        return content[:200].decode(errors="replace"), frozenset()
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    listed = causes if isinstance(causes, list) else []
    named = frozenset(str(cause.get("reason")) for cause in listed if isinstance(cause, dict))
    return str(status.get("message", ""))[:500], named


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _unusable_api_server("its address", str(error)) from error
    if not host or parts.username or parts.password or parts.query or parts.fragment:
        raise _unusable_api_server("its address", "give scheme, host, port and path, and nothing else")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)):
        raise _unusable_api_server(url, "a token travels by https alone, and by http on loopback")
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _headers(token_file: Path | None) -> Mapping[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token_file is None:
        return headers
    try:
        token = token_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable_api_server(str(token_file), str(error)) from error
    if not re.fullmatch(r"[!-~]+", token):
        raise _unusable_api_server(str(token_file), "it holds no token")
    return headers | {"Authorization": f"Bearer {token}"}


def _connection(parts: SplitResult, server: ApiServer) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=CONNECT_S)
    try:
        context = ssl.create_default_context(cafile=None if server.ca_file is None else str(server.ca_file))
    except OSError as error:  # of ssl too
        raise _unusable_api_server(str(server.ca_file), str(error)) from error
    return http.client.HTTPSConnection(host, parts.port, timeout=CONNECT_S, context=context)


def _unusable_api_server(what: str, why: str) -> CohabitError:
    return CohabitError(f"cannot query the Kubernetes API: {what[:200]!r}: {why}")
