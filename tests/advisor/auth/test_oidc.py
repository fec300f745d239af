"""Tokens of an issuer: only what it signed, for us, now; and what becomes of requests while it changes or is away."""

import json
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import jwt
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi.testclient import TestClient
from httpx2 import Response
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine
from structlog.testing import capture_logs

from advisor.api.app import create_app
from advisor.api.http.auth_middleware import SAID, Guard
from advisor.auth.api_tokens import MAX_SIGNED_CHARS, Signed, TokenRole, signed
from advisor.auth.audit_log import Entry, entries
from advisor.auth.authenticator import Access
from advisor.auth.denials import Refusals
from advisor.auth.jwks import (
    FRESH_US,
    KEPT_US,
    MAX_BYTES,
    NEWER_EVERY_US,
    RETRY_EVERY_US,
    Issuer,
    checked_address,
    fetch_keys,
)
from advisor.auth.oidc import LEEWAY_S, Judged, Key, Rules, judge, read_keys
from advisor.errors import BadIssuer, IssuerUnavailable
from tests.advisor.issuers import (
    DISCOVERY,
    Json,
    LittleIssuer,
    coded,
    ec_key,
    ed_key,
    public_jwk,
    rsa_key,
    running_issuer,
    token,
)
from tests.advisor.processes import Process
from tests.advisor.stores import migrated_store

NOW_S = 10**9
AUDIENCE = "cohabit"
ROLES: dict[str, TokenRole] = {"platform-team": "sre", "bots": "scheduler", "money": "finance", "root": "admin"}
HS, PEM = "HS256", rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def claims(issuer: str, **more: object) -> Json:
    """What a good token says; a claim that is None is left out."""
    said = {"iss": issuer, "aud": AUDIENCE, "sub": "alice", "exp": NOW_S + 60, "groups": ["platform-team"], **more}
    return {name: value for name, value in said.items() if value is not None}


@dataclass
class Believing:
    """The listener for people and tools, an issuer that it believes, and a clock to turn."""

    store: Engine
    serving: Process
    issuer: LittleIssuer
    role_claim: str = "groups"
    now_us: int = NOW_S * 10**6
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        numbers = count()
        rules = Rules(self.issuer.url, AUDIENCE, self.role_claim, ROLES)
        access = Access(self.store, lambda: self.now_us, Issuer(rules, lambda: self.now_us))
        refusals = Refusals(self.store, lambda: self.now_us, self.metrics, lambda: f"r{next(numbers)}")
        app = create_app(self.serving.serving, Guard(access, refusals))
        self.client = TestClient(app, client=("192.0.2.7", 50_000))

    def ask(self, shown: str, name: str = "POST /v1/scores") -> Response:
        """Ask for scores of no app: 422 is an answer from behind the gate."""
        return self.client.request(*name.split(), headers={"Authorization": f"Bearer {shown}"}, json={})

    def good(self, **more: object) -> str:
        return token(claims(self.issuer.url, **more), rsa_key(), kid="one")

    def refused(self) -> list[Entry]:
        return [entry for entry in entries(self.store) if entry.action == "request"]


LET_IN = 422


@pytest.fixture
def issuer() -> Iterator[LittleIssuer]:
    with running_issuer() as made:
        made.publish(public_jwk(rsa_key(), kid="one", use="sig"))
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Engine]:
    with migrated_store(tmp_path / "store.sqlite") as engine:
        yield engine


@pytest.fixture
def believing(store: Engine, process: Process, issuer: LittleIssuer) -> Believing:
    return Believing(store, process.made_ready(), issuer)


@pytest.mark.parametrize(
    ("algorithm", "key"), [("RS256", rsa_key), ("PS256", rsa_key), ("ES256", ec_key), ("EdDSA", ed_key)]
)
def test_a_token_of_the_issuer_opens_what_its_role_may(
    believing: Believing, algorithm: str, key: Callable[[], object]
) -> None:
    private = key()
    believing.issuer.publish(public_jwk(private, kid="one", alg=algorithm))  # type: ignore[arg-type]

    assert believing.ask(token(claims(believing.issuer.url), private, algorithm, kid="one")).status_code == LET_IN
    assert not believing.refused()


