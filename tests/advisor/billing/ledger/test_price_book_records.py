"""Price books in the store: what one person proposes another approves, and nothing that was proposed is changed."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine, text

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.price_book_records import book_from, book_json
from advisor.billing.lines.errors import BadPriceBook
from advisor.billing.pricing.price_book import HOUR_US, PriceBook, book_at
from advisor.billing.pricing.price_book_toml import EXAMPLE, price_book_from
from advisor.database.engine import writing
from advisor.errors import Conflict, Forbidden, NotFound, Unavailable
from advisor.plans.plan_service import Actor
from tests.advisor.billing.billed import START_US, book
from tests.advisor.billing.months_drawn import ANN, BOB

BEFORE_US = START_US - 10 * HOUR_US


def entry(who: Actor = ANN) -> Entry:
    return Entry(BEFORE_US, who.who, who.role, "price book", "2026-11", "done", who.request_id)


def proposed(version: str, start_us: int = START_US, by: str = "ann") -> PriceBook:
    return book(version=version, start_us=start_us, proposed_by=by, approved_by=None)


def put(store: Engine, of: PriceBook) -> None:
    book_store.propose(store, of, BEFORE_US, entry())


def sign(store: Engine, version: str, by: str = "bob", at_us: int = BEFORE_US) -> PriceBook:
    return book_store.approve(store, version, by, at_us, entry(BOB))


def test_only_what_a_second_person_approved_is_billed_by(store: Engine) -> None:
    put(store, proposed("v1"))
    assert book_store.books(store) == ()
    with pytest.raises(Forbidden, match="another person"):
        sign(store, "v1", by="ann")

    signed = sign(store, "v1")

    assert book_store.books(store) == (signed,)
    assert [one.state for one in book_store.kept_books(store)] == ["approved"]


def test_a_version_ends_where_the_next_one_begins_and_hours_before_keep_theirs(store: Engine) -> None:
    for version, start_us in (("v1", START_US), ("v2", START_US + 5 * HOUR_US)):
        put(store, proposed(version, start_us))
        sign(store, version)

    found = book_store.books(store)
    assert [book_at(found, START_US + h * HOUR_US).version for h in (0, 4, 5, 99)] == ["v1", "v1", "v2", "v2"]


def test_what_has_begun_is_neither_approved_nor_withdrawn(store: Engine) -> None:
    put(store, proposed("v1"))
    put(store, proposed("v2", START_US + HOUR_US))
    sign(store, "v1")
    with pytest.raises(Conflict, match=r"a version in force is immutable\. Propose a"):
        sign(store, "v2", at_us=START_US + HOUR_US)
    with pytest.raises(Conflict, match=r"a version in force is immutable\. Propose a"):
        book_store.withdraw(store, "v1", "bob", START_US, entry(BOB))


def test_the_very_first_version_may_begin_in_the_past(store: Engine) -> None:
    put(store, proposed("v1"))

    assert sign(store, "v1", at_us=START_US + 5 * HOUR_US).start_us == START_US


def test_what_was_withdrawn_does_not_count_and_is_not_approved(store: Engine) -> None:
    put(store, proposed("v1"))
    sign(store, "v1")
    book_store.withdraw(store, "v1", "bob", BEFORE_US, entry(BOB))

    assert book_store.books(store) == ()
    for again in (lambda: sign(store, "v1"), lambda: book_store.withdraw(store, "v1", "x", BEFORE_US, entry())):
        with pytest.raises(Conflict, match="withdrawn by bob"):
            again()


def test_names_are_taken_once_and_two_do_not_begin_at_once(store: Engine) -> None:
    put(store, proposed("v1"))
    sign(store, "v1")
    with pytest.raises(Conflict, match="choose another name"):
        put(store, proposed("v1", START_US + HOUR_US))
    put(store, proposed("v2"))
    with pytest.raises(Conflict, match="would both apply from"):
        sign(store, "v2")
    with pytest.raises(NotFound, match="cohabit bill books"):
        sign(store, "v3")


def test_what_cannot_be_billed_by_is_not_even_proposed(store: Engine) -> None:
    with pytest.raises(BadPriceBook, match="within an hour"):
        put(store, proposed("v1", START_US + 1))
    assert book_store.kept_books(store) == []


@pytest.mark.parametrize("start", ["0001-01-01T00:00:00+05:00", "1999-12-31T23:00:00Z", "9999-12-31T23:00:00-05:00"])
def test_what_lies_in_no_month_is_not_proposed(store: Engine, start: str) -> None:
    of = price_book_from(EXAMPLE.replace("2026-12-01T00:00:00Z", start), "ann")

    with pytest.raises(BadPriceBook, match="outside 2000-01 to 2099-12"):
        put(store, of)
    assert book_store.kept_books(store) == []


@pytest.mark.parametrize("statement", ["UPDATE price_books SET document = 'x'", "DELETE FROM price_books"])
def test_what_was_proposed_is_not_changed_by_hand(store: Engine, statement: str) -> None:
    put(store, proposed("v1"))

    with pytest.raises(Exception, match=r"never changed|not removed|only added"), writing(store) as connection:
        connection.execute(text(statement))


def test_a_version_is_read_as_it_was_kept() -> None:
    one = proposed("v1")

    assert book_from(book_json(replace(one, approved_by="bob"))) == one
    for told in (b"", b"{}", b"\xff", b'{"x":' + b"[" * 5000):
        with pytest.raises(Unavailable, match="cannot be read"):
            book_from(told)
