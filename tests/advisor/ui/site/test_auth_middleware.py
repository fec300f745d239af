"""The gate of the pages: who sees what, and from where a form must come."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from prometheus_client import CollectorRegistry

from advisor.api.app import create_app
from advisor.api.http.auth_middleware import ANYONE
from advisor.api.http.roles import roles_of
from advisor.auth.api_tokens import ROLES, TokenRole
from advisor.auth.authenticator import REMEMBERED_US
from advisor.auth.session_store import SESSION_US
from advisor.billing.pricing.price_book_toml import EXAMPLE
from advisor.database.engine import SESSIONS, open_store, reading
from advisor.diagnosis.report_file import write_report
from advisor.placement.model_state import Serving
from advisor.ui.app import PageRouter, create_pages
from advisor.ui.site.auth_middleware import SESSION_COOKIE
from advisor.ui.site.identity import OpenEntrance
from advisor.ui.site.login import HOME, local
from advisor.ui.site.sessions import LOGINS_AT_ONCE
from models.registry.registry import Registry
from tests.advisor.api.http.test_auth_middleware import DAY_US, Guarded, silent
from tests.advisor.billing.months_drawn import ANN, PERIOD, batch, draft
from tests.advisor.diagnoses import AT_US, diagnosis, told
from tests.advisor.processes import Process
from tests.advisor.ui.visiting import BASE, House, csrf_in, guarded_house, log_in, open_house

NOWHERE = Path("nowhere")
PAGES = roles_of(
    create_pages(
        Serving(NOWHERE, Registry(NOWHERE), 1.0, lambda: 0, CollectorRegistry()), OpenEntrance("x", lambda: 0, str)
    )
)
"""Of the real application: a page that is added is in the table of tests by itself."""


@pytest.fixture
def guarding(postgres_address: str) -> Iterator[Guarded]:
    """On the database that takes less: SQLite has tests of the store itself."""
    with open_store(postgres_address) as store:
        yield Guarded(store)


@pytest.fixture
def house(process: Process, guarding: Guarded) -> House:
    return guarded_house(process, guarding)


FILLED_IN = {"version": "1", "which": "all", "reason": "not today", "form": "plain", "text": EXAMPLE} | {
    "kind": "running",
    "container": "web-1",
}
"""What any form of a decision says."""


def ask(visitor: TestClient, name: str) -> Response:
    """Send a request to a page by its name, as in "GET /ui/cluster", with what its forms bring back."""
    method, path = name.split()
    path = path.replace("{node}", "node-00000").replace("{container}", "web-1").replace("{digest}/{name:path}", "0/x")
    path = path.replace("{plan}/export", "p2/export").replace("{plan}", "p1")
    path = path.replace("{period}", PERIOD).replace("{version}", "2027-01")
    path += "?team=shop&container=web-1" if "/bills/" in path else ""
    csrf = csrf_in(visitor.get("/ui/nowhere-at-all")) if method != "GET" and SESSION_COOKIE in visitor.cookies else ""
    headers = {"X-CSRF-Token": csrf} if csrf else {}
    return visitor.request(method, path, headers=headers, data=FILLED_IN if method == "POST" else None)


@pytest.mark.parametrize("name", [name for name, roles in PAGES.items() if ANYONE not in roles])
def test_each_page_is_seen_by_its_roles_and_admin_and_nobody_else(house: House, guarding: Guarded, name: str) -> None:
    for role in ROLES:
        reply = ask(house.logged_in(role), name)

        if role == "admin" or role in PAGES[name]:
            assert reply.status_code in {200, 303, 409}, (role, reply.text)  # 409: the one before has decided
        else:
            assert reply.status_code == 403, role
            assert reply.headers["content-type"].startswith("text/html")
            assert "Your role has no access" in reply.text
            assert guarding.refused()[-1].subject == name
            assert guarding.refused()[-1].request_id == reply.headers["x-request-id"]


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("GET /ui/") and ANYONE not in PAGES[name]])
def test_who_is_not_logged_in_is_sent_to_log_in_and_back(house: House, name: str) -> None:
    visitor = house.visitor()

    reply = visitor.get(name.split()[1].replace("{", "").replace("}", "") + "?page=2")

    assert reply.status_code == 303
    assert reply.headers["location"].startswith("/ui/login?next=%2Fui")
    assert "page%3D2" in reply.headers["location"]


def test_outsiders_do_not_learn_which_pages_there_are(house: House) -> None:
    assert house.visitor().get("/ui/nothing").headers["location"] == "/ui/login?next=%2Fui%2Fnothing"
    assert house.logged_in("sre").get("/ui/nothing").status_code == 404


def test_a_token_opens_no_page_and_a_session_nothing_but_pages(house: House, guarding: Guarded) -> None:
    pages = create_pages(house.process.serving, house.entrance)
    both = TestClient(
        PageRouter(create_app(house.process.serving, guarding.guard), pages), BASE, follow_redirects=False
    )
    bearer = {"Authorization": f"Bearer {guarding.token('sre')}"}
    assert both.get("/v1/victims", headers=bearer).status_code == 200
    assert both.get("/ui/victims", headers=bearer).status_code == 303

    log_in(both, guarding.token("sre"))
    cookie = {"Cookie": f"{SESSION_COOKIE}={both.cookies[SESSION_COOKIE]}"}

    assert both.get("/ui/victims").status_code == 200
    assert both.get("/v1/victims", headers=cookie).status_code == 401
    assert both.get("/", headers=cookie).headers["location"] == HOME


def test_the_cookie_is_for_pages_alone_and_no_script_reads_it(house: House, guarding: Guarded) -> None:
    visitor = house.visitor()
    csrf = csrf_in(visitor.get("/ui/login"))
    form = {"csrf": csrf, "token": guarding.token("sre")}

    plain = visitor.post("/ui/login", data=form)
    proxied = house.visitor()
    csrf = csrf_in(proxied.get("/ui/login"))
    secure = proxied.post("/ui/login", data={**form, "csrf": csrf}, headers={"Origin": "https://cohabit.example"})

    told = [one for one in plain.headers.get_list("set-cookie") if one.startswith(SESSION_COOKIE)]
    assert len(told) == 1
    assert {"HttpOnly", "SameSite=strict", "Path=/ui", f"Max-Age={SESSION_US // 10**6}"} <= set(told[0].split("; "))
    assert "Secure" not in told[0]
    assert "Secure" in secure.headers["set-cookie"]


def test_the_store_does_not_have_what_the_cookie_says(house: House, guarding: Guarded) -> None:
    cookie = house.logged_in("sre").cookies[SESSION_COOKIE]

    with reading(guarding.store) as connection:
        [row] = connection.execute(SESSIONS.select()).all()

    assert (row.who, row.roles, row.token_prefix) == ("sre", "sre", guarding.token("sre").split("_")[1])
    assert cookie.encode() not in bytes(row.id_sha256)
    assert cookie not in repr(row)


def test_logging_in_and_out_is_in_the_audit_and_so_is_who_could_not(house: House, guarding: Guarded) -> None:
    visitor = house.logged_in("sre")
    out = ask(visitor, "POST /ui/logout")
    wrong = log_in(house.visitor(), "chb_nonsense")
    guarding.revoke("sre")
    revoked = log_in(house.visitor(), guarding.token("sre"))

    assert (out.status_code, out.headers["location"]) == (303, "/ui/login")
    assert visitor.get("/ui/victims").status_code == 303
    assert (wrong.status_code, revoked.status_code) == (401, 401)
    assert "This token is invalid, expired or revoked" in wrong.text
    assert "chb_nonsense" not in wrong.text
    done = [(e.who, e.role, e.action) for e in guarding.entries() if e.action in {"log in", "log out"}]
    assert done == [("sre", "sre", "log in"), ("sre", "sre", "log out")]
    assert [(e.who, e.subject, e.outcome) for e in guarding.refused()] == [
        ("from 192.0.2.7", "POST /ui/login", "401 no token"),
        ("sre", "POST /ui/login", "401 revoked token"),
    ]


def test_a_token_that_is_taken_back_ends_its_sessions(house: House, guarding: Guarded) -> None:
    visitor, other = house.logged_in("sre"), house.logged_in("admin")
    assert visitor.get("/ui/victims").status_code == 200

    guarding.revoke("sre")
    guarding.now_us += REMEMBERED_US

    assert visitor.get("/ui/victims").status_code == 303
    assert other.get("/ui/victims").status_code == 200


def test_a_session_ends_after_a_shift_to_the_moment(house: House, guarding: Guarded) -> None:
    visitor = house.logged_in("sre")
    guarding.now_us += SESSION_US - 1
    assert visitor.get("/ui/victims").status_code == 200

    guarding.now_us += 1

    assert visitor.get("/ui/victims").status_code == 303


def test_a_session_never_lasts_longer_than_its_token(house: House, guarding: Guarded) -> None:
    guarding.token("sre")
    guarding.now_us += DAY_US - 60 * 10**6
    visitor = house.logged_in("sre")
    guarding.now_us += 60 * 10**6 - 1
    assert visitor.get("/ui/victims").status_code == 200

    guarding.now_us += 1

    assert visitor.get("/ui/victims").status_code == 303


def test_sessions_that_ended_are_cleared_away(house: House, guarding: Guarded) -> None:
    house.logged_in("sre")
    guarding.now_us += SESSION_US
    house.logged_in("sre")

    with reading(guarding.store) as connection:
        assert len(connection.execute(SESSIONS.select()).all()) == 1


@pytest.mark.parametrize("role", ["sre", None])
@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({}, ""),
        ({}, "0" * 64),
        ({"Sec-Fetch-Site": "cross-site"}, "right"),
        ({"Sec-Fetch-Site": "same-site"}, "right"),
        ({"Origin": "http://elsewhere.example"}, "right"),
        ({"Origin": "null"}, "right"),
        ({"Content-Type": "text/plain"}, "right"),
    ],
)
def test_a_form_that_is_none_of_ours_changes_nothing(
    house: House, guarding: Guarded, role: TokenRole | None, headers: dict[str, str], said: str
) -> None:
    visitor = house.logged_in(role) if role else house.visitor()
    csrf = csrf_in(visitor.get("/ui/cluster" if role else "/ui/login"))
    form = {"csrf": csrf if said == "right" else said, "token": guarding.token("sre")}

    reply = visitor.post("/ui/logout" if role else "/ui/login", data=form, headers=headers)

    assert reply.status_code == 403
    assert "not from this server" in reply.text
    assert guarding.refused()[-1].outcome == "403 no form of ours"
    assert not role or visitor.get("/ui/victims").status_code == 200
    assert role or SESSION_COOKIE not in visitor.cookies


def test_a_form_of_somebody_else_is_none_of_ours(house: House) -> None:
    one, other = house.logged_in("sre"), house.logged_in("admin")

    assert one.post("/ui/logout", data={"csrf": csrf_in(other.get("/ui/cluster"))}).status_code == 403


def test_who_was_logged_out_meanwhile_is_told_so_when_a_form_comes(house: House, guarding: Guarded) -> None:
    visitor = house.logged_in("sre")
    csrf = csrf_in(visitor.get("/ui/cluster"))
    guarding.now_us += SESSION_US

    reply = visitor.post("/ui/logout", data={"csrf": csrf})

    assert reply.status_code == 401
    assert "Your session has ended" in reply.text


def test_a_form_that_is_too_long_is_not_read(house: House) -> None:
    reply = house.logged_in("sre").post("/ui/logout", data={"comment": "x" * (65 << 10)})

    assert reply.status_code == 413
    assert reply.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("told", "to"),
    [
        ("/ui/victims", "/ui/victims"),
        ("/ui/victims?verdict=no+offender&page=2", "/ui/victims?verdict=no+offender&page=2"),
        ("/ui/nodes/node-1.example%2F2", "/ui/nodes/node-1.example%2F2"),
        ("/ui", "/ui"),
        ("", HOME),
        ("/", HOME),
        ("/v1/scores", HOME),
        ("//elsewhere.example/ui", HOME),
        ("/ui//elsewhere.example", HOME),
        ("/ui\\elsewhere.example", HOME),
        ("/ui/../v1", "/ui/../v1"),
        ("https://elsewhere.example/ui/", HOME),
        ("javascript:alert(1)", HOME),
        ("/ui/victims\r\nSet-Cookie: x=y", HOME),
        ("/ui/\N{FULLWIDTH SOLIDUS}elsewhere.example", HOME),
        ("/uiX", HOME),
        ("/ui/login?next=/ui/login", HOME),
        ("/ui/victims#here", HOME),
        ("/ui/" + "x" * 3000, HOME),
    ],
)
def test_after_logging_in_one_stays_here(told: str, to: str) -> None:
    assert local(told) == to


def test_the_form_goes_where_the_link_led(house: House, guarding: Guarded) -> None:
    token = guarding.token("sre")

    assert log_in(house.visitor(), token, "/ui/victims?page=2").headers["location"] == "/ui/victims?page=2"
    assert log_in(house.visitor(), token, "//elsewhere.example").headers["location"] == HOME


def test_who_follows_a_link_of_another_site_comes_by_way_of_the_login_page(house: House) -> None:
    visitor = house.logged_in("sre")
    stranger = house.visitor()

    first = stranger.get("/ui/victims", headers={"Sec-Fetch-Site": "cross-site"})  # no cookie: SameSite=Strict

    assert (first.status_code, first.headers["refresh"]) == (200, "0; url=/ui/login?next=%2Fui%2Fvictims")
    assert visitor.get("/ui/login?next=%2Fui%2Fvictims").headers["location"] == "/ui/victims"


def test_a_part_of_a_page_sends_the_whole_page_to_log_in(house: House) -> None:
    reply = house.visitor().get("/ui/victims", headers={"HX-Request": "true"})

    assert (reply.status_code, reply.headers["hx-redirect"]) == (401, "/ui/login")


def test_one_address_may_try_so_often(house: House, guarding: Guarded) -> None:
    visitor = house.visitor()
    tried = [log_in(visitor, "wrong").status_code for _ in range(LOGINS_AT_ONCE + 1)]
    refused = log_in(visitor, guarding.token("sre"))
    guarding.now_us += int(refused.headers["retry-after"]) * 10**6

    assert tried == [401] * LOGINS_AT_ONCE + [429]
    assert "Too many attempts" in refused.text
    assert log_in(visitor, guarding.token("sre")).status_code == 303


def test_while_the_store_is_silent_nobody_new_is_let_in(house: House, guarding: Guarded) -> None:
    known, token = house.logged_in("sre"), guarding.token("admin")
    assert known.get("/ui/victims").status_code == 200
    stranger = house.visitor()
    stranger.cookies.set(SESSION_COOKIE, "f" * 64)
    with silent(guarding.store):
        assert log_in(house.visitor(), token).status_code == 503
        assert stranger.get("/ui/victims").status_code == 503
        assert known.get("/ui/victims").status_code == 200


def test_everything_under_ui_has_its_headers(house: House) -> None:
    visitor = house.logged_in("sre")
    sheet = visitor.get("/ui/cluster").text.split('rel="stylesheet" href="')[1].split('"')[0]

    for path in ("/ui/cluster", "/ui/victims", "/ui/nowhere", "/ui/login", "/ui/cluster/map", sheet):
        headers = visitor.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        kept = "public, max-age=31536000, immutable" if path == sheet else "no-store"
        assert headers["cache-control"] == kept


def test_a_file_of_another_version_is_not_there(house: House) -> None:
    assert house.visitor().get("/ui/static/0123456789abcdef/pages.css").status_code == 404
    assert house.visitor().get("/ui/static/0123456789abcdef/../../pages.css").status_code in {303, 404}


def test_errors_are_pages(house: House) -> None:
    visitor = house.logged_in("sre")

    for path, status in (
        ("/ui/nowhere", 404),
        ("/ui/nodes/elsewhere", 404),
        ("/ui/victims/nobody", 404),
        ("/ui/victims?page=0", 422),
        ("/ui/victims?page=x", 422),
    ):
        reply = visitor.get(path)
        assert reply.status_code == status, path
        assert reply.headers["content-type"].startswith("text/html")
        assert "<h1>" in reply.text


def test_what_is_told_of_containers_is_text_and_never_markup(house: House) -> None:
    evil = '<img src=x onerror="alert(1)">'
    write_report(house.process.snapshots, told(diagnosis(evil, app=evil)))

    page = house.logged_in("sre").get("/ui/victims").text

    assert "<img src=x" not in page
    assert "&lt;img src=x" in page


def test_with_open_access_who_reaches_it_may_see_everything_and_forms_count_still(process: Process) -> None:
    visitor = open_house(process).visitor("http://127.0.0.1:8080")

    assert visitor.get("/ui/cluster").status_code == 200
    assert "local:me" in visitor.get("/ui/cluster").text
    assert visitor.get("/ui/login").headers["location"] == HOME
    assert "Log out" not in visitor.get("/ui/cluster").text
    assert visitor.post("/ui/logout", data={"csrf": ""}).status_code == 403
    assert visitor.post("/ui/logout", data={}).status_code == 403


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:1", "127.5.5.5", "[::1]:8080", "LOCALHOST"])
def test_with_open_access_names_of_this_machine_are_answered(process: Process, host: str) -> None:
    assert open_house(process).visitor().get("/ui/cluster", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.1", "", "[::1", "0"]
)
def test_with_open_access_a_name_of_another_site_is_not(process: Process, host: str) -> None:
    reply = open_house(process).visitor().get("/ui/cluster", headers={"Host": host})

    assert reply.status_code == 403
    assert "names of this machine" in reply.text


def test_the_age_of_what_is_shown_is_told(process: Process) -> None:
    house = open_house(process)
    process.now_us = AT_US + 7 * 60 * 10**6

    assert "7 min ago" in house.visitor("http://localhost").get("/ui/victims").text


def test_a_month_whose_lines_are_gone_is_not_closed(house: House) -> None:
    assert house.bills is not None
    closing, visitor = house.bills.closing, house.logged_in("finance")
    of = draft(replace(batch("std@a", ("shop", "base", 7)), about="2026-12"), period="2026-12")
    digest = closing.begin(of, 0, ANN).digest

    csrf = csrf_in(visitor.get("/ui/bills"))
    reply = visitor.post("/ui/bills/2026-12/close", data={"csrf": csrf, "digest": digest})

    assert (reply.status_code, closing.one("2026-12").state) == (409, "closing"), reply.text
    assert "1 of its 1 files are not in" in reply.text