def test_tokens_of_ours_count_beside_it(believing: Believing) -> None:
    assert believing.ask("chb_" + "0" * 12 + "_" + "0" * 64).status_code == 401
    assert [row.outcome for row in believing.refused()] == ["401 unknown token"]
    assert not believing.issuer.asked


def test_without_an_issuer_no_such_token_counts(store: Engine, process: Process, issuer: LittleIssuer) -> None:
    refusals = Refusals(store, lambda: 0, CollectorRegistry(), lambda: "r")
    client = TestClient(create_app(process.serving, Guard(Access(store, lambda: 0), refusals)))
    shown = token(claims(issuer.url), rsa_key(), kid="one")

    assert client.post("/v1/scores", headers={"Authorization": f"Bearer {shown}"}).status_code == 401
    assert [row.outcome for row in entries(store)] == ["401 no issuer is trusted"]


THEIRS = rsa_key(number=1)
"""A key of somebody else."""


def hashed(secret: bytes, url: str) -> str:
    """A token signed by what everybody knows, as if that were a secret."""
    body = f"{coded({'alg': HS, 'typ': 'JWT', 'kid': 'one'})}.{coded(claims(url))}"
    return f"{body}.{coded(jwt.get_algorithm_by_name(HS).sign(body.encode(), secret))}"


def parts(url: str, head: object, said: object, signature: bytes = b"x") -> str:
    return f"{coded(head)}.{coded(said)}.{coded(signature)}"


def swapped(url: str, **more: object) -> str:
    """A good token's head and signature around other claims."""
    head, _, signature = token(claims(url), rsa_key(), kid="one").split(".")
    return f"{head}.{coded(claims(url, **more))}.{signature}"


