"""Tokens and audit: told once, kept as a hash, good until they expire or are taken back, and never without a row."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from secrets import token_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, event, select, text

from advisor.auth.api_tokens import ROLES, Shown, TokenRole, checked_name, checked_role, new_token, shown
from advisor.auth.audit_log import Entry, add, entries
from advisor.auth.token_store import (
    UNKNOWN,
    USED_EVERY_US,
    Doer,
    Verdict,
    all_tokens,
    create_token,
    find_token,
    revoke_token,
)
from advisor.database.engine import TOKENS, reading, writing
from advisor.errors import AdvisorError, UnknownRole

DOER = Doer("local:me", 1_000, "r1")
DAY_US = 86_400 * 10**6


def made(store: Engine, name: str = "ci", **more: object) -> str:
    given = {"expires_us": DAY_US, "doer": DOER, "random_bytes": token_bytes, **more}
    return create_token(store, name, "sre", **given)  # type: ignore[arg-type]


def found(store: Engine, told: str, now_us: int = 2_000) -> Verdict:
    asked = shown(told)
    assert asked is not None
    return find_token(store, asked, now_us)


def test_a_token_is_found_by_its_text(store: Engine) -> None:
    verdict = found(store, made(store))

    assert verdict.token is not None
    assert (verdict.state, verdict.token.name, verdict.token.role) == ("valid", "ci", "sre")


def test_a_token_of_role_team_is_for_one_team_and_no_other_token_is(store: Engine) -> None:
    given = {"expires_us": DAY_US, "doer": DOER, "random_bytes": token_bytes}
    told = create_token(store, "shop-owner", "team", team="shop", **given)  # type: ignore[arg-type]

    verdict = found(store, told)

    assert verdict.token is not None
    assert (verdict.token.role, verdict.token.team) == ("team", "shop")
    wrong: list[tuple[TokenRole, str | None]] = [("team", None), ("sre", "shop"), ("team", ""), ("team", "a\nb")]
    for role, team in wrong:
        with pytest.raises(AdvisorError, match="--team"):
            create_token(store, "other", role, team=team, **given)  # type: ignore[arg-type]


def test_only_a_hash_of_the_secret_is_kept(store: Engine) -> None:
    told = made(store)
    secret = told.split("_")[2]

    with reading(store) as connection:
        rows = [tuple(connection.execute(select(TOKENS)).one()), *map(repr, entries(store))]

    assert sha256(secret.encode()).digest() in rows[0]
    assert not any(secret in str(value) for row in rows for value in row)


def test_no_statement_is_logged_with_its_values(store: Engine) -> None:
    with pytest.raises(Exception, match="nowhere") as raised, writing(store) as connection:
        connection.execute(text("INSERT INTO nowhere VALUES (:secret)"), {"secret": "s3cr3t"})

    error: BaseException | None = raised.value
    while error is not None:
        assert "s3cr3t" not in f"{error} {error!r}"
        error = error.__cause__


def test_tokens_are_never_alike_and_have_256_random_bits() -> None:
    texts = {new_token(token_bytes)[0] for _ in range(1000)}

    assert len(texts) == 1000
    assert all(len(bytes.fromhex(told.split("_")[2])) == 32 for told in texts)


@given(st.binary(min_size=32, max_size=32))
def test_what_was_told_opens_what_was_kept(secret: bytes) -> None:
    told, kept = new_token(lambda count: secret[:count])

    assert shown(told) == kept
    assert kept.opens(kept.secret_sha256)


def test_another_secret_under_the_same_prefix_is_unknown(store: Engine) -> None:
    told = made(store)
    other = told[:-1] + ("0" if told[-1] != "0" else "1")

    assert found(store, other) == UNKNOWN


def test_a_prefix_that_nobody_has_is_unknown_also_with_the_hash_of_nothing(store: Engine) -> None:
    nothing = Shown("0" * 12, bytes(32))

    assert find_token(store, nothing, 0) == UNKNOWN
    assert not nothing.opens(None)


@pytest.mark.parametrize(
    "said", ["", "chb_", "chb_0_0", "x" * 10_000, f"chb_{'0' * 12}_{'g' * 64}", f"chb_{'0' * 12}_{'0' * 64}\n"]
)
def test_what_is_no_token_is_not_even_looked_for(said: str) -> None:
    assert shown(said) is None


def test_a_token_ends_when_it_expires(store: Engine) -> None:
    told = made(store)

    assert [found(store, told, now_us).state for now_us in (DAY_US - 1, DAY_US)] == ["valid", "expired"]


def test_a_token_that_is_taken_back_stays_in_the_list(store: Engine) -> None:
    told = made(store)

    revoke_token(store, "ci", replace(DOER, now_us=1_500))

    assert found(store, told).state == "revoked"
    assert [(token.name, token.revoked_us) for token in all_tokens(store)] == [("ci", 1_500)]


def test_use_is_written_down_once_an_hour(store: Engine) -> None:
    told, written = made(store), []

    for now_us in (2_000, 3_000, 2_000 + USED_EVERY_US - 1, 2_000 + USED_EVERY_US):
        found(store, told, now_us)
        written.append(all_tokens(store)[0].last_used_us)

    assert written == [2_000, 2_000, 2_000, 2_000 + USED_EVERY_US]


def test_what_is_expired_is_not_used(store: Engine) -> None:
    found(store, made(store), DAY_US)

    assert all_tokens(store)[0].last_used_us is None


def test_a_second_token_of_one_name_is_refused_also_after_the_first_was_taken_back(store: Engine) -> None:
    made(store)
    revoke_token(store, "ci", DOER)

    with pytest.raises(AdvisorError, match="ci-2"):
        made(store)


def test_what_cannot_be_taken_back_is_named(store: Engine) -> None:
    with pytest.raises(AdvisorError, match=r"'nobody'.*cohabit admin token list"):
        revoke_token(store, "nobody", DOER)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a\nb", "x" * 101, "é", "a'; DROP TABLE tokens; --"])
def test_a_name_that_could_be_mistaken_is_refused(name: str) -> None:
    with pytest.raises(AdvisorError, match="letter or digit"):
        checked_name(name)


def test_roles_are_those_of_routes_but_anyone() -> None:
    assert [checked_role(role) for role in ROLES] == list(ROLES)
    for role in ("anyone", "root", "ADMIN", ""):
        with pytest.raises(UnknownRole, match="scheduler, sre, finance, planner, admin, team"):
            checked_role(role)


def test_the_audit_tells_what_was_done_in_its_order(store: Engine) -> None:
    made(store, "a")
    made(store, "b", doer=Doer("local:you", 2_000, "r2"))
    revoke_token(store, "a", Doer("local:me", 1_500, "r3"))  # by a clock that was put back

    prefixes = {token.name: token.prefix for token in all_tokens(store)}
    assert list(entries(store)) == [
        Entry(1_000, "local:me", "admin", "token create", f"a {prefixes['a']} as sre", "done", "r1"),
        Entry(2_000, "local:you", "admin", "token create", f"b {prefixes['b']} as sre", "done", "r2"),
        Entry(1_500, "local:me", "admin", "token revoke", f"a {prefixes['a']} as sre", "done", "r3"),
    ]
    assert [entry.request_id for entry in entries(store, since_us=1_500)] == ["r2", "r3"]


def test_what_is_refused_leaves_no_row_and_what_has_no_row_is_not_done(store: Engine) -> None:
    made(store)
    for refused in (lambda: made(store), lambda: revoke_token(store, "nobody", DOER)):
        with pytest.raises(AdvisorError, match=r"ci-2|no active token"):
            refused()

    with pytest.raises(ZeroDivisionError), without_audit(store):
        made(store, "unseen")
    with pytest.raises(ZeroDivisionError), without_audit(store):
        revoke_token(store, "ci", DOER)

    assert len(list(entries(store))) == 1
    assert [(token.name, token.revoked_us) for token in all_tokens(store)] == [("ci", None)]


@contextmanager
def without_audit(store: Engine) -> Iterator[None]:
    """Every row of the audit fails to be written."""

    def fail(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "INTO audit" in statement:
            raise ZeroDivisionError

    event.listen(store, "before_cursor_execute", fail)
    try:
        yield
    finally:
        event.remove(store, "before_cursor_execute", fail)


def test_rows_written_at_once_are_all_there_each_writers_in_its_order(store: Engine) -> None:
    def write(writer: int) -> None:
        for i in range(25):
            with writing(store) as connection:
                add(connection, Entry(i, f"w{writer}", "", "a", "s", "o", str(i)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))

    rows = list(entries(store))
    assert len(rows) == 100
    for writer in range(4):
        assert [row.at_us for row in rows if row.who == f"w{writer}"] == list(range(25))


def test_a_field_that_is_too_long_is_cut(store: Engine) -> None:
    with writing(store) as connection:
        add(connection, Entry(1, "w" * 999, "r" * 999, "a" * 999, "s" * 999, "o" * 999, "i" * 999))

    (row,) = entries(store)
    assert [len(getattr(row, name)) for name in ("who", "role", "subject")] == [200, 20, 300]


def test_two_that_take_one_token_back_at_once_leave_one_row(store: Engine) -> None:
    made(store)

    def revoke(_: int) -> bool:
        try:
            revoke_token(store, "ci", DOER)
        except AdvisorError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(revoke, range(4)))

    assert sum(won) == 1
    assert [row.action for row in entries(store)] == ["token create", "token revoke"]
