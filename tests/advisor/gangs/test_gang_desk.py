"""Gang desk: all members of a gang get a slot at once or none; the laws of reservations on SQLite and PostgreSQL."""

from collections.abc import Sequence
from contextlib import closing
from queue import Queue

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, delete

from advisor.cluster.gang_slots import GangSlot
from advisor.cluster.pending_pod import PodClass
from advisor.database.engine import GANG_GRANTS, GANGS, writing
from advisor.errors import Conflict, NotFound, Unavailable
from advisor.gangs.gang_desk import RESERVE_US, GangDesk
from advisor.gangs.gang_lifecycle import SEEN_US, STRAND_US, GangReservation
from advisor.gangs.gang_request import GangRequest, Infeasible
from advisor.gangs.gang_store import read_grants
from cohabit.server.reservation_poller import ReservationPoller
from tests.advisor.gangs.gang_clusters import gang, workers
from tests.advisor.gangs.gang_sites import SECOND_US, Site


@pytest.fixture
def site(store: Engine) -> Site:
    return Site(store)


def reserved(desk: GangDesk, request: GangRequest) -> GangReservation:
    made = desk.reserve(request).reservation
    assert made is not None
    return made


def generation(request: GangRequest, number: int) -> GangRequest:
    return GangRequest(
        request.namespace, request.gang, request.members, request.min_count, number, request.level, request.mode
    )


def test_a_gang_is_reserved_whole_in_one_rack_and_the_next_one_gets_the_other(site: Site) -> None:
    desk = site.desk()

    one, other = reserved(desk, gang(workers(5), name="a")), reserved(desk, gang(workers(4), name="b"))

    assert {one.domain, other.domain} == {"r0", "r1"}
    assert len(one.slots) == 5
    refused = desk.reserve(gang(workers(3), name="c"))
    assert refused.reservation is None
    assert isinstance(refused.placement, Infeasible)
    assert refused.placement.missing == {"worker": 1}


def test_the_same_generation_is_reserved_once_and_a_newer_one_takes_its_place(site: Site) -> None:
    desk, request = site.desk(), gang(workers(4))

    first = reserved(desk, request)
    assert reserved(site.desk(), request) == first
    second = reserved(desk, generation(request, 1))

    assert [one.id for one in desk.reservations() if one.state == "open"] == [second.id]
    with pytest.raises(Conflict, match="generation 1"):
        desk.reserve(request)


def test_a_newer_generation_that_is_infeasible_leaves_the_older_one_reserved(site: Site) -> None:
    desk = site.desk()
    first = reserved(desk, gang(workers(4)))

    refused = desk.reserve(generation(gang(workers(7)), 1))

    assert refused.reservation is None
    assert [one.id for one in desk.reservations() if one.state == "open"] == [first.id]


def test_a_dry_run_reserves_nothing(site: Site) -> None:
    assert site.desk().ask(gang(workers(4))).reservation is None
    assert site.desk().reservations() == []


def test_a_reservation_with_too_few_members_bound_expires_whole_and_is_counted(site: Site) -> None:
    desk = site.desk()
    made = reserved(desk, gang(workers(4), min_count=3))
    desk.renew(made.id, [("p1", made.slots[0].node), ("p2", made.slots[1].node)])

    site.now_us += RESERVE_US

    assert [one.state for one in desk.reservations()] == ["expired"]
    assert desk.metrics.get_sample_value("cohabit_gangs_total", {"outcome": "expired"}) == 1
    with pytest.raises(Conflict, match="expired"):
        desk.renew(made.id)


def test_members_that_arrive_extend_a_reservation_and_extra_ones_are_not_waited_for(site: Site) -> None:
    desk = site.desk()
    made = reserved(desk, gang(workers(4), min_count=2))
    site.now_us += RESERVE_US - SECOND_US
    desk.renew(made.id, [("p1", made.slots[0].node)])
    site.now_us += RESERVE_US - SECOND_US
    desk.renew(made.id, [("p2", made.slots[1].node)])

    site.now_us += RESERVE_US

    assert [one.state for one in desk.reservations()] == ["settled"]
    assert not site.taken()  # the extra members' slots are given back