UNKNOWN, FORGED, NONE = "token of an unknown key", "forged token", "no token"
ELSEWHERE = "token for another audience"
ATTACKS: dict[str, tuple[Callable[[str], str], str]] = {
    "no algorithm": (lambda url: parts(url, {"alg": "none", "kid": "one"}, claims(url)), UNKNOWN),
    "no algorithm, capitals": (lambda url: parts(url, {"alg": "NoNe", "kid": "one"}, claims(url)), UNKNOWN),
    "no signature": (lambda url: token(claims(url), rsa_key(), kid="one").rpartition(".")[0] + ".", NONE),
    "two parts": (lambda url: token(claims(url), rsa_key(), kid="one").rpartition(".")[0], NONE),
    "head without algorithm": (lambda url: parts(url, {"kid": "one"}, claims(url)), UNKNOWN),
    "algorithm is a list": (lambda url: parts(url, {"alg": ["RS256"], "kid": "one"}, claims(url)), UNKNOWN),
    "public key as a secret": (lambda url: hashed(PEM, url), UNKNOWN),
    "modulus as a secret": (lambda url: hashed(str(public_jwk(rsa_key())["n"]).encode(), url), UNKNOWN),
    "another algorithm": (lambda url: token(claims(url), rsa_key(), "RS512", kid="one"), UNKNOWN),
    "another kind of key": (lambda url: token(claims(url), ec_key(), "ES256", kid="one"), UNKNOWN),
    "somebody's key by our name": (lambda url: token(claims(url), THEIRS, kid="one"), FORGED),
    "somebody's key without name": (lambda url: token(claims(url), THEIRS), FORGED),
    "key name as a path": (lambda url: token(claims(url), THEIRS, kid="../../../../dev/null"), UNKNOWN),
    "key name as SQL": (lambda url: token(claims(url), THEIRS, kid="x' UNION SELECT 'k"), UNKNOWN),
    "key name is a number": (lambda url: token(claims(url), rsa_key(), kid=1), UNKNOWN),
    "key name without end": (lambda url: token(claims(url), THEIRS, kid="k" * 5000), UNKNOWN),
    "key of its own": (lambda url: token(claims(url), THEIRS, kid="one", jwk=public_jwk(THEIRS)), FORGED),
    "keys elsewhere": (lambda url: token(claims(url), THEIRS, kid="one", jku=f"{url}/evil", x5u=f"{url}/evil"), FORGED),
    "certificate of its own": (lambda url: token(claims(url), THEIRS, kid="one", x5c=["AAAA"]), FORGED),
    "other claims": (lambda url: swapped(url, sub="root"), FORGED),
    "other role": (lambda url: swapped(url, groups=["root"]), FORGED),
    "critical extension": (lambda url: token(claims(url), rsa_key(), kid="one", crit=["x"], x=1), UNKNOWN),
    "bare claims": (lambda url: token(claims(url), rsa_key(), kid="one", b64=False, crit=["b64"]), UNKNOWN),
    "a head of depth": (lambda url: parts(url, b"[" * 3000, claims(url)), UNKNOWN),
    "a head that is a list": (lambda url: parts(url, ["RS256"], claims(url)), UNKNOWN),
    "a head that is no text": (lambda url: parts(url, b"\xff\xfe", claims(url)), UNKNOWN),
    "claims of depth": (lambda url: token([[]], rsa_key(), kid="one"), "unreadable token"),
    "without end": (lambda url: token(claims(url, exp=None), rsa_key(), kid="one"), "token without end"),
    "an end in words": (lambda url: token(claims(url, exp=f"{NOW_S + 60}"), rsa_key(), kid="one"), "token without end"),
    "an end that is true": (lambda url: token(claims(url, exp=True), rsa_key(), kid="one"), "token without end"),
    "no end in sight": (lambda url: token(claims(url, exp=float("inf")), rsa_key(), kid="one"), "token without end"),
    "no number": (lambda url: token(claims(url, exp=float("nan")), rsa_key(), kid="one"), "token without end"),
    "huge number": (lambda url: token(claims(url, exp=10**400), rsa_key(), kid="one"), "token without end"),
    "expired": (lambda url: token(claims(url, exp=NOW_S - LEEWAY_S), rsa_key(), kid="one"), "expired token"),
    "too early": (lambda url: token(claims(url, nbf=NOW_S + LEEWAY_S + 1), rsa_key(), kid="one"), "token not good yet"),
    "early in words": (lambda url: token(claims(url, nbf="0"), rsa_key(), kid="one"), "token without end"),
    "another issuer": (lambda url: token(claims("https://evil"), rsa_key(), kid="one"), "another issuer's token"),
    "issuer with a slash": (lambda url: token(claims(f"{url}/"), rsa_key(), kid="one"), "another issuer's token"),
    "several issuers": (lambda url: token(claims(url, iss=[url]), rsa_key(), kid="one"), "another issuer's token"),
    "no issuer": (lambda url: token(claims(url, iss=None), rsa_key(), kid="one"), "incomplete token"),
    "other audience": (lambda url: token(claims(url, aud="shop"), rsa_key(), kid="one"), ELSEWHERE),
    "other audiences": (lambda url: token(claims(url, aud=["a"]), rsa_key(), kid="one"), ELSEWHERE),
    "part of it": (lambda url: token(claims(url, aud=["cohabit2"]), rsa_key(), kid="one"), ELSEWHERE),
    "odd audience": (lambda url: token(claims(url, aud={"cohabit": 1}), rsa_key(), kid="one"), ELSEWHERE),
    "no audience": (lambda url: token(claims(url, aud=None), rsa_key(), kid="one"), "incomplete token"),
    "nobody": (lambda url: token(claims(url, sub=None), rsa_key(), kid="one"), "incomplete token"),
    "subject is a number": (lambda url: token(claims(url, sub=7), rsa_key(), kid="one"), "unreadable token"),
    "a logout token": (lambda url: token(claims(url), rsa_key(), kid="one", typ="logout+jwt"), "token of another kind"),
    "too long": (lambda url: token(claims(url, x="x" * MAX_SIGNED_CHARS), rsa_key(), kid="one"), NONE),
    "padded": (lambda url: token(claims(url), rsa_key(), kid="one") + "==", NONE),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_what_the_issuer_did_not_say_to_us_opens_nothing(believing: Believing, name: str) -> None:
    make, why = ATTACKS[name]
    assert believing.ask(believing.good()).status_code == LET_IN
    reply = believing.ask(make(believing.issuer.url))

    assert (reply.status_code, reply.json()) == (401, {"error": SAID[401]})
    assert [row.outcome for row in believing.refused()] == [f"401 {why}"]
    assert "/evil" not in believing.issuer.asked


def test_who_came_is_written_down_where_the_issuer_said_so(believing: Believing) -> None:
    for shown in (believing.good(exp=NOW_S - 99), believing.good(aud="shop"), swapped(believing.issuer.url, sub="x")):
        believing.ask(shown)

    assert [(row.who, row.role) for row in believing.refused()] == [
        ("oidc:alice", "sre"),
        ("from 192.0.2.7", ""),  # whoever has an account there could come from any other application
        ("from 192.0.2.7", ""),
    ]


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"exp": NOW_S - LEEWAY_S + 1}, LET_IN),
        ({"exp": NOW_S - LEEWAY_S + 0.5}, LET_IN),
        ({"nbf": NOW_S + LEEWAY_S}, LET_IN),
        ({"nbf": NOW_S - 60, "iat": NOW_S + 3600}, LET_IN),
        ({"aud": ["shop", AUDIENCE, "mail"]}, LET_IN),
        ({"azp": "shop"}, LET_IN),
    ],
)
def test_clocks_may_differ_a_little_and_audiences_may_be_several(believing: Believing, more: Json, status: int) -> None:
    assert believing.ask(believing.good(**more)).status_code == status


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_access_tokens_may_say_what_they_are(believing: Believing, kind: str) -> None:
    shown = token(claims(believing.issuer.url), rsa_key(), kid="one", typ=kind)

    assert believing.ask(shown).status_code == LET_IN


