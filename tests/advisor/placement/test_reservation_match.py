"""Reservations: the next pod of a moved workload goes to the reserved node, one pod each; no other is affected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass
from advisor.placement.reservation_match import LAPSED, Pod, Reservation, ReservedNode, by_workload, reserved_node
from advisor.placement.reservations import MAX_HELD, Reservations
from tests.advisor.steered import reservation

WEB = PodClass("web", False)
NODES = ["n0", "n1", "n2"]
ONE, OTHER = reservation("l1", "n1"), reservation("l2", "n2", step=2)


def pod(uid: str = "pod-1", template_hash: str = "", app: str = "web", namespace: str = "shop") -> Pod:
    return Pod(namespace, app, template_hash, uid)


def told(
    reservations: list[Reservation],
    names: list[str] = NODES,
    of: Pod = pod(),  # noqa: B008
    **holders: str,
) -> Reservation | None:
    found = reserved_node(reservations, of, names, holders, now_us=0)
    return found.reservation if found is not None else None


def test_a_pod_goes_to_the_node_of_its_reservation() -> None:
    assert told([ONE]) == ONE


def test_other_nodes_fail_with_the_reservation_that_is_why() -> None:
    failed = ReservedNode(ONE).failed(NODES)

    assert set(failed) == {"n0", "n2"}
    assert "reservation l1" in failed["n0"]


def test_where_no_target_is_offered_all_pass() -> None:
    found = reserved_node([ONE], pod(), ["n0", "n2"], {}, now_us=0)

    assert found == ReservedNode(None)
    assert found.failed(["n0", "n2"]) == {}


def test_a_reservation_that_somebody_else_holds_is_not_told() -> None:
    assert reserved_node([ONE], pod(), NODES, {"l1": "pod-2"}, now_us=0) is None
    assert told([ONE, OTHER], l1="pod-2") == OTHER


def test_who_holds_a_reservation_is_told_it_again() -> None:
    assert told([ONE, OTHER], l2="pod-1") == OTHER


def test_any_target_of_the_app_that_is_offered_will_do() -> None:
    assert told([ONE, OTHER], ["n0", "n2"]) == OTHER
    assert told([ONE, OTHER], ["n0", "n2"], l1="pod-1") == OTHER, "also of a pod that was told another"


def test_a_reservation_that_lapsed_is_told_after_those_that_nobody_had() -> None:
    assert told([ONE, OTHER], l1=LAPSED) == OTHER
    assert told([ONE], l1=LAPSED) == ONE


def test_an_expired_reservation_does_nothing() -> None:
    late = reservation("l1", "n1", expires_us=5)

    assert reserved_node([late], pod(), NODES, {}, now_us=4) == ReservedNode(late)
    assert reserved_node([late], pod(), NODES, {}, now_us=5) is None


@pytest.mark.parametrize(
    ("of_reservation", "of_pod", "steers"),
    [("", "", True), ("", "a", True), ("a", "a", True), ("a", "b", False), ("a", "", False)],
)
def test_a_reservation_of_a_template_is_for_pods_of_that_template(
    of_reservation: str, of_pod: str, *, steers: bool
) -> None:
    assert (
        told([reservation("l1", "n1", template_hash=of_reservation)], of=pod(template_hash=of_pod)) is not None
    ) == steers


def test_reservations_are_told_in_the_order_in_which_they_expire() -> None:
    soon = reservation("l3", "n0", expires_us=7)

    assert by_workload([OTHER, ONE, soon]) == {("shop", "web"): (soon, ONE, OTHER)}


UIDS = st.sampled_from(["pod-1", "pod-2", "pod-3", "pod-4"])
RESERVATIONS = st.lists(
    st.builds(
        reservation,
        st.sampled_from([f"l{i}" for i in range(6)]),
        st.sampled_from(NODES),
        template_hash=st.sampled_from(["", "a"]),
        expires_us=st.integers(0, 3),
        step=st.integers(1, 3),
    ),
    max_size=6,
    unique_by=lambda one: one.reservation,
)
HOLDERS = st.dictionaries(st.sampled_from([f"l{i}" for i in range(6)]), UIDS | st.just(LAPSED))


@given(
    reservations=RESERVATIONS,
    uid=UIDS,
    template=st.sampled_from(["", "a", "b"]),
    names=st.lists(st.sampled_from(NODES)),
    holders=HOLDERS,
)
def test_what_is_told_is_open_offered_and_held_by_nobody_else(
    reservations: list[Reservation], uid: str, template: str, names: list[str], holders: dict[str, str]
) -> None:
    mine = by_workload(reservations).get(("shop", "web"), ())
    found = reserved_node(mine, pod(uid, template), names, holders, now_us=1)

    usable = [
        one
        for one in reservations
        if one.expires_us > 1
        and one.template_hash in ("", template)
        and holders.get(one.reservation, LAPSED) in (LAPSED, uid)
    ]
    assert (found is None) == (not usable)
    if found is not None and found.reservation is not None:
        assert found.reservation in usable
        assert set(names) - found.failed(names).keys() == {found.reservation.node}
    elif found is not None:
        assert not any(one.node in names for one in usable)
        assert found.failed(names) == {}


@given(reservations=RESERVATIONS, asking=st.lists(UIDS, max_size=12))
def test_however_pods_take_turns_no_two_have_one_reservation_and_each_keeps_its_own(
    reservations: list[Reservation], asking: list[str]
) -> None:
    mine = by_workload(reservations).get(("shop", "web"), ())
    kept = Reservations(lambda: 1)
    kept.take(reservations)
    first: dict[str, Reservation] = {}
    for uid in asking:
        found = kept.reserved_node(pod(uid, "a"), NODES)
        if found is None or found.reservation is None:
            assert uid not in first
            continue
        kept.hold(booked(uid, found.reservation))
        assert first.setdefault(uid, found.reservation) == found.reservation

    assert len({one.reservation for one in first.values()}) == len(first) <= len(mine)


def booked(uid: str, by: Reservation) -> Booked:
    return Booked(uid, by.node, WEB, 0, reservation=by.reservation)


@pytest.fixture
def metrics() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def reservations(metrics: CollectorRegistry) -> Reservations:
    made = Reservations(lambda: 0, metrics)
    made.take([ONE])
    return made


def counted(metrics: CollectorRegistry, outcome: str) -> float | None:
    return metrics.get_sample_value("cohabit_pinned_pods_total", {"outcome": outcome})


def test_a_pod_that_landed_keeps_its_reservation_for_good(
    reservations: Reservations, metrics: CollectorRegistry
) -> None:
    reservations.reserved_node(pod(), NODES)
    reservations.hold(booked("pod-1", ONE))
    reservations.ended(booked("pod-1", ONE), "n1")

    assert reservations.reserved_node(pod("pod-2"), NODES) is None
    assert (counted(metrics, "scheduled"), counted(metrics, "elsewhere")) == (1, 0)


@pytest.mark.parametrize(("seen_on", "elsewhere"), [(None, 0), ("n2", 1)])
def test_a_pod_that_never_came_or_went_elsewhere_leaves_its_reservation(
    reservations: Reservations, metrics: CollectorRegistry, seen_on: str | None, elsewhere: int
) -> None:
    reservations.reserved_node(pod(), NODES)
    reservations.hold(booked("pod-1", ONE))
    reservations.ended(booked("pod-1", ONE), seen_on)

    assert reservations.reserved_node(pod("pod-2"), NODES) == ReservedNode(ONE)
    assert (counted(metrics, "scheduled"), counted(metrics, "elsewhere")) == (0, elsewhere)


def test_who_holds_a_reservation_is_not_disturbed_by_the_end_of_who_held_it_before(reservations: Reservations) -> None:
    reservations.hold(booked("pod-1", ONE))
    reservations.hold(booked("pod-2", ONE))
    reservations.ended(booked("pod-1", ONE), None)

    assert reservations.holders == {"l1": "pod-2"}


def test_each_pod_is_counted_once_however_often_it_asks(reservations: Reservations, metrics: CollectorRegistry) -> None:
    for _ in range(3):
        reservations.reserved_node(pod(), NODES)
        reservations.reserved_node(pod("pod-3"), ["n0"])

    assert (counted(metrics, "pinned"), counted(metrics, "target_not_offered")) == (1, 1)


def test_only_reservations_that_have_not_expired_count_as_open(metrics: CollectorRegistry) -> None:
    reservations = Reservations(lambda: 5, metrics)
    reservations.take([reservation("l1", "n1", expires_us=5), reservation("l2", "n2", expires_us=6)])

    assert metrics.get_sample_value("cohabit_reservations_open") == 1


def test_what_is_remembered_of_reservations_is_bounded(reservations: Reservations) -> None:
    for i in range(MAX_HELD + 5):
        reservations.hold(booked("pod-1", reservation(f"x{i}", "n1")))

    assert len(reservations.holders) == MAX_HELD


def test_a_workload_without_reservations_is_none_of_theirs(reservations: Reservations) -> None:
    assert reservations.concern(pod())
    assert not reservations.concern(pod(app="db"))
    assert not reservations.concern(pod(namespace="other"))
