"""Closing: a month is billed wholly or not at all, once, by one person, and never changed, on SQLite and PostgreSQL."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from threading import Barrier
from time import monotonic, sleep

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import Engine, text

from advisor.auth.audit_log import entries
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.drafts import Draft, digest_of
from advisor.billing.lines.accounts import ROUNDING
from advisor.database.engine import open_store, writing
from advisor.errors import Conflict, Invalid
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD, SMALL, batch, draft, drafts

KILLS = 5
MONTHS = st.sampled_from(("2026-09", "2026-10", "2026-11"))


def test_a_month_goes_from_open_over_closing_to_closed_and_each_step_is_in_the_audit(closing: Closing) -> None:
    begun = closing.begin(SMALL, 0, ANN)
    closing.close(PERIOD, begun.digest, BOB)

    found = closing.one(PERIOD)
    assert (found.state, found.version, found.changed_by) == ("closed", 2, "bob")
    told = [(one.who, one.action, one.subject) for one in entries(closing.engine)]
    assert told == [("ann", "begin closing", "c 2026-11"), ("bob", "close", "c 2026-11")]


def test_what_is_closed_is_in_the_ledger_and_sums_to_zero(closing: Closing) -> None:
    closing.close(PERIOD, closing.begin(SMALL, 0, ANN).digest, ANN)

    posted = ledger_store.batches(closing.engine, "c", PERIOD)
    assert [one.batch.postings for one in posted] == [one.postings for one in SMALL.batches]
    assert ledger_store.total(closing.engine, "c") == 0


def test_accounts_pay_whole_coins_and_what_no_coin_can_pay_is_told(closing: Closing) -> None:
    closing.close(PERIOD, closing.begin(SMALL, 0, ANN).digest, ANN)

    assert ledger_store.paid(closing.engine, "c", PERIOD) == {
        "ads": (750_010, 75, "EUR"),
        "platform": (499_999, 50, "EUR"),
        "search": (1_250_001, 125, "EUR"),
        "unattributed": (5, 0, "EUR"),
        ROUNDING: (15, 0, "EUR"),
    }


def test_a_closed_month_is_neither_closed_again_nor_opened_nor_begun(closing: Closing) -> None:
    digest = closing.begin(SMALL, 0, ANN).digest
    closing.close(PERIOD, digest, ANN)

    for attempt in (
        lambda: closing.close(PERIOD, digest, BOB),
        lambda: closing.reopen(PERIOD, 2, BOB),
        lambda: closing.begin(SMALL, 2, BOB),
    ):
        with pytest.raises(
            Conflict, match=r"is closed.*in a later period \(`cohabit bill close --month LATER --correct 2026-11`"
        ):
            attempt()
    assert len(ledger_store.batches(closing.engine, "c", PERIOD)) == 2


def test_what_is_closed_is_what_was_looked_at(closing: Closing) -> None:
    first = closing.begin(SMALL, 0, ANN).digest
    closing.reopen(PERIOD, 1, BOB)
    closing.begin(draft(batch("std@a", ("ads", "base", 7))), 2, BOB)

    with pytest.raises(Conflict, match="review it again"):
        closing.close(PERIOD, first, ANN)
    assert ledger_store.batches(closing.engine, "c", PERIOD) == []


def test_an_open_month_cannot_be_closed_and_a_wrong_draft_does_not_begin(closing: Closing) -> None:
    with pytest.raises(Conflict, match="is open and cannot be closed: draft"):
        closing.close(PERIOD, "0" * 64, ANN)
    with pytest.raises(Conflict, match="cannot be closed"):
        closing.begin(draft(), 0, ANN)
    assert closing.one(PERIOD).version == 0


@pytest.mark.parametrize("account", ["x" * 201, "a\0b"], ids=["long", "nul"])
def test_a_name_that_no_store_keeps_is_told_before_a_month_is_looked_at(closing: Closing, account: str) -> None:
    with pytest.raises(Conflict, match=r"limit 200.*map it to another name"):
        closing.begin(draft(batch("std@a", (account, "base", 7))), 0, ANN)
    assert closing.one(PERIOD).state == "open"


@pytest.mark.parametrize(
    "period", ["", "2026-13", "2026-1", "1999-01", "2026-11-01", "../2026", "２０２６-11", "20２６-11"]
)
def test_what_is_no_month_is_refused(closing: Closing, period: str) -> None:
    with pytest.raises(Invalid, match="write it as 2026-11"):
        closing.one(period)


def both(what: Callable[[], object]) -> list[str]:
    """Two who do the same at once: `done` or what they are told."""
    together = Barrier(2)

    def attempt() -> str:
        together.wait()
        try:
            what()
        except Conflict as error:
            return str(error)
        return "done"

    with ThreadPoolExecutor(2) as pool:
        return sorted(one.result() for one in [pool.submit(attempt) for _ in range(2)])


def test_of_two_closers_one_wins_and_the_month_is_billed_once(closing: Closing) -> None:
    digest = closing.begin(SMALL, 0, ANN).digest

    told = both(lambda: closing.close(PERIOD, digest, BOB))

    assert "done" in told
    assert all(one == "done" or "changed since" in one or "cannot be closed" in one for one in told)
    assert told.count("done") == 1
    assert len(ledger_store.batches(closing.engine, "c", PERIOD)) == len(SMALL.batches)


def test_of_two_who_begin_one_wins(closing: Closing) -> None:
    told = both(lambda: closing.begin(SMALL, 0, BOB))

    assert told.count("done") == 1
    assert closing.one(PERIOD).version == 1


@pytest.mark.parametrize("table", ["ledger_batches", "ledger_postings", "payables", "periods"])
def test_what_is_closed_is_neither_changed_nor_removed_by_hand(closing: Closing, table: str) -> None:
    closing.close(PERIOD, closing.begin(SMALL, 0, ANN).digest, ANN)
    column = {"ledger_postings": "account", "periods": "changed_by"}.get(table, "currency")
    on_postgres = closing.engine.dialect.name == "postgresql"
    truncate = [f"TRUNCATE {table} CASCADE"] if on_postgres and table != "periods" else []

    for statement in (f"UPDATE {table} SET {column} = 'x'", f"DELETE FROM {table}", *truncate):  # noqa: S608
        with pytest.raises(Exception, match=r"only added|never changed"), writing(closing.engine) as connection:
            connection.execute(text(statement))


def test_a_closer_that_is_killed_at_any_point_leaves_months_whole_or_untouched(
    migrated_postgres: Callable[[], str],
) -> None:
    """A process that closes month after month is ended by SIGKILL, again and again, in the middle of one of them."""
    address, random = migrated_postgres(), Random(7)
    months = [f"20{year}-{m:02d}" for year in (30, 31) for m in range(1, 13)]
    with open_store(address) as engine:
        closing = Closing(engine, "c", lambda: NOW_US)
        drafts = {period: begun(closing, period) for period in months}
        closed = 0
        for _ in range(KILLS):
            killed_in = closed + random.randrange(1, 4)
            _killed_while_closing(address, months[closed : killed_in + 1], random.random())
            for period, of in drafts.items():
                _is_whole_or_untouched(engine, period, of)
            states = [closing.one(period).state for period in months]
            closed = states.count("closed")
            assert states == ["closed"] * closed + ["closing"] * (len(months) - closed)  # in order, one after the other
            assert closed in {killed_in, killed_in + 1}


def begun(closing: Closing, period: str) -> Draft:
    made = (batch("p", ("ads", "base", n), ("search", "base", 2 * n), day=n) for n in range(1, 20))
    of = draft(*(replace(one, about=period) for one in made), period=period)
    closing.begin(of, 0, ANN)
    return of


def _killed_while_closing(address: str, months: Sequence[str], part: float) -> None:
    """Kill it in the last month, after so large a part of the time that the month before it took."""
    closer = Path(__file__).with_name("closer.py")
    with subprocess.Popen([sys.executable, closer, address, *months], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        before = now = monotonic()
        for line in process.stdout:
            before, now = now, monotonic()
            if line.strip() == months[-1]:
                break
        sleep(part * (now - before))
        process.kill()


def _is_whole_or_untouched(engine: Engine, period: str, of: Draft) -> None:
    state = Closing(engine, "c", lambda: NOW_US).one(period).state
    billed = [one.postings for one in of.batches] if state == "closed" else []
    assert [one.batch.postings for one in ledger_store.batches(engine, "c", period)] == billed
    assert bool(ledger_store.paid(engine, "c", period)) == (state == "closed")
    assert ledger_store.total(engine, "c") == 0


def of_month(of: Draft, cluster: str, period: str) -> Draft:
    """The same, of another month."""
    batches = tuple(replace(one, about=period) for one in of.batches)
    return replace(of, cluster=cluster, period=period, batches=batches)


class Months(RuleBasedStateMachine):
    """Whatever people do in whatever order: closed months stay, money sums to zero, who saw an old version is told."""

    def __init__(self, engine: Engine, cluster: str) -> None:
        super().__init__()
        self.closing = Closing(engine, cluster, lambda: NOW_US)
        self.billed: dict[str, Draft] = {}

    @rule(of=drafts(), period=MONTHS, stale=st.booleans())
    def begin(self, *, of: Draft, period: str, stale: bool) -> None:
        before = self.closing.one(period)
        seen = before.version - 1 if stale and before.version else before.version
        try:
            after = self.closing.begin(of_month(of, self.closing.cluster, period), seen, ANN)
        except Conflict as error:
            is_stale = "changed since" in str(error)
            assert seen != before.version if is_stale else before.state != "open"
        else:
            assert (before.state, seen, after.version) == ("open", before.version, before.version + 1)

    @rule(period=MONTHS, other=st.booleans())
    def close(self, *, period: str, other: bool) -> None:
        before = self.closing.one(period)
        try:
            self.closing.close(period, "f" * 64 if other else before.digest, BOB)
        except Conflict as error:
            is_other = "review it again" in str(error)
            assert other if is_other else before.state != "closing"
        else:
            assert before.draft is not None
            self.billed[period] = before.draft

    @rule(period=MONTHS)
    def reopen(self, period: str) -> None:
        before = self.closing.one(period)
        try:
            self.closing.reopen(period, before.version, ANN)
        except Conflict:
            assert before.state != "closing"

    @invariant()
    def closed_months_stay_and_money_sums_to_zero(self) -> None:
        engine, cluster = self.closing.engine, self.closing.cluster
        assert ledger_store.total(engine, cluster) == 0
        for period, of in self.billed.items():
            found = self.closing.one(period)
            assert (found.state, found.digest) == ("closed", digest_of(of))
            posted = ledger_store.batches(engine, cluster, period)
            assert [one.batch.postings for one in posted] == [one.postings for one in of.batches]
            amounts = ledger_store.paid(engine, cluster, period)
            owed = sum(micros for who, (micros, _, _) in amounts.items() if who != ROUNDING)
            assert owed == sum(one.amount_micros for one in of.batches)


def test_whatever_is_done_in_whatever_order_the_ledger_holds(store: Engine) -> None:
    clusters = count()
    run_state_machine_as_test(
        lambda: Months(store, f"c{next(clusters)}"),  # type: ignore[arg-type]
        settings=settings(
            max_examples=30, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