@pytest.mark.parametrize(
    ("groups", "status"),
    [
        (["platform-team"], LET_IN),
        ("platform-team", LET_IN),
        (["x", "money", "bots"], LET_IN),
        (["root"], LET_IN),
        (["money"], 403),
        (["sre"], 403),  # a role of ours is no value of theirs
        (["Platform-Team"], 403),
        ([], 403),
        (None, 403),
        ([["platform-team"], 1, None, {"platform-team": 1}], 403),
        ({"platform-team": "sre"}, 403),
        (7, 403),
    ],
)
def test_a_role_is_given_for_a_value_of_the_claim(believing: Believing, groups: object, status: int) -> None:
    assert believing.ask(believing.good(groups=groups)).status_code == status


def test_who_has_no_role_is_named_in_the_audit_and_learns_nothing_of_routes(believing: Believing) -> None:
    replies = [believing.ask(believing.good(groups=[]), name) for name in ("POST /v1/scores", "GET /nothing")]
    believing.ask(believing.good(groups=["money"]))

    assert {reply.status_code for reply in replies} == {403}
    assert [(row.who, row.role, row.outcome) for row in believing.refused()] == [
        ("oidc:alice", "", "403 no role"),
        ("oidc:alice", "", "403 no role"),
        ("oidc:alice", "finance", "403 another role"),
    ]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["bots"]}}),
        ("https://example.com/roles", {"https://example.com/roles": ["bots"]}),
        ("a.b", {"a.b": "bots", "a": {"b": "x"}}),
    ],
)
def test_the_claim_may_be_within_another_or_have_dots_of_its_own(
    store: Engine, process: Process, issuer: LittleIssuer, path: str, said: Json
) -> None:
    believing = Believing(store, process, issuer, path)

    assert believing.ask(believing.good(**said)).status_code == LET_IN
    assert believing.ask(believing.good()).status_code == 403


