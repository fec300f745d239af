"""Reservations in SQL, and who reads them: the same on SQLite and PostgreSQL; nothing fails where there is no store."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from queue import Queue
from time import monotonic, sleep

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, event, text

from advisor.database.engine import migrate, open_store, writing
from advisor.placement import reservation_store
from advisor.placement.reservation_match import Reservation
from advisor.placement.reservation_store import add_reservations, open_reservations, withdraw
from advisor.placement.reservations import Reservations
from cohabit.server.reservation_poller import ReservationPoller
from tests.advisor.steered import reservation

WITHIN_S = 20.0


def add(store: Engine, *reservations: Reservation) -> None:
    with writing(store) as connection:
        add_reservations(connection, reservations)


def test_reservations_come_back_as_they_were_written(store: Engine) -> None:
    written = [
        reservation("l1", "n1", expires_us=10, template_hash="abc"),
        reservation("é'; DROP TABLE reservations", "n2", expires_us=11),
    ]
    add(store, *written)

    assert open_reservations(store, "c", 9) == written


def test_expired_reservations_and_those_of_other_clusters_are_not_open(store: Engine) -> None:
    add(
        store,
        reservation("l1", "n1", expires_us=5),
        reservation("l2", "n2", expires_us=6),
        reservation("l3", "n3", cluster="d"),
    )

    assert [one.reservation for one in open_reservations(store, "c", 5)] == ["l2"]


def test_a_reservation_that_is_written_again_is_there_once_and_lasts_as_long_as_said_last(store: Engine) -> None:
    add(store, reservation("l1", "n1", expires_us=5))
    add(store, reservation("l1", "n1", expires_us=50))

    assert [one.expires_us for one in open_reservations(store, "c", 0)] == [50]


def test_a_withdrawn_proposal_steers_nobody(store: Engine) -> None:
    add(store, reservation("l1", "n1"), reservation("l2", "n2"), reservation("l3", "n3", plan="q"))

    with writing(store) as connection:
        assert withdraw(connection, "p") == 2

    assert [one.reservation for one in open_reservations(store, "c", 0)] == ["l3"]


def test_no_reservations_are_written_by_one_statement_less(store: Engine) -> None:
    add(store)

    assert open_reservations(store, "c", 0) == []


def test_of_too_many_the_first_to_expire_are_read(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation_store, "MAX_OPEN", 2)
    add(store, *(reservation(f"l{i}", "n1", expires_us=10 - i) for i in range(4)))

    assert [one.reservation for one in open_reservations(store, "c", 0)] == ["l3", "l2"]


def test_what_is_written_beside_reservations_counts_with_them_or_neither_does(store: Engine) -> None:
    def halfway() -> None:
        with writing(store) as connection:
            add_reservations(connection, [reservation("l1", "n1")])
            raise InterruptedError

    with pytest.raises(InterruptedError):
        halfway()

    assert open_reservations(store, "c", 0) == []


def until(holds: Callable[[], bool]) -> None:
    deadline = monotonic() + WITHIN_S
    while not holds():
        assert monotonic() < deadline
        sleep(0.02)


def reading(
    address: str, metrics: CollectorRegistry, take: Callable[[Sequence[Reservation]], None]
) -> ReservationPoller:
    return ReservationPoller(address, lambda: "c", lambda: 0, take, metrics)


@pytest.fixture
def metrics() -> CollectorRegistry:
    return CollectorRegistry()


def failures(metrics: CollectorRegistry) -> float:
    return metrics.get_sample_value("cohabit_reservation_reads_failed_total") or 0.0


def test_what_is_written_and_withdrawn_is_read_within_a_moment(
    store: Engine, store_address: str, metrics: CollectorRegistry
) -> None:
    read = Queue[Sequence[Reservation]]()
    one = reservation("l1", "n1")
    with closing(reading(store_address, metrics, read.put)):
        add(store, one)
        assert read.get(timeout=WITHIN_S) == [one]
        with writing(store) as connection:
            withdraw(connection, "p")
        assert read.get(timeout=WITHIN_S) == []

    assert failures(metrics) == 0


def test_a_store_that_fails_leaves_what_was_read_and_is_counted_until_it_is_back(
    store: Engine, store_address: str, metrics: CollectorRegistry
) -> None:
    add(store, reservation("l1", "n1"))
    reservations = Reservations(metrics=metrics)
    with closing(reading(store_address, metrics, reservations.take)):
        until(lambda: reservations.open() == 1)
        with writing(store) as connection:
            connection.execute(text("ALTER TABLE reservations RENAME TO away"))
        until(lambda: failures(metrics) >= 1)
        assert reservations.open() == 1
        with writing(store) as connection:
            connection.execute(text("ALTER TABLE away RENAME TO reservations"))
        add(store, reservation("l2", "n2"))
        until(lambda: reservations.open() == 2)


def test_a_store_that_is_made_later_is_read_then(tmp_path: Path, metrics: CollectorRegistry) -> None:
    read = Queue[Sequence[Reservation]]()
    address = str(tmp_path / "store.sqlite")
    with closing(reading(address, metrics, read.put)), open_store(address) as store:
        migrate(store)
        add(store, reservation("l1", "n1"))
        assert [one.reservation for one in read.get(timeout=WITHIN_S)] == ["l1"]

    assert failures(metrics) == 0


@pytest.mark.parametrize("address", ["", "nowhere/store.sqlite"])
def test_without_a_store_nothing_is_read_and_nothing_fails(address: str, metrics: CollectorRegistry) -> None:
    read = list[Sequence[Reservation]]()
    with closing(reading(address, metrics, read.append)):
        pass

    assert (read, failures(metrics)) == ([], 0)


def test_a_store_without_migrations_has_no_reservations_and_is_no_failure(
    store_address: str, metrics: CollectorRegistry
) -> None:
    with open_store(store_address) as store:
        with writing(store) as connection:
            connection.execute(text("DELETE FROM alembic_version"))
        asked = Queue[None]()
        event.listen(Engine, "connect", heard := lambda *_: asked.put(None))
        try:
            with closing(reading(store_address, metrics, lambda _: None)):
                asked.get(timeout=WITHIN_S)
        finally:
            event.remove(Engine, "connect", heard)

    assert failures(metrics) == 0


@pytest.mark.parametrize("address", ["mysql://me:secret@db/x", "postgresql://me:secret@127.0.0.1:1/x"])
def test_a_store_that_cannot_be_reached_is_counted(address: str, metrics: CollectorRegistry) -> None:
    with closing(reading(address, metrics, lambda _: None)):
        until(lambda: failures(metrics) >= 1)
