"""Dry runs of evictions: every answer of a server is told for its step, and nothing is asked that evicts."""

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import trustme

from advisor.plans.export import ApprovedMove, Eviction, evictions
from cohabit.config.errors import CohabitError
from cohabit.plans import dry_run as kube_api
from cohabit.plans.dry_run import MAX_BYTES, Answer, ApiServer, dry_run

MOVE = ApprovedMove(1, 1, "u-1", "shop", "web-1", "web", "n1", "n2", "p7")
BUDGET = {"message": "Cannot evict", "details": {"causes": [{"reason": "DisruptionBudget"}]}}


def steps(count: int = 1) -> list[Eviction]:
    moves = [replace(MOVE, step=i, name=f"web-{i}", container=f"u-{i}") for i in range(1, count + 1)]
    return evictions(moves, "prod", 9)[0]


@dataclass
class Server:
    """An API server that answers every eviction alike, and what it was asked."""

    status: int
    content: bytes
    url: str = ""
    asked: list[tuple[str, Mapping[str, str], dict[str, object]]] = field(default_factory=list)


@contextmanager
def serving(status: int, told: object, certificate: trustme.LeafCert | None = None) -> Iterator[Server]:
    server = Server(status, told if isinstance(told, bytes) else json.dumps(told).encode())

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.asked.append((self.path, dict(self.headers), body))
            self.send_response(server.status)
            self.send_header("Content-Length", str(len(server.content)))
            self.end_headers()
            self.wfile.write(server.content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as listening:
        listening.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate.configure_cert(context)
            listening.socket = context.wrap_socket(listening.socket, server_side=True)
        server.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{listening.server_port}"
        Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        listening.shutdown()


ANSWERS = [
    (201, {"status": "Success"}, "would_be_evicted"),
    (200, {}, "would_be_evicted"),
    (429, BUDGET, "blocked_by_budget"),
    (429, {"message": "too many requests"}, "unanswered"),
    (409, {"message": "the UID in the precondition"}, "replaced"),
    (404, {"message": "not found"}, "not_found"),
    (403, {"message": "cannot create pods/eviction"}, "forbidden"),
    (401, {"message": "Unauthorized"}, "forbidden"),
    (500, {"message": "more than one PodDisruptionBudget"}, "failed"),
    (302, b"elsewhere", "failed"),
    (500, b"\xff not JSON", "failed"),
    (429, [1], "unanswered"),
    (429, {"details": {"causes": "DisruptionBudget"}}, "unanswered"),
]


@pytest.mark.parametrize(("status", "told", "verdict"), ANSWERS)
def test_each_answer_is_told_for_its_step(status: int, told: object, verdict: str) -> None:
    with serving(status, told) as server:
        [answer] = dry_run(ApiServer(server.url), steps())

    assert (answer.step, answer.verdict) == (1, verdict)


@pytest.mark.parametrize("status", [201, 404])
def test_many_steps_are_asked_one_after_the_other(status: int) -> None:
    with serving(status, {"message": "so"}) as server:
        answers = dry_run(ApiServer(server.url), steps(4))

    assert [answer.step for answer in answers] == [1, 2, 3, 4]
    assert len({answer.verdict for answer in answers} | {"unanswered"}) == 2
    assert [path.split("/")[6] for path, _, _ in server.asked] == ["web-1", "web-2", "web-3", "web-4"]


def test_what_is_asked_is_a_dry_run_of_that_pod_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cr3t\n")
    with serving(201, {}) as server:
        dry_run(ApiServer(server.url + "/k8s/", tmp_path / "token"), steps())

    [(path, headers, body)] = server.asked
    assert path == "/k8s/api/v1/namespaces/shop/pods/web-1/eviction?dryRun=All"
    assert headers["Authorization"] == "Bearer s3cr3t"
    assert body["deleteOptions"] == {"preconditions": {"uid": "u-1"}, "dryRun": ["All"]}


def test_the_exported_step_itself_stays_one_that_evicts() -> None:
    [step] = steps()
    with serving(201, {}) as server:
        dry_run(ApiServer(server.url), [step])

    assert "dryRun" not in json.dumps(step.body)


def test_a_path_that_is_none_of_an_eviction_is_not_asked() -> None:
    with serving(201, {}) as server:
        [answer] = dry_run(ApiServer(server.url), [replace(steps()[0], path="/api/v1/namespaces/shop/pods/web-1")])

    assert (answer.verdict, server.asked) == ("failed", [])


def test_once_a_server_does_not_answer_the_rest_is_not_asked() -> None:
    with serving(201, {}) as server:
        pass

    answers = dry_run(ApiServer(server.url), steps(3))

    assert [answer.verdict for answer in answers] == ["unanswered"] * 3
    assert "refused" in answers[0].said


def test_a_server_that_takes_too_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(201, {}) as server:
        answers = dry_run(ApiServer(server.url), steps(3), limit_s=-1)

    assert [answer.verdict for answer in answers] == ["unanswered"] * 3
    assert server.asked == []


def test_an_answer_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(500, b"x" * (MAX_BYTES + 1)) as server:
        answers = dry_run(ApiServer(server.url), steps(2))

    assert [answer.verdict for answer in answers] == ["failed", "failed"]


def test_a_server_is_known_by_its_certificate(tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    for name, ca in (("ours.pem", authority), ("other.pem", stranger)):
        ca.cert_pem.write_to_path(str(tmp_path / name))
    with serving(201, {}, authority.issue_cert("127.0.0.1")) as server:
        [trusted] = dry_run(ApiServer(server.url, ca_file=tmp_path / "ours.pem"), steps())
        [refused] = dry_run(ApiServer(server.url, ca_file=tmp_path / "other.pem"), steps())

    assert trusted == Answer(1, "would_be_evicted")
    assert (refused.verdict, "certificate" in refused.said.lower()) == ("unanswered", True)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example:6443",
        "http://10.0.0.1",
        "ftp://127.0.0.1",
        "https://me:secret@api.example",
        "https://",
        "https://api.example?x=1",
        "https://api.example:port",
        "api.example",
        "https://[::1",
    ],
)
def test_no_token_goes_to_an_address_that_is_none_to_trust(url: str) -> None:
    with pytest.raises(CohabitError, match="cannot query") as raised:
        dry_run(ApiServer(url), steps())

    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"two words", b"a\nHost: x", b"\xff\xfe"])
def test_a_file_without_a_token_is_refused_and_not_repeated(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)

    with pytest.raises(CohabitError, match="token") as raised:
        dry_run(ApiServer("http://127.0.0.1:1", tmp_path / "token"), steps())

    assert "two words" not in str(raised.value)


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    for server in (
        ApiServer("https://127.0.0.1:1", token_file=tmp_path / "gone"),
        ApiServer("https://127.0.0.1:1", ca_file=tmp_path / "gone"),
    ):
        with pytest.raises(CohabitError, match="gone"):
            dry_run(server, steps())


def test_a_server_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_api, "ANSWER_S", 0.2)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as silent:  # listens, and nobody accepts
        [answer] = dry_run(ApiServer(f"http://127.0.0.1:{silent.server_port}"), steps())

    assert (answer.verdict, "timed out" in answer.said) == ("unanswered", True)