@pytest.mark.parametrize(
    ("subject", "who"),
    [
        ("auth0|5f7c8ec7c33c6c004bbafe82", "oidc:auth0|5f7c8ec7c33c6c004bbafe82"),
        ("a@b.example", "oidc:a@b.example"),
        ("x" * 128, "oidc:" + "x" * 128),
        ("x" * 129, "oidc-sha256:"),
        ("a b", "oidc-sha256:"),
        ("a\tadmin\tdone\n", "oidc-sha256:"),
        ("\x1b[2J", "oidc-sha256:"),
        ("jörg", "oidc-sha256:"),
        ("", "oidc-sha256:"),
        ("\ud800", "oidc-sha256:"),
    ],
)
def test_a_subject_that_could_break_a_line_is_written_as_a_hash(believing: Believing, subject: str, who: str) -> None:
    believing.ask(believing.good(sub=subject, groups=[]))

    [row] = believing.refused()
    assert row.who == who if who.startswith("oidc:") else row.who.startswith(who)
    assert len(row.who) <= 140


def test_a_key_that_is_new_is_asked_for_once(believing: Believing) -> None:
    believing.ask(believing.good())
    believing.issuer.publish(public_jwk(ec_key(), kid="two"))
    believing.now_us += NEWER_EVERY_US
    newer = token(claims(believing.issuer.url, exp=NOW_S + 9999), ec_key(), "ES256", kid="two")

    assert [believing.ask(newer).status_code for _ in range(3)] == [LET_IN] * 3
    assert believing.issuer.times() == 2
    assert believing.ask(believing.good(exp=NOW_S + 9999)).status_code == 401


def test_names_of_keys_that_there_are_not_pester_the_issuer_once_a_minute(believing: Believing) -> None:
    believing.ask(believing.good())
    for number in range(30):
        believing.ask(token(claims(believing.issuer.url), THEIRS, kid=f"k{number}"))
    assert believing.issuer.times() == 1
    believing.now_us += NEWER_EVERY_US
    for number in range(30):
        believing.ask(token(claims(believing.issuer.url), THEIRS, kid=f"k{number}"))
    assert believing.issuer.times() == 2
    for shown in (parts("", {"alg": "RS256"}, {}), parts("", {"alg": "none", "kid": "new"}, {}), parts("", [], {})):
        believing.now_us += NEWER_EVERY_US
        believing.ask(shown)
    assert believing.issuer.times() == 2


def settled(believing: Believing) -> None:
    """Wait until nobody is asking the issuer."""
    issuer = believing_issuer(believing)
    if issuer._asking is not None:
        issuer._asking.result(20)


def believing_issuer(believing: Believing) -> Issuer:
    gate = believing.client.app
    while not hasattr(gate, "user_middleware"):
        gate = gate.app  # type: ignore[attr-defined]
    [guard] = [each.kwargs["guard"] for each in gate.user_middleware if "guard" in each.kwargs]
    found: Issuer = guard.access.issuer
    return found


def test_a_key_that_was_taken_back_counts_ten_minutes_at_most(believing: Believing) -> None:
    long_lived = believing.good(exp=NOW_S + 99_999)
    believing.ask(long_lived)
    believing.issuer.publish(public_jwk(ec_key(), kid="two"))

    believing.now_us += FRESH_US - 1
    assert believing.ask(long_lived).status_code == LET_IN
    believing.now_us += 1
    believing.ask(long_lived)  # which has the keys asked for, beside it
    settled(believing)
    assert believing.ask(long_lived).status_code == 401


def test_while_the_issuer_is_down_its_keys_count_for_hours_and_then_no_longer(store: Engine, process: Process) -> None:
    with running_issuer() as issuer:
        issuer.publish(public_jwk(rsa_key(), kid="one"))
        believing, port = Believing(store, process.made_ready(), issuer), int(issuer.url.rpartition(":")[2])
        shown = believing.good(exp=NOW_S + 10**6)
        assert believing.ask(shown).status_code == LET_IN
    believing.now_us += KEPT_US - 1
    with capture_logs() as logs:
        assert believing.ask(shown).status_code == LET_IN
        settled(believing)
        believing.now_us += RETRY_EVERY_US
        gone = believing.ask(shown)
        assert believing.ask(shown).status_code == 503
    assert (gone.status_code, gone.json(), gone.headers["retry-after"]) == (503, {"error": SAID[503]}, "5")
    assert len(logs) == 2  # it was asked twice
    assert all("COHABIT_ADVISOR__OIDC_ISSUER" in each["error"] for each in logs)
    with running_issuer(port) as issuer:
        issuer.publish(public_jwk(rsa_key(), kid="one"))
        believing.now_us += RETRY_EVERY_US
        assert believing.ask(shown).status_code == LET_IN


