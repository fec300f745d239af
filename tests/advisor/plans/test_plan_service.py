"""The desk: whoever decides saw the newest version, whatever order things happen in, on SQLite and on PostgreSQL."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import Connection, Engine, text

from advisor.auth.audit_log import entries
from advisor.database.engine import migrate, open_store, writing
from advisor.errors import AdvisorError, Conflict, Frozen, NotFound
from advisor.plans import store as proposal_store
from advisor.plans.plan_service import Actor, Desk
from advisor.plans.rules.approval_states import NEXT, drafted
from advisor.plans.rules.did_estimate import Outcome
from advisor.plans.rules.errors import ChangedMeanwhile, NothingHolds, UnreadablePlan
from advisor.plans.rules.plan_record import Proposal, State
from advisor.plans.rules.policy import Freeze, Rules
from tests.advisor.plans.made import LASTS_US, NOW_US, plan
from tests.advisor.postgres_server import NewDatabase

SRE = Actor("ada", "sre", "r1")
OTHER = Actor("bob", "sre", "r2")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_us = NOW_US

    def __call__(self) -> int:
        return self.now_us


def desk_over(engine: Engine, clock: Clock, rules: Rules | None = None) -> Desk:
    return Desk(engine, "c", rules or Rules(), clock)


@pytest.fixture
def desk(store: Engine) -> Desk:
    made = desk_over(store, Clock())
    made.put(drafted(plan()), SRE)
    return made


def nothing_stale(_of: Proposal, _steps: object) -> dict[int, str]:
    return {}


def given(_connection: Connection, of: Proposal) -> bytes:
    return f"{of.plan.plan}: {[step.number for step in of.approved]}".encode()


def test_a_plan_goes_from_draft_to_export_and_each_step_is_in_the_audit(desk: Desk) -> None:
    desk.approve("p1", 1, {1, 3}, SRE, nothing_stale)
    assert desk.export("p1", 2, given, SRE) == b"p1: [1, 3]"

    found = desk.one("p1")
    assert (found.state, found.version) == ("exported", 3)
    told = [(one.who, one.action, one.subject, one.outcome) for one in entries(desk.engine)]
    assert told == [
        ("ada", "draft", "p1", "done"),
        ("ada", "approve", "p1", "partly: 1, 3"),
        ("ada", "export", "p1", "2 steps"),
    ]


def test_what_was_given_out_once_is_given_out_again_to_the_byte(desk: Desk) -> None:
    desk.approve("p1", 1, None, SRE, nothing_stale)
    first = desk.export("p1", 2, given, SRE)

    assert desk.export("p1", 2, lambda _c, _of: b"something else", OTHER) == first
    assert desk.one("p1").version == 3


def test_a_crash_between_approval_and_export_leaves_an_approved_plan_and_nothing_given_out(desk: Desk) -> None:
    desk.approve("p1", 1, None, SRE, nothing_stale)

    def crash(connection: Connection, _of: Proposal) -> bytes:
        connection.execute(text("UPDATE plans SET reason = 'half done'"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        desk.export("p1", 2, crash, SRE)

    found = desk.one("p1")
    assert (found.state, found.version, found.reason) == ("approved", 2, "")
    assert desk.export("p1", 2, given, SRE) == b"p1: [1, 2, 3]"


def test_of_two_who_decide_at_once_one_wins_and_the_other_is_told(desk: Desk) -> None:
    together = Barrier(2)

    def decide(what: Callable[[], object]) -> str:
        together.wait()
        try:
            what()
        except ChangedMeanwhile:
            return "told"
        return "won"

    attempts = [
        lambda: desk.approve("p1", 1, None, SRE, nothing_stale),
        lambda: desk.reject("p1", 1, "not today", OTHER),
    ]
    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(decide, attempts)) == ["told", "won"]
    assert desk.one("p1").state in {"approved", "rejected"}
    assert desk.one("p1").version == 2


def test_a_freeze_waits_for_what_is_being_given_out_and_holds_from_then_on(desk: Desk) -> None:
    desk.approve("p1", 1, None, SRE, nothing_stale)
    frozen = Event()

    def freeze() -> None:
        desk.freeze("incident 17", OTHER)
        frozen.set()

    def slowly(connection: Connection, of: Proposal) -> bytes:
        freezing.start()
        assert not frozen.wait(0.5)
        return given(connection, of)

    freezing = Thread(target=freeze)
    desk.export("p1", 2, slowly, SRE)
    freezing.join()

    assert [one.action for one in entries(desk.engine)][-2:] == ["export", "freeze"]
    with pytest.raises(Frozen, match="froze all changes"):
        desk.put(drafted(plan(name="p2")), SRE)


def test_nobody_decides_on_a_version_that_they_did_not_see(desk: Desk) -> None:
    desk.approve("p1", 1, None, SRE, nothing_stale)

    for attempt in (
        lambda: desk.reject("p1", 1, "not today", OTHER),
        lambda: desk.approve("p1", 1, None, OTHER, nothing_stale),
        lambda: desk.export("p1", 1, given, OTHER),
    ):
        with pytest.raises(ChangedMeanwhile, match="changed since version 1"):
            attempt()


def test_what_does_not_hold_any_more_is_left_out_and_a_plan_of_which_nothing_holds_expires(desk: Desk) -> None:
    desk.put(drafted(plan(name="p2")), SRE)

    part = desk.approve("p1", 1, None, SRE, lambda _of, _steps: {2: "n1 no longer has room for it"})
    with pytest.raises(NothingHolds, match="gone"):
        desk.approve("p2", 1, {1}, SRE, lambda _of, steps: dict.fromkeys(steps, "gone"))

    assert [one.decision for one in part.decided] == ["approved", "stale", "approved"]
    assert (desk.one("p2").state, desk.one("p2").reason) == ("expired", "gone")


def test_a_freeze_stops_drafts_approvals_and_exports_at_once(desk: Desk) -> None:
    desk.put(drafted(plan(name="p2")), SRE)
    desk.approve("p1", 1, None, SRE, nothing_stale)
    desk.freeze("incident 17", OTHER)

    for attempt in (
        lambda: desk.put(drafted(plan(name="p3")), SRE),
        lambda: desk.approve("p2", 1, None, SRE, nothing_stale),
        lambda: desk.export("p1", 2, given, SRE),
        desk.must_not_be_frozen,
    ):
        with pytest.raises(Frozen, match=r"bob froze all changes \(incident 17\)"):
            attempt()
    desk.reject("p2", 1, "not while that is going on", SRE)
    assert desk.unfreeze(OTHER) == 1
    assert desk.export("p1", 2, given, SRE)


def test_nothing_is_approved_or_exported_in_a_freeze(store: Engine) -> None:
    frozen = desk_over(store, Clock(), Rules(freezes=(Freeze(NOW_US - 1, NOW_US + 1),)))
    frozen.put(drafted(plan()), SRE)

    with pytest.raises(Frozen, match="frozen until 2026-03-01 00:00 UTC"):
        frozen.approve("p1", 1, None, SRE, nothing_stale)
    assert frozen.one("p1").state == "drafted"


def test_a_plan_that_nobody_exports_in_time_expires(store: Engine) -> None:
    clock = Clock()
    desk = desk_over(store, clock)
    desk.put(drafted(plan()), SRE)
    assert desk.expire(SRE) == 0

    clock.now_us += LASTS_US

    with pytest.raises(Conflict, match="is expired"):
        desk.approve("p1", 1, None, SRE, nothing_stale)
    assert desk.expire(SRE) == 1
    assert desk.expire(SRE) == 0
    assert desk.one("p1").state == "expired"


def test_a_plan_that_is_put_twice_is_there_once(desk: Desk) -> None:
    desk.approve("p1", 1, None, SRE, nothing_stale)
    desk.put(drafted(plan()), SRE)

    assert [one.state for one in desk.listed()] == ["approved"]


def test_a_name_that_is_none_is_an_error(desk: Desk) -> None:
    with pytest.raises(NotFound, match="cohabit plan list"):
        desk.one("p9'; DROP TABLE plans")


def test_of_two_drafted_at_once_the_second_is_refused(desk: Desk) -> None:
    together = Barrier(2)
    known = proposal_store.count(desk.engine, "c")

    def put(name: str) -> str:
        together.wait()
        try:
            desk.put(drafted(plan(name=name)), SRE, known)
        except AdvisorError:
            return "refused"
        return "put"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(put, ["p2", "p3"])) == ["put", "refused"]
    assert len(desk.listed()) == 2


def test_a_plan_of_another_cluster_is_nobody_s_here_and_its_freeze_holds(desk: Desk) -> None:
    other = Desk(desk.engine, "other", Rules(), desk.now_us)
    desk.approve("p1", 1, {1}, SRE, nothing_stale)

    for attempt in (
        lambda: other.one("p1"),
        lambda: other.approve("p1", 2, None, SRE, nothing_stale),
        lambda: other.reject("p1", 2, "not here", SRE),
        lambda: other.export("p1", 2, given, SRE),
        lambda: other.exported("p1"),
    ):
        with pytest.raises(NotFound, match="cohabit plan list"):
            attempt()
    assert desk.one("p1").state == "partly"


def test_a_plan_of_another_version_is_left_out_of_lists_and_nothing_new_is_proposed_beside_it(
    desk: Desk, store: Engine
) -> None:
    desk.put(drafted(plan(name="p2")), SRE)
    with writing(store) as connection:
        connection.execute(text("UPDATE plans SET document = :told WHERE plan = 'p1'"), {"told": b"{}"})

    assert [one.plan.plan for one in desk.listed()] == ["p2"]
    with pytest.raises(UnreadablePlan, match="p1"):
        proposal_store.past(store, "c", NOW_US)
    with pytest.raises(UnreadablePlan, match="p1"):
        desk.one("p1")


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM plan_steps WHERE plan = 'p1'",
        "DELETE FROM plan_steps WHERE plan = 'p1' AND number = 2",
        "UPDATE plan_steps SET decision = 'perhaps' WHERE plan = 'p1'",
        "UPDATE plans SET state = 'perhaps' WHERE plan = 'p1'",
    ],
)
def test_decisions_that_do_not_fit_a_plan_are_told_and_no_crash(desk: Desk, store: Engine, damage: str) -> None:
    desk.put(drafted(plan(name="p2")), SRE)
    with writing(store) as connection:
        connection.execute(text(damage))

    assert [one.plan.plan for one in desk.listed()] == ["p2"]
    with pytest.raises(UnreadablePlan, match=r"p1.*from a backup"):
        desk.one("p1")
    with pytest.raises(UnreadablePlan, match="p1"):
        proposal_store.past(store, "c", NOW_US)


def test_all_plans_of_two_weeks_count_however_many_there_are(desk: Desk, store: Engine) -> None:
    copies = [{"name": f"copy-{number}"} for number in range(proposal_store.MAX_LISTED)]
    of_p1 = (
        "INSERT INTO plans (plan, cluster, state, version, created_us, changed_us, reason, document) "
        "SELECT :name, cluster, state, version, created_us, changed_us, reason, document FROM plans WHERE plan = "
        "'p1'",
        "INSERT INTO plan_steps (plan, number, decision, reason) "
        "SELECT :name, number, decision, reason FROM plan_steps WHERE plan = 'p1'",
    )
    with writing(store) as connection:
        for statement in of_p1:
            connection.execute(text(statement), copies)

    assert len(desk.listed()) == proposal_store.MAX_LISTED
    assert len(proposal_store.past(store, "c", NOW_US)) == 3 * (proposal_store.MAX_LISTED + 1)


def test_who_did_what_with_a_plan_is_told_in_order(desk: Desk) -> None:
    desk.put(drafted(plan(name="p2")), SRE)
    desk.approve("p1", 1, {1}, OTHER, nothing_stale)
    desk.reject("p1", 2, "release tonight", SRE)

    told = [(one.who, one.action, one.outcome) for one in desk.history(desk.one("p1"))]

    assert told == [("ada", "draft", "done"), ("bob", "approve", "partly: 1"), ("ada", "reject", "release tonight")]


def test_what_came_of_a_plan_does_not_make_it_younger(desk: Desk) -> None:
    desk.approve("p1", 1, None, SRE, nothing_stale)
    desk.export("p1", 2, given, SRE)
    clock = desk.now_us
    assert isinstance(clock, Clock)
    clock.now_us += 3600 * 1_000_000

    after = desk.conclude(desk.one("p1"), Outcome(4.5, 4.5, 3, 0), SRE)

    assert (after.state, after.changed_us) == ("confirmed", NOW_US)


def test_what_was_given_out_counts_whatever_was_measured_of_it(desk: Desk) -> None:
    desk.approve("p1", 1, {1}, SRE, nothing_stale)
    desk.export("p1", 2, given, SRE)
    desk.conclude(desk.one("p1"), Outcome(0.0, 0.0, 0, 0), SRE)

    assert desk.one("p1").state == "expired"
    counted = [one.step.number for one in proposal_store.past(desk.engine, "c", NOW_US) if one.counts]
    assert counted == [1]


class Decisions(RuleBasedStateMachine):
    """Any order of drafts, decisions, time and freezes, compared with a book kept by hand."""

    plans = Bundle("plans")

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine, self.clock = engine, Clock()
        self.desk = desk_over(engine, self.clock)
        self.book: dict[str, tuple[State, int]] = {}
        self.frozen = False

    @initialize()
    def begin(self) -> None:
        with writing(self.engine) as connection:
            for table in ("plan_steps", "plans", "change_freezes"):
                connection.execute(text(f"DELETE FROM {table}"))  # noqa: S608

    @rule(target=plans, steps=st.integers(1, 4), held=st.booleans())
    def draft(self, steps: int, *, held: bool) -> str:
        name = f"p{len(self.book)}"
        made = drafted(plan(steps, name=name, created_us=self.clock.now_us, holdout=(1,) if held else ()))
        if self.frozen:
            with pytest.raises(Frozen, match="froze all changes"):
                self.desk.put(made, SRE)
            self.desk.unfreeze(SRE)
            self.frozen = False
        self.desk.put(made, SRE)
        self.book[name] = made.state, 1
        return name

    @rule(name=plans, behind=st.integers(0, 1), stale=st.booleans())
    def approve(self, name: str, behind: int, *, stale: bool) -> None:
        seen = self.book[name][1] - behind
        found = {1: "gone"} if stale else {}
        self._try(
            name, seen, lambda: self.desk.approve(name, seen, None, SRE, lambda _of, _s: found), {"approved", "partly"}
        )

    @rule(name=plans, behind=st.integers(0, 1))
    def reject(self, name: str, behind: int) -> None:
        seen = self.book[name][1] - behind
        self._try(name, seen, lambda: self.desk.reject(name, seen, "not today", OTHER), {"rejected"})

    @rule(name=plans)
    def export(self, name: str) -> None:
        state, seen = self.book[name]
        if state == "exported":
            assert self.desk.export(name, seen, given, SRE).startswith(name.encode())
        else:
            self._try(name, seen, lambda: self.desk.export(name, seen, given, SRE), {"exported"})

    @rule(hours=st.integers(1, 3))
    def wait(self, hours: int) -> None:
        self.clock.now_us += hours * LASTS_US // 4

    @rule()
    def expire(self) -> None:
        self.desk.expire(SRE)
        self._read_all()

    @rule()
    def freeze(self) -> None:
        self.desk.freeze("incident", SRE)
        self.frozen = True

    @invariant()
    def the_store_says_what_the_book_says(self) -> None:
        found = {one.plan.plan: (one.state, one.version) for one in self.desk.listed()}
        assert found == self.book

    @invariant()
    def only_steps_that_were_open_are_approved(self) -> None:
        for one in self.desk.listed():
            assert not {step.number for step in one.approved} & set(one.plan.holdout)
            assert one.state != "approved" or {s.number for s in one.approved} == {
                s.number for s in one.plan.open_steps
            }

    def _try(self, name: str, seen: int, attempt: Callable[[], object], wanted: set[State]) -> None:
        before, version = self.book[name]
        try:
            attempt()
        except ChangedMeanwhile:
            assert seen != version
        except Frozen:
            assert wanted != {"rejected"}
            assert self.frozen
        except Conflict:
            late = self.clock.now_us >= self.desk.one(name).plan.expires_us
            assert late or not wanted & set(NEXT[before])
        except NothingHolds:
            self._read(name)
            assert self.book[name][0] == "expired"
        else:
            assert seen == version
            self._read(name)
            assert self.book[name][0] in NEXT[before]
            assert self.book[name][1] == version + 1

    def _read(self, name: str) -> None:
        found = self.desk.one(name)
        self.book[name] = found.state, found.version

    def _read_all(self) -> None:
        for name in self.book:
            self._read(name)


def test_any_order_of_decisions_keeps_the_book(store_address: str, tmp_path: Path) -> None:
    del tmp_path
    with open_store(store_address) as engine:
        run_state_machine_as_test(
            lambda: Decisions(engine),  # type: ignore[arg-type]
            settings=settings(
                max_examples=60, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )


def test_the_database_may_be_new(postgres: NewDatabase) -> None:
    with open_store(postgres()) as engine:
        migrate(engine)
        assert desk_over(engine, Clock()).listed() == []