def test_the_slot_of_a_failed_member_is_kept_for_its_replacement_for_a_while(site: Site) -> None:
    desk = site.desk()
    made = reserved(desk, gang(workers(2)))
    node = made.slots[0].node
    desk.renew(made.id, [("p1", node), ("p2", made.slots[1].node)])

    assert desk.renew(made.id, failed=["p1"]).bound == 1
    assert desk.renew(made.id, [("p3", node)]).bound == 2
    desk.renew(made.id, failed=["p3"])
    assert site.taken() == {node: 1}
    site.now_us += STRAND_US
    assert not site.taken()


def test_a_release_gives_all_slots_back_and_may_be_repeated(site: Site) -> None:
    desk = site.desk()
    made = reserved(desk, gang(workers(4)))

    assert desk.release(made.id).state == desk.release(made.id).state == "released"
    assert not site.taken()
    with pytest.raises(NotFound, match="no gang reservation"):
        desk.release("other")


def test_a_bound_member_is_taken_off_room_until_messages_show_its_pod(site: Site) -> None:
    late = site.desk(lag_us=30 * SECOND_US)
    made = reserved(late, gang(workers(6), name="a"))
    site.running = {f"p{at}": (slot.node, site.now_us) for at, slot in enumerate(made.slots)}
    late.renew(made.id, [(uid, node) for uid, (node, _) in site.running.items()])

    assert reserved(late, gang(workers(6), name="b")).domain != made.domain
    assert late.reserve(gang(workers(1), name="c")).reservation is None
    site.running.clear()
    site.now_us += SEEN_US + 31 * SECOND_US
    assert reserved(late, gang(workers(6), name="d")).domain == made.domain


def test_grants_that_changed_since_the_placement_was_computed_are_computed_again_once(site: Site) -> None:
    """Another server grants while this one reads its room."""
    desk, other = site.desk(), site.desk()
    made: list[GangReservation] = []
    rooms = desk.rooms

    def meanwhile() -> object:
        if not made:
            made.append(reserved(other, gang(workers(5), name="first")))
        return rooms()

    desk.rooms = meanwhile  # type: ignore[assignment]
    mine = reserved(desk, gang(workers(5), name="second"))

    assert mine.domain != made[0].domain
    assert desk.metrics.get_sample_value("cohabit_gangs_total", {"outcome": "conflicts"}) == 1


def test_an_infeasible_gang_learns_when_running_ones_end(site: Site) -> None:
    desk = site.desk()
    for name, hours in (("a", 2), ("b", 1)):
        request = gang(workers(6), name=name)
        made = reserved(desk, GangRequest("default", name, request.members, 6, level="rack", expected_s=3600.0 * hours))
        desk.renew(made.id, [(f"{name}{at}", slot.node) for at, slot in enumerate(made.slots)])

    refused = desk.ask(gang(workers(5), name="c")).placement

    assert isinstance(refused, Infeasible)
    assert refused.earliest_us == site.now_us + 3600 * SECOND_US


def test_without_a_snapshot_nothing_is_placed(site: Site) -> None:
    desk = site.desk()
    desk.snapshot = lambda: None

    with pytest.raises(Unavailable, match="snapshot"):
        desk.ask(gang(workers(1)))


def test_slots_that_wait_are_read_by_the_servers_that_answer_schedulers(site: Site, store_address: str) -> None:
    desk, read = site.desk(), Queue[Sequence[GangSlot]]()
    made = reserved(desk, gang(workers(2)))
    desk.renew(made.id, [("p1", made.slots[0].node)])

    poller = ReservationPoller(
        store_address, lambda: site.view.cluster, lambda: site.now_us, lambda _: None, CollectorRegistry(), read.put
    )
    with closing(poller):
        waiting = read.get(timeout=20)

    until_us = site.now_us + RESERVE_US
    assert waiting == [GangSlot("default/g", made.slots[1].node, PodClass("train", False), until_us)]