def test_an_issuer_that_is_away_at_first_is_asked_every_ten_seconds(believing: Believing) -> None:
    documents = dict(believing.issuer.pages)
    believing.issuer.pages.clear()
    assert {believing.ask(believing.good()).status_code for _ in range(5)} == {503}
    assert believing.issuer.times(DISCOVERY) == 1
    believing.issuer.pages.update(documents)
    believing.now_us += RETRY_EVERY_US
    assert believing.ask(believing.good()).status_code == LET_IN


def test_an_issuer_that_says_nothing_holds_up_a_request_for_seconds_and_its_keys_still_count(
    believing: Believing,
) -> None:
    believing.ask(believing.good())
    believing.issuer.silent.clear()
    believing.now_us += NEWER_EVERY_US

    assert believing.ask(token(claims(believing.issuer.url), THEIRS, kid="new")).status_code == 401
    assert believing.ask(believing.good(exp=NOW_S + 999)).status_code == LET_IN


UNUSABLE: dict[str, tuple[Callable[[LittleIssuer], None], str]] = {
    "no document": (lambda issuer: issuer.pages.clear(), "404"),
    "an error": (lambda issuer: issuer.say(DISCOVERY, b"", 500), "500"),
    "elsewhere": (lambda issuer: issuer.say(DISCOVERY, b"", 302, Location="http://127.0.0.1:1/x"), "302"),
    "another name": (
        lambda issuer: issuer.publish(issuer="https://other"),
        "discovery document names issuer 'https://other'",
    ),
    "its name with a slash": (
        lambda issuer: issuer.publish(issuer=f"{issuer.url}/"),
        "discovery document names issuer",
    ),
    "no JSON": (lambda issuer: issuer.say(DISCOVERY, b"<html>"), "not JSON"),
    "no text": (lambda issuer: issuer.say(DISCOVERY, b"\xff"), "not JSON"),
    "no object": (lambda issuer: issuer.say(DISCOVERY, []), "not a JSON object"),
    "depth": (lambda issuer: issuer.say(DISCOVERY, b"[" * 100_000), "not JSON"),
    "size": (lambda issuer: issuer.say("/keys", b" " * (MAX_BYTES + 1)), "exceeds"),
    "half an answer": (lambda issuer: issuer.say("/keys", b"{", length="9"), "/keys"),
    "keys nowhere": (lambda issuer: issuer.publish(jwks_uri=None), "is not an accepted URL"),
    "keys in a file": (lambda issuer: issuer.publish(jwks_uri="file:///etc/passwd"), "is not an accepted URL"),
    "keys in the clear": (lambda issuer: issuer.publish(jwks_uri="http://192.0.2.1/keys"), "is not an accepted URL"),
    "no keys": (lambda issuer: issuer.publish(), "no key for RS256"),
    "keys that are no list": (lambda issuer: issuer.say("/keys", {"keys": {}}), "no key for RS256"),
    "a secret": (lambda issuer: issuer.publish({"kty": "oct", "k": "AAAA", "kid": "one"}), "no key for RS256"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_is_no_issuer_has_no_keys_and_the_reason_is_told(issuer: LittleIssuer, name: str) -> None:
    spoil, reason = UNUSABLE[name]
    spoil(issuer)

    with pytest.raises(IssuerUnavailable, match=reason):
        fetch_keys(issuer.url)


def left_out() -> dict[str, Json]:
    plain = public_jwk(rsa_key(), kid="k")
    return {
        "for encryption": {**plain, "use": "enc"},
        "for signing alone": {**plain, "key_ops": ["sign"]},
        "odd operations": {**plain, "key_ops": 5},
        "for RS512": {**plain, "alg": "RS512"},
        "for a hash": {**plain, "alg": HS},
        "for nothing": {**plain, "alg": "none"},
        "with its private part": {**plain, "d": "AAAA"},
        "with an odd name": {**plain, "kid": 5},
        "too long": {**plain, "n": "v" * 1401},
        "of another curve": {"kty": "EC", "crv": "P-384", "x": "AAAA", "y": "AAAA"},
        "not on its curve": {"kty": "EC", "crv": "P-256", "x": "A" * 43, "y": "A" * 43},
        "without curve": {"kty": "EC", "x": "A" * 43, "y": "A" * 43},
        "secret": {"kty": "oct", "k": "AAAA", "alg": "RS256"},
        "half": {"kty": "RSA", "n": plain["n"]},
        "numbers": {"kty": "RSA", "n": 5, "e": 3},
        "no base 64": {"kty": "RSA", "n": "ü", "e": "AQAB"},
    }


@pytest.mark.parametrize("name", left_out())
def test_keys_that_are_not_for_this_are_left_out(name: str) -> None:
    assert read_keys({"keys": [left_out()[name], 5, None]}) == ()


def test_of_short_keys_nothing_is_believed(believing: Believing) -> None:
    short = rsa_key(1024)
    believing.issuer.publish(public_jwk(short, kid="one"))

    assert believing.ask(token(claims(believing.issuer.url), short, kid="one")).status_code == 401


def test_a_key_without_algorithm_counts_for_both_of_its_kind_and_one_that_names_it_for_that_alone() -> None:
    plain, named = public_jwk(rsa_key(), kid="k"), public_jwk(rsa_key(), kid="k", alg="PS256")

    assert [key.algorithm for key in read_keys({"keys": [plain]})] == ["RS256", "PS256"]
    assert [key.algorithm for key in read_keys({"keys": [named]})] == ["PS256"]


def judged(shown: str, *keys: Json) -> Judged:
    rules = Rules("https://issuer", AUDIENCE, "groups", ROLES)
    return judge(Signed(shown), read_keys({"keys": list(keys)}), rules, NOW_S * 10**6)


def test_a_token_without_key_name_counts_where_the_issuer_has_one_key_alone() -> None:
    shown, own = token(claims("https://issuer"), rsa_key()), public_jwk(rsa_key())

    assert judged(shown, own).why == ""
    assert judged(shown, own, public_jwk(ec_key())).why == ""
    assert judged(shown, own, public_jwk(THEIRS)).why == UNKNOWN
    assert judged(token(claims("https://issuer"), rsa_key(), kid="k"), own).why == UNKNOWN


GOOD = token(claims("https://issuer"), ed_key(), "EdDSA", kid="k")
OWN = public_jwk(ed_key(), kid="k")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."


def test_the_token_that_is_tampered_with_below_is_good() -> None:
    assert judged(GOOD, OWN) == Judged("", judged(GOOD, OWN).caller)
    assert signed(GOOD) == Signed(GOOD)


@given(
    at=st.integers(0, len(GOOD)),
    removed=st.integers(0, 3),
    put=st.text(ALPHABET, max_size=3),
)
def test_a_token_that_differs_anywhere_opens_nothing(at: int, removed: int, put: str) -> None:
    other = GOOD[:at] + put + GOOD[at + removed :]

    assert (judged(other, OWN).why == "") == (other == GOOD)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
HEAD = st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5u", "zip", "cty"]), JSON)


@pytest.mark.parametrize(
    ("algorithm", "key"), [("RS256", rsa_key), ("PS256", rsa_key), ("ES256", ec_key), ("EdDSA", ed_key)]
)
@given(signature=st.binary(min_size=1, max_size=300) | st.sampled_from([bytes(64), bytes(256), b"\xff" * 64]))
def test_no_signature_of_any_length_is_taken_for_one(
    algorithm: str, key: Callable[[], object], signature: bytes
) -> None:
    body = f"{coded({'alg': algorithm, 'kid': 'k'})}.{coded(claims('https://issuer'))}"

    assert judged(f"{body}.{coded(signature)}", public_jwk(key(), kid="k", alg=algorithm)).why == FORGED  # type: ignore[arg-type]


@given(head=HEAD, said=JSON, signature=st.binary(max_size=80))
def test_whatever_is_not_signed_opens_nothing(head: Json, said: object, signature: bytes) -> None:
    usual = {"alg": "EdDSA", "kid": "k"}
    for told in (head, {**usual, **head}, {**head, **usual}):
        assert judged(f"{coded(told)}.{coded(said)}.{coded(signature)}", OWN).why


@given(
    head=HEAD, more=st.dictionaries(st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "groups", "iat", "jti"]), JSON)
)
def test_whatever_the_issuer_signs_is_judged_and_nobody_gets_a_role_that_it_did_not_say(head: Json, more: Json) -> None:
    told = {**head, "alg": "EdDSA", "kid": "k"}
    body = f"{coded(told)}.{coded(claims('https://issuer', **more))}"

    found = judged(f"{body}.{coded(ed_key().sign(body.encode()))}", OWN)

    if found.why == "":
        assert found.caller is not None
        assert ("groups" in more) or found.caller.roles == {"sre"}
        assert found.caller.name.startswith("oidc")


