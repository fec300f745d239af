"""The gate: every route asks for one of its roles, and what it refuses says little, is counted and written down."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from secrets import token_bytes

import anyio
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from httpx2 import Response
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, event
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import WebSocketDenialResponse
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from advisor.api.app import create_app, guarded
from advisor.api.http.application import assembled
from advisor.api.http.auth_middleware import SAID, Guard
from advisor.api.http.roles import Role, allowed, roles_of
from advisor.auth.api_tokens import ROLES, Shown, TokenRole, new_token
from advisor.auth.audit_log import Entry, entries
from advisor.auth.authenticator import MAX_REMEMBERED, REMEMBERED_US, SILENCE_US, Access, Remembered
from advisor.auth.denials import MINUTE_US, WRITTEN_A_MINUTE, Refusals
from advisor.auth.rate_limit import Rates
from advisor.auth.token_store import UNKNOWN, Doer, Verdict, all_tokens, create_token, revoke_token
from advisor.database.engine import open_store
from advisor.diagnosis.report_file import write_report
from advisor.errors import StoreUnavailable
from advisor.placement.model_state import Serving
from advisor.remediation.options_file import keep_ladders
from advisor.remediation.ranked_options import Ladder
from models.registry.registry import Registry
from tests.advisor.diagnoses import FOUND, diagnosis
from tests.advisor.processes import Process

DAY_US = 86_400 * 10**6
NOWHERE = Path("nowhere")
ROUTES = roles_of(create_app(Serving(NOWHERE, Registry(NOWHERE), 1.0, lambda: 0, CollectorRegistry())))
"""Of the real application: a route that is added is in the table of tests by itself."""


@dataclass
class Guarded:
    """An application behind the gate, and a clock to turn."""

    store: Engine
    now_us: int = 10**15
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)
    tokens: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = count()
        refusals = Refusals(self.store, lambda: self.now_us, self.metrics, lambda: f"r{next(numbers)}")
        rates = Rates(1.0, 10**6)  # this clock stands still; rates have tests of their own
        self.guard = Guard(Access(self.store, lambda: self.now_us), refusals, rates)

    def token(self, role: TokenRole) -> str:
        """One of that role, good for a day."""
        if role not in self.tokens:
            doer = Doer("local:me", self.now_us, "made")
            team = "shop" if role == "team" else None
            more = {"expires_us": self.now_us + DAY_US, "doer": doer, "random_bytes": token_bytes, "team": team}
            self.tokens[role] = create_token(self.store, role, role, **more)  # type: ignore[arg-type]
        return self.tokens[role]

    def revoke(self, name: str) -> None:
        revoke_token(self.store, name, Doer("local:me", self.now_us, "gone"))

    def entries(self) -> list[Entry]:
        return list(entries(self.store))

    def refused(self) -> list[Entry]:
        return [entry for entry in self.entries() if entry.action == "request"]


@pytest.fixture
def guarding(store_address: str) -> Iterator[Guarded]:
    with open_store(store_address) as store:
        yield Guarded(store)


@pytest.fixture
def client(guarding: Guarded, process: Process) -> TestClient:
    app = create_app(process.made_ready().serving, guarding.guard)
    write_report(process.snapshots, replace(FOUND, cluster="of no snapshot", diagnoses=(diagnosis("container"),)))
    keep_ladders(process.snapshots, "c", FOUND.at_us, (Ladder("container", (), "nothing is known that would help"),))
    return TestClient(app, client=("192.0.2.7", 50_000))


def ask(client: TestClient, name: str, token: str | None = None) -> Response:
    """Send a request to a route by its name, as in "GET /healthz"."""
    method, path = name.split()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return client.request(method, path.replace("{", "").replace("}", ""), headers=headers)


SCORES = "POST /v1/scores"


def is_let_in(reply: Response) -> bool:
    return "x-request-id" not in reply.headers and reply.status_code not in {401, 403, 404, 405}


@pytest.mark.parametrize("name", ROUTES)
def test_each_route_lets_in_its_roles_and_admin_and_nobody_else(
    client: TestClient, guarding: Guarded, name: str
) -> None:
    for role in (None, *ROLES):
        before = guarding.refused()
        reply = ask(client, name, role and guarding.token(role))

        refused = [entry.subject for entry in guarding.refused()[len(before) :]]
        if "anyone" in ROUTES[name] or (role and (role == "admin" or role in ROUTES[name])):
            assert is_let_in(reply), role
            assert not refused
        else:
            assert (reply.status_code, reply.json()) == (403 if role else 401, {"error": SAID[reply.status_code]}), role
            assert refused == [name]


def test_without_a_guard_everybody_is_let_in(process: Process) -> None:
    assert is_let_in(ask(TestClient(create_app(process.made_ready().serving)), SCORES))


def altered(token: str) -> str:
    return token[:-1] + ("0" if token[-1] != "0" else "1")


def test_wrong_old_and_revoked_tokens_are_answered_alike_and_told_apart_in_the_audit(
    client: TestClient, guarding: Guarded
) -> None:
    good, revoked = guarding.token("sre"), guarding.token("admin")
    guarding.revoke("admin")
    replies = [ask(client, SCORES, told) for told in (altered(good), new_token(token_bytes)[0], "x", revoked)]
    guarding.now_us += DAY_US
    replies.append(ask(client, SCORES, good))

    assert {(reply.status_code, reply.text) for reply in replies} == {(401, replies[0].text)}
    assert all(reply.headers["www-authenticate"].startswith("Bearer") for reply in replies)
    assert [(entry.who, entry.role, entry.outcome) for entry in guarding.refused()] == [
        ("from 192.0.2.7", "", "401 unknown token"),
        ("from 192.0.2.7", "", "401 unknown token"),
        ("from 192.0.2.7", "", "401 no token"),
        ("admin", "admin", "401 revoked token"),
        ("sre", "sre", "401 expired token"),
    ]


@pytest.mark.parametrize(
    "headers",
    [
        [("Authorization", "Basic {}")],
        [("Authorization", "{}")],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer {} {}")],
        [("Authorization", "Bearer {}"), ("Authorization", "Bearer {}")],
        [("Cookie", "token={}")],
        [("Authorization", "Bearer \xff")],
    ],
)
def test_a_token_counts_in_one_place_alone(
    client: TestClient, guarding: Guarded, headers: list[tuple[str, str]]
) -> None:
    token = guarding.token("sre")
    told = [(name.encode(), value.replace("{}", token).encode("latin-1")) for name, value in headers]

    assert client.post(f"/v1/scores?token={token}", headers=told).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_may_be_spelled_anyhow(client: TestClient, guarding: Guarded, scheme: str) -> None:
    assert is_let_in(client.post("/v1/scores", headers={"Authorization": f"{scheme} {guarding.token('sre')}"}))


def test_a_refusal_repeats_nothing_of_the_request_and_writes_none_of_it_down(
    client: TestClient, guarding: Guarded
) -> None:
    token = guarding.token("finance")
    replies = [
        client.post("/v1/scores?marker-a", content=b"marker-b", headers={"Authorization": f"Bearer {token}"}),
        client.post("/v1/scores", headers={"Authorization": "Bearer marker-c"}),
        client.request("MARKER-D", "/marker-e%0a%1b", headers={"X-Request-Id": "marker-f"}),
    ]

    written = "".join(map(repr, guarding.refused()))
    assert [reply.status_code for reply in replies] == [403, 401, 401]
    for told in [written, *(f"{reply.text} {reply.headers}" for reply in replies)]:
        assert "marker" not in told.lower()
        assert token.split("_")[2] not in told
    assert [entry.request_id for entry in guarding.refused()] == [reply.headers["x-request-id"] for reply in replies]


def test_what_is_no_address_is_not_written_down(guarding: Guarded, process: Process) -> None:
    ask(TestClient(create_app(process.serving, guarding.guard), client=("marker", 1)), SCORES)

    assert [entry.who for entry in guarding.refused()] == ["from somewhere"]


def test_the_body_of_a_request_that_is_refused_is_not_read(guarding: Guarded, process: Process) -> None:
    app = create_app(process.serving, guarding.guard)
    sent: list[Message] = []

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {"type": "http", "method": "POST", "path": "/v1/scores", "headers": [], "client": None}
    anyio.run(app, scope, receive, send)

    assert sent[0]["status"] == 401


def test_outsiders_do_not_learn_which_routes_there_are(client: TestClient, guarding: Guarded) -> None:
    strange = ("GET /v1/scores", "GET /nothing", "POST /healthz", "GET /healthz/", "GET //healthz", "GET /HEALTHZ")

    outside = [ask(client, name) for name in strange]
    inside = [ask(client, name, guarding.token("team")) for name in strange]

    assert {reply.status_code for reply in outside} == {401}
    assert [reply.status_code for reply in inside] == [405, 404, 405, 404, 404, 404]
    assert inside[0].headers["allow"] == "POST"
    assert {entry.subject for entry in guarding.refused()} == {"no route"}


def strange_app(guarding: Guarded) -> FastAPI:
    """Routes of every kind that an application may have."""
    inner, outer = APIRouter(), APIRouter(prefix="/outer")

    @inner.get("/{thing}")
    @allowed("sre")
    def nested(thing: str) -> str:
        return thing

    @outer.get("/special")
    @allowed("finance")
    def special() -> str:
        return ""

    @outer.get("/files/{path:path}")
    @allowed("planner")
    def files(path: str) -> str:
        return path

    @outer.get("/files/open")
    @allowed("anyone")
    def shadowed() -> str:
        return ""

    class Raw:
        roles: tuple[Role, ...] = ("team",)

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await PlainTextResponse("raw")(scope, receive, send)

    outer.include_router(inner)
    outer.routes.append(Route("/raw", Raw(), methods=["GET"]))
    return guarded(assembled("strange", [outer], max_body_bytes=1), guarding.guard)


@pytest.mark.parametrize(
    ("path", "roles"),
    [
        ("/outer/web", {"sre"}),
        ("/outer/special", set()),  # two routes match: whoever asks must be let in by both, which admin alone is
        ("/outer/files/a/b", {"planner"}),
        ("/outer/files/open", {"planner"}),  # the one that is open does not open the other
        ("/raw", {"team"}),
    ],
)
def test_routes_of_every_kind_are_guarded(guarding: Guarded, path: str, roles: set[str]) -> None:
    client = TestClient(strange_app(guarding))

    let_in = {role for role in ROLES if is_let_in(ask(client, f"GET {path}", guarding.token(role)))}

    assert let_in == roles | {"admin"}
    assert ask(client, f"GET {path}").status_code == 401


def test_a_websocket_is_closed_before_the_application_hears_of_it(client: TestClient) -> None:
    with pytest.raises((WebSocketDisconnect, WebSocketDenialResponse)), client.websocket_connect("/healthz"):
        pass


@contextmanager
def statements(store: Engine) -> Iterator[list[str]]:
    """What the store is asked meanwhile."""
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement.split(maxsplit=1)[0])

    event.listen(store, "before_cursor_execute", note)
    yield asked
    event.remove(store, "before_cursor_execute", note)


def test_the_store_is_asked_once_in_five_seconds(client: TestClient, guarding: Guarded) -> None:
    token = guarding.token("sre")
    ask(client, SCORES, token)

    with statements(guarding.store) as asked:
        for _ in range(50):
            assert is_let_in(ask(client, SCORES, token))
        assert asked == []
        guarding.now_us += REMEMBERED_US
        ask(client, SCORES, token)
        assert asked.count("SELECT") == 1


def test_a_token_that_is_taken_back_opens_nothing_after_five_seconds(client: TestClient, guarding: Guarded) -> None:
    token = guarding.token("sre")
    ask(client, SCORES, token)
    guarding.revoke("sre")

    guarding.now_us += REMEMBERED_US - 1
    assert is_let_in(ask(client, SCORES, token))
    guarding.now_us += 1
    assert ask(client, SCORES, token).status_code == 401


def test_a_token_expires_to_the_moment_also_while_it_is_remembered(client: TestClient, guarding: Guarded) -> None:
    token = guarding.token("sre")
    guarding.now_us += DAY_US - 1
    assert is_let_in(ask(client, SCORES, token))

    guarding.now_us += 1

    assert ask(client, SCORES, token).status_code == 401


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first() -> None:
    remembered = Remembered[Shown, Verdict]()
    for i in range(MAX_REMEMBERED + 10):
        remembered.put(Shown(f"{i:012x}", b""), UNKNOWN, i)

    assert len(remembered.kept) == MAX_REMEMBERED
    assert remembered.get(Shown(f"{9:012x}", b""), 100) is None
    assert remembered.get(Shown(f"{10:012x}", b""), 100) == UNKNOWN
    assert remembered.get(Shown(f"{10:012x}", b""), 9) is None


def test_use_is_written_down(client: TestClient, guarding: Guarded) -> None:
    ask(client, SCORES, guarding.token("sre"))

    assert all_tokens(guarding.store)[0].last_used_us == guarding.now_us


def test_all_refusals_are_counted_and_a_minute_has_so_many_rows(client: TestClient, guarding: Guarded) -> None:
    for _ in range(WRITTEN_A_MINUTE + 7):
        ask(client, SCORES)
    ask(client, SCORES, guarding.token("finance"))  # known callers are not crowded out
    rows = guarding.refused()
    guarding.now_us += MINUTE_US
    ask(client, SCORES)

    assert len(rows) == WRITTEN_A_MINUTE + 2
    assert [row.outcome for row in rows[-2:]] == ["7 earlier refusals have no row of their own", "403 another role"]
    assert [row.outcome for row in guarding.refused()[len(rows) :]] == ["401 no token"]
    counted = {
        s: guarding.metrics.get_sample_value("cohabit_requests_rejected_total", {"status": s}) for s in ("401", "403")
    }
    assert counted == {"401": WRITTEN_A_MINUTE + 8, "403": 1}


@contextmanager
def silent(store: Engine) -> Iterator[list[str]]:
    """The store does not answer meanwhile; how often it was asked."""
    asked: list[str] = []

    def fail(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)
        raise StoreUnavailable("store", "test")

    event.listen(store, "before_cursor_execute", fail)
    yield asked
    event.remove(store, "before_cursor_execute", fail)


def test_while_the_store_is_silent_nobody_new_is_let_in_and_it_is_not_pestered(
    client: TestClient, guarding: Guarded
) -> None:
    known, other = guarding.token("sre"), guarding.token("admin")
    ask(client, SCORES, known)
    with silent(guarding.store) as asked:
        replies = [ask(client, SCORES, other) for _ in range(3)]
        assert len(asked) == 1
        assert is_let_in(ask(client, SCORES, known))
        assert is_let_in(ask(client, "GET /healthz"))
        assert ask(client, SCORES).status_code == 401
    guarding.now_us += SILENCE_US
    afterwards = ask(client, SCORES, other)
    ask(client, SCORES)

    assert {(reply.status_code, reply.headers["retry-after"]) for reply in replies} == {(503, "5")}
    assert replies[0].json() == {"error": SAID[503]}
    assert is_let_in(afterwards)
    assert [row.outcome for row in guarding.refused()] == [
        "4 earlier refusals have no row of their own",
        "401 no token",
    ]