class Reservations(RuleBasedStateMachine):
    """Two servers, one with a clock ahead and room that lags, over one store; pods bind, fail and end."""

    store: Engine

    def __init__(self) -> None:
        super().__init__()
        with writing(self.store) as connection:
            connection.execute(delete(GANGS))
            connection.execute(delete(GANG_GRANTS))
        self.site = Site(self.store)
        self.desks = [self.site.desk(), self.site.desk(ahead_us=3 * SECOND_US, lag_us=20 * SECOND_US)]
        self.pods = 0

    def alive(self) -> list[GangReservation]:
        gangs = read_grants(self.store, self.site.view.cluster, self.site.now_us).gangs
        return [one for one in gangs if one.state in {"open", "settled"}]

    @rule(
        by=st.integers(0, 1),
        name=st.sampled_from("abcd"),
        count=st.integers(1, 6),
        least=st.integers(1, 6),
        number=st.integers(0, 1),
    )
    def reserve(self, by: int, name: str, count: int, least: int, number: int) -> None:
        request = generation(gang(workers(count), name=name, min_count=min(count, least)), number)
        try:
            self.desks[by].reserve(request)
        except Conflict:
            assert number == 0

    @rule(by=st.integers(0, 1), pick=st.integers(0, 9))
    def bind(self, by: int, pick: int) -> None:
        """A scheduler binds a pod where a slot is free; it does so first, and says so after."""
        free = [(one, slot) for one in self.alive() for slot in one.slots if slot.state != "bound"]
        if not free:
            return
        one, slot = free[pick % len(free)]
        uid, self.pods = f"p{self.pods}", self.pods + 1
        try:
            self.desks[by].renew(one.id, [(uid, slot.node)])
        except Conflict:
            return
        self.site.running[uid] = (slot.node, self.site.now_us)

    @rule(by=st.integers(0, 1), pick=st.integers(0, 9), extend=st.booleans())
    def renew(self, by: int, pick: int, extend: bool) -> None:  # noqa: FBT001 - drawn
        alive = self.alive()
        if not alive:
            return
        one = alive[pick % len(alive)]
        try:
            self.desks[by].renew(one.id) if extend else self.desks[by].release(one.id)
        except Conflict:
            assert one.state != "open" or self.site.now_us + 3 * SECOND_US >= one.until_us

    @rule(by=st.integers(0, 1), pick=st.integers(0, 9), fails=st.booleans())
    def end(self, by: int, pick: int, fails: bool) -> None:  # noqa: FBT001 - drawn
        """A pod ends; its scheduler reports a failure at once."""
        if not self.site.running:
            return
        uid = sorted(self.site.running)[pick % len(self.site.running)]
        del self.site.running[uid]
        for one in self.alive() if fails else ():
            self.desks[by].renew(one.id, failed=[uid]) if any(slot.uid == uid for slot in one.slots) else None

    @rule(seconds=st.sampled_from([1, 10, 50, 130, 400]))
    def wait(self, seconds: int) -> None:
        self.site.now_us += seconds * SECOND_US

    @rule()
    def list(self) -> None:
        self.desks[0].reservations()

    @invariant()
    def no_gang_is_granted_in_part(self) -> None:
        assert all(len(one.slots) >= one.min_count for one in self.alive())

    @invariant()
    def no_slot_is_sold_twice(self) -> None:
        assert max(self.site.taken().values(), default=0) <= self.site.cores

    def teardown(self) -> None:
        """Nothing is held once all times are over, and all room can be granted again."""
        self.site.running.clear()
        self.site.now_us += RESERVE_US + STRAND_US + SEEN_US + 60 * SECOND_US
        assert not self.site.taken()
        assert [reserved(self.desks[1], gang(workers(6), name=f"last{at}")) for at in range(2)]


@pytest.fixture
def machine(store: Engine) -> type[Reservations]:
    Reservations.store = store
    return Reservations


def test_reservations_are_never_partial_never_sold_twice_and_never_leaked(machine: type[Reservations]) -> None:
    quick = settings(max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=quick)