@given(st.dictionaries(st.sampled_from(["kty", "crv", "n", "e", "x", "y", "kid", "alg", "use", "key_ops"]), JSON))
def test_whatever_an_issuer_publishes_is_a_key_or_is_none(told: Json) -> None:
    for one in (told, {**OWN, **told}, {**public_jwk(rsa_key()), **told}, {**public_jwk(ec_key()), **told}):
        assert all(isinstance(key, Key) for key in read_keys({"keys": [one]}))


@pytest.mark.parametrize(
    "url",
    ["", "issuer", "http://issuer", "http://192.0.2.1", "ftp://issuer", "https://", "https://u:p@issuer",
     "https://issuer?x", "https://issuer#x", "https://issuer:0", "https://issuer:x", "https://iss uer",
     "https://issuer\n", "file:///etc/passwd", "http://localhost.evil", "https://[::1", "https://jörg"],
)  # fmt: skip
def test_what_is_no_address_to_trust_is_refused(url: str) -> None:
    with pytest.raises(BadIssuer):
        checked_address(url)


@pytest.mark.parametrize(
    "url", ["https://issuer", "https://issuer:8443/realms/x/", "http://127.0.0.1:1", "http://[::1]:1"]
)
def test_https_is_an_address_to_trust_and_loopback_is(url: str) -> None:
    assert checked_address(url) == url


def test_by_https_an_issuer_must_have_a_certificate_that_the_machine_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, secured = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(secured)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with running_issuer(secured=secured) as issuer:
        issuer.publish(OWN)
        with pytest.raises(IssuerUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            fetch_keys(issuer.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert [key.kid for key in fetch_keys(issuer.url)] == ["k"]
        issuer.publish(OWN, jwks_uri="http://127.0.0.1:1/keys")
        with pytest.raises(IssuerUnavailable, match="without TLS"):
            fetch_keys(issuer.url)


def test_the_log_says_what_to_set_once_a_minute(believing: Believing) -> None:
    with capture_logs() as logs:
        for _ in range(3):
            believing.ask(believing.good(aud="shop\n"))
            believing.ask(believing.good(groups=["web-team"]))

    assert len(logs) == 2
    assert "COHABIT_ADVISOR__OIDC_AUDIENCE" in logs[0]["event"]
    assert (logs[0]["theirs"], logs[0]["ours"]) == (r"'shop\n'", AUDIENCE)
    assert "COHABIT_ADVISOR__OIDC_ROLES" in logs[1]["event"]
    assert (logs[1]["claim"], logs[1]["found"]) == ("groups", "['web-team']")


def test_a_token_is_nowhere_written_down(believing: Believing) -> None:
    shown = believing.good(exp=NOW_S - 99)
    with capture_logs() as logs:
        reply = believing.ask(shown)

    assert repr(signed(shown)) == "Signed()"
    for told in (json.dumps(logs), repr(believing.refused()), reply.text, str(reply.headers)):
        assert not any(part in told for part in shown.split("."))
